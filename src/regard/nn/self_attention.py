"""Self-attention with one head: three learned projections, no output projection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.engine.api import attend
from regard.engine.attention import Attention
from regard.errors import ShapeError
from regard.mask import Mask
from regard.nn.inputs import check_input
from regard.nn.steps import LayerSteps, names_of, take_steps


class SelfAttention(nn.Module):
    """x (…, tokens, embed_dim) → contextual embeddings (…, tokens, value_dim).

    q = x @ w_q, k = x @ w_k, v = x @ w_v; softmax(q kᵀ / √head_dim) v. The width of w_v alone
    decides the width of the output.
    """

    def __init__(
        self,
        embed_dim: int,
        head_dim: int | None = None,
        value_dim: int | None = None,
        *,
        bias: bool = False,
    ) -> None:
        super().__init__()
        head_dim = embed_dim if head_dim is None else head_dim
        value_dim = head_dim if value_dim is None else value_dim
        self.w_q = nn.Linear(embed_dim, head_dim, bias=bias)
        self.w_k = nn.Linear(embed_dim, head_dim, bias=bias)
        self.w_v = nn.Linear(embed_dim, value_dim, bias=bias)

    @classmethod
    def from_weights(cls, w_q: Any, w_k: Any, w_v: Any) -> SelfAttention:
        """The layer with these projections, each (embed_dim, width)."""
        given = [torch.as_tensor(w) for w in (w_q, w_k, w_v)]
        given = [w if w.is_floating_point() else w.to(torch.get_default_dtype()) for w in given]
        shapes = [tuple(w.shape) for w in given]
        if any(len(s) != 2 for s in shapes) or len({s[0] for s in shapes}) > 1:
            raise ShapeError(
                f"w_q {shapes[0]}, w_k {shapes[1]}, w_v {shapes[2]}: "
                "each must be (embed_dim, width) with one embed_dim"
            )
        if shapes[0] != shapes[1]:
            raise ShapeError(
                f"w_q {shapes[0]} and w_k {shapes[1]}: queries and keys need one width"
            )
        (embed_dim, head_dim), (_, value_dim) = shapes[0], shapes[2]
        layer = cls(embed_dim, head_dim, value_dim).to(given[0])
        with torch.no_grad():
            for linear, w in zip((layer.w_q, layer.w_k, layer.w_v), given, strict=True):
                linear.weight.copy_(w.T)  # Linear computes x @ weight.T
        return layer

    def forward(self, x: Tensor, *, mask: Mask | Tensor | None = None) -> Tensor:
        """(…, tokens, embed_dim) → (…, tokens, value_dim)."""
        output = self.look(x, mask=mask).output
        return output if x.ndim == 2 else output.squeeze(-3)

    def look(
        self,
        x: Tensor,
        *,
        mask: Mask | Tensor | None = None,
        tokens: Sequence[str] | None = None,
        **options: Any,
    ) -> Attention:
        """The same as a `regard.Attention`, for rows and statistics; options go to `attend`.
        `tokens` are the words of x, with which it is printed."""
        check_input(x, self.w_q, "x")
        q, k, v = self.w_q(x), self.w_k(x), self.w_v(x)
        if x.ndim > 2:  # batch axes are no heads
            q, k, v = q.unsqueeze(-3), k.unsqueeze(-3), v.unsqueeze(-3)
        attention = attend(q, k, v, mask=mask, **options)
        if tokens is not None:
            attention.tokens = names_of(tokens, x.shape[-2])
        return attention

    def steps(
        self,
        x: Tensor,
        *,
        tokens: Sequence[str] | None = None,
        mask: Mask | Tensor | None = None,
        row: int | str | None = None,
    ) -> LayerSteps:
        """Every step by name, as matrices; printed, the lesson for these weights.

        tokens  the words of x
        row     the token whose row is worked through, by place or word
        """
        check_input(x, self.w_q, "x")
        q, k, v = self.w_q(x), self.w_k(x), self.w_v(x)
        if x.ndim > 2:
            q, k, v = q.unsqueeze(-3), k.unsqueeze(-3), v.unsqueeze(-3)
        steps = take_steps(q, k, v, mask)
        output = (steps.output if x.ndim == 2 else steps.output.squeeze(-3)).to(v.dtype)
        return LayerSteps(
            **(vars(steps) | {"output": output}), layer=self, x=x, sources=(x, x),
            projected=(q, k), head_outputs=steps.output, tokens=names_of(tokens, x.shape[-2]),
            row=row,
        )  # fmt: skip
