"""The picture of time and memory is drawn from rows of the results, the newest of each size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from regard.bench.results import Result, append_csv
from regard.errors import FileError

ROW = Result(
    "2026-01-02", "gpu length", "cudnn", "torch", 1024, 128, 8, True, "bfloat16", 0.02, 0.02, 0.03,
    "cudnn", 1.0, 7, 2, "a GPU", "2.11", "0.1", 1, 90.0, 0.0, "",
)  # fmt: skip


@pytest.fixture
def picture(tool):
    return tool("length_picture")


@pytest.fixture
def results(tmp_path):
    path = tmp_path / "results.csv"
    for n in (1024, 2048, 4096):
        mine = replace(ROW, what="everything", tokens=n, median_ms=n / 1e4, extra_mib=n / 100)
        last = n == 4096
        note = "eager with weights cannot run: its weights alone take 2 GiB" if last else ""
        rows = [replace(ROW, tokens=n), replace(mine, note=note)]
        eager = replace(ROW, what="eager with weights", tokens=n, median_ms=n / 1e3, extra_mib=n)
        append_csv(path, [*rows, *([] if last else [eager])])
    append_csv(path, [replace(ROW, suite="gpu forward", median_ms=99.0)])
    return path


def test_the_newest_row_of_a_size_counts(picture, results):
    append_csv(results, [replace(ROW, median_ms=0.5)])
    found = picture.read(results)
    assert [point.tokens for point in found.points["everything"]] == [1024, 2048, 4096]
    assert [point.ms for point in found.points["cudnn"]] == [0.5, 0.02, 0.02]
    assert len(found.points["eager with weights"]) == 2
    assert found.end == "eager with weights cannot run: its weights alone take 2 GiB"
    assert found.title == "a GPU, bfloat16, 8 heads of 128, causal"


def test_a_picture_is_written(picture, results, tmp_path):
    path = tmp_path / "length.png"
    assert picture.main([str(results), str(path)]) == 0
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_without_rows_it_says_how_to_get_them(picture, tmp_path, capsys):
    path = tmp_path / "results.csv"
    append_csv(path, [replace(ROW, suite="cpu")])
    with pytest.raises(FileError, match="python -m bench gpu --only length"):
        picture.read(path)
    assert picture.main([str(path), str(tmp_path / "no.png")]) == FileError.exit_code
    assert "has no rows of the suite 'gpu length'" in capsys.readouterr().err
    assert not (tmp_path / "no.png").exists()
