"""Notes and tensors that lie: a FileError or a plain answer, never code, never another exception,
never a huge allocation."""

from __future__ import annotations

import copy
import json
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from regard.errors import FileError, TooLargeError, UnavailableError
from regard.mask import Causal, Documents, Padding, Table
from regard.recording import STATISTICS, Memory, Recording
from regard.recording.notes import read_notes
from regard.recording.schema import check_place
from regard.score import ALiBi, BiasTable, ScoreRule
from regard.study import make_report
from support.recordings import Chunk, write_recording

NOTE = "place/0/L0"
FINE = (FileError, UnavailableError, TooLargeError)

QUESTIONS: tuple[Callable[[Any], Any], ...] = (
    lambda h: h[h.recorded[:1], :1], lambda h: h.rows(h.recorded[-1:]), lambda h: h.dense(),
    lambda h: h.scores[1:3],
    lambda h: h.lse, lambda h: h.entropy(True), lambda h: h.top(3), lambda h: h.peak(),
    lambda h: h.received(), lambda h: h.received(2, "visible"), lambda h: h.pooled(7),
    lambda h: h.pooled(32), lambda h: h.offsets(), lambda h: h.distance(), lambda h: h.visible(),
    lambda h: h.sink_mass(), lambda h: h.max_score(), lambda h: h.concentration(),
    lambda h: h @ np.ones(h.shape[1]), lambda h: h.tokens, lambda h: repr(h),
    lambda h: [np.asarray(h.stored[name]) for name in h.stored], lambda h: str(dict(h.stored)),
)  # fmt: skip


def base() -> Memory:
    """A small recording with arrays in its mask and its bias."""
    ids = torch.arange(24) // 9
    chunks = [
        Chunk((0, 20), (0, 20), Causal() & Padding(torch.tensor(19)),
              ScoreRule(0.25, 30.0, ALiBi(torch.rand(4)), torch.randn(4))),
        Chunk((20, 24), (0, 24), Causal() & Documents(ids[20:], ids),
              ScoreRule(0.25, None, BiasTable(torch.randn(1, 4, 24)), None)),
        Chunk((24, 25), (2, 25), Table(torch.ones(1, 1, 23, dtype=torch.bool))),
    ]  # fmt: skip
    store, _ = write_recording(chunks=chunks, pieces=10, row_bin=2, dim=4)
    return store


BASE = base()


def copied(
    change: Callable[[dict[str, Any]], Any] | None = None,
    notes: dict[str, str] | None = None,
    tensors: dict[str, Any] | None = None,
) -> Memory:
    """The small recording with a changed place, other notes, other tensors (None: gone)."""
    store = Memory()
    place = json.loads(BASE.metadata[NOTE])
    if change is not None:
        change(place)
    store.note(BASE.metadata | {NOTE: json.dumps(place)} | (notes or {}))
    given = {name: BASE.words(name) for name in BASE.entries} | (tensors or {})
    for name, array in given.items():
        if array is not None:
            facts = BASE.entries[name].metadata if name in BASE.entries else {}
            store.add(name, array, facts)
    return store


def exercise(store: Memory) -> int:
    """Ask everything; how many answers came."""
    answers = 0

    def tried(ask: Callable[[], Any]) -> Any:
        nonlocal answers
        try:
            found = ask()
            answers += 1
            return found
        except FINE:
            return None

    rec = tried(lambda: Recording(store))
    if rec is None:
        return answers
    for prompt in rec.prompts:
        tried(lambda prompt=prompt: (prompt.tokens, prompt.ids, prompt.flags, prompt.next))
        for label in prompt.labels()[:6]:
            head = tried(lambda prompt=prompt, label=label: prompt[label])
            for ask in QUESTIONS if head is not None else ():
                tried(lambda ask=ask, head=head: ask(head))
    for name in STATISTICS:
        for stack in rec.stacks:
            tried(lambda name=name, stack=stack: rec.grid(name, stack))
    tried(lambda: make_report(rec).told)
    tried(lambda: repr(rec))
    return answers


def test_the_small_recording_itself_answers_everything():
    assert exercise(copied()) == 4 * (len(QUESTIONS) + 1) + len(STATISTICS) + 4


# ── notes that cannot be ─────────────────────────────────────────────────────────────────────


