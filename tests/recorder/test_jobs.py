"""Processes that do one task after another; for those that are killed see
tests/cli/test_documents.py."""

from __future__ import annotations

import multiprocessing

import pytest

from forked import fork_workers
from recorder import chores
from regard.errors import FileError, InputError, RegardError
from regard.recorder.jobs import Task, Workers, cores


@pytest.fixture
def forked(monkeypatch):
    """Workers that need not import torch, where their end is looked at and not their start."""
    fork_workers(monkeypatch)


def test_every_task_once_by_tools_that_are_made_once():
    steps: list[float] = []
    with Workers(2, chores.make) as workers:
        tasks = [Task(f"n{n}", chores.square, float(n)) for n in range(9)]
        found = list(workers.run(tasks, steps.append))
        assert sorted(answer["square"] for _, answer in found) == [n * n for n in range(9)]
        assert all(answer["square"] == task.given**2 for task, answer in found)
        assert sorted(steps) == list(range(9))
        mine = [[a for _, a in found if a["number"] == n] for n in (0, 1)]
        for answers in mine:
            assert len({a["pid"] for a in answers}) == 1
            assert [a["used"] for a in answers] == list(range(1, len(answers) + 1))
        (threads,) = {a["threads"] for _, a in found}
        assert threads >= 1 and 2 * threads <= max(cores(), 2)
        assert all(a["interrupts"] for _, a in found)  # Ctrl-C is for the parent
        # a second round, by the same processes
        ((_, again),) = workers.run([Task("more", chores.square, 3.0)])
        assert again["used"] > 1 and again["square"] == 9
    assert not _workers()


@pytest.mark.parametrize(
    ("how", "kind", "said"),
    [
        ("file", FileError, "shard-7: the disk is full"),
        ("extra", RegardError, "shard-7: loading needs the package 'transformers'"),
        ("bug", RegardError, r"shard-7: worker \d \(process \d+\) ended with status 1"),
    ],
)
def test_the_error_names_the_task_and_the_worker(forked, how, kind, said):
    tasks = [Task("shard-7", chores.fail, how)]
    with pytest.raises(kind, match=said), Workers(1, chores.make) as workers:
        list(workers.run(tasks))
    assert not _workers()


def test_a_tool_that_cannot_be_made(forked):
    with pytest.raises(InputError, match="loading the model: no such model"):
        Workers(2, chores.refuse).__enter__()
    assert not _workers()


def _workers() -> list[str]:
    """Processes of ours that are still there; other tests may have theirs."""
    every = multiprocessing.active_children()
    return [one.name for one in every if one.name.startswith("worker ")]


def test_fewer_than_one_are_refused():
    with pytest.raises(InputError, match="--jobs 0"):
        Workers(0, chores.make)
