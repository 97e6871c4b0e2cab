"""The programs of docs/scale.md on as many ranks as they are for."""

from __future__ import annotations

import io
import runpy
from contextlib import redirect_stdout
from pathlib import Path

from house.checks import blocks
from parallel.world import launched

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scale.md"
LOSS = """
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
    text = PAGE.read_text(encoding="utf-8")
    body = "\n".join(block.body for block in blocks.blocks(text) if block.language == "python")
    before, end, after = body.partition("\ndist.barrier()\n")
    assert end
    program = tmp_path / "page.py"
    program.write_text(before + LOSS + end + after)
    losses = []
    for size in (1, 4):
        first, *others = launched(size, _printed_by, program)
        losses += [line for line in first if line.startswith("loss")]
        assert not any(others)
    assert len(losses) == 2 and losses[0] == losses[1]
