"""The command, run in this process as a shell would, and recordings to run it on."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.axes import Axis, Grid
from regard.cli import main
from regard.recording import Writer
from support.recordings import (
    HOSTILE,
    Chunk,
    causal,
    on_disk,
    write_prompt,
    write_recording,
    write_sighted,
)

WORDS = "the sea rises twice a day and falls again because moon pulls on water .".split()


class Stream(io.TextIOWrapper):
    """What the command writes, to a terminal or to a pipe."""

    def __init__(self, encoding: str, is_terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding, newline="\n", write_through=True)
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        """As the class says."""
        return self.is_terminal

    def text(self) -> str:
        """All that was written."""
        return self.buffer.getvalue().decode(self.encoding)


@pytest.fixture
def shell(monkeypatch) -> Callable[..., tuple[int, str, str]]:
    """Run the entry point with these words: status, stdout, stderr."""

    def run(
        *words: object, encoding: str = "utf-8", terminal: bool = False, program: str = "regard"
    ) -> Any:
        out, err = Stream(encoding, terminal), Stream(encoding, terminal)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", [program, *map(str, words)])
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            with pytest.raises(SystemExit) as stopped:
                main()
        return stopped.value.code or 0, out.text(), err.text()

    return run


@pytest.fixture
def refused(shell, tmp_path) -> Callable[..., str]:
    """The one line that wrong words end with: nothing is printed, written or replaced."""

    def run(*words: object, status: int = 2) -> str:
        before = contents(tmp_path)
        stopped, out, err = shell(*words)
        assert (stopped, out) == (status, ""), err
        (line,) = [line for line in err.splitlines() if line.startswith("regard: ")]
        assert "Traceback" not in err and err.endswith(f"{line}\n")
        assert contents(tmp_path) == before
        return line

    return run


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file below a folder by its size and time, without what Python compiles."""
    paths = (path for path in folder.rglob("*") if "__pycache__" not in path.parts)
    stats = {path: path.lstat() for path in paths}
    return {str(path): (one.st_size, one.st_mtime_ns) for path, one in stats.items()}


@pytest.fixture(scope="session")
def recorded(tmp_path_factory) -> Path:
    """A recording of two texts and two layers; of the second layer only summaries were kept."""
    return on_disk(tmp_path_factory.mktemp("recorded") / "run.regard", prompts=2)


@pytest.fixture
def file(recorded, tmp_path, monkeypatch) -> Path:
    """A copy of it in the folder of the test, where the command is typed."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copy(recorded, tmp_path / "run.regard"))


@pytest.fixture(scope="session")
def hostile(tmp_path_factory) -> Path:
    """A recording whose tokens are commands to a terminal."""
    return on_disk(tmp_path_factory.mktemp("hostile") / "hostile.regard", HOSTILE)


PATCHES = Axis((Grid(4, 5, prefix=1, names=("class",)),))


@pytest.fixture(scope="session")
def sighted(tmp_path_factory) -> Path:
    """A recording with a picture of 4 × 5 patches."""
    path = tmp_path_factory.mktemp("sighted") / "seen.regard"
    with Writer(path) as writer:
        write_sighted(writer, PATCHES)
    return path


@pytest.fixture
def seen(sighted, tmp_path) -> Path:
    """A copy of it in the folder of the test."""
    return Path(shutil.copy(sighted, tmp_path / "seen.regard"))


@pytest.fixture
def stacks(tmp_path) -> Path:
    """A recording of an encoder over 12 tokens and of a cross-attention of 7 over them."""
    with Writer(tmp_path / "stacks.regard") as writer:
        write_recording(writer, chunks=causal(12), stack="encoder")
        across = [Chunk((0, 7), (0, 12))]
        write_prompt(writer, across, stack="cross", kind="cross", tokens=False, note=False)
    return tmp_path / "stacks.regard"


@pytest.fixture(scope="session")
def model(tmp_path_factory) -> Path:
    """A folder with a tiny Llama and a tokenizer of a few words."""
    from recorder.texts import save_model

    return save_model(tmp_path_factory.mktemp("tiny"))
