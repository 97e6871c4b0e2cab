"""Who looks at a call."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import regard
from regard.engine import ops, torch_state
from regard.engine.torch_state import unwatched


class Own(torch.Tensor):
    """A tensor of somebody's own."""


def test_nobody_looks_at_plain_tensors() -> None:
    learns = torch.zeros(2, requires_grad=True)
    assert unwatched([torch.zeros(2)])
    assert unwatched([])
    assert not unwatched([torch.zeros(2), learns])
    with torch.no_grad():
        assert unwatched([learns])
    with torch.inference_mode():
        assert unwatched([torch.zeros(2)])


def test_subclasses_modes_and_transforms_look() -> None:
    seen = []
    assert not unwatched([torch.zeros(2).as_subclass(Own)])
    with FakeTensorMode():
        assert not unwatched([])
    torch.func.vmap(lambda t: (seen.append(unwatched([t])), t)[1])(torch.zeros(3, 2))
    make_fx(lambda t: (seen.append(unwatched([t])), t + 1)[1])(torch.zeros(2))
    assert seen and not any(seen)


def test_where_torch_does_not_say_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_state, "_MODES", torch_state._private("no_such.function"))
    assert not unwatched([torch.zeros(2)])


def test_the_operator_is_called_where_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    q = torch.randn(1, 2, 5, 8)
    plain = regard.attend(q, q, q, implementation="cpu")
    with torch.profiler.profile() as seen:
        regard.attend(q, q, q, implementation="cpu").entropy()
        regard.attend(q.requires_grad_(), q, q, implementation="cpu")
    calls = sum(one.count for one in seen.key_averages() if one.key == "regard::rows")
    assert calls == 1
    looked_at = ops.rows(q, q, q, [], [], [], None, _spec(plain))
    assert torch.equal(looked_at[0], plain.output)


def _spec(a: regard.Attention) -> str:
    return a._implementation._spec(a._call).asking(output=True)


def test_forward_mode_is_refused_and_not_zero() -> None:
    """An operator without a forward derivative would give a tangent of 0."""
    q, k, v = (torch.randn(1, 2, 5, 4, dtype=torch.float64) for _ in range(3))
    tangent = torch.ones_like(q)

    def output(name: str | None) -> Callable[[Tensor], Tensor]:
        return lambda query: regard.attend(query, k, v, implementation=name).output

    regard.attend(q, k, v)  # settled before
    for name in (None, "tiled", "cpu", "library"):
        with pytest.raises(regard.errors.GradientError, match="forward-mode"):
            torch.func.jvp(output(name), (q,), (tangent,))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(q, tangent)
        with pytest.raises(regard.errors.GradientError, match="implementation='dense'"):
            regard.attend(dual, k, v)
        assert regard.attend(q, k, v).output.shape == q.shape
    _, found = torch.func.jvp(output("dense"), (q,), (tangent,))
    step = 1e-6
    near = (output("dense")(q + step * tangent) - output("dense")(q - step * tangent)) / (2 * step)
    torch.testing.assert_close(found, near, rtol=1e-6, atol=1e-8)
