"""A finished merge answers the questions that were asked of its parts."""

from __future__ import annotations

import pytest
import torch

import regard

ASKED = (
    regard.Entropy(), regard.MaxScore(), regard.MaxLogit(), regard.Concentration(),
    regard.Distance(), regard.Top(4),
)  # fmt: skip


def _parts(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: object) -> regard.Partial:
    halves = [(0, slice(0, 30)), (30, slice(30, 70))]
    return regard.merge(
        *(
            regard.attend_partial(
                q, k[..., there, :], v[..., there, :], key_start=start, total_keys=70, **options
            )
            for start, there in halves
        )
    )


def test_questions_of_a_finished_merge() -> None:
    q, k, v = (torch.randn(2, 4, n, 8, dtype=torch.float64) for n in (20, 70, 70))
    mask, sink = regard.Causal(), torch.randn(4, dtype=torch.float64)
    found = _parts(q, k, v, mask=mask, summaries=ASKED).finish(sink)
    whole = regard.attend(q, k, v, mask=mask, sink=sink)
    for name in ("entropy", "max_score", "max_logit", "concentration", "distance"):
        torch.testing.assert_close(getattr(found, name)(), getattr(whole, name)())
    torch.testing.assert_close(found.output, whole.output)
    torch.testing.assert_close(found.lse, whole.lse)
    torch.testing.assert_close(found.top(3).weights, whole.top(3).weights)
    assert torch.equal(found.top(3).keys, whole.top(3).keys)
    assert torch.equal(found[regard.Top(4)].keys, whole.top(4).keys)


def test_what_was_not_asked_is_said_so() -> None:
    q, k, v = (torch.randn(1, 1, n, 8) for n in (5, 70, 70))
    found = _parts(q, k, v, summaries=(regard.Top(2),)).finish()
    for ask in (found.entropy, lambda: found.top(3), lambda: found[regard.Entropy()]):
        with pytest.raises(regard.errors.InputError, match="was not asked of attend_partial"):
            ask()
