"""What a recording is written beside replaces an older file only when it is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from recorder.models import Stack, tiny, tokens
from regard.errors import FileError, InputError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.regard"
    path.write_text("mine")
    with pytest.raises(FileError, match="exists already"), regard.record(Stack(), path):
        pass
    assert path.read_text() == "mine"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, FileError])
def test_a_run_that_fails_leaves_the_older_file(tmp_path: Path, error: type[Exception]) -> None:
    """What it recorded is beside it, as a note on the error says."""
    model, path = tiny("llama"), tmp_path / "run.regard"
    path.write_bytes(b"mine")
    recorder = regard.record(model, path, overwrite=True)
    with pytest.raises(error) as caught, torch.no_grad(), recorder:
        model(tokens(9))
        raise error("stopped")
    partial = tmp_path / "run.regard.partial"
    assert path.read_bytes() == b"mine" and recorder.left == partial
    assert str(partial) in caught.value.__notes__[0]
    assert len(recorder.tokens) == 9  # of what was recorded, not of the older file
    with regard.open(partial) as found:
        assert len(found.tokens) == 9


@pytest.mark.parametrize("queries", ["500:600", None])
def test_a_run_that_records_nothing_leaves_the_older_file_alone(
    tmp_path: Path, queries: str | None
) -> None:
    model, path = tiny("llama"), tmp_path / "run.regard"
    path.write_bytes(b"mine")
    with (
        pytest.raises(InputError),
        torch.no_grad(),
        regard.record(model, path, queries=queries, overwrite=True),
    ):
        if queries:
            model(tokens(9))
    assert path.read_bytes() == b"mine" and list(tmp_path.iterdir()) == [path]


def test_a_disk_that_is_full_at_once_leaves_the_older_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.regard"
    path.write_bytes(b"mine")

    def full(*_: Any) -> None:
        raise FileError("no space left")

    monkeypatch.setattr("regard.recording.Writer.note", full)
    with (
        pytest.raises(FileError, match="no space left"),
        regard.record(tiny("llama"), path, overwrite=True),
    ):
        pass
    assert path.read_bytes() == b"mine" and list(tmp_path.iterdir()) == [path]


def test_a_whole_recording_replaces_the_older_file(tmp_path: Path) -> None:
    model, path = tiny("llama"), tmp_path / "run.regard"
    path.write_bytes(b"mine")
    try:
        raise ValueError  # an error that is handled around the block is none of its own
    except ValueError:
        with torch.no_grad(), regard.record(model, path, overwrite=True) as recorder:
            model(tokens(9))
    assert len(recorder.tokens) == 9 and list(tmp_path.iterdir()) == [path]
