"""What was recorded once can always be read: the bytes of version 1 are written the same, and every
version of the contents gives the same answers.

To write the golden files again (only together with a new version): `record` of conftest.py, and

    PYTHONPATH=tests python -m recording.golden.make tests/recording/golden
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from recording.conftest import ARRAYS, record
from recording.golden.make import unpack
from recording.spec import read_frames, tail
from regard.errors import FileError
from regard.recording import Head, PromptView, Recording, check
from regard.recording.measures import COUNTS, KINDS, ROW_NUMBERS
from regard.recording.merged import merge_prompts, read_merged
from regard.recording.schema import CONTENTS, READS, TENSORS
from regard.study import make_report

HERE = Path(__file__).parent
BYTES, ATTENTION = HERE / "golden-v1.regard", HERE / "golden-attention-1.regard"
KNOWN = json.loads(ATTENTION.with_suffix(".json").read_text(encoding="utf-8"))


# ── bytes ────────────────────────────────────────────────────────────────────────────────────


def test_the_writer_still_writes_these_bytes_as_specified(tmp_path):
    raw = BYTES.read_bytes()
    assert record(tmp_path / "new.regard").read_bytes() == raw
    *before, last = read_frames(raw)
    assert [one.kind for one in before] == [b"META", *[b"TENS"] * 6, b"META"]
    assert before[1].document == {
        "__metadata__": {"layer": "0"},
        "L0/lse": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    }
    assert before[1].data == ARRAYS["L0/lse"].tobytes()
    listed = [*(one.header for one in before), *(one.head for one in before), tail(last.offset)]
    assert last.kind == b"INDX" and last.data == b"".join(listed)
    assert {name: last.document[name]["shape"] for name in last.document} == {
        "frames": [8, 64], "heads": [sum(len(one.head) for one in before)], "tail": [64],
    }  # fmt: skip


def test_the_pages_ship_with_the_package_and_name_every_tensor_and_word():
    pages = files("regard.recording")
    page = pages.joinpath("SPEC.md").read_text(encoding="utf-8")
    assert page.startswith("# The recording file, version 1") and len(page.splitlines()) < 70
    page = pages.joinpath("CONTENTS.md").read_text(encoding="utf-8")
    assert CONTENTS in page.splitlines()[0]
    words = {kind.counts for kind in KINDS.values() if kind.counts not in COUNTS}
    texts = ("words", "unit", "of", "joins", "counts", "statistic")
    for name in (*ROW_NUMBERS, *TENSORS, *words, *texts):
        assert f"`{name}`" in page, name


# ── contents `attention/1`, with these numbers ───────────────────────────────────────────────


def test_numbers_of_the_first_contents():
    """Twelve tokens in two chunks, two heads that share their keys, bf16."""
    report = check(ATTENTION)
    assert report.is_whole and report.is_closed and report.size < 20_000
    with regard.open(ATTENTION) as rec:
        assert rec.labels() == ["L0H0", "L0H1"] and rec.stacks == {"": (1, 2)}
        prompt = rec.prompts[0]
        assert (prompt.title, prompt.generated, prompt.finished) == ("golden", 3, True)
        assert prompt.next == ((" w3", 0.5), (" w1", 0.25))
        assert prompt.tokens == KNOWN["tokens"] and prompt.ids.tolist() == KNOWN["ids"]
        assert rec["L0H1"].place.segments[1].rows == (9, 12) and rec["L0H1"].exact
        for label, numbers in KNOWN["heads"].items():
            head, dense = rec[label], rec[label].dense()
            answers = {
                "last": head[11], "lse": head.lse, "entropy": head.entropy(),
                "sink": head.sink_mass(), "distance": head.distance(), "keys": head.peak().keys,
                "received": head.received(), "pooled": head.pooled(4).reshape(-1),
            }  # fmt: skip
            for name, wanted in numbers.items():
                np.testing.assert_allclose(answers[name], wanted, atol=2e-5, err_msg=name)
            np.testing.assert_allclose(dense.sum(-1) + head.sink_mass(), 1, atol=1e-5)
            np.testing.assert_allclose(dense.sum(0), head.received(), atol=1e-5)
            np.testing.assert_allclose(dense.max(-1), head.stored["peak"].values, atol=1e-6)
        for name, wanted in KNOWN["statistics"].items():
            np.testing.assert_allclose(rec.grid(name)[0], wanted, atol=2e-5, err_msg=name)
        assert make_report(rec).told == []


# ── every version ────────────────────────────────────────────────────────────────────────────

FILES = ("fine.regard", "binned.regard", "cut.regard", "ranks", "shards")
TOLERANCE = 2**-22  # CONTENTS.md: what versions may differ by, relative to the number


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
        for name, answer in (*_of_prompt(prompt), *(a for head in prompt for a in _of_head(head))):
            yield f"prompt {prompt.number} {name}", answer


def _of_prompt(prompt: PromptView) -> Iterator[tuple[str, Any]]:
    yield "note", prompt.note
    yield "ids", prompt.ids
    yield "places", {name: json.loads(place.to_json()) for name, place in prompt.places.items()}
    for name in prompt.statistic_kinds:
        yield name, prompt.grid(name)


def _of_head(head: Head) -> Iterator[tuple[str, Any]]:
    yield f"{head.label} measures", {name: str(stored) for name, stored in head.stored.items()}
    for name, stored in head.stored.items():
        yield f"{head.label} stored {name}", stored.values
        yield f"{head.label} edges {name}", stored.edges
    for cell in (16, 32, 64, 1024):
        yield f"{head.label} pooled {cell}", head.pooled(cell)
    if head.exact:
        yield f"{head.label} cells", head.dense()
        yield f"{head.label} entropy", head.entropy()
        yield f"{head.label} top", head.top(3).keys
        yield f"{head.label} offsets", head.offsets()


def expect_same(first: Recording, second: Recording) -> None:
    """Within what CONTENTS.md allows."""
    pairs = [*zip(answers_of(first), answers_of(second), strict=True)]
    assert len(pairs) > 100
    for (name, answer), (again, other) in pairs:
        assert name == again
        if isinstance(answer, np.ndarray):
            assert answer.dtype == other.dtype, name
            np.testing.assert_allclose(answer, other, rtol=TOLERANCE, atol=0, err_msg=name)
        else:
            assert answer == other, name


@pytest.mark.parametrize("version", READS[1:])
@pytest.mark.parametrize("file", FILES)
def test_every_version_gives_the_same_answers(golden, file, version):
    assert f"attention/{READS[-1]}" == CONTENTS
    with regard.open(golden[1] / file) as first, regard.open(golden[version] / file) as second:
        said = [rec.store.metadata["contents"] for rec in (first, second)]
        assert said == ["attention/1", f"attention/{version}"]
        expect_same(first, second)


@pytest.mark.parametrize("version", READS)
def test_they_are_as_whole_as_they_should_be_and_keep_their_sums(golden, version):
    assert check(golden[version] / "fine.regard").is_whole
    assert check(golden[version] / "binned.regard").is_whole
    cut = check(golden[version] / "cut.regard")
    assert not cut.is_closed and len(cut.damage) == 1
    for file in (golden[version] / "shards").iterdir():
        with regard.open(file) as rec:
            kept, made = read_merged(rec.store), merge_prompts(rec.prompts)
            assert "max_final" in kept.statistic_kinds
            for name in kept.statistic_kinds:
                np.testing.assert_array_equal(kept.grid(name), made.grid(name), err_msg=name)


def test_whole_bins_and_maps_of_two_versions_have_the_same_bits(golden):
    names = (golden[version] / "binned.regard" for version in (1, 2))
    with regard.open(next(names)) as first, regard.open(next(names)) as second:
        for head, other in zip(first, second, strict=True):
            for name, stored in head.stored.items():
                ragged = -1 if stored.measure.of in ("rows", "keys") else None
                bits = other.stored[name].values[:ragged]
                np.testing.assert_array_equal(stored.values[:ragged], bits, err_msg=name)


def test_the_second_version_holds_sums(golden):
    with regard.open(golden[2] / "binned.regard") as rec:
        stored, store = rec["L0H1"].stored["entropy"], rec.store
        bins = store.array("P0/L0/entropy/0")[1]
        np.testing.assert_allclose(bins, stored.values * np.diff(stored.edges), rtol=TOLERANCE)
        cells, received = (store.array(f"P0/L0/{what}")[1] for what in ("pooled", "received"))
        assert cells.sum() == pytest.approx(received.sum(), rel=1e-5)


def test_the_documents_of_a_batch_answer_alone(golden):
    with regard.open(golden[READS[-1]] / "batch.regard") as rec:
        assert [len(prompt.ids) for prompt in rec.prompts] == [9, 5, 1]
        for head in (head for prompt in rec.prompts for head in prompt):
            cells, stored = head.dense(), head.stored
            for name, wanted in (
                ("first", cells[:, 0]), ("received", cells.sum(0)), ("entropy", head.entropy()),
            ):  # fmt: skip
                np.testing.assert_allclose(stored[name].values, wanted, rtol=1e-5)
            np.testing.assert_allclose(cells.sum(-1), 1, rtol=1e-5)


def test_a_folder_of_documents_may_be_of_two_versions_and_ranks_may_not(golden, tmp_path):
    """Documents are gone on with by the next version."""
    for number, version in enumerate((1, READS[-1])):
        for kind, folder in (("shard-0000", tmp_path / "shards"), ("rank-000", tmp_path / "ranks")):
            folder.mkdir(exist_ok=True)
            name = f"{kind}{number}.regard"
            (folder / name).write_bytes((golden[version] / folder.name / name).read_bytes())
    with regard.open(tmp_path / "shards") as both, regard.open(golden[1] / "shards") as first:
        expect_same(first, both)
    with pytest.raises(FileError, match="the ranks do not agree about contents"):
        regard.open(tmp_path / "ranks")
