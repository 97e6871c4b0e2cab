"""Notes and tensors that lie under right checksums: whatever is asked of them, by the library, by
reports, tables, exports or pages, ends in an answer or in one sentence; never in code that runs,
another exception or a huge allocation."""

from __future__ import annotations

import builtins
import json
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.axes import Axis, Grid, Tokens
from regard.draw import Paper
from regard.draw.pages import overview_lines
from regard.errors import FileError, RegardError, UnavailableError
from regard.export import ARRAYS as EXPORTED
from regard.export import make_arrays, write_csv, write_npz
from regard.mask import Causal, Documents, Padding, Table
from regard.recording import STATISTICS, Alarm, Limit, Memory, Recording
from regard.recording.merged import read_merged, written
from regard.recording.positions import Positions
from regard.recording.schema import CONTENTS
from regard.score import ALiBi, BiasTable, ScoreRule
from regard.study import compare_recordings, make_report
from regard.viewer.carried import carried_recording
from regard.views.parts import Selection
from regard.views.table import TABLES
from support.recordings import Chunk, png, scene, write_recording, write_training

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

PLACE = "place/0/L0"
NUMBERS = dict.fromkeys(("delta_logit", "delta_logprob", "kl"), 0.5)
NUMBERS |= {f"typical_{name}": 0.0 for name in NUMBERS}


def complete() -> Memory:
    """A small recording with every note there is, and arrays in its masks and biases."""
    ids = torch.arange(24) // 9
    chunks = [
        Chunk((0, 20), (0, 20), Causal() & Padding(torch.tensor(19)),
              ScoreRule(0.25, 30.0, ALiBi(torch.rand(4)), torch.randn(4))),
        Chunk((20, 24), (0, 24), Causal() & Documents(ids[20:], ids),
              ScoreRule(0.25, None, BiasTable(torch.randn(1, 4, 24)), None)),
        Chunk((24, 25), (2, 25), Table(torch.ones(1, 1, 23, dtype=torch.bool))),
    ]  # fmt: skip
    store, _ = write_recording(
        chunks=chunks, pieces=10, row_bin=2, key_bin=2, dim=4, recorded=(0, 3)
    )
    rows = np.arange(26, dtype=np.float32).reshape(2, 13)
    for what, array in (
        ("value_norm/0", np.ones((2, 13), np.float32)), ("mine/0", rows), ("odd", rows),
        ("heavy_keys", np.int32([[0, 1], [5, 3]])), ("heavy_received", np.float32([[9, 2]] * 2)),
    ):  # fmt: skip
        store.add(f"P0/L0/{what}", array)
    picture = np.frombuffer(png(scene(8, 8)), np.uint8)
    store.add("P0/picture/bytes/0", picture)
    axis = Axis((Tokens(8), Grid(4, 4, prefix=1, names=("class",))))
    alarm = Alarm("score growth", "L0H0", 1, "peak", 2.0, 1.0)
    write_training(
        store, np.ones((2, 1, 4)), places=["L0"], alarms=[alarm], loss=[1.0, 2.0],
        limits={"peak": Limit("above", 50.0)}, maps=[("L0H0", 1, np.eye(3))],
    )  # fmt: skip
    store.note({
        "contents": CONTENTS, "made": '{"regard": "0.1.0"}', "plan": '{"bytes": 5}',
        "check": '{"rows": 3}',
        "statistics": '{"mine": {"words": "x"}, "odd": {"words": "y", "of": "tiles"}}',
        "axes/0": Positions({"L0": (axis, axis)}).to_json(),
        "pictures/0": '[{"width": 8, "height": 8, "type": "image/png", "seconds": 0.5}]',
        "knocked/0": json.dumps({"L0H0": {"copies": True, "text": NUMBERS, "copying": NUMBERS}}),
    })  # fmt: skip
    note, sums = written(Recording(store).merged())
    store.note({"merged": note})
    for name, array in sums.items():
        store.add(name, array)
    return store


WHOLE = complete()
NOTES = [key for key in WHOLE.metadata if key != "contents"]


