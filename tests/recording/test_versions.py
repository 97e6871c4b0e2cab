"""Contents of every version that can be read give the same answers, and what a file holds that this
version does not know is shown as stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from recording.golden.make import HighestScore, unpack
from regard.errors import FileError
from regard.mask import Causal
from regard.recording import Head, Memory, PromptView, Recording, check
from regard.recording.merged import merge_prompts, read_merged
from regard.recording.schema import (
    CONTENTS,
    READS,
    STATISTICS_NOTE,
    Place,
    statistics_in,
    statistics_note,
)
from regard.summary import RowStatistic
from support.recordings import Chunk, write_recording

FILES = ("fine.regard", "binned.regard", "cut.regard", "ranks", "shards")
# CONTENTS.md: what versions may differ by, relative to the number
TOLERANCE = 2**-22


@pytest.fixture(scope="module")
def golden(tmp_path_factory) -> dict[int, Path]:
    """The recordings of each version."""
    folder = tmp_path_factory.mktemp("golden")
    return {version: unpack(f"attention-{version}", folder) for version in READS}


def answers_of(rec: Recording) -> Iterator[tuple[str, Any]]:
    """Everything that may be asked, by name."""
    yield "model", rec.model
    yield "statistics", dict(rec.statistic_kinds)
    yield "labels", rec.labels()
    merged = rec.merged()
    for name in rec.statistic_kinds:
        yield f"merged {name}", merged.grid(name)
        yield f"counted {name}", merged.counted(name)
    for prompt in rec.prompts:
        yield from _of_prompt(prompt)


def _of_prompt(prompt: PromptView) -> Iterator[tuple[str, Any]]:
    where = f"prompt {prompt.number}"
    yield f"{where} note", prompt.note
    yield f"{where} ids", prompt.ids
    yield f"{where} places", {name: _plain(place) for name, place in prompt.places.items()}
    for name in prompt.statistic_kinds:
        yield f"{where} {name}", prompt.grid(name)
    for head in prompt:
        for name, value in _of_head(head):
            yield f"{where} {head.label} {name}", value


def _plain(place: Place) -> dict[str, Any]:
    return json.loads(place.to_json())


def _of_head(head: Head) -> Iterator[tuple[str, Any]]:
    yield "measures", {name: str(stored) for name, stored in head.stored.items()}
    for name, stored in head.stored.items():
        yield f"stored {name}", stored.values
        yield f"edges {name}", stored.edges
    for cell in (16, 32, 64, 1024):
        yield f"pooled {cell}", head.pooled(cell)
    if head.exact:
        yield "cells", head.dense()
        yield "entropy", head.entropy()
        yield "top", head.top(3).keys
        yield "offsets", head.offsets()


@pytest.mark.parametrize("version", READS[1:])
@pytest.mark.parametrize("file", FILES)
def test_every_version_gives_the_same_answers(golden, file: str, version: int) -> None:
    with regard.open(golden[1] / file) as first, regard.open(golden[version] / file) as second:
        assert [rec.store.metadata["contents"] for rec in (first, second)] == [
            "attention/1", f"attention/{version}",
        ]  # fmt: skip
        assert f"attention/{READS[-1]}" == CONTENTS
        told = zip(answers_of(first), answers_of(second), strict=True)
        count = 0
        for (name, one), (again, other) in told:
            assert name == again
            _expect_same(one, other, f"{file}: {name}")
            count += 1
        assert count > 100


def _expect_same(one: Any, other: Any, what: str) -> None:
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, what
        np.testing.assert_allclose(one, other, rtol=TOLERANCE, atol=0, err_msg=what)
    else:
        assert one == other, what


def test_whole_bins_and_maps_of_one_file_have_the_same_bits(golden) -> None:
    with (
        regard.open(golden[1] / "binned.regard") as first,
        regard.open(golden[2] / "binned.regard") as second,
    ):
        for one, other in zip(first, second, strict=True):
            for name in one.stored:
                a, b = one.stored[name].values, other.stored[name].values
                ragged = -1 if one.stored[name].measure.of in ("rows", "keys") else None
                np.testing.assert_array_equal(a[:ragged], b[:ragged], err_msg=name)


def test_the_documents_of_a_batch_answer_alike_alone(golden) -> None:
    with regard.open(golden[READS[-1]] / "batch.regard") as rec:
        assert [len(prompt.ids) for prompt in rec.prompts] == [9, 5, 1]
        for prompt in rec.prompts:
            for head in prompt:
                cells = head.dense()
                np.testing.assert_allclose(cells.sum(-1), 1, rtol=1e-5)
                stored = head.stored
                np.testing.assert_allclose(stored["first"].values, cells[:, 0], rtol=1e-5)
                np.testing.assert_allclose(stored["received"].values, cells.sum(0), rtol=1e-5)
                np.testing.assert_allclose(stored["entropy"].values, head.entropy(), rtol=1e-5)
                assert head.pooled(1024).shape == (1, 1)


def test_the_second_version_holds_sums(golden) -> None:
    with regard.open(golden[2] / "binned.regard") as rec:
        head, store = rec["L0H1"], rec.store
        bins = store.array("P0/L0/entropy/0")[1]
        counts = np.diff(head.stored["entropy"].edges)
        np.testing.assert_allclose(bins, head.stored["entropy"].values * counts, rtol=TOLERANCE)
        assert bins.sum() == pytest.approx(rec.prompts[0].held("L0").totals["entropy"][1], rel=1e-6)
        cells = store.array("P0/L0/pooled")[1]
        assert cells.sum() == pytest.approx(store.array("P0/L0/received")[1].sum(), rel=1e-5)


@pytest.mark.parametrize("version", READS)
def test_they_are_small_and_as_whole_as_they_should_be(golden, version: int) -> None:
    for file in ("fine.regard", "binned.regard"):
        assert check(golden[version] / file).is_whole
    cut = check(golden[version] / "cut.regard")
    assert not cut.is_closed and len(cut.damage) == 1
    assert Path(__file__).with_name("golden").joinpath(
        f"attention-{version}.tar.xz"
    ).stat().st_size < 150_000  # fmt: skip


def test_kept_sums_of_documents_are_those_of_the_documents(golden) -> None:
    for version in READS:
        for file in sorted((golden[version] / "shards").iterdir()):
            with regard.open(file) as rec:
                kept, made = read_merged(rec.store), merge_prompts(rec.prompts)
                assert kept is not None and "max_final" in kept.statistic_kinds
                for name in kept.statistic_kinds:
                    np.testing.assert_array_equal(kept.grid(name), made.grid(name), err_msg=name)


def test_a_folder_of_documents_may_be_of_two_versions(golden, tmp_path) -> None:
    for number, version in enumerate((1, READS[-1])):  # gone on with by the next version
        name = f"shard-0000{number}.regard"
        (tmp_path / name).write_bytes((golden[version] / "shards" / name).read_bytes())
    with regard.open(tmp_path) as both, regard.open(golden[1] / "shards") as first:
        for (name, one), (_, other) in zip(answers_of(first), answers_of(both), strict=True):
            _expect_same(one, other, name)


def test_ranks_of_two_versions_are_refused(golden, tmp_path) -> None:
    for number, version in enumerate(READS[-2:]):
        name = f"rank-000{number}.regard"
        (tmp_path / name).write_bytes((golden[version] / "ranks" / name).read_bytes())
    with pytest.raises(FileError, match="the ranks do not agree about contents"):
        regard.open(tmp_path)


# ── what a file says of its statistics ───────────────────────────────────────────────────────


def test_statistics_are_written_and_read_back() -> None:
    note = statistics_note([regard.Distance(), HighestScore()])
    said = json.loads(note)
    assert said["max_score"]["joins"] == "max" and "joins" not in said["entropy"]
    assert said["duplicate"]["counts"] == "copied_rows" and said["sharp"]["of"] == "head"
    assert "sink" not in said  # not kept: it follows from what keys received
    found = statistics_in({"contents": CONTENTS, STATISTICS_NOTE: note})
    assert found["max_final"].joins == "max" and found["distance"].joins == "sum"
    assert found["distance"].unit == "tokens" and found["distance"].text
    assert found["entropy"].words == "mean entropy of a row, in nats"


def test_in_the_first_version_the_name_says_how_rows_join() -> None:
    note = {STATISTICS_NOTE: '{"max_mine": {"words": "x"}, "mine": {"words": "y"}}'}
    first = statistics_in({"contents": "attention/1"} | note)
    assert [one.joins for one in first.values()] == ["max", "sum"]
    second = statistics_in({"contents": "attention/2"} | note)
    assert [one.joins for one in second.values()] == ["sum", "sum"]


@pytest.mark.parametrize(
    "facts", [{"joins": 3}, {"counts": []}, {"of": {}}, {"unit": 1}, {"words": None}]
)
def test_a_statistic_of_other_types_is_refused(facts: dict[str, Any]) -> None:
    with pytest.raises(FileError, match="a statistic 'mine' that cannot be"):
        statistics_in({"contents": CONTENTS, STATISTICS_NOTE: json.dumps({"mine": facts})})


STRANGE = {
    "lowest": {"words": "the smallest of something", "joins": "min"},
    "middle": {"words": "the median of something", "joins": "median", "unit": "furlongs"},
    "rare": {"words": "a mean over rare rows", "counts": "rare_rows"},
    "few": {"words": "a mean over rows nobody counted", "counts": "lost_rows"},
    "spectrum": {"words": "how a head rings", "of": "frequencies", "joins": "power"},
    "alone": {"words": "a number of the head", "of": "head"},
}


def strange(prompts: int = 1) -> tuple[Memory, dict[str, np.ndarray]]:
    """A recording of a version to come: statistics of which this one knows nothing."""
    store = Memory()
    rows = {name: np.arange(30, dtype=np.float32) + 100 * n for n, name in enumerate(STRANGE)}
    bins = {
        "lowest": np.minimum, "middle": np.maximum, "rare": np.add, "few": np.add,
    }  # fmt: skip
    store.note({STATISTICS_NOTE: json.dumps(STRANGE)})
    for prompt in range(prompts):
        chunk = Chunk((0, 30), (0, 30), Causal())
        write_recording(store, chunks=[chunk], prompt=prompt, heads=2, row_bin=4, seed=prompt)
        label = f"P{prompt}/L0"
        for name, way in bins.items():
            made = np.stack([way.reduceat(rows[name] + h, np.arange(0, 30, 4)) for h in (0, 1)])
            store.add(f"{label}/{name}/0", made)
        store.add(f"{label}/spectrum", np.arange(2 * 5 * 3, dtype=np.float32).reshape(2, 5, 3))
        more = {"lowest": 7, "middle": 8, "rare": 60, "few": 5, "rare_rows": 6, "alone": 90}
        _add_totals(store, f"{label}/totals", more)
    return store, rows


def _add_totals(store: Memory, name: str, more: dict[str, float]) -> None:
    entry, numbers = store.entries.pop(name), store._words.pop(name)
    names = [*json.loads(entry.metadata["names"]), *more]
    added = np.repeat([list(more.values())], 2, axis=0)
    store.add(name, np.concatenate([numbers, added], axis=1), {"names": json.dumps(names)})


def test_what_is_not_known_is_shown_as_stored() -> None:
    store, rows = strange()
    rec = Recording(store)
    head = rec["L0H1"]
    measures = {name: str(head.stored[name]) for name in STRANGE if name in head.stored}
    assert measures == {
        "lowest": "smallest of 4 rows a bin", "middle": "median of 4 rows a bin",
        "rare": "mean of 4 rows a bin", "few": "mean of 4 rows a bin",
        "spectrum": "frequencies, as stored",
    }  # fmt: skip
    bins = np.arange(0, 30, 4)
    np.testing.assert_array_equal(
        head.stored["middle"].values, np.maximum.reduceat(rows["middle"] + 1, bins)
    )
    np.testing.assert_allclose(head.stored["rare"].values[-1], rows["rare"][28:].mean() + 1)
    assert head.stored["spectrum"].values.shape == (5, 3)
    assert head.stored["spectrum"].values[0, 0] == 15


def test_numbers_of_heads_of_unknown_kinds() -> None:
    rec = Recording(strange()[0])
    kinds = rec.statistic_kinds
    assert kinds["middle"].words == "the median of something" and "spectrum" not in kinds
    numbers = {name: rec.grid(name)[0, 0] for name in STRANGE if name in kinds}
    rows = rec.prompts[0].held("L0").totals["rows"][0]
    assert numbers["lowest"] == 7 and numbers["middle"] == 8 and numbers["rare"] == 10
    assert np.isnan(numbers["few"]) and numbers["alone"] == pytest.approx(90 / rows)


def test_over_texts_what_joins_in_unknown_ways_is_not_known() -> None:
    merged = Recording(strange(prompts=2)[0]).merged()
    assert merged.grid("lowest")[0, 0] == 7 and merged.grid("rare")[0, 0] == 10
    assert np.isnan(merged.grid("middle")).all() and np.isfinite(merged.grid("entropy")).all()


def test_a_piece_that_lies_about_its_rows() -> None:
    store, _ = strange()
    numbers = store._words.pop("P0/L0/entropy/0")
    del store.entries["P0/L0/entropy/0"]
    store.add("P0/L0/entropy/0", numbers, {"tokens": "3"})
    with pytest.raises(FileError, match="'3' tokens in 8 bins"):
        Recording(store)["L0H0"].stored["entropy"]


def test_a_class_says_how_its_rows_join() -> None:
    class Lowest(RowStatistic):
        name, words, joins = "lowest", "the smallest peak", "min"
        needs = ("total",)

        def define(self, matrix: Any, shape: Any) -> Any:
            return matrix.weights.amax(-1)

        def close(self, sums: Any) -> Any:
            return 1 / sums["total"]  # weight of the key with the row's largest score

    import torch

    from recording.golden.make import Model, _causal, _ids, _plan

    model = Model(_causal)
    with torch.no_grad(), regard.record(model, statistics=[Lowest()]) as made:
        made.expect(60, _plan(1, 4))
        model(_ids(60))
    peaks = made["L0H0"].stored["lowest"]
    assert str(peaks) == "smallest of 4 rows a bin"
    assert made.grid("lowest")[0, 0] == peaks.values.min()
    with pytest.raises(regard.errors.InputError, match=r"joins is 'mean'; give 'sum'"):
        type("Wrong", (Lowest,), {"name": "wrong", "joins": "mean"})
