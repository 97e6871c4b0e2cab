"""Under torch.distributed every rank checks its own batch, and all return one verdict."""

from __future__ import annotations

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from check.architectures import ARCHITECTURES, ids, make
from check.faults import ahead, plant
from parallel.world import run
from regard.check import check


def verdicts(planted: int) -> tuple[bool, list[str], dict[str, str]]:
    """Of a rank; one of them has a model with a fault."""
    model = make("gpt2")
    if dist.get_rank() == planted:
        plant(model, ARCHITECTURES["gpt2"].mixer, ahead(1e-3))
    report = check(model, ids(seed=dist.get_rank()), rules=["future", "batch"])
    return report.ok, [each.text for each in report.findings], dict(report.checked)


def wrapped(is_planted: bool) -> list[tuple[str, str]]:
    """Of the wrapper that trains one model on many ranks."""
    model = make("gpt2")
    if is_planted:
        plant(model, ARCHITECTURES["gpt2"].mixer, ahead(1e-3))
    report = check(DistributedDataParallel(model), ids(), rules=["future", "batch"])
    return [(each.rule, each.module) for each in report.findings]


def failing() -> str:
    """One rank's model raises."""

    def broken(batch: object) -> object:
        raise ValueError("no such batch")

    model = broken if dist.get_rank() == 1 else make("gpt2")
    try:
        check(model, ids(), rules=["future"])
    except Exception as error:  # noqa: BLE001 - which one is the test
        return f"{type(error).__name__}: {error}"
    return "a report"


def test_two_ranks_return_one_verdict() -> None:
    first, second = run(2, verdicts, 1)
    assert first == second
    is_ok, texts, checked = first
    assert not is_ok and checked["future"] == "found" and checked["batch"] == "ok"
    assert len(texts) == 1 and texts[0].startswith("rank 1: future: position ")


def test_right_ranks() -> None:
    first, second = run(2, verdicts, -1)
    assert first == second and first[0] and first[1] == []


def test_a_model_that_is_trained_on_both() -> None:
    assert run(2, wrapped, False) == [[], []]
    finding = ("future", ARCHITECTURES["gpt2"].mixer)
    assert run(2, wrapped, True) == [[finding] * 2] * 2


def test_a_rank_that_fails_does_not_keep_the_others_waiting() -> None:
    first, second = run(2, failing, patience=8.0, disturbed=True)
    assert "no such batch" in second
    assert "rank 1" in first and "no such batch" in first
