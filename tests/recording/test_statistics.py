"""One number for each head, of one text or of many, against what the dense matrices say; kinds of
which this version knows nothing are shown as stored."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import regard
from recording.golden.make import HighestScore
from regard.declare import encode
from regard.errors import FileError, InputError
from regard.mask import Causal, Table, Window
from regard.recording import STATISTICS, Memory, Merged, Recording
from regard.recording.merged import merge_prompts
from regard.recording.schema import (
    CONTENTS,
    STATISTICS_NOTE,
    UNKNOWN,
    statistics_in,
    statistics_note,
)
from regard.summary import RowStatistic
from support.recordings import Chunk, WrittenPlace, write_prompt, write_recording

N = 200
LENGTHS = (1, 2, 9, 70, 33)
LARGEST = ("max_score", "output_norm")  # the statistics that are no means of rows


def sinking(key: int = 0, strength: float = 9.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries of head 0 look at one key; the others at random."""
    dice = torch.Generator().manual_seed(5)
    q, k = torch.randn(4, N, 16, generator=dice), torch.randn(2, N, 16, generator=dice)
    k[0, key], q[0, :, :] = 0, q[0] * 0.2
    k[0, key, 0] = strength
    q[0, :, 0] = 8.0
    return q, k


def made(n: int = N, sink: int = 0, **options: Any) -> tuple[Recording, WrittenPlace]:
    """A text whose head 0 parks, and what is true of it."""
    query, key = sinking(sink)
    given = {"chunks": [Chunk((0, n), (0, n), Causal())], "query": query[:, :n], "key": key[:, :n]}
    store, place = write_recording(**given | options)
    return Recording(store), place


