"""Who served the matrix is counted and told; a refusal that is not allowed is a failure."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import regard
from each import conftest
from each.conftest import inputs_and_truth, must_serve
from outcomes import status_of
from regard.testing import CASES


@pytest.fixture(autouse=True)
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """A book of this test's own: what it plays with is not counted."""
    book: list[tuple[str, str]] = []
    monkeypatch.setattr(conftest, "_said", book)
    yield book


def named(name: str) -> Any:
    case = next(case for case in CASES if case.name == name)
    return inputs_and_truth(case, torch.float16)[0]


def test_serving_and_refusing_are_written_down(said: list[tuple[str, str]]) -> None:
    must_serve("tiled", named("sink"))
    with pytest.raises(BaseException, match="refused by library: "):
        must_serve("library", named("sink"))
    assert said[0] == ("tiled", "")
    assert said[1][0] == "library" and said[1][1]


def refusing(name: str, reason: str) -> Any:
    def choose(*_: Any) -> Any:
        raise regard.errors.UnavailableError("cannot:", {name: [reason]})

    return choose


@pytest.mark.parametrize(
    ("name", "reason"),
    [("tiled", "it is tired"), ("default", "nobody can"), ("triton", "head dim 5 is odd")],
)
def test_who_may_not_refuse_fails(monkeypatch: pytest.MonkeyPatch, name: str, reason: str) -> None:
    monkeypatch.setattr(conftest, "choose", refusing(name, reason))
    with pytest.raises(AssertionError):
        must_serve(name, named("plain"))


def test_a_reason_that_is_allowed_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, reason in (("triton", "of masks it knows no Rule"), ("hopper", "it is no Hopper")):
        monkeypatch.setattr(conftest, "choose", refusing(name, reason))
        with pytest.raises(BaseException, match=reason):
            must_serve(name, named("plain"))


def test_a_refused_case_is_neither_passed_nor_skipped() -> None:
    def told(outcome: str, why: Any = None) -> Any:
        return SimpleNamespace(skipped=outcome == "skipped", longrepr=why)

    refused = ("a.py", 3, "Skipped: refused by library: it has no sink")
    assert status_of(told("skipped", refused)) == ("refused", "r", "REFUSED")
    assert status_of(told("skipped", ("a.py", 3, "Skipped: there is no avx2"))) is None
    assert status_of(told("passed")) is None and status_of(told("failed", "E  assert 0")) is None


@pytest.mark.parametrize("device", ["quantum", "cuda"])
def test_a_device_that_is_not_there_is_an_error(
    monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    monkeypatch.setattr(conftest, "DEVICE", device)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(pytest.UsageError, match=f"REGARD_TEST_DEVICE={device}"):
        conftest.pytest_configure(None)
