"""The vectors of tokens on their way through a model, with what each half of a layer added.

Two families are known by the shape of their layers:

    llama-like   h + attention, then + mlp, each behind a norm: llama, mistral, qwen, gemma, gpt2 …
    bert-like    norm(h + attention), then norm(· + mlp): bert, roberta, electra, MiniLM …

What a half added is the difference it made, in a bert-like layer with its norm. So hidden state
l + 1 is always hidden state l + attention + mlp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.engine.attention import Attention
from regard.engine.call import Call
from regard.engine.observers import Request, listening
from regard.errors import InputError, ShapeError, UnavailableError
from regard.hear.attached import Substitutes
from regard.hear.hooks import ModelHooks
from regard.intervene.edges import Places
from regard.intervene.prompts import as_ids, as_rows

_Array: TypeAlias = NDArray[Any]

# the norm in front of the MLP, whose input is the vector between the two halves of a layer
_BETWEEN = ("pre_feedforward_layernorm", "post_attention_layernorm", "ln_2")
# what mixes the heads, inside a layer
_MIXES = (
    "self_attn.o_proj", "self_attn.out_proj", "self_attn.dense", "attn.c_proj",
    "attention.output.dense",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Residual:
    """One prompt inside a model; N tokens of width D.

    hidden     (layers + 1, N, D): the vectors, from the embedding on; before any final norm
    attention  (layers, N, D): what the attention of each layer added
    mlp        (layers, N, D): what its MLP added
    rows       the rows whose weights were asked for
    weights    (layers, H, R, N): the attention weights of those rows
    values     (layers, H, N, Dv): the values, each of a group of heads the same
    w_o        (layers, H, Dv, D): what carries them into the residual stream
    """

    hidden: _Array
    attention: _Array
    mlp: _Array
    rows: tuple[int, ...]
    weights: _Array
    values: _Array
    w_o: _Array

    def parts(self, layer: int, row: int) -> tuple[_Array, _Array, _Array]:
        """weights (H, N), values (H, N, Dv) and w_o (H, Dv, D) of one row in one layer, as
        `regard.study.output_attribution` takes them."""
        if row not in self.rows:
            raise InputError(f"row {row} was not observed; give observe_residual(…, rows=[{row}])")
        at = self.rows.index(row)
        return self.weights[layer][:, at], self.values[layer], self.w_o[layer]


def observe_residual(
    model: nn.Module, ids: Tensor | Sequence[int], *, rows: Places | None = None
) -> Residual:
    """Run a model over one prompt and keep every token's vectors, layer by layer.

    ids   (N,) or (1, N)
    rows  positions whose attention weights are kept, to say by whom they were changed
    """
    tokens = as_ids(ids, model)
    if len(tokens) != 1:
        raise ShapeError(f"ids have shape {tuple(tokens.shape)}; give one prompt: (tokens,)")
    layers, look = _layers(model)
    kept = [] if rows is None else as_rows(rows, tokens.shape[1])
    watch = _Watch(kept, len(layers))
    looks: _Looks = {}
    for number, layer in enumerate(layers):
        looks |= look(layer, watch.of(number))
    with torch.no_grad(), _LayerHooks(model, looks), listening(watch):
        model(tokens)
    watch.check()
    return watch.finish([_w_o(layer, watch.heads) for layer in layers] if kept else [])


class _LayerHooks(ModelHooks):
    """Looks at what modules are given and return."""

    def __init__(self, model: nn.Module, looks: _Looks) -> None:
        super().__init__(model)
        self._looks = looks

    def prepared(self) -> Substitutes:
        """Modules that ask transformers for their attention get regard's."""
        from regard.huggingface.switch import substituted

        return substituted(self.model)

    def run(
        self, path: str, module: nn.Module, args: Any, kwargs: Any, call: Callable[[], Any]
    ) -> Any:
        """One call of a module."""
        before, after = self._looks.get(module, (None, None))
        if before is not None:
            before(args, kwargs)
        output = super().run(path, module, args, kwargs, call)
        if after is not None:
            after(output)
        return output


