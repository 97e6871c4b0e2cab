"""What a block does to each token by itself: two projections with a bend between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError
from regard.nn.inputs import check_input

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
}


class MLP(nn.Module):
    """w_out · activation(w_in · x)."""

    def __init__(
        self, dim: int, hidden: int | None = None, *, activation: str = "gelu", bias: bool = True
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            known = ", ".join(map(repr, ACTIVATIONS))
            raise InputError(f"activation={activation!r}; give one of {known}")
        hidden = 4 * dim if hidden is None else hidden
        self.activation = activation
        self.w_in = nn.Linear(dim, hidden, bias=bias)
        self.w_out = nn.Linear(hidden, dim, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """(…, tokens, dim) → the same shape."""
        check_input(x, self.w_in, "x")
        return self.w_out(ACTIVATIONS[self.activation](self.w_in(x)))

    def stages(self, x: Tensor, name: str) -> Iterator[tuple[str, str, Tensor]]:
        """What is computed on the way, x by its name: name, formula and rows of each step."""
        hidden = self.w_in(x)
        active = ACTIVATIONS[self.activation](hidden)
        yield "h", f"{name} @ w_in", hidden
        yield "a", f"{self.activation}(h)", active
        yield "mlp", "a @ w_out", self.w_out(active)


class SwiGLU(nn.Module):
    """w_out · (silu(w_gate · x) × w_in · x): the first factor is a gate."""

    def __init__(self, dim: int, hidden: int | None = None, *, bias: bool = False) -> None:
        super().__init__()
        hidden = 4 * dim if hidden is None else hidden
        self.w_gate = nn.Linear(dim, hidden, bias=bias)
        self.w_in = nn.Linear(dim, hidden, bias=bias)
        self.w_out = nn.Linear(hidden, dim, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """(…, tokens, dim) → the same shape."""
        check_input(x, self.w_in, "x")
        return self.w_out(F.silu(self.w_gate(x)) * self.w_in(x))

    def stages(self, x: Tensor, name: str) -> Iterator[tuple[str, str, Tensor]]:
        """As `MLP.stages`."""
        gate, hidden = self.w_gate(x), self.w_in(x)
        active = F.silu(gate) * hidden
        yield "g", f"{name} @ w_gate", gate
        yield "h", f"{name} @ w_in", hidden
        yield "a", "silu(g) × h", active
        yield "mlp", "a @ w_out", self.w_out(active)
