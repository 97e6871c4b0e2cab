"""`regard prepare`: every combination once, with progress; one line where there is no GPU."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.engine import ahead
from regard.engine.ahead import Kind, compile_kind, kinds
from regard.engine.backends.gpu.sweeps import TritonSweeps
from regard.errors import InputError


def prepare(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["prepare", *arguments])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Kind, bool]]:
    """As on a GPU, but nothing is compiled."""
    found: list[tuple[Kind, bool]] = []

    def compiled(kind: Kind, training: bool) -> None:
        found.append((kind, training))

    monkeypatch.setattr(TritonSweeps, "unavailable", lambda self: [])
    monkeypatch.setattr(ahead, "compile_kind", compiled)
    return found


def test_every_combination(asked: list[tuple[Kind, bool]]) -> None:
    run = prepare("--dims", "64,96", "--dtypes", "float16", "--masks", "causal,lengths")
    assert run.exit_code == 0
    assert [kind for kind, _ in asked] == kinds([64, 96], ["float16"], ["causal", "lengths"])
    assert run.stdout == "ready: 4 kinds of calls, 0 s\n"
    assert "[2/4] d64 float16, lengths" in run.stderr and "[4/4]" in run.stderr


def test_gradients_only_where_asked_for(asked: list[tuple[Kind, bool]]) -> None:
    assert prepare("--dims", "64", "--masks", "none").exit_code == 0
    assert prepare("--dims", "64", "--masks", "none", "--training").exit_code == 0
    assert asked == [(Kind(64, "bfloat16", "none"), False), (Kind(64, "bfloat16", "none"), True)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--dims", "300"), "head dim 300 is above 256"),
        (("--dims", "wide"), "--dims 'wide': give whole numbers"),
        (("--masks", "diagonal"), "'diagonal' is none of none, causal, window, lengths"),
        (("--dtypes", "float8"), "'float8' is none of bfloat16, float16, float32"),
    ],
    ids=str,
)
def test_mistakes(given: tuple[str, ...], said: str, asked: list[Any]) -> None:
    run = prepare(*given)
    assert isinstance(run.exception, InputError) and said in str(run.exception) and not asked


def test_without_a_gpu() -> None:
    run = prepare()
    assert "there are no GPU kernels to compile here: there is no CUDA GPU" in str(run.exception)


@pytest.mark.parametrize("mask", ahead.MASKS)
def test_a_kind_asks_everything_once(mask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU, where nothing is compiled, but all of it has to run."""
    monkeypatch.setattr(ahead, "_LENGTHS", (96, 75))
    asked: list[int] = []
    attend = ahead.attend
    monkeypatch.setattr(ahead, "attend", lambda *a, **how: asked.append(1) or attend(*a, **how))
    compile_kind(Kind(16, "float32", mask), training=True, device="cpu")
    assert len(asked) == 3 * 5  # a prompt, a ragged one, one query
