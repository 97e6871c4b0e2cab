"""Poisoned memory: whatever was never written must show."""

from __future__ import annotations

import pytest
import torch

from regard.testing import poisoned_memory


def settings() -> tuple[bool, bool, bool]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_fresh_floats_are_nan(dtype: torch.dtype) -> None:
    with poisoned_memory():
        assert torch.empty(100, dtype=dtype).isnan().all()
        assert torch.zeros(3).new_empty(5, dtype=dtype).isnan().all()
        assert torch.empty_like(torch.ones(4, dtype=dtype)).isnan().all()


def test_fresh_integers_are_the_largest() -> None:
    with poisoned_memory():
        assert (torch.empty(9, dtype=torch.int64) == torch.iinfo(torch.int64).max).all()


def test_what_is_written_is_not_touched() -> None:
    with poisoned_memory():
        assert torch.zeros(3).tolist() == [0.0, 0.0, 0.0]
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_it_catches_code_that_forgets_a_row() -> None:
    def forgetful(n: int) -> torch.Tensor:
        made = torch.empty(n)
        made[: n - 1] = 0.0
        return made

    with poisoned_memory():
        assert forgetful(5).isnan().tolist() == [False] * 4 + [True]


def test_the_settings_come_back() -> None:
    before = settings()
    with poisoned_memory():
        assert settings() == (True, True, True)
    assert settings() == before


def test_they_come_back_after_an_error() -> None:
    before = settings()
    with pytest.raises(ZeroDivisionError), poisoned_memory():
        raise ZeroDivisionError
    assert settings() == before


def test_settings_of_the_caller_survive() -> None:
    before = settings()
    torch.use_deterministic_algorithms(True)
    try:
        with poisoned_memory():
            pass
        assert settings()[:2] == (True, False)
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