def copied(notes: dict[str, str] | None = None, tensors: dict[str, Any] | None = None) -> Memory:
    """The recording with other notes and other tensors (None: gone)."""
    store = Memory()
    store.note(WHOLE.metadata | (notes or {}))
    for name, array in ({n: WHOLE.words(n) for n in WHOLE.entries} | (tensors or {})).items():
        if array is not None:
            store.add(name, array, WHOLE.entries[name].metadata if name in WHOLE.entries else {})
    store.close()
    return store


# ── everything that can be asked ─────────────────────────────────────────────────────────────

OF_A_HEAD: tuple[Callable[[Any], Any], ...] = (
    lambda h: h[h.recorded[:1], :1], lambda h: h.rows(h.recorded[-1:]), lambda h: h.dense(),
    lambda h: h.scores[1:3], lambda h: h.lse, lambda h: h.entropy(True), lambda h: h.top(3),
    lambda h: h.peak(), lambda h: h.received(), lambda h: h.received(2, "visible"),
    lambda h: h.pooled(7), lambda h: h.pooled(32), lambda h: h.offsets(), lambda h: h.distance(),
    lambda h: h.visible(), lambda h: h.sink_mass(), lambda h: h.max_score(),
    lambda h: h.concentration(), lambda h: h @ np.ones(h.shape[1]), lambda h: h.key_names,
    lambda h: [np.asarray(h.stored[name]) for name in h.stored], lambda h: str(dict(h.stored)),
)  # fmt: skip
OF_A_RECORDING: tuple[Callable[[Recording], Any], ...] = (
    lambda rec: [(p.tokens, p.ids, p.flags, p.next, p.knocked) for p in rec.prompts],
    lambda rec: [p.picture(n) for p in rec.prompts for n in range(len(p.pictures))],
    lambda rec: (rec.training.steps, rec.training.loss, rec.training.alarms, rec.training.limits),
    lambda rec: (rec.training.statistics, rec.training.map("L0H0", 1)),
    lambda rec: rec.merged().numbers(), lambda rec: read_merged(rec.store), repr,
    lambda rec: make_report(rec, 0).as_dict(),
    *(lambda rec, name=name: [rec.grid(name, s) for s in rec.stacks] for name in STATISTICS),
)  # fmt: skip
FURTHER: tuple[Callable[[Recording, Path], Any], ...] = (
    lambda rec, _: compare_recordings(rec, rec).as_dict(),
    lambda rec, _: overview_lines(rec, 0, "non_sink", Paper(width=80)),
    lambda rec, _: carried_recording(rec, limit=10**7),
    *(
        lambda rec, folder, what=what: write_csv(rec.table(what, top=3), folder / "a.csv")
        for what in TABLES
    ),
    *(
        lambda rec, folder, what=what: write_npz(
            make_arrays((what,), [*Selection(rec, None, None).parts()], 3),
            folder / "a.npz", {}, lambda _: None,
        )
        for what in EXPORTED
    ),
)  # fmt: skip


def ask(
    store: Memory, folder: Path, further: tuple[Any, ...] = (), of_heads: bool = True
) -> list[str]:
    """What was refused: every refusal is one sentence."""
    refused: list[str] = []

    def tried(question: Callable[[], Any]) -> Any:
        try:
            return question()
        except RegardError as error:
            assert "\n" not in str(error)
            assert len(str(error)) < 300 or not isinstance(error, FileError)
            refused.append(str(error))
            return None

    rec = tried(lambda: Recording(store))
    if rec is None:
        return refused
    for question in OF_A_RECORDING:
        tried(lambda question=question: question(rec))
    for question in further:
        tried(lambda question=question: question(rec, folder))
    for prompt in rec.prompts if of_heads else ():
        for label in prompt.labels()[:2]:
            head = tried(lambda prompt=prompt, label=label: prompt[label])
            for question in OF_A_HEAD if head is not None else ():
                tried(lambda question=question, head=head: question(head))
    return refused


def some_further(what: str) -> tuple[Any, ...]:
    """Two of the questions that take longer, other ones for other lies."""
    first = zlib.crc32(what.encode()) % len(FURTHER)
    return (*FURTHER, *FURTHER)[first : first + 2]


