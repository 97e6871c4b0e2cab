"""The tables of docs/scale.md are computed, and what the page shows runs on many ranks."""

from __future__ import annotations

import io
import runpy
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest

from bench import scale_page as page
from house.checks import blocks
from parallel.world import launched
from regard.bench.results import Result, append_csv
from regard.errors import FileError

ROOT = Path(__file__).resolve().parents[2]
ROW = Result(
    "2026-01-02", "parallel", "one rank", "cpu", 8192, 64, 2, True, "float32", 400.0, 390.0, 420.0,
    "one rank", 1.0, 5, 1, "a machine", "2.13", "0.1", 1, 0.05, None, "1 rank of one thread",
)  # fmt: skip
MARKED = (
    "a\n<!-- example: by hand -->\nold\n<!-- end -->\nb\n<!-- measured: x -->\n<!-- end -->\nc\n"
)


@pytest.fixture
def results(tmp_path):
    path = tmp_path / "results.csv"
    note = "2 ranks of one thread, efficiency 0.952, each sends 4194304 bytes a step"
    ring = replace(ROW, what="ring", median_ms=210.0, ratio=0.525, note=note)
    append_csv(path, [ROW, replace(ring, median_ms=999.0), ring])
    return path


def test_the_page_is_up_to_date():
    assert page.main(["--check"]) == 0, "run: python -m bench.scale_page"


def test_measured_rows_become_a_table(results):
    lines = page.measured(page.rows_of(results)).splitlines()
    assert lines[0].startswith("a machine, float32, causal, 2 heads of 64")
    assert lines[-2] == "| 8,192 | one rank | 400 (390–420) | 0 | 1 | 1 |"
    assert lines[-1].startswith("| 8,192 | ring | 210 (390–420) | 4,194,304 | 0.952 | 0.9")
    assert "999" not in "".join(lines)  # the last row of a size counts


def test_the_model_foresees_copying_and_merging(results):
    alone, _, ring = page.rows_of(results)
    copying, merging = 4194304 / page.CORE_LINK, 28 * 2 * 4096 * 64 / page.CORE_MEMORY
    assert page._foreseen(ring, alone) == pytest.approx(0.2 / (0.2 + copying + merging))
    trade = 4096 * (3 * 128 * 4 + 2 * (64 * 4 + 4)) / 2 / page.CORE_LINK
    traded = page._foreseen({**ring, "what": "ulysses"}, alone)
    assert traded == pytest.approx(0.2 / (0.2 + trade))


def test_without_rows_it_says_so():
    assert "no rows of the suite `parallel`" in page.measured([])


def test_the_example_takes_a_measured_speed_where_there_is_one(tmp_path):
    path = tmp_path / "results.csv"
    gpu = replace(ROW, suite="gpu forward", what="statistics", tokens=16384, dim=128, causal=False)
    append_csv(path, [replace(gpu, tflops=100.0), replace(gpu, tflops=400.0, machine="a GPU")])
    append_csv(path, [replace(gpu, tflops=1.0, causal=True)])
    assumed, found = page.example([]), page.example(page.rows_of(path))
    assert "500 TFLOP/s (assumed)" in assumed and "5,000 tokens a shard" in assumed
    assert "400 TFLOP/s (measured on a GPU: row *gpu forward, statistics" in found
    assert "4,000 tokens a shard" in found


def test_the_example_by_hand():
    lines = {
        cells[1]: cells[2:5]
        for line in page.example([]).splitlines()
        if (cells := [cell.strip() for cell in line.split("|")]) and len(cells) == 6
    }
    assert lines["tokens in a shard"] == ["16,384", "1,049", "8,389"]
    assert lines["bytes sent a ring step"] == ["64.0 MiB", "4.1 MiB", "4.1 MiB"]
    assert lines["so messages are"] == ["hidden", "4.8 × the arithmetic", "hidden"]


def test_parts_are_replaced_between_their_markers():
    found = page.filled(MARKED, {"example": "one", "measured": "two"})
    assert "old" not in found and found.startswith("a\n") and found.endswith("\nc\n")
    assert found.index("one") < found.index("b\n") < found.index("two")
    assert page.filled(found, {"example": "one", "measured": "two"}) == found
    with pytest.raises(FileError, match="no place for the part 'third'"):
        page.filled(MARKED, {"third": ""})


def test_writing_and_comparing(results, tmp_path, capsys):
    path = tmp_path / "page.md"
    path.write_text(MARKED)
    assert page.main(["--check"], path, results) == 1 and "differs" in capsys.readouterr().out
    assert path.read_text() == MARKED
    assert page.main([], path, results) == 0 and page.main(["--check"], path, results) == 0
    path.write_text("nothing")
    assert page.main([], path, results) == FileError.exit_code
    assert "no place" in capsys.readouterr().err


TOLD = """
total = loss.detach().clone()
dist.all_reduce(total, group=mesh["context"].get_group())
if dist.get_rank() == 0:
    print("loss", f"{total:.4f}")
"""


def _printed_by(program: Path) -> list[str]:
    """The lines that a program prints in this rank."""
    out = io.StringIO()
    with redirect_stdout(out):
        runpy.run_path(str(program), run_name="__main__")
    return out.getvalue().splitlines()


def test_the_programs_of_the_page_run_on_four_ranks(tmp_path):
    """Their own assertions compare with one rank; what they train is what one rank trains."""
    text = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    body = "\n".join(block.body for block in blocks.blocks(text) if block.language == "python")
    before, end, after = body.partition("\ndist.barrier()\n")
    assert end
    program = tmp_path / "page.py"
    program.write_text(before + TOLD + end + after)
    losses = []
    for size in (1, 4):
        first, *others = launched(size, _printed_by, program)
        losses += [line for line in first if line.startswith("loss")]
        assert not any(others)
    assert len(losses) == 2 and losses[0] == losses[1]