class _Layer:
    """What one layer shows."""

    def __init__(self, watch: _Watch, number: int) -> None:
        self._watch, self._number = watch, number
        self.seen: dict[str, Tensor] = {}

    def before(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The layer begins."""
        self._watch.now = self._number
        self.seen["before"] = args[0] if args else kwargs["hidden_states"]

    def between_in(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What a norm between the halves is given."""
        self.seen["between"] = args[0]

    def between_out(self, output: Any) -> None:
        """What the first half gives."""
        self.seen["between"] = _first(output)

    def branch(self, output: Any) -> None:
        """What the second half adds."""
        self.seen["branch"] = _first(output)

    def after(self, output: Any) -> None:
        """The layer ends."""
        self.seen["after"] = _first(output)


class _Watch:
    """Gathers what the layers show, and hears of their attention."""

    def __init__(self, rows: list[int], layers: int) -> None:
        self.rows, self.now, self.heads = rows, 0, 0
        self._layers = [_Layer(self, number) for number in range(layers)]
        self._weights: dict[int, _Array] = {}
        self._values: dict[int, _Array] = {}

    def of(self, number: int) -> _Layer:
        """One layer's share."""
        return self._layers[number]

    def wants(self, call: Call) -> Request[None]:
        """Nothing on the way."""
        return Request()

    def heard(self, attention: Attention, request: Request[None]) -> None:
        """The weights of the rows, and the values they fall on."""
        if not self.rows:
            return
        call = attention._call
        self.heads = call.shape.query_heads
        self._weights[self.now] = _numbers(attention.rows(self.rows)[0])
        self._values[self.now] = _numbers(call.value[0].repeat_interleave(call.shape.group, 0))

    def check(self) -> None:
        """Every layer is what it looks like, and its attention was heard."""
        for number, layer in enumerate(self._layers):
            _check_sum(layer.seen, number)
            if self.rows and number not in self._weights:
                raise UnavailableError(
                    f"layer {number} has no softmax attention, so no weights; leave out rows="
                )

    def finish(self, w_o: list[_Array]) -> Residual:
        """Everything, layer by layer."""
        seen = [layer.seen for layer in self._layers]
        hidden = [_numbers(seen[0]["before"][0]), *(_numbers(one["after"][0]) for one in seen)]
        between = np.stack([_numbers(one["between"][0]) for one in seen])
        states = np.stack(hidden)
        order = range(len(seen) if self.rows else 0)
        return Residual(
            hidden=states,
            attention=between - states[:-1],
            mlp=states[1:] - between,
            rows=tuple(self.rows),
            weights=np.array([self._weights[n] for n in order]),
            values=np.array([self._values[n] for n in order]),
            w_o=np.array(w_o),
        )


# ── families ─────────────────────────────────────────────────────────────────────────────────

_Looks: TypeAlias = dict[nn.Module, tuple[Any, Any]]
"""By module: what gets its arguments, and what gets its output."""

_Look: TypeAlias = Callable[[Any, _Layer], _Looks]


def _layers(model: nn.Module) -> tuple[list[Any], _Look]:
    """The stack of layers, and how to look into one."""
    kinds: dict[_Look, Callable[[Any], bool]] = {
        _look_llama_like: _is_llama_like,
        _look_bert_like: _is_bert_like,
    }
    found = [
        (list(module), look)
        for module in model.modules()
        if isinstance(module, nn.ModuleList) and len(module)
        for look, fits in kinds.items()
        if all(map(fits, module))
    ]
    if len(found) != 1:
        said = "no stack" if not found else f"{len(found)} stacks"
        raise UnavailableError(
            f"{type(model).__name__} has {said} of layers like llama's or bert's; give a model, "
            "or the part of one, that has one such stack"
        )
    return found[0]


def _is_llama_like(layer: Any) -> bool:
    return hasattr(layer, "mlp") and any(hasattr(layer, name) for name in _BETWEEN)


def _is_bert_like(layer: Any) -> bool:
    both = hasattr(layer, "attention") and hasattr(layer, "intermediate")
    return both and hasattr(layer.attention, "output") and hasattr(layer, "output")


def _look_llama_like(layer: Any, watch: _Layer) -> _Looks:
    norm = next(getattr(layer, name) for name in _BETWEEN if hasattr(layer, name))
    branch = getattr(layer, "post_feedforward_layernorm", layer.mlp)
    return {
        layer: (watch.before, watch.after),
        norm: (watch.between_in, None),
        branch: (None, watch.branch),
    }


def _look_bert_like(layer: Any, watch: _Layer) -> _Looks:
    return {layer: (watch.before, watch.after), layer.attention: (None, watch.between_out)}


def _check_sum(seen: dict[str, Tensor], number: int) -> None:
    """A layer that looks like llama's may add otherwise: both halves at once, or scaled."""
    if "branch" not in seen:
        return
    rest = seen["after"] - seen["between"] - seen["branch"]
    if rest.norm() > 1e-3 * seen["after"].norm():
        raise UnavailableError(
            f"layer {number} is no sum of its input, its attention and its MLP in turn, so that "
            "what each added cannot be told; llama, mistral, qwen, gemma, gpt2 and bert work"
        )


def _w_o(layer: Any, heads: int) -> _Array:
    """(H, Dv, D)."""
    for path in _MIXES:
        try:
            mix = layer.get_submodule(path)
        except AttributeError:
            continue
        # a Linear computes x @ weight.T, gpt2's Conv1D x @ weight
        weight = mix.weight.T if isinstance(mix, nn.Linear) else mix.weight
        return _numbers(weight.unflatten(0, (heads, -1)))
    raise UnavailableError(
        f"{type(layer).__name__}: none of {', '.join(_MIXES)} is there, so its w_o is not known; "
        "leave out rows="
    )


def _first(output: Any) -> Tensor:
    return output[0] if isinstance(output, tuple) else output


def _numbers(tensor: Tensor) -> _Array:
    return tensor.detach().float().cpu().numpy()