def test_the_recording_itself_answers_everything(tmp_path):
    assert ask(copied(), tmp_path, FURTHER) == []


# ── any lie ──────────────────────────────────────────────────────────────────────────────────

VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 3, 24, 26, 1000, 2**31, 2**40, 2**70, 0.5, 1e308, float("nan"), "",
    "a", "None", "L0", [], [0], [3, 1], [0, 25], [0, 2**40], ["a"], {}, {"rows": [0, 1]}, [[1]],
    "('table',)", [{}],
)  # fmt: skip


def changed(said: Any, by: Any) -> Iterator[Any]:
    """The JSON with one thing in it replaced, or left out where it is replaced by nothing."""
    yield by
    if isinstance(said, dict):
        for key, inner in said.items():
            if by is None:
                yield {name: other for name, other in said.items() if name != key}
            yield from (said | {key: other} for other in changed(inner, by))
    elif isinstance(said, list):
        yield [*said, by]
        for at, inner in enumerate(said):
            yield from ([*said[:at], other, *said[at + 1 :]] for other in changed(inner, by))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("by", VALUES, ids=repr)
def test_any_value_in_place_of_another_in_any_note(by, tmp_path):
    for key in NOTES:
        of_heads = key in (PLACE, "prompt/0", "statistics", "axes/0")
        for number, said in enumerate(changed(json.loads(WHOLE.metadata[key]), by)):
            notes, further = {key: json.dumps(said)}, some_further(f"{key} {number} {by!r}")[:1]
            ask(copied(notes), tmp_path, further, of_heads)


