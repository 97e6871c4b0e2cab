"""How a model's attention is intercepted: in `attend`, in torch's functions, in other packages'.

Modules that call torch's `scaled_dot_product_attention`, or a function that `functions` can read,
are not changed. FlexAttention, which is compiled and would be a whole N×N without that, is computed
by regard. Attention that is computed by other means is noticed: functions whose name says so, and a
softmax whose result is multiplied with something.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from inspect import signature
from types import FrameType
from typing import Any, Literal, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.engine.api import replay_with
from regard.engine.attention import Attention
from regard.hear.flex import flex_by_regard
from regard.hear.functions import dot_product_attention
from regard.hear.handwritten import through_torch
from regard.hear.holders import functions_around, inside, is_inside, told_of_functions
from regard.hear.hooks import ModelHooks, Pass
from regard.hear.packing import HeardCall, UnreadableError, read_by, unpacked
from regard.mask import Causal, Padding
from regard.summary import Summary

_COMPILERS = ("torch._dynamo", "torch.nn.attention.flex_attention")
_ENGINE = "transformer_engine."


@contextmanager
def prepared(model: nn.Module, leave: tuple[str, ...] = ()) -> Iterator[None]:
    """Within the block, everything in the model that attends can be heard: compiled code is run as
    it was written, modules that ask transformers for their attention get regard's, except those
    that ask for one of `leave`, and functions of other packages tell of their calls.

    A model of transformers of which nothing would be heard is an error.
    """
    with ExitStack() as stack:
        if any(name in sys.modules for name in _COMPILERS):
            # compiled code says nothing of what it computes; without it, the import takes a second
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        if any(map(is_hugging_face, model.modules())):
            from regard.huggingface.families import calls_torch, sight
            from regard.huggingface.switch import switched, using

            found = sight(model)
            if found.seen:
                stack.enter_context(switched(model, found, leave))
            elif is_hugging_face(model) and not calls_torch(model):
                stack.enter_context(using(model))  # which refuses it
            stack.enter_context(_seeing_within_the_call(model))
        stack.enter_context(through_torch(model))
        stack.enter_context(functions_around(model))
        stack.enter_context(flex_by_regard())
        yield


@contextmanager
def _seeing_within_the_call(model: nn.Module) -> Iterator[None]:
    """`generate` has the model read its pictures with its words, in one call. From transformers
    5.2x on it may encode pictures before, by calls of their own, which would be further prompts."""
    name = "_supports_mm_encoder_outputs"
    with ExitStack() as stack:
        for module in model.modules():
            if hasattr(module, name):
                stack.enter_context(patch.object(module, name, lambda: False))
        yield


@contextmanager
def intercepted(
    where: ModelHooks,
    saw: Callable[[Attention, Tensor, Tensor], None],
    missed: Callable[[str], None] | None = None,
) -> Iterator[AttentionIntercept]:
    """A model `prepared`, and what others than regard compute in it heard."""
    with prepared(where.model), AttentionIntercept(where, saw, missed) as heard:
        yield heard


def is_hugging_face(model: nn.Module) -> bool:
    """Whether transformers, or somebody who builds on it, wrote the model."""
    return any(kind.__module__.startswith("transformers.") for kind in type(model).__mro__)


class AttentionIntercept(TorchFunctionMode):
    """Within the block, `heard` gets every attention that others compute, with its output; `missed`
    is called where attention is computed and cannot be heard, with the reason where it is known.

    The output is the function's own, bit for bit; the attention is replayed beside it. The sweep
    that replays it measures `along(whether there is a bias)` on its way.
    """

    def __init__(
        self,
        where: ModelHooks,
        heard: Callable[[Attention, Tensor, Tensor], None],
        missed: Callable[[str], None] | None = None,
        along: Callable[[bool], tuple[Summary, ...]] = lambda biased: (),
    ) -> None:
        super().__init__()
        self._where, self._heard, self._missed, self._along = where, heard, missed, along
        self._weights: tuple[int, ...] = ()  # the shape of the last softmax
        self._raised: tuple[int, ...] = ()  # of the last exponential, which a sum may divide
        self._others = self._within = ExitStack()
        self._padded_in: Pass | None = None
        self._padded: dict[str, Tensor | None] = {}  # in this pass, by what is around a module

    def __enter__(self) -> AttentionIntercept:
        with ExitStack() as stack:
            stack.enter_context(told_of_functions(self._tell))
            for module in self._where.model.modules():
                kind = type(module)
                if kind.__name__ == "DotProductAttention" and kind.__module__.startswith(_ENGINE):
                    before = module.register_forward_pre_hook(self._before_module)
                    # before the hook that says that the module has been left
                    after = module.register_forward_hook(
                        self._after_module, with_kwargs=True, prepend=True, always_call=True
                    )
                    stack.callback(before.remove)
                    stack.callback(after.remove)
            super().__enter__()  # type: ignore[no-untyped-call]
            self._others = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._others.close()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Torch's own answer, after a look at what it answers."""
        given = kwargs or {}
        # nearly every function is none of ours, and a small model spends its time here
        if torch.compiler.is_compiling() or (kind := _kind(func)) is None or is_inside():
            return func(*args, **given)
        if kind == "projected":
            return self._projected(func, args, given)
        found = func(*args, **given)
        if kind == "torch":
            if not _is_our_own(sys._getframe(1)):  # which tells those who listen itself
                self._tell(lambda: _of_torch(found, *args, **given))
        elif self._missed is not None:
            self._notice(kind, args, found)
        return found

    def _tell(self, call: Callable[[], HeardCall]) -> None:
        """What a function computed, where that can be said."""
        with torch.no_grad():
            try:
                self.see(call())
            except UnreadableError as why:
                self._miss(str(why))

    def _miss(self, why: str) -> None:
        if self._missed is not None:
            self._missed(why)

    def see(self, call: HeardCall) -> None:
        """Replay a call, and tell of it."""
        now = self._where.now
        if call.starts is not None and now is not None:
            call = unpacked(call, now.batch, now.padding.get("tokens"))
        q, k = call.query.detach(), call.key.detach()
        lead = np.broadcast_shapes(q.shape[:-3], k.shape[:-3])
        q, k = (t.expand(*lead, *t.shape[-3:]) for t in (q, k))
        bias = call.bias.detach() if isinstance(call.bias, Tensor) else call.bias
        seen = replay_with(
            self._along(bias is not None), q, k, None, call.mask, call.scale, bias, call.softcap,
            call.sink,
        )  # fmt: skip
        value = call.value.detach().expand(*lead, *call.value.shape[-3:])
        self._heard(seen, call.output.detach(), value)

    def _before_module(self, module: nn.Module, args: Any) -> None:
        """A module of Transformer Engine's; what it calls is its own business."""
        self._within = ExitStack()
        self._within.enter_context(inside())

    def _after_module(self, module: nn.Module, args: Any, kwargs: Any, found: Any) -> None:
        self._within.close()
        if not is_inside() and found is not None:  # what torch hands on after an exception
            self._tell(lambda: read_by(dot_product_attention, module, found, *args, **kwargs))

    def _notice(self, kind: _Kind, args: tuple[Any, ...], found: Any) -> None:
        """Attention by other means: a function of that name, or softmax, then a product."""
        factors = [tuple(one.shape) for one in _tensors(args)]
        if kind == "exponential":
            self._raised = tuple(getattr(found, "shape", ()))
        elif kind == "softmax":
            self._weights = _as_weights(tuple(getattr(found, "shape", ())))
        elif kind == "division":
            if self._raised and factors == [self._raised, (*self._raised[:-1], 1)]:
                self._weights, self._raised = _as_weights(self._raised), ()
        elif kind == "attention" or any(_are_weights(one, self._weights) for one in factors):
            self._weights = ()
            if not _is_our_own(sys._getframe(2)):
                self._miss("")

    def _projected(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """nn.MultiheadAttention, whose inner call no mode gets to see. Where it is asked for its
        weights it calls no function at all: then it is run once more, without."""
        given = signature(func).bind(*args, **kwargs)
        given.apply_defaults()
        padding = self._padding_of(given.arguments)
        if not given.arguments["need_weights"]:
            with self._inside(padding):
                return func(*args, **kwargs)
        found = func(*args, **kwargs)
        again = given.arguments | {"need_weights": False, "training": False}
        with torch.no_grad(), self._inside(padding):
            func(**again)
        return found

    def _padding_of(self, given: dict[str, Any]) -> TokenPadding:
        """Which keys and which queries of nn.MultiheadAttention are real. In self-attention they
        are the same tokens; of attention to another sequence, the module beside it that attends to
        its own has them, as in nn.TransformerDecoderLayer."""
        caller, now = self._where.caller(), self._where.now
        if now is not self._padded_in:
            self._padded_in, self._padded = now, {}
        beside = "" if caller is None else caller.path.rpartition(".")[0]
        query, key, hidden = given["query"], given["key"], given["key_padding_mask"]
        keys = None if hidden is None else _is_real(hidden)
        if _are_same(query, key):
            self._padded[beside] = keys
            queries = keys
        else:
            queries = self._padded.get(beside)
        batch = 1 if query.ndim == 2 else query.shape[1]
        if queries is not None and tuple(queries.shape) != (batch, query.shape[0]):
            queries = None
        merged = given["attn_mask"] is None and hidden is not None
        return TokenPadding(keys, queries, merged and bool(_says_no_more(hidden)))

    @contextmanager
    def _inside(self, padding: TokenPadding) -> Iterator[None]:
        """Torch's function, as its own module calls it, is seen."""
        real = F.scaled_dot_product_attention

        def seen(*args: Any, **kwargs: Any) -> Tensor:
            found: Tensor = real(*args, **kwargs)
            self._tell(lambda: padding.told(_of_torch(found, *args, **kwargs)))
            return found

        with patch.object(F, "scaled_dot_product_attention", seen):
            yield


class TokenPadding(NamedTuple):
    """What nn.MultiheadAttention is told of padding."""

    keys: Tensor | None  # (B, S) booleans; None: all are real, or nobody says
    queries: Tensor | None  # (B, L)
    is_all: bool  # no number is added to scores but what hides these keys

    def told(self, call: HeardCall) -> HeardCall:
        """The call, with rows of padding that see nothing, so that no statistic counts them."""
        if self.keys is None and self.queries is None:
            return call
        batch, count = call.query.shape[0], call.key.shape[-2]
        keys = call.query.new_ones(batch, count, dtype=torch.bool)
        if self.keys is not None:  # behind them may be a key of bias_k, and one of zeros
            keys[:, : self.keys.shape[1]] = self.keys
        padding: Any = Padding(keys, self.queries)
        if self.is_all:
            return replace(call, mask=padding, bias=None)
        return replace(call, mask=padding if call.mask is None else padding & call.mask)


def _is_real(hidden: Tensor) -> Tensor:
    """(B, S) from torch's padding mask (B, S) or (S,): True, or a number of −∞, is hidden."""
    hidden = hidden.detach().reshape(-1, hidden.shape[-1])
    if hidden.dtype == torch.bool:
        return ~hidden
    return hidden > torch.finfo(hidden.dtype).min / 2


def _says_no_more(hidden: Tensor) -> Tensor:
    """Whether a padding mask adds nothing to the scores of the keys that it leaves."""
    if hidden.dtype == torch.bool:
        return torch.ones((), dtype=torch.bool)
    return ((hidden == 0) | (hidden == -torch.inf)).all()


def _are_same(query: Tensor, key: Tensor) -> bool:
    """Whether both are one tensor, transposed alike."""
    same = query.shape == key.shape and query.stride() == key.stride()
    return same and query.data_ptr() == key.data_ptr()


def _of_torch(
    output: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> HeardCall:
    """torch's scaled_dot_product_attention."""
    is_mask = attn_mask is not None and attn_mask.dtype == torch.bool
    return HeardCall(
        query=query,
        key=key,
        value=value,
        output=output,
        mask=attn_mask if is_mask else Causal(align="start") if is_causal else None,
        bias=None if is_mask or attn_mask is None else _hiding(attn_mask),
        scale=scale,
    )


def _hiding(added: Tensor) -> Tensor:
    """Numbers added to scores, −∞ for the dtype's most negative ones, by which transformers and
    diffusers hide a key. A row that hides all keys is left as it is: torch spreads it evenly."""
    lowest = added <= torch.finfo(added.dtype).min / 2
    return added.masked_fill(lowest & ~lowest.all(-1, keepdim=True), -torch.inf)


_Kind = Literal["torch", "projected", "softmax", "exponential", "division", "product", "attention"]
_SOFTMAX = (
    "softmax", "_softmax", "_safe_softmax", "special_softmax", "log_softmax", "special_log_softmax",
)  # fmt: skip
_DIVISIONS = ("div", "div_", "divide", "true_divide", "__truediv__", "__itruediv__")
_PRODUCTS = ("matmul", "bmm", "mm", "einsum", "__matmul__", "baddbmm", "tensordot")
_WORDS = ("attention", "attn", "flash_fwd")


@cache
def _kind(func: Any) -> _Kind | None:
    """What a function of torch has to do with attention."""
    if func in (
        F.scaled_dot_product_attention,
        torch.ops.aten.scaled_dot_product_attention.default,
    ):
        return "torch"
    if func is F.multi_head_attention_forward:
        return "projected"
    name = str(getattr(func, "__name__", ""))
    if name in _SOFTMAX:
        return "softmax"
    if name in ("exp", "exp_"):
        return "exponential"
    if name in _DIVISIONS:
        return "division"
    if name in _PRODUCTS:
        return "product"
    return "attention" if any(word in name for word in _WORDS) else None


def _as_weights(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shapes that weights over tokens can have: (tokens, tokens), not (rows, classes)."""
    square = len(shape) == 2 and shape[0] == shape[1]
    return shape if square or len(shape) > 2 else ()


def _are_weights(factor: tuple[int, ...], weights: tuple[int, ...]) -> bool:
    """Whether a factor of a product can be the weights: as they are, with axes joined, added or
    exchanged, or without the last column, which is where sinks stand."""
    if not weights or len(factor) < 2:
        return False
    same = math.prod(factor) == math.prod(weights) and factor[-1] in weights[-2:]
    return same or factor == (*weights[:-1], weights[-1] - 1)


def _tensors(args: tuple[Any, ...]) -> Iterator[Tensor]:
    for one in args:
        if isinstance(one, Tensor):
            yield one
        elif isinstance(one, list | tuple):
            yield from _tensors(tuple(one))


def _is_our_own(frame: FrameType | None) -> bool:
    """Whether regard itself called torch."""
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("torch."):
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__")).startswith("regard.")
