"""One number for each head, against what the dense matrix says."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from regard.declare import encode
from regard.errors import FileError, InputError
from regard.mask import Causal, Table, Window
from regard.recording import STATISTICS, Memory, Recording
from regard.recording.schema import UNKNOWN, statistics_in
from support.recordings import Chunk, write_prompt, write_recording

N = 200


def sinking(key: int = 0, strength: float = 9.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries of head 0 look at one key; the others at random."""
    dice = torch.Generator().manual_seed(5)
    q, k = torch.randn(4, N, 16, generator=dice), torch.randn(2, N, 16, generator=dice)
    k[0, key], q[0, :, :] = 0, q[0] * 0.2
    k[0, key, 0] = strength
    q[0, :, 0] = 8.0
    return q, k


def made(**options):
    query, key = sinking()
    store, one = write_recording(
        **{"chunks": [Chunk((0, N), (0, N), Causal())], "query": query, "key": key} | options
    )
    return Recording(store), one.truth.weights()


def sink_by_hand(p: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """From the dense matrix (H, L, S) and what may be seen of it."""
    received, seen = p.sum(1), visible.sum(-2)
    with np.errstate(invalid="ignore"):
        sinks = (received / seen > 0.3) & (seen >= min(64, p.shape[1] // 2))
    return (received * sinks).sum(-1) / p.shape[1]


def by_hand(p: np.ndarray, ids: np.ndarray) -> dict[str, np.ndarray]:
    """From the dense causal matrix (H, L, L)."""
    heads, rows, _ = p.shape
    received = p.sum(1)
    sink = sink_by_hand(p, np.tri(rows, dtype=bool))
    entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(-1)
    copy = np.array([(ids[:i] == ids[i]).any() for i in range(rows)])
    after = np.array([(ids[: i - 1] == ids[i]).any() if i > 1 else False for i in range(rows)])
    duplicate = np.array([[one[i, :i][ids[:i] == ids[i]].sum() for i in range(rows)] for one in p])
    prefix = np.array(
        [[one[i, 1:i][ids[: max(i - 1, 0)] == ids[i]].sum() for i in range(rows)] for one in p]
    )
    even = np.array([(ids[: i + 1] == 0).mean() for i in range(rows)]).mean()
    return {
        "sink": sink,
        "non_sink": p.sum((1, 2)) / rows - sink,
        "first": p[:, :, 0].mean(-1),
        "previous": np.trace(p, -1, 1, 2) / (rows - 1),
        "self": np.trace(p, 0, 1, 2) / rows,
        "duplicate": duplicate.sum(-1) / copy.sum(),
        "prefix": prefix.sum(-1) / after.sum(),
        "delimiter": received[:, ids == 0].sum(-1) / rows,
        "delimiter_chance": np.full(heads, even),
        "entropy": entropy.mean(-1),
        "normalized_entropy": (entropy[:, 1:] / np.log(np.arange(2, rows + 1))).mean(-1),
        "peak": p.max(-1).mean(-1),
        "sharp": (p.max(-1) > 0.99).mean(-1),
        "concentration": (p**2).sum(-1).mean(-1),
    }


@pytest.mark.parametrize("name", [n for n in STATISTICS if n not in ("max_score", "output_norm")])
@pytest.mark.parametrize("exact", [True, False])
def test_statistics_are_those_of_the_matrix(name, exact):
    rec, p = made(exact=exact)
    grid = rec.grid(name)
    assert grid.shape == (1, 4) and grid.dtype == np.float64
    np.testing.assert_allclose(grid[0], by_hand(p, rec.prompts[0].ids)[name], rtol=1e-5, atol=1e-7)


def test_a_sink_is_found_and_the_others_have_none():
    rec, _ = made()
    sink = rec.grid("sink")[0]
    assert sink[0] > 0.5 and (sink[1:] == 0).all()
    np.testing.assert_allclose(rec.grid("sink") + rec.grid("non_sink"), 1, rtol=1e-6)


def test_a_sink_is_any_key_that_many_rows_see():
    query, key = sinking(key=60)
    rec, p = made(query=query, key=key)
    wanted = sink_by_hand(p, np.tri(N, dtype=bool))
    assert wanted[0] > 0.5 and rec.grid("first")[0, 0] < 0.3
    np.testing.assert_allclose(rec.grid("sink")[0], wanted, rtol=1e-6)
    query, key = sinking(key=N - 20)  # seen by 20 rows: no sink, whatever they give it
    rec, p = made(query=query, key=key)
    wanted = sink_by_hand(p, np.tri(N, dtype=bool))
    assert p[0, N - 20 :, N - 20].mean() > 0.9
    np.testing.assert_allclose(rec.grid("sink")[0], wanted, rtol=1e-6)


def test_short_prompts_need_fewer_viewers():
    query, key = sinking()
    rec, _ = made(chunks=[Chunk((0, 40), (0, 40), Causal())], query=query[:, :40], key=key[:, :40])
    assert rec.grid("sink")[0, 0] > 0.5


def test_norms_and_scores():
    rec, _ = made()
    assert rec.grid("output_norm").mean() == pytest.approx(1)
    head = rec["L0H2"]
    assert rec.grid("max_score")[0, 2] == pytest.approx(head.max_score().max(), rel=1e-6)


@pytest.mark.parametrize("key_bin", [2, 3, 16, 64, N])
def test_bins_of_keys_find_the_same_sink_or_none(key_bin):
    """A bin is never taken for a key: the numbers are those of single keys, or not known."""
    rec, fine = made(key_bin=key_bin)[0], made()[0]
    for name in ("sink", "non_sink"):
        found, right = rec.grid(name)[0], fine.grid(name)[0]
        is_told = ~np.isnan(found)
        np.testing.assert_allclose(found[is_told], right[is_told], atol=1e-6)
        assert is_told[0] and right[0] > 0  # the head that parks on key 0
        assert is_told.all() if key_bin < 16 else True
        assert not is_told[1:].any() if key_bin == N else True
    assert np.isnan(rec.grid("delimiter")).all()


def test_a_sink_inside_a_bin_is_not_known():
    query, key = sinking(key=60)
    rec, _ = made(query=query, key=key, key_bin=16)
    assert np.isnan(rec.grid("sink")[0, 0]) and np.isnan(rec.grid("non_sink")[0, 0])
    assert rec.grid("first")[0, 0] < 0.3


def test_windows_count_who_sees_a_key():
    """In a window of 8, the mass of each key comes from 8 rows: too few for a sink."""
    rec, p = made(chunks=[Chunk((0, N), (0, N), Window(7))])
    assert (rec.grid("sink") == 0).all()
    np.testing.assert_allclose(rec.grid("previous")[0], np.trace(p, -1, 1, 2) / (N - 1), rtol=1e-5)


@pytest.mark.parametrize("heads", [1, 4])
def test_masks_without_intervals_are_counted(heads):
    """Only the first 50 rows see key 0, and with tables of their own some heads' rows do not."""
    table = torch.ones(heads, N, N, dtype=torch.bool).tril()
    table[:, 50:, 0] = False
    table[:, 50:, 2] = False
    if heads > 1:
        table[0, :, 1] = False
        table[0, 1, 1] = True
    rec, p = made(chunks=[Chunk((0, N), (0, N), Table(table))], exact=False)
    wanted = sink_by_hand(p, np.broadcast_to(table.numpy(), (4, N, N)))
    np.testing.assert_allclose(rec.grid("sink")[0], wanted, rtol=1e-6)
    assert wanted[0] > 0 and p[0, :50, 0].mean() > 0.3  # key 0 is no sink, another is
    np.testing.assert_allclose(rec.grid("self")[0], np.trace(p, 0, 1, 2) / N, rtol=1e-5)
    marks = rec.prompts[0].ids == 0
    seen = np.broadcast_to(table.numpy(), (4, N, N))
    chance = ((seen * marks).sum(-1) / seen.sum(-1)).mean(-1)
    np.testing.assert_allclose(rec.grid("delimiter_chance")[0], chance, rtol=1e-9)


def test_an_unknown_mask_leaves_what_needs_none():
    rec, _ = made(exact=False)
    notes = rec.store.metadata["place/0/L0"].replace(json.dumps(encode(Causal()))[1:-1], UNKNOWN)
    store = Memory()
    for name, entry in rec.store.entries.items():
        store.add(name, rec.store.words(name), entry.metadata)
    store.note(rec.store.metadata | {"place/0/L0": notes})
    blind = Recording(store)
    assert blind.grid("sink")[0, 0] > 0.5 and np.isnan(blind.grid("delimiter_chance")).all()
    np.testing.assert_allclose(blind.grid("entropy"), rec.grid("entropy"))


@pytest.mark.parametrize("bin", [1, 7])
def test_a_recording_that_was_cut_off_tells_of_what_there_is(bin):
    rec, _ = made(row_bin=bin, pieces=50)
    store = Memory()
    for name, entry in rec.store.entries.items():
        if name.split("/")[-1] not in ("received", "offsets", "offset_edges", "pooled", "totals"):
            store.add(name, rec.store.words(name), entry.metadata)
    store.note(rec.store.metadata)
    cut = Recording(store)
    for name in ("entropy", "peak", "concentration", "first", "duplicate", "prefix", "max_score"):
        np.testing.assert_allclose(cut.grid(name), rec.grid(name), rtol=1e-5)
    for name in ("sink", "previous", "delimiter", "sharp", "normalized_entropy"):
        assert np.isnan(cut.grid(name)).all()


def test_some_rows_are_counted_as_such():
    rec, p = made(rows=(50, 150))
    part = p[:, 50:150]
    np.testing.assert_allclose(rec.grid("first")[0], part[:, :, 0].mean(-1), rtol=1e-5)
    previous = np.stack([part[:, i, 49 + i] for i in range(100)]).mean(0)
    np.testing.assert_allclose(rec.grid("previous")[0], previous, rtol=1e-5)


def test_what_was_not_recorded_is_nan():
    query, key = sinking()
    store, _ = write_recording(
        chunks=[Chunk((0, N), (0, N), Causal())], query=query, key=key, recorded=(1, 3)
    )
    write_prompt(store, [Chunk((0, 9), (0, 9))], prompt=0, layer=2, statistics=False, tokens=False,
                 note=False)  # fmt: skip
    rec = Recording(store)
    for name in STATISTICS:
        grid = rec.grid(name)
        assert grid.shape == (3, 4)
        if name == "delimiter_chance":  # tokens and masks are enough
            assert np.isfinite(grid[2]).all()
            grid[2] = np.nan
        assert np.isnan(grid[1:]).all() and np.isnan(grid[0, [0, 2]]).all()
        assert np.isfinite(grid[0, [1, 3]]).all()


def test_without_tokens_nothing_is_said_about_them():
    rec, _ = made(tokens=False)
    for name in ("duplicate", "prefix", "delimiter", "delimiter_chance"):
        assert np.isnan(rec.grid(name)).all()
    assert np.isfinite(rec.grid("sink")).all()


def test_cross_attention_has_no_token_before():
    store, _ = write_recording(chunks=[Chunk((0, 30), (0, 50))], kind="cross", tokens=False)
    rec = Recording(store)
    for name in ("previous", "self", "duplicate", "prefix"):
        assert np.isnan(rec.grid(name)).all()
    assert np.isfinite(rec.grid("entropy")).all()


def test_wrong_words():
    rec, _ = made()
    with pytest.raises(
        InputError, match=r"'sinks'; there are on sinks \(sink\), off sinks \(non_sink\)"
    ):
        rec.grid("sinks")
    with pytest.raises(InputError, match="there is no stack 'cross'; this recording has one"):
        rec.grid("sink", "cross")
    with pytest.raises(InputError, match="prompt 3 does not exist; this recording has 0"):
        rec.grid("sink", prompt=3)


@pytest.mark.parametrize(
    "note",
    [
        "[]", "no json", '{"q": {"words": "queries"}}', '{"entropy": {"words": "again"}}',
        '{"Upper": {"words": "x"}}', '{"a/b": {"words": "x"}}', '{"mine": {"words": 3}}',
        '{"mine": {"words": "x", "statistic": []}}',
    ],
)  # fmt: skip
def test_a_note_of_statistics_that_cannot_be(note: str) -> None:
    with pytest.raises(FileError):
        statistics_in({"contents": "attention/1", "statistics": note})


def test_a_note_of_statistics() -> None:
    assert statistics_in({}) == {}
    (one,) = statistics_in({"statistics": '{"mine": {"words": "x"}}'}).values()
    assert (one.words, one.text) == ("x", "")
    assert statistics_in({"statistics": '{"mine": 3}'})["mine"].words == "mine"