def test_sizes_that_lie_cost_no_memory(tmp_path):
    tracemalloc.start()
    for size in (2**31, 2**45):
        for by in (size, [0, size]):
            for said in changed(json.loads(WHOLE.metadata[PLACE]), by):
                ask(copied({PLACE: json.dumps(said)}), tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6


OTHER_NAMES = ("place/", "place/x/L0", "place/0", "prompt/", "prompt/0/1", "axes", "axes/0/1",
               "pictures/-1", "x")  # fmt: skip


@pytest.mark.parametrize("key", [*NOTES, *OTHER_NAMES])
@pytest.mark.parametrize("text", ["", "[", "{}", "[]", "1", '"a"', "[" * 100_000, "[" * 900])
def test_a_text_that_is_no_note(key, text, tmp_path):
    refused = ask(copied({key: text}), tmp_path)
    assert refused or key not in NOTES or text != "["
    assert not refused or key not in OTHER_NAMES or key == "place/0"


def others(array: np.ndarray) -> list[Any]:
    """What could stand in its place."""
    flat, array = array.reshape(-1), np.atleast_1d(array)
    largest = np.iinfo(array.dtype).max if array.dtype.kind in "iu" else np.inf
    wild = np.random.default_rng(0).standard_normal(array.shape) * 1e30
    return [
        None, np.zeros(0, array.dtype), flat, array[:1], array[..., None], array[..., :0],
        np.zeros((*array.shape[:1], 0, *array.shape[2:]), array.dtype),
        np.concatenate([array, array], -1), array.astype(np.int8), array.astype(np.float16),
        array.astype(bool), np.full_like(array, 255 % largest), np.full_like(array, largest),
        np.full(array.shape, np.nan, np.float32), np.full(array.shape, -np.inf, np.float32),
        np.full(array.shape, 2**62, np.int64), np.full(array.shape, -5, np.int64),
        np.clip(wild, -largest, largest).astype(array.dtype),
    ]  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", range(len(others(np.ones(3)))))
def test_any_array_in_place_of_any_tensor(number, tmp_path):
    for name in WHOLE.entries:
        if not name.endswith(("/10", "/20")):
            tensors = {name: others(WHOLE.words(name))[number]}
            ask(copied(tensors=tensors), tmp_path, some_further(f"{name} {number}"))


# ── lies that are refused ────────────────────────────────────────────────────────────────────

FIRST_FORM = [
    "__import__('os').system('true')", "print(1)", "x", "lambda: 0", "[x for x in (1,)]",
    "().__class__", "[1]", "1", "", "('rule',0,None)", "('spiral',)", "()", "(1,2)",
    "('both',('causal','end'),('not',('rule',0,None)))", "('causal','end','end')",
    "('window',1)", "('causal','middle')", "('window',-1,0,'end')",
    f"('window',{10**30},0,'end')", f"('window',{'9' * 5000},0,'end')",
    "('window',True,0,'end')", "('both',('causal','end'))", "('both',None,('causal','end'))",
    "('part',('causal','end'),5,0,9,9)", f"('part',('causal','end'),0,0,{2**50},{2**50})",
    "('part',('causal','end'),-5,0,90,90)", "(" * 5000 + ")" * 5000,
    "('not'," * 300 + "('causal','end')" + ")" * 300, "('both'," + "(" * 10 + " " * 100_000,
    "'" + "a" * 3000 + "'", "('causal','end'", "b'causal'", "('window',1e400,0,'end')",
    "2**99999999", "f'{1}'", "('causal\x00','end')",
]  # fmt: skip
MASKS = [
    *FIRST_FORM, "[]", "{}", '["causal/1"]', '["causal/1",{"align":"middle"}]',
    '["causal/1",{"more":1}]', '["window/1",{"left":-1}]', '["window/1",{"left":1e400}]',
    '["not/1",{"mask":null}]', '["not/1",{"mask":["entropy/1",{}]}]',
    '["both/1",{"left":["causal/1",{}],"right":["alibi/1",{"slopes":{"array":0}}]}]',
    '["either/1",{"left":null,"right":["causal/1",{}]}]',
    '["rule/1",{"fn":{"function":1},"entry":null}]',
    *(f'["rule/1",{{"fn":{{"\\u0066unction":{n}}},"entry":null}}]' for n in ("[]", "1", '"1"')),
    '["not/1",{"mask":' * 100 + "null" + "}]" * 100,
]  # fmt: skip
SCORES = [
    *FIRST_FORM, "null", "(None,None,None,False)", "(1.0,None,None)", "(1.0,None,None,None)",
    "('a',None,None,False)", "(1.0,-1.0,None,False)", "(1.0,0,None,False)", "(1.0,None,None,True)",
    "(True,None,None,False)", "(1e999,None,None,False)", "(1.0,None,('alibi','up'),False)",
    "(1.0,None,('spline',),False)", f"(1.0,None,('relative',True,{2**40},'end'),False)",
    "(1.0,None,('relative',True,0,'end'),False)", "(1.0,None,('part',None,0,0,1,1),False)",
    "(1.0,None,('part',('table',),0,0,1,1),False)", "(1.0,None,(),False)",
    '["score/1",{"scale":1.0,"bias":["causal/1",{}]}]', '["score/1",{"scale":"a"}]',
]  # fmt: skip
SIDES = [0, -6, 1.5, "8", True, 2**30, 10**300, [[1]]]
# By note and place in it, what cannot be true.
REFUSED: dict[str, dict[tuple[Any, ...], list[Any]]] = {
    "place/0/L0": {
        ("kind",): ["both", 3], ("name",): [3],
        ("heads",): [[], [0, 0], [3, 0], [0, 9], [0], [-1, 3], "03"],
        ("key_heads",): [0, 3, 4], ("total_heads",): [0, 10**6], ("layer",): [-1, 10**6],
        ("dim",): [0, 5], ("queries",): [2**50, 3], ("keys",): [0, 3, 2**50],
        ("rows",): [[0, 2**40], [9, 3], "all", [1]], ("row_bin",): [0, 2**40, 3],
        ("key_bin",): [0], ("top_every",): [0], ("pool_cell",): [2**40],
        ("segments",): [{}, ["a"]], ("segments", 0, "rows"): [[0, 2**45], [0, 22]],
        ("segments", 1, "rows"): [[10, 24]], ("segments", 0, "keys"): [[0, 26], [0, 10], [9, 0]],
        ("segments", 0, "arrays"): [
            [], ["P0/L0/nothing"] * 3, ["P0/L0/q/0"] * 3, ["P0/L0/rule_0"] * 9,
        ],
        ("segments", 2, "mask"): MASKS, ("segments", 2, "score"): SCORES,
    },
    "prompt/0": {
        ("tokens",): [-1, 2.5, None, "3"], ("streams",): ["tokens", [3]], ("title",): [3],
        ("next",): [3, [3], [["a"]], [[3, 0.5]], [["a", "b"]]], ("facts",): [[1]],
        ("finished",): [1],
    },
    "statistics": {
        (): [[], {"q": {"words": "queries"}}, {"entropy": {"words": "again", "joins": 3}}],
        ("Upper",): [{"words": "x"}], ("a/b",): [{"words": "x"}],
        ("mine",): [
            {"words": 3}, {"joins": 3}, {"counts": []}, {"of": {}}, {"unit": 1}, {"words": None},
            {"words": "x", "statistic": []},
        ],
    },
    "axes/0": {
        ("axes",): ["a", 1, [1], [[1]]], ("places",): [[], None],
        ("places", "L0"): [[0], [0, 9], [-1, 0], [True, 0], [0.5, 0], "00"],
        ("axes", 0, 0, "count"): [-1, 0.5, 2**62],
        **{("axes", 0, 1, side): SIDES for side in ("height", "width", "merge")},
        ("axes", 0, 1, "merge"): [3], ("axes", 0, 1, "prefix"): [-1, 2**40, "a"],
        ("axes", 0, 1, "names"): [[3], [["a"]], ["a", "b"], 7],
        ("axes", 0, 1, "windows"): ["ab", [1, 2, 3], [0, 0], [[1], [2]]],
        ("axes", 0, 1, "shift"): [-1], ("axes", 0, 1, "picture"): ["a", -7],
        ("axes", 0, 1): [
            {"kind": "other", "count": 17, "what": 5}, {"kind": "grid", "width": 2},
            *({"kind": "frames", "count": 17, "seconds": n} for n in (0, 10**400, "a")),
            {"kind": "frames", "count": 17, "seconds": float("nan")},
        ],
    },
    "pictures/0": {
        (): [{}, 3, ["a"], [None], [{"width": 8, "height": 8, "type": "image/png"}] * 5000],
        **{(0, side): [-1, 0, 10**9, 1.5, "64", True] for side in ("width", "height")},
        (0, "type"): ["text/html", "image/svg+xml", ["image/png"], None], (0, "title"): [3],
        (0, "seconds"): [float("nan"), -1, 10**400, "a"],
    },
    "knocked/0": {
        (): [[], 3], ("L0H0",): [3, {}], ("L0H0", "text"): [[1, 2], {"kl": 1.0}],
        ("L0H0", "copying", "kl"): ["much", float("nan"), None],
    },
    "training": {
        ("places",): [3, [3]], ("statistics",): [[], {"a": 1}, {"steps": "no"}, {"loss": "no"}],
        ("limits",): [3, []], ("limits", "peak"): [3, {}],
        ("limits", "peak", "side"): ["left", ["above"]],
        ("limits", "peak", "value"): [True, "1", float("nan"), float("inf"), 10**400],
    },
    "training/alarms": {
        (): [{}, [3], [{}]], (0, "step"): ["2", True], (0, "value"): [True, float("nan"), "1"],
        (0, "threshold"): [10**400],
    },
    "merged": {
        ("documents",): [-1, None], ("tokens",): ["many"], ("keys",): [True],
        ("places",): [5, [{}]], ("places", 0, "heads"): [[3, 1], [0, 9], [0], []],
        ("places", 0, "layer"): [9999, 5], ("places", 0, "stack"): [7],
    },
    "model": {(): [[], 3]}, "made": {(): [[]]}, "plan": {(): ["a"]}, "check": {(): [None]},
}  # fmt: skip


def replaced(said: Any, where: tuple[Any, ...], by: Any) -> Any:
    if not where:
        return by
    key, *rest = where
    if isinstance(said, list):
        return [replaced(n, tuple(rest), by) if at == key else n for at, n in enumerate(said)]
    return said | {key: replaced(said.get(key, {}), tuple(rest), by)}


def read(store: Memory) -> None:
    """What every lie of REFUSED lies about."""
    rec = Recording(store)
    assert np.isfinite(rec.grid("entropy")[0, 3])
    for label in rec.prompts[0].labels():
        head = rec[label]
        head.entropy()
        assert np.isfinite(head[24, 5]) and head.dense().shape == (25, 25)
    assert rec.training["peak"].shape == (2, 1, 4)
    assert read_merged(store) is not None


CASES = [(key, where) for key, places in REFUSED.items() for where in places]


@pytest.mark.parametrize(("key", "where"), CASES, ids=lambda part: str(part))
def test_what_cannot_be_true_is_refused_in_one_sentence(key, where, monkeypatch):
    """And nothing in it is run."""
    read(copied())
    whole = json.loads(WHOLE.metadata[key])
    for name in ("eval", "exec"):
        monkeypatch.setattr(builtins, name, lambda *_, **__: pytest.fail("run"))
    for by in REFUSED[key][where]:
        with pytest.raises(FileError) as refused:
            read(copied({key: json.dumps(replaced(whole, where, by))}))
            pytest.fail(f"{by!r:.90} was believed")
        assert "\n" not in str(refused.value) and len(str(refused.value)) < 300


def heavy(keys: list[int], masses: list[float]) -> dict[str, Any]:
    return {"P0/L0/heavy_keys": np.tile(np.int32(keys), (2, 1)),
            "P0/L0/heavy_received": np.tile(np.float32(masses), (2, 1))}  # fmt: skip


TEXT, IDS, EDGES = "P0/tokens/text/0", "P0/tokens/ids/0", "P0/L0/offset_edges"
WRONG: list[tuple[dict[str, Any], str, Callable[[Recording], Any]]] = [
    ({"P0/L0/q/0": np.zeros(7)}, r"'P0/L0/q/0': F64 \(7,\) does not fit", lambda rec: rec["L0H0"]),
    ({"P0/L0/received": np.zeros((2, 3), np.float32)}, r"received': shape \(2, 3\) does not fit",
     lambda rec: rec.grid("sink")),
    ({"P0/L0/totals": np.zeros((2, 3))}, "does not name its", lambda rec: rec.grid("entropy")),
    *(({TEXT: np.frombuffer(raw, np.uint8)}, f"'{TEXT}': the texts of tokens", len_of)
      for len_of in [lambda rec: rec.tokens]
      for raw in (b"", b"[1]", b"{}", b"[", b"\xff", b'["a", null]', b"[" * 99999)),
    ({IDS: np.zeros(9)}, "are no ids", lambda rec: rec.prompts[0].ids),
    ({EDGES: np.arange(50, dtype=np.int32)[::-1]}, "do not ascend", lambda rec: rec.grid("self")),
    ({EDGES: np.zeros(50, np.int32)}, "do not ascend", lambda rec: rec["L0H0"].stored["offsets"]),
    ({EDGES: np.arange(9, dtype=np.int32)}, "do not fit", lambda rec: rec.grid("self")),
    ({EDGES: None}, "offsets without offset_edges", lambda rec: rec.grid("self")),
    ({"P0/L0/lse/5": np.zeros((2, 10), np.float32)}, "overlaps", lambda rec: rec["L0H0"].lse),
    ({"P0/L0/lse/0": WHOLE.words("P0/L0/lse/0") + 1},
     r"L0H3: the stored lse of row 0 is .*, but its q, k and", lambda rec: rec["L0H3"].entropy()),
    *((heavy(keys, masses), "heavy_keys that are none of its keys, or without masses",
       lambda rec: rec.grid("sink"))
      for keys, masses in (([0, 10**6], [1, 1]), ([-1, 0], [1, 1]), ([3, 3], [1, 1]), ([0], [1, 1]),
                           ([0, 1], [1, np.nan]), ([0, 1], [-1, 1]), ([0, 1], [np.inf, 1]))),
    *(({"P0/L0/top_keys/0": np.full((2, 10, 8), key, np.int32)}, "P0/L0/top_keys/0",
       lambda rec: rec["L0H0"].stored["top_keys"]) for key in (-2, 25, 2**31 - 1, -(2**31))),
    *(({"P0/picture/bytes/0": array}, says, lambda rec: rec.prompts[0].picture())
      for array, says in (
          (np.zeros(9, np.float32), "no picture"), (np.zeros((3, 3), np.uint8), "no picture"),
          (np.zeros(2**24 + 1, np.uint8), "no picture of at most 16 MiB"),
          (np.zeros(0, np.uint8), "does not begin as image/png"),
          (np.frombuffer(b"<svg onload=alert(1)>", np.uint8), "does not begin as image/png"),
          (np.frombuffer(b"\xff\xd8\xff\xe0 JPEG", np.uint8), "does not begin as image/png"))),
    ({"P0/picture/bytes/0": None}, "picture 0 of prompt 0 is not in the recording",
     lambda rec: rec.prompts[0].picture()),
    ({"training/map/L0H0/1": np.zeros(3, np.float32)}, "is no pooled map",
     lambda rec: rec.training.map("L0H0", 1)),
    ({"training/peak/0": np.zeros((2, 3, 4), np.float32)}, "3 places, 1 named",
     lambda rec: rec.training["peak"]),
    ({"merged/L0": np.zeros((2, 1, 2))}, "merged statistics are gone, or of another shape",
     lambda rec: read_merged(rec.store)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_tensor_that_cannot_be_is_named_when_it_is_used(number):
    """The recording opens, and what needs another tensor is answered."""
    tensors, says, question = WRONG[number]
    rec = Recording(copied(tensors=tensors))
    assert rec.labels() == ["L0H0", "L0H3"] and rec.model
    with pytest.raises(FileError, match=says):
        question(rec)


# ── what is no lie ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "part",
    [{"kind": "grid", "height": 5, "width": 4}, {"kind": "text", "count": 3},
     {"kind": "grid", "height": 2**15, "width": 2**15}, {"kind": "other", "count": 2**31 - 1}],
)  # fmt: skip
def test_an_axis_that_does_not_fit_its_place_is_passed_over(part):
    """It may be of a recording that is still growing; nothing of its size is made."""
    axes = json.dumps({"axes": [[part]], "places": {"L0": [0, 0]}})
    tracemalloc.start()
    rec = Recording(copied({"axes/0": axes}))
    assert rec["L0H0"].key_names == rec.tokens and len(rec["L0H0"].entropy()) == 25
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()


@pytest.mark.parametrize("tag", ["causal/9", "spiral/1"])
def test_a_mask_that_is_not_defined_here_leaves_what_is_stored(tag):
    place = replaced(json.loads(WHOLE.metadata[PLACE]), ("segments", 2, "mask"), f'["{tag}",{{}}]')
    head = Recording(copied({PLACE: json.dumps(place)}))["L0H0"]
    assert not head.exact and head.why_not.startswith(f"its mask or score rule is a '{tag}'")
    assert len(head.lse) == 25 and head.stored["entropy"].values.shape == (13,)
    with pytest.raises(UnavailableError, match="import the module that defines it"):
        head.entropy()


def test_what_is_of_a_version_to_come_is_passed_over():
    """A kind of positions, fields, notes and tensors: the rest is answered as ever."""
    axes = json.loads(WHOLE.metadata["axes/0"])
    axes["axes"][0][0] |= {"polish": 3, "sheen": [1]}
    axes["axes"][0][1] = {"kind": "sphere", "count": 17, "rings": 7}
    place = json.loads(WHOLE.metadata[PLACE]) | {"colour": "red"}
    future = {"axes/0": json.dumps(axes), "smells/0": "{", PLACE: json.dumps(place)}
    later = Recording(copied(future, {"P0/smell/bytes/0": np.zeros(4, np.uint8)}))
    now = Recording(copied())
    assert now["L0H0"].key_names[8:10] == ["class", "(0, 0)"]
    assert later["L0H0"].key_names[8:10] == ["position 0", "position 1"]
    np.testing.assert_array_equal(later["L0H0"].dense(), now["L0H0"].dense())
    store = copied({"axes/0": '{"axes": [], "places": {}}', "pictures/0": "[]"})
    assert Recording(store)["L0H0"].key_names == now.tokens
    merged = json.loads(WHOLE.metadata["merged"]) | {"statistics": ["entropy"]}
    assert read_merged(copied({"merged": json.dumps(merged)})) is None  # computed again
