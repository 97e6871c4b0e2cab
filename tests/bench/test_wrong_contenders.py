"""A contender whose answer is wrong is named, by which answer, and gets no time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import regard
from bench import decode, record
from bench.long_recording import write_large
from regard.bench import cpu
from regard.bench.results import WrongResultError
from regard.engine.attention import Attention
from regard.recording import Memory, Recording, Writer
from regard.recording.format.verify import check

AT = cpu.Configuration(tokens=24, dim=8, causal=True, heads=2)


# ── the CPU suite looks at every number it times ─────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "what"),
    [("entropy", "entropy"), ("max_score", "max score"), ("received", "mass")],
)
def test_each_statistic_is_checked(monkeypatch: pytest.MonkeyPatch, name: str, what: str) -> None:
    right = getattr(Attention, name)
    monkeypatch.setattr(Attention, name, lambda self, *given: right(self, *given) + 0.01)
    with pytest.raises(WrongResultError, match=rf"^{what} of Configuration.* is off by"):
        cpu.measure(AT, seconds=0)


def test_the_heaviest_weight_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Attention.top

    def halved(self: Attention, k: int) -> Any:
        found = right(self, k)
        return found._replace(weights=found.weights / 2)

    monkeypatch.setattr(Attention, "top", halved)
    with pytest.raises(WrongResultError, match=r"top weight .* no time is reported for it"):
        cpu.measure(AT, seconds=0)


def test_gradients_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    right = regard.attend

    def wrong(q: Any, k: Any, v: Any, **options: Any) -> Any:
        """Right outputs, gradients of v doubled."""
        doubled = 2 * v - v.detach() if v.requires_grad else v
        return right(q, k, doubled, **options)

    monkeypatch.setattr(regard, "attend", wrong)
    with pytest.raises(WrongResultError, match="backward of Configuration"):
        cpu.measure(AT, seconds=0)


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_no_number_is_no_right_number(wrong: float) -> None:
    right = torch.ones(3)
    with pytest.raises(WrongResultError, match="output"):
        cpu._near(torch.tensor([1.0, wrong, 1.0]), right, AT, "output")
    cpu._near(right, right, AT, "output")


def test_half_precision_is_measured_by_its_own_measure() -> None:
    half = cpu.Configuration(tokens=24, dim=8, causal=True, heads=2, dtype=torch.bfloat16)
    rows = cpu.measure(half, seconds=0)
    assert {row.dtype for row in rows} == {"bfloat16"}
    near = torch.ones(3) + 1e-2
    cpu._near(near, torch.ones(3), half, "output")
    with pytest.raises(WrongResultError):
        cpu._near(near, torch.ones(3), AT, "output")


# ── whole models ─────────────────────────────────────────────────────────────────────────────


def contenders(**answers: torch.Tensor) -> dict[str, Callable[[], Any]]:
    return {name.replace("_", " "): lambda a=answer: a for name, answer in answers.items()}


def test_the_recorded_model_is_named_where_it_is_wrong() -> None:
    right = torch.tensor([[1.0, -8.0]])
    record._check(contenders(sdpa=right, regard=right + 0.01, recorded=right))
    with pytest.raises(WrongResultError, match=r"outputs of recorded are off by 0\.5"):
        record._check(contenders(sdpa=right, regard=right, recorded=right + 0.5))
    with pytest.raises(WrongResultError, match="outputs of regard are off by nan"):
        record._check(contenders(sdpa=right, regard=right * torch.nan, recorded=right))


def test_the_first_token_that_differs_is_told() -> None:
    right = torch.tensor([[4, 5, 6, 7]])
    decode._check(contenders(transformers=right, bare_loop=right, regard=right.clone()))
    with pytest.raises(WrongResultError, match=r"bare loop writes other tokens .* from token 3 on"):
        other = torch.tensor([[4, 5, 9, 7]])
        decode._check(contenders(transformers=right, bare_loop=other, regard=right))


# ── recordings that are made to be measured ──────────────────────────────────────────────────


@pytest.mark.parametrize("row_bin", [1, 4])
def test_made_recordings_are_recordings(tmp_path: Any, row_bin: int) -> None:
    """Whole to the last byte, and their numbers agree with each other."""
    path = tmp_path / "a.regard"
    with Writer(path) as writer:
        write_large(writer, 300, layers=2, heads=5, row_bin=row_bin)
    assert check(path).damage == ()
    with regard.open(path) as rec:
        assert rec.stacks == {"": (2, 5)} and len(rec.tokens) == 300 and rec.prompts[0].finished
        for head in rec:
            stored = head.stored
            mass = stored["received"].values.sum()
            np.testing.assert_allclose(mass, 300, rtol=1e-4)
            np.testing.assert_allclose(stored["offsets"].values.sum(), 300, rtol=1e-4)
            assert stored["peak"].measure.bin == row_bin
            assert len(stored["peak"].values) == -(-300 // row_bin)
        assert rec["L0H1"].exact and not rec["L1H1"].exact


def test_made_heads_are_of_the_kinds_they_are_named_by() -> None:
    store = Memory()
    write_large(store, 400, layers=1, heads=5, exact_layer=None)
    rec = Recording(store)
    assert int(np.nanargmax(rec.grid("previous")[0])) == 0
    assert int(np.nanargmax(rec.grid("first")[0])) == 1
    assert int(np.nanargmax(rec.grid("duplicate")[0])) == 2
    assert int(np.nanargmax(rec.grid("entropy")[0])) == 4
    assert not any(head.exact for head in rec)
