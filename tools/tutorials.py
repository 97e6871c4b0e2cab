"""Runs the notebooks of docs/tutorials and keeps their outputs; what changes from run to run in a
notebook's metadata is left out.

    python tools/tutorials.py [NAME …]
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "tutorials"
_SECONDS = 600  # of one cell
_STYLE = re.compile("\x1b\\[[0-9;]*m")  # colours of a terminal, which a page does not have


def executed(path: Path) -> Any:
    """The notebook with fresh outputs, run in an empty folder; CellExecutionError if it fails."""
    notebook = nbformat.read(path, as_version=4)
    beside = str(Path(sys.executable).parent)  # the commands of this environment, `regard` too
    os.environ["PATH"] = os.pathsep.join([beside, os.environ.get("PATH", "")])
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook, timeout=_SECONDS, resources={"metadata": {"path": folder}}
        )
        client.execute()
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
            for one in cell.outputs:
                if "text" in one:
                    one["text"] = _STYLE.sub("", one["text"])
    notebook.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    return notebook


def main(names: list[str]) -> None:
    """The notebooks by name, or all of them."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or path.stem in names:
            print(path.stem, file=sys.stderr)
            nbformat.write(executed(path), path)


if __name__ == "__main__":
    main(sys.argv[1:])
