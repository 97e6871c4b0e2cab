"""The notebooks of the documentation run, and what they keep is small."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from tools.tutorials import FOLDER, executed

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
assert len(NOTEBOOKS) == 5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_keeps_small_outputs(path: Path) -> None:
    executed(path)  # raises where a cell fails
    notebook = nbformat.read(path, as_version=4)
    outputs = [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]
    assert outputs and not any(out.output_type == "error" for out in outputs)
    assert path.stat().st_size < 50_000
    assert notebook.cells[0].source.startswith("# ")


def test_a_cell_that_fails_is_an_error(tmp_path: Path) -> None:
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])
    nbformat.write(made, tmp_path / "a.ipynb")
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        executed(tmp_path / "a.ipynb")
