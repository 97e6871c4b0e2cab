"""Processes that do one task after another; for those that are killed see
tests/cli/test_documents.py."""

from __future__ import annotations

import multiprocessing

import pytest

from forked import fork_workers
from regard.errors import FileError, InputError, MissingExtraError, RegardError
from regard.recorder.jobs import Task, Workers

ERRORS = {
    "file": FileError("the disk is full"),
    "extra": MissingExtraError("loading", "transformers", "huggingface"),
    "bug": ZeroDivisionError("a bug"),
}


def refuse(number: int) -> None:
    """A model that is not there."""
    raise InputError("no such model; there is smollm2")


def fail(tool: object, given: str, advanced: object) -> None:
    """In one of several ways."""
    raise ERRORS[given]


@pytest.mark.parametrize(
    ("how", "kind", "said"),
    [
        ("file", FileError, "shard-7: the disk is full"),
        ("extra", RegardError, "shard-7: loading needs the package 'transformers'"),
        ("bug", RegardError, r"shard-7: worker \d \(process \d+\) ended with status 1"),
        ("no model", InputError, "loading the model: no such model"),
    ],
)
def test_the_error_names_the_task_and_the_worker(monkeypatch, how, kind, said):
    fork_workers(monkeypatch)  # which need not import torch
    make = refuse if how == "no model" else str
    with pytest.raises(kind, match=said), Workers(2, make) as workers:
        list(workers.run([Task("shard-7", fail, how)]))
    every = multiprocessing.active_children()  # other tests may have theirs
    assert not [child for child in every if child.name.startswith("worker ")]