def put(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda place: place.update(fields)


def segment(n: int = 0, **fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda place: place["segments"][n].update(fields)


LIES = {
    "no kind": put(kind="both"),
    "no heads": put(heads=[]),
    "heads twice": put(heads=[0, 0, 1, 2]),
    "heads in disorder": put(heads=[1, 0, 2, 3]),
    "heads beyond": put(heads=[0, 1, 2, 9]),
    "fewer heads": put(heads=[0, 1]),
    "negative heads": put(heads=[-1, 0, 1, 2]),
    "no key heads": put(key_heads=0),
    "odd key heads": put(key_heads=3),
    "other key heads": put(key_heads=4),
    "a million heads": put(total_heads=10**6),
    "a high layer": put(layer=10**6),
    "other dim": put(dim=5),
    "no dim": put(dim=0),
    "rows beyond": put(rows=[0, 2**40]),
    "rows backwards": put(rows=[9, 3]),
    "rows of text": put(rows="all"),
    "queries lie": put(queries=2**50, rows=[0, 25]),
    "keys lie": put(keys=2**50),
    "fewer keys": put(keys=3),
    "no keys": put(keys=0),
    "no bin": put(row_bin=0),
    "huge bin": put(row_bin=2**40),
    "other bin": put(row_bin=3),
    "no key bin": put(key_bin=0),
    "other key bin": put(key_bin=2),
    "no top": put(top_every=0),
    "huge cell": put(pool_cell=2**40),
    "other cell": put(pool_cell=5),
    "no cell": put(pool_cell=0),
    "segments beyond": segment(rows=[0, 2**45]),
    "segments overlap": segment(1, rows=[10, 24]),
    "segments gap": segment(1, rows=[21, 24]),
    "no segments": put(segments=[]),
    "segments no list": put(segments={}),
    "a segment of text": put(segments=["a"]),
    "segment keys beyond": segment(keys=[0, 26]),
    "segment keys shrink": segment(keys=[0, 10]),
    "segment keys backwards": segment(keys=[9, 0]),
    "arrays gone": segment(arrays=[]),
    "arrays unknown": segment(arrays=["P0/L0/nothing"] * 3),
    "arrays of another": segment(arrays=["P0/L0/q/0"] * 3),
    "arrays too many": segment(arrays=["P0/L0/rule_0"] * 9),
    "missing field": lambda place: place.pop("heads"),
    "a missing token stream": put(query_tokens="nobody", key_tokens=""),
}


@pytest.mark.parametrize("name", list(LIES))
def test_a_lie_in_a_note_is_found_or_harmless(name):
    exercise(copied(LIES[name]))


@pytest.mark.parametrize(
    "name",
    ["no kind", "heads twice", "odd key heads", "a million heads", "rows beyond", "rows backwards",
     "queries lie", "keys lie", "no bin", "huge bin", "segments overlap", "segment keys beyond",
     "other dim", "other key heads", "fewer heads", "missing field"],
)  # fmt: skip
def test_these_lies_are_told(name):
    with pytest.raises(FileError):
        Recording(copied(LIES[name]))["L0H0"].entropy()


MASKS = {
    "code": "__import__('os').system('true')",
    "a call": "print(1)",
    "a name": "x",
    "a lambda": "lambda: 0",
    "a comprehension": "[x for x in (1,)]",
    "an attribute": "().__class__",
    "a list": "[1]",
    "a number": "1",
    "nothing": "",
    "a rule": "('rule',0,None)",
    "a rule inside": "('both',('causal','end'),('not',('rule',0,None)))",
    "unknown": "('spiral',)",
    "empty": "()",
    "no word": "(1,2)",
    "too many": "('causal','end','end')",
    "too few": "('window',1)",
    "wrong word": "('causal','middle')",
    "negative": "('window',-1,0,'end')",
    "a huge number": f"('window',{10**30},0,'end')",
    "digits": f"('window',{'9' * 5000},0,'end')",
    "a bool": "('window',True,0,'end')",
    "half a pair": "('both',('causal','end'))",
    "none inside": "('both',None,('causal','end'))",
    "a part beyond": "('part',('causal','end'),5,0,9,9)",
    "a huge part": f"('part',('causal','end'),0,0,{2**50},{2**50})",
    "a negative part": "('part',('causal','end'),-5,0,90,90)",
    "a bomb": "(" * 5000 + ")" * 5000,
    "deep": "('not'," * 300 + "('causal','end')" + ")" * 300,
    "long": "('both'," + "(" * 10 + " " * 100_000,
    "strings": "'" + "a" * 3000 + "'",
    "unclosed": "('causal','end'",
    "bytes": "b'causal'",
    "exponent": "('window',1e400,0,'end')",
    "power": "2**99999999",
    "f-string": "f'{1}'",
    "null": "('causal\x00','end')",
}


@pytest.mark.parametrize("name", list(MASKS))
def test_a_mask_that_is_not_ours_is_a_file_error(name):
    rec = Recording(copied(segment(2, mask=MASKS[name], arrays=[])))
    with pytest.raises(FileError):
        rec["L0H0"][24]
    rec = Recording(copied(segment(2, score=MASKS[name])))
    with pytest.raises(FileError):
        rec["L0H0"][24]
    exercise(copied(segment(0, mask=MASKS[name])))


@pytest.mark.parametrize(
    "score",
    [
        "(None,None,None,False)", "(1.0,None,None)", "(1.0,None,None,None)",
        "('a',None,None,False)", "(1.0,-1.0,None,False)", "(1.0,0,None,False)",
        "(True,None,None,False)", "(1e999,None,None,False)", "(1.0,None,('alibi','up'),False)",
        "(1.0,None,('spline',),False)", f"(1.0,None,('relative',True,{2**40},'end'),False)",
        "(1.0,None,('relative',True,0,'end'),False)", "(1.0,None,('part',None,0,0,1,1),False)",
        "(1.0,None,('part',('table',),0,0,1,1),False)", "(1.0,None,(),False)",
        "(1.0,None,None,True)",
    ],
)  # fmt: skip
def test_a_score_rule_that_is_not_ours_is_a_file_error(score):
    rec = Recording(copied(segment(2, score=score)))
    with pytest.raises(FileError):
        rec["L0H0"][24]


def test_masks_are_never_run(monkeypatch):
    import builtins

    for name in ("eval", "exec", "compile"):
        if name != "compile":  # ast.parse compiles to a tree
            monkeypatch.setattr(builtins, name, lambda *_, **__: pytest.fail("run"))
    for text in MASKS.values():
        exercise(copied(segment(0, mask=text)))


@pytest.mark.parametrize(
    "array",
    [np.zeros((0,)), np.zeros(3), np.float64(1), np.zeros((4, 4, 4, 4)), np.full(4, 2**62),
     np.zeros(4, bool), np.full((), -5), np.full((), np.iinfo(np.int64).min), np.zeros((2, 2))],
)  # fmt: skip
def test_arrays_of_another_shape_inside_rules(array):
    for name in [one for one in BASE.entries if "rule_" in one]:
        exercise(copied(tensors={name: array}))


# ── tensors that are something else ──────────────────────────────────────────────────────────


def others(array: np.ndarray) -> list[Any]:
    """What could stand in its place."""
    flat = array.reshape(-1)
    array = np.atleast_1d(array)
    return [
        None, np.zeros(0, array.dtype), flat, array[:1], array[..., None], array[..., :0],
        np.zeros((*array.shape[:1], 0, *array.shape[2:]), array.dtype),
        np.concatenate([array, array], -1), array.astype(np.int8), array.astype(np.float16),
        array.astype(bool), np.full_like(array, 255), np.full(array.shape, np.nan, np.float32),
        np.full(array.shape, -np.inf, np.float32), np.full(array.shape, 2**62, np.int64),
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [n for n in BASE.entries if not n.endswith(("/10", "/20"))])
def test_tensors_that_are_something_else(name):
    for other in others(BASE.words(name)):
        exercise(copied(tensors={name: other}))


def test_wrong_shapes_name_the_tensor():
    with pytest.raises(FileError, match=r"'P0/L0/q/0': F64 \(7,\) does not fit its place"):
        Recording(copied(tensors={"P0/L0/q/0": np.zeros(7)}))["L0H0"]
    with pytest.raises(FileError, match=r"'P0/L0/received': shape \(4, 3\) does not fit"):
        Recording(copied(tensors={"P0/L0/received": np.zeros((4, 3), np.float32)})).grid("sink")
    with pytest.raises(FileError, match="does not name its"):
        Recording(copied(tensors={"P0/L0/totals": np.zeros((4, 3))})).grid("entropy")
    with pytest.raises(FileError, match="the texts of tokens"):
        len(Recording(copied(tensors={"P0/tokens/text/0": np.zeros(9, np.uint8)})).tokens)
    text = np.frombuffer(b'{"a": 1}', np.uint8)
    with pytest.raises(FileError, match="no list of texts"):
        len(Recording(copied(tensors={"P0/tokens/text/0": text})).tokens)
    with pytest.raises(FileError, match="are no ids"):
        len(Recording(copied(tensors={"P0/tokens/ids/0": np.zeros(9)})).prompts[0].ids)
    edges = np.arange(50)[::-1].astype(np.int32)
    with pytest.raises(FileError, match="do not ascend"):
        Recording(copied(tensors={"P0/L0/offset_edges": edges})).grid("self")
    with pytest.raises(FileError, match="offsets without offset_edges"):
        Recording(copied(tensors={"P0/L0/offset_edges": None})).grid("self")


@pytest.mark.parametrize(
    ("keys", "masses"),
    [
        ([0, 10**6], [1.0, 1.0]), ([-1, 0], [1.0, 1.0]), ([3, 3], [1.0, 1.0]), ([0], [1.0, 1.0]),
        ([0, 1], [1.0, np.nan]), ([0, 1], [-1.0, 1.0]), ([0, 1], [np.inf, 1.0]),
    ],
)  # fmt: skip
def test_heavy_keys_that_cannot_be(keys, masses):
    lists = np.tile(np.int32(keys), (4, 1)), np.tile(np.float32(masses), (4, 1))
    tensors = dict(zip(("P0/L0/heavy_keys", "P0/L0/heavy_received"), lists, strict=True))
    with pytest.raises(FileError, match="heavy_keys that are none of its keys, or without masses"):
        Recording(copied(tensors=tensors)).prompts[0].held("L0").heavy(0)


def test_pieces_that_overlap_are_refused():
    extra = np.zeros((4, 10), np.float32)
    with pytest.raises(FileError, match="overlaps"):
        len(Recording(copied(tensors={"P0/L0/lse/5": extra}))["L0H0"].lse)


def test_a_stored_lse_that_is_not_the_rows_own_is_told():
    wrong = BASE.words("P0/L0/lse/0") + 1
    with pytest.raises(FileError, match=r"L0H1: the stored lse of row 0 is .*, but its q, k and"):
        Recording(copied(tensors={"P0/L0/lse/0": wrong}))["L0H1"].entropy()


@pytest.mark.parametrize("key", ["model", "made", "plan", "check", "prompt/0", NOTE])
@pytest.mark.parametrize("text", ["", "[", "[]", "1", '"a"', "[" * 100_000, '{"tokens": -1}'])
def test_notes_that_are_no_notes(key, text):
    exercise(copied(notes={key: text}))
    if key != "prompt/0" and text == "[":
        with pytest.raises(FileError):
            Recording(copied(notes={key: text}))


@pytest.mark.parametrize("key", ["place/", "place/x/L0", "place/0", "prompt/", "prompt/0/1", "x"])
def test_notes_of_other_names_are_passed_over_or_refused(key):
    exercise(copied(notes={key: BASE.metadata[NOTE]}))
    exercise(copied(notes={key: "{}"}))


# ── all at once, at random ───────────────────────────────────────────────────────────────────

VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2, 3, 24, 25, 26, 2**31, 2**53, 2**70, 0.5, 1e308, "", "a", "None", "L0",
    [], [0], [0, 1], [3, 1], [0, 25], [0, 2**40], ["a"], {}, {"rows": [0, 1]}, [[1]], "0",
    "('table',)",
)  # fmt: skip


def scrambled(value: Any, chance: random.Random) -> Any:
    """The same JSON with one thing changed somewhere."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        if chance.random() < 0.1:
            return {k: v for k, v in value.items() if k != key}
        return value | {key: scrambled(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.7:
        at = chance.randrange(len(value))
        return [*value[:at], scrambled(value[at], chance), *value[at + 1 :]]
    if isinstance(value, int) and not isinstance(value, bool) and chance.random() < 0.5:
        return value + chance.choice((-9, -1, 1, 9, 1000))
    return copy.deepcopy(chance.choice(VALUES))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_six_hundred_scrambled_recordings():
    chance = random.Random(22)
    names = list(BASE.entries)
    answers = 0
    for _ in range(600):
        place = json.loads(BASE.metadata[NOTE])
        for _ in range(chance.randint(1, 3)):
            place = scrambled(place, chance)
        prompt = json.loads(BASE.metadata["prompt/0"])
        if chance.random() < 0.3:
            prompt = scrambled(prompt, chance)
        tensors = {}
        if chance.random() < 0.5:
            name = chance.choice(names)
            tensors[name] = chance.choice(others(BASE.words(name)))
        notes = {NOTE: json.dumps(place), "prompt/0": json.dumps(prompt)}
        answers += exercise(copied(notes=notes, tensors=tensors))
    assert answers > 600


@pytest.mark.parametrize("name", ["queries lie", "keys lie", "rows beyond", "segments beyond",
                                  "huge bin", "huge cell", "a high layer"])  # fmt: skip
def test_lies_about_sizes_cost_nothing(name):
    tracemalloc.start()
    exercise(copied(LIES[name]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 300e6


def test_a_place_is_doubted_before_anything_is_read():
    place = read_notes(BASE, "x").places[0]["L0"]
    check_place(place)
    store = copied(put(total_heads=0))
    with pytest.raises(FileError, match="0 heads over 2 key heads"):
        Recording(store)["L0H0"]