def by_row(p: np.ndarray, ids: np.ndarray, seen: np.ndarray) -> dict[str, np.ndarray]:
    """(rows,) of each statistic, from the dense matrix (rows, keys) of rows that are the keys; NaN
    where a row does not count."""
    n = len(p)
    i, j = np.arange(n)[:, None], np.arange(n)
    visible, viewers = seen.sum(-1), seen.sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        is_sink = (p.sum(0) / viewers > 0.3) & (viewers >= min(64, max(n // 2, 1)))
    entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(-1)
    copies = (ids[i] == ids) & (j < i)
    after = (j > 0) & (j < i) & (ids[i] == np.roll(ids, 1))

    def where(rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        return np.where(rows, numbers, np.nan)

    return {
        "sink": p[:, is_sink].sum(-1), "non_sink": p[:, ~is_sink].sum(-1), "first": p[:, 0],
        "previous": where(j > 0, np.append(0, np.diagonal(p, -1))), "self": np.diagonal(p),
        "duplicate": where(copies.any(-1), (p * copies).sum(-1)),
        "prefix": where(after.any(-1), (p * after).sum(-1)),
        "delimiter": p[:, ids == 0].sum(-1),
        "delimiter_chance": seen[:, ids == 0].sum(-1) / visible, "entropy": entropy,
        "normalized_entropy": where(visible > 1, entropy / np.log(np.maximum(visible, 2))),
        "peak": p.max(-1), "sharp": (p.max(-1) > 0.99) * 1.0, "concentration": (p**2).sum(-1),
    }  # fmt: skip


def rows_of(place: WrittenPlace, ids: np.ndarray, head: int) -> dict[str, np.ndarray]:
    return by_row(place.truth.weights()[head], ids, place.truth.exact.visible.numpy()[head])


@pytest.mark.parametrize("exact", [True, False])
def test_statistics_are_those_of_the_matrix(exact):
    rec, place = made(exact=exact)
    for head in range(4):
        rows = rows_of(place, rec.prompts[0].ids, head)
        assert rows.keys() | set(LARGEST) == STATISTICS.keys()
        for name, numbers in rows.items():
            wanted = np.nanmean(numbers)
            assert rec.grid(name)[0, head] == pytest.approx(wanted, rel=1e-5, abs=1e-7), name
    assert rec.grid("sink")[0, 0] > 0.5 and (rec.grid("sink")[0, 1:] == 0).all()
    scores = np.where(place.truth.exact.visible, place.truth.exact.scaled, -np.inf)
    np.testing.assert_allclose(rec.grid("max_score")[0], scores.max((1, 2)), rtol=1e-6)
    norms = place.truth.exact.output.norm(dim=-1).mean(-1)
    np.testing.assert_allclose(rec.grid("output_norm")[0], norms / norms.mean(), rtol=1e-5)


@pytest.mark.parametrize("heads", [0, 1, 4])
def test_who_sees_a_key_is_counted_by_the_mask(heads):
    """In a window of 8 nobody sees a sink; in tables, some of each head's own, only 50 rows see
    keys 0 and 2."""
    mask: Any = Window(7)
    if heads:
        table = torch.ones(heads, N, N, dtype=torch.bool).tril()
        table[:, 50:, [0, 2]] = False
        table[0, 2:, 1] = heads == 1
        mask = Table(table)
    rec, place = made(chunks=[Chunk((0, N), (0, N), mask)], exact=False)
    for head in range(4):
        rows = rows_of(place, rec.prompts[0].ids, head)
        for name in ("sink", "non_sink", "delimiter_chance", "previous"):
            wanted = np.nanmean(rows[name])
            assert rec.grid(name)[0, head] == pytest.approx(wanted, rel=1e-5, abs=1e-7), name


def test_rows_of_a_part_are_counted_as_such():
    rec, place = made(rows=(50, 150))
    part = place.truth.weights()[:, 50:150]
    np.testing.assert_allclose(rec.grid("first")[0], part[:, :, 0].mean(-1), rtol=1e-5)
    previous = np.stack([part[:, i, 49 + i] for i in range(100)]).mean(0)
    np.testing.assert_allclose(rec.grid("previous")[0], previous, rtol=1e-5)


# ── what is not known ────────────────────────────────────────────────────────────────────────


def test_what_was_not_recorded_is_nan():
    rec, _ = made(recorded=(1, 3))
    write_prompt(rec.store, [Chunk((0, 9), (0, 9))], layer=2, statistics=False, tokens=False,
                 note=False)  # fmt: skip
    rec.refresh()
    for name in STATISTICS:
        grid = rec.grid(name)
        assert grid.shape == (3, 4) and grid.dtype == np.float64
        if name == "delimiter_chance":  # tokens and masks are enough
            assert np.isfinite(grid[2]).all()
            grid[2] = np.nan
        assert np.argwhere(np.isfinite(grid)).tolist() == [[0, 1], [0, 3]]


BY_TOKENS = {"duplicate", "prefix", "delimiter", "delimiter_chance"}
BY_DISTANCE = {"previous", "self", "duplicate", "prefix"}
CROSS = {"chunks": [Chunk((0, 30), (0, 50))], "kind": "cross", "tokens": False,
         "query": None, "key": None}  # fmt: skip


@pytest.mark.parametrize(
    ("options", "unknown"), [({"tokens": False}, BY_TOKENS), (CROSS, BY_TOKENS | BY_DISTANCE)]
)
def test_what_needs_tokens_or_one_sequence_is_not_known_without(options, unknown):
    rec, _ = made(**options)
    assert {name for name in STATISTICS if np.isnan(rec.grid(name)).all()} == unknown


def without(rec: Recording, lost: tuple[str, ...], notes: dict[str, str]) -> Recording:
    """The same, some tensors gone."""
    store = Memory()
    for name, entry in rec.store.entries.items():
        if name.split("/")[2] not in lost:
            store.add(name, rec.store.words(name), entry.metadata)
    store.note(rec.store.metadata | notes)
    return Recording(store)


def test_without_a_mask_all_rows_are_taken_to_see_all_keys():
    rec, place = made()
    causal = encode(Causal()).replace('"', '\\"')
    blind = without(rec, (), {"place/0/L0": place.place.to_json().replace(causal, UNKNOWN)})
    assert blind.grid("sink")[0, 0] > 0.5 and np.isnan(blind.grid("delimiter_chance")).all()
    np.testing.assert_allclose(blind.grid("entropy"), rec.grid("entropy"))


@pytest.mark.parametrize("row_bin", [1, 7])
def test_a_recording_that_was_cut_off_has_the_statistics_of_its_rows(row_bin):
    rec, _ = made(row_bin=row_bin, pieces=50)
    cut = without(rec, ("received", "offsets", "offset_edges", "pooled", "totals"), {})
    for name in ("entropy", "peak", "concentration", "first", "duplicate", "prefix", "max_score"):
        np.testing.assert_allclose(cut.grid(name), rec.grid(name), rtol=1e-5)
    for name in ("sink", "previous", "delimiter", "sharp", "normalized_entropy"):
        assert np.isnan(cut.grid(name)).all()


@pytest.mark.parametrize(
    ("options", "says"),
    [({"statistic": "sinks"}, r"'sinks'; there are on sinks \(sink\), off sinks \(non_sink\)"),
     ({"stack": "cross"}, "there is no stack 'cross'; this recording has one"),
     ({"prompt": 3}, "prompt 3 does not exist; this recording has 0")],
)  # fmt: skip
def test_wrong_names_are_answered_by_what_there_is(options, says):
    rec, _ = made(20)
    with pytest.raises(InputError, match=says):
        rec.grid(**{"statistic": "sink"} | options)
    if "prompt" not in options:
        with pytest.raises(InputError, match=says.partition(";")[0]):
            rec.merged().grid(**{"statistic": "sink"} | options)


# ── many texts ───────────────────────────────────────────────────────────────────────────────


@cache
def texts(recorded: tuple[int, ...] | None = None) -> tuple[Recording, list[WrittenPlace]]:
    """Of several lengths."""
    store, places = Memory(), []
    query, key = sinking()
    for prompt, n in enumerate(LENGTHS):
        write = write_prompt if prompt else lambda store, chunks, **options: write_recording(
            store, chunks=chunks, **options)[1]  # fmt: skip
        places.append(
            write(store, [Chunk((0, n), (0, n), Causal())], prompt=prompt, recorded=recorded,
                  query=query[:, 3 * prompt :][:, :n], key=key[:, :n])
        )  # fmt: skip
    return Recording(store), places


def test_a_mean_is_over_all_rows_of_all_texts():
    rec, places = texts()
    merged, every = rec.merged(), sum(LENGTHS)
    assert (merged.documents, merged.tokens, merged.keys) == (5, every, 70)
    for head in range(4):
        each = [rows_of(p, t.ids, head) for p, t in zip(places, rec.prompts, strict=True)]
        for name in each[0]:
            rows = np.concatenate([rows[name] for rows in each])
            wanted, count = np.nanmean(rows), np.isfinite(rows).sum()
            assert merged.grid(name)[0, head] == pytest.approx(wanted, rel=2e-5, abs=1e-6), name
            assert merged.rows(name)[0, head] == count, name
    assert merged.counted("entropy").tolist() == [every] * 4
    largest = [rec.grid("max_score", prompt=n) for n in range(len(LENGTHS))]
    np.testing.assert_array_equal(merged.grid("max_score"), np.max(largest, axis=0))
    norms = torch.cat([p.truth.exact.output.norm(dim=-1) for p in places], -1).mean(-1)
    np.testing.assert_allclose(merged.grid("output_norm")[0], norms / norms.mean(), rtol=1e-5)


def test_one_text_is_itself_to_the_bit():
    for prompt in texts()[0].prompts:
        merged = merge_prompts([prompt])
        for name in STATISTICS:
            alone = prompt.grid(name)
            known = np.isfinite(alone)
            np.testing.assert_array_equal(merged.grid(name)[known], alone[known], err_msg=name)


@pytest.mark.parametrize("cut", range(len(LENGTHS) + 1))
def test_however_texts_are_shared_out(cut):
    prompts = texts()[0].prompts
    a, b, whole = map(merge_prompts, (prompts[:cut], prompts[cut:], prompts))
    for both in (a + b, b + a):
        assert (both.documents, both.tokens, both.keys) == (5, whole.tokens, 70)
        for name in STATISTICS:
            np.testing.assert_allclose(both.grid(name), whole.grid(name), rtol=1e-13)
            np.testing.assert_array_equal(both.rows(name), whole.rows(name))
    assert (Merged() + Merged()).labels() == [] == Merged().numbers()["entropy"].tolist()


def test_what_a_text_does_not_know_is_not_counted():
    """With keys in bins nobody knows the mass on delimiters."""
    (a, _), (b, _) = made(64), made(64, key_bin=2)
    assert np.isnan(b.merged().grid("delimiter")).all()
    both = a.merged() + b.merged()
    np.testing.assert_array_equal(both.grid("delimiter"), a.grid("delimiter"))
    assert np.all(both.rows("delimiter") == 64) and np.all(both.rows("entropy") == 128)


def test_texts_of_other_heads_are_not_merged():
    some = texts((1, 3))[0].merged()
    with pytest.raises(InputError, match="heads 0, 1, 2, 3 of 4 in one text and 1, 3 of 4 in"):
        texts()[0].merged() + some
    assert some.labels() == ["L0H1", "L0H3"] and np.isnan(some.grid("peak")[0, [0, 2]]).all()
    assert some.numbers()["peak"].tolist() == some.grid("peak")[0, [1, 3]].tolist()


# ── what a file says of its statistics ───────────────────────────────────────────────────────


def test_statistics_are_written_and_read_back():
    note = statistics_note([regard.Distance(), HighestScore()])
    facts = json.loads(note)
    assert facts["max_score"]["joins"] == "max" and "joins" not in facts["entropy"]
    assert facts["duplicate"]["counts"] == "copied_rows" and facts["sharp"]["of"] == "head"
    assert "sink" not in facts  # not kept: it follows from what keys received
    kinds = statistics_in({"contents": CONTENTS, STATISTICS_NOTE: note})
    assert kinds["max_final"].joins == "max" and kinds["distance"].joins == "sum"
    assert kinds["distance"].unit == "tokens" and kinds["distance"].text
    assert kinds["entropy"].words == "mean entropy of a row, in nats"
    assert statistics_in({}) == {} and statistics_in({"statistics": '{"a": 3}'})["a"].words == "a"


@pytest.mark.parametrize(("version", "joins"), [(1, ["max", "sum"]), (2, ["sum", "sum"])])
def test_in_the_first_version_the_name_says_how_rows_join(version, joins):
    note = {STATISTICS_NOTE: '{"max_mine": {"words": "x"}, "mine": {"words": "y"}}'}
    kinds = statistics_in({"contents": f"attention/{version}"} | note)
    assert [kind.joins for kind in kinds.values()] == joins


STRANGE = {
    "lowest": {"words": "the smallest of something", "joins": "min"},
    "middle": {"words": "the median of something", "joins": "median", "unit": "furlongs"},
    "rare": {"words": "a mean over rare rows", "counts": "rare_rows"},
    "few": {"words": "a mean over rows nobody counted", "counts": "lost_rows"},
    "spectrum": {"words": "how a head rings", "of": "frequencies", "joins": "power"},
    "alone": {"words": "a number of the head", "of": "head"},
}
TOTALS = {"lowest": 7, "middle": 8, "rare": 60, "few": 5, "rare_rows": 6, "alone": 90}
JOINED = {"lowest": np.minimum, "middle": np.maximum, "rare": np.add, "few": np.add}
ROWS = {name: np.arange(30, dtype=np.float32) + 100 * n for n, name in enumerate(JOINED)}


def strange(prompts: int = 1, **lies: Any) -> Recording:
    """A recording of a version to come: statistics of which this one knows nothing."""
    plain, store = Memory(), Memory()
    for prompt in range(prompts):
        chunk = Chunk((0, 30), (0, 30), Causal())
        write_recording(plain, chunks=[chunk], prompt=prompt, heads=2, row_bin=4, seed=prompt)
        for name, join in JOINED.items():
            bins = [join.reduceat(ROWS[name] + head, np.arange(0, 30, 4)) for head in (0, 1)]
            store.add(f"P{prompt}/L0/{name}/0", np.stack(bins))
        store.add(f"P{prompt}/L0/spectrum", np.arange(30, dtype=np.float32).reshape(2, 5, 3))
    store.note(plain.metadata | {STATISTICS_NOTE: json.dumps(STRANGE)})
    for name, entry in plain.entries.items():
        facts, numbers = dict(entry.metadata), plain.words(name)
        if name.endswith("totals"):
            facts["names"] = json.dumps([*json.loads(facts["names"]), *TOTALS])
            numbers = np.concatenate([numbers, [[*TOTALS.values()]] * 2], axis=1)
        store.add(name, numbers, facts | lies.get(name.split("/")[2], {}))
    return Recording(store)


def test_what_is_not_known_is_shown_as_stored():
    stored = strange()["L0H1"].stored
    assert {name: str(stored[name]) for name in STRANGE if name in stored} == {
        "lowest": "smallest of 4 rows a bin", "middle": "median of 4 rows a bin",
        "rare": "mean of 4 rows a bin", "few": "mean of 4 rows a bin",
        "spectrum": "frequencies, as stored",
    }  # fmt: skip
    middle = np.maximum.reduceat(ROWS["middle"] + 1, np.arange(0, 30, 4))
    np.testing.assert_array_equal(stored["middle"].values, middle)
    np.testing.assert_allclose(stored["rare"].values[-1], ROWS["rare"][28:].mean() + 1)
    assert stored["spectrum"].values.shape == (5, 3) and stored["spectrum"].values[0, 0] == 15


def test_numbers_of_unknown_kinds_join_as_their_file_says_or_are_not_known():
    rec, both = strange(), strange(prompts=2).merged()
    kinds = rec.statistic_kinds
    assert kinds["middle"].words == "the median of something" and "spectrum" not in kinds
    numbers = {name: rec.grid(name)[0, 0] for name in STRANGE if name in kinds}
    wanted = {"lowest": 7, "middle": 8, "rare": 10, "few": np.nan, "alone": 3}
    assert numbers == pytest.approx(wanted, nan_ok=True)
    assert (both.grid("lowest")[0, 0], both.grid("rare")[0, 0]) == (7, 10)
    assert np.isnan(both.grid("middle")).all() and np.isfinite(both.grid("entropy")).all()


def test_a_piece_that_lies_about_its_rows():
    with pytest.raises(FileError, match="'3' tokens in 8 bins"):
        strange(entropy={"tokens": "3"})["L0H0"].stored["entropy"]


class Lowest(RowStatistic):
    """The weight of the key with a row's largest score, of which the smallest is kept."""

    name, words, joins = "lowest", "the smallest peak", "min"
    needs = ("total",)

    def define(self, matrix: Any, shape: Any) -> Any:
        return matrix.weights.amax(-1)

    def close(self, sums: Any) -> Any:
        return 1 / sums["total"]


def test_a_class_says_how_its_rows_join():
    layer = regard.nn.SelfAttention(8)
    with torch.no_grad(), regard.record(layer, statistics=[Lowest()]) as rec:
        layer(torch.randn(1, 60, 8))
    assert rec.grid("lowest")[0, 0] == rec["L0H0"].stored["lowest"].values.min()
    with pytest.raises(InputError, match=r"joins is 'mean'; give 'sum'"):
        type("Wrong", (Lowest,), {"name": "wrong", "joins": "mean"})
