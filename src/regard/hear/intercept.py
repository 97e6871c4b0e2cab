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
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from inspect import signature
from types import FrameType, FunctionType
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.engine.api import replay_with
from regard.engine.attention import Attention
from regard.engine.observers import SILENCE, Listener, listeners, listening
from regard.hear.attached import Substitutes, following
from regard.hear.flex import flex_by_regard
from regard.hear.handwritten import by_torch
from regard.hear.holders import is_inside, miss, substituted_functions, tell
from regard.hear.hooks import ModelHooks
from regard.hear.packing import HeardCall, unpacked
from regard.mask import Causal, Padding
from regard.summary import Summary


def is_hugging_face(model: nn.Module) -> bool:
    """Whether transformers, or somebody who builds on it, wrote the model."""
    return any(kind.__module__.startswith("transformers.") for kind in type(model).__mro__)


class AttentionHooks(ModelHooks):
    """Follows a model with a listener, which hears its passes; `heard` gets every attention that
    others than regard compute, with its output and values; `missed` is called where attention is
    computed that cannot be heard, with the reason where it is known.

    The output is the function's own, bit for bit; the attention is replayed beside it. The sweep
    that replays it measures `along(whether there is a bias)` on its way.

    leave  implementations of transformers that modules keep: those that are heard as they are
    """

    hears, alone = True, "a recording"

    def __init__(
        self,
        model: nn.Module,
        listener: Listener[Any] | None,
        heard: Callable[[Attention, Tensor, Tensor], None] = lambda *_: None,
        missed: Callable[[str], None] = lambda _: None,
        along: Callable[[bool], tuple[Summary, ...]] = lambda biased: (),
        leave: tuple[str, ...] = (),
    ) -> None:
        super().__init__(model)
        self._listener, self._heard, self._missed = listener, heard, missed
        self._along, self._leave = along, leave
        self._silence = SILENCE.get()  # in which it was made; it hears nothing in a later one

    def prepared(self) -> Substitutes:
        """Everything in the model that attends can be heard: modules that ask transformers for
        their attention get regard's, and functions of other packages tell of their calls. A model
        of transformers of which nothing would be heard is an error."""
        stands: dict[tuple[int, str], Any] = {}
        if any(map(is_hugging_face, self.model.modules())):
            from regard.huggingface.families import calls_torch, sight
            from regard.huggingface.switch import asking_for_regard, substituted

            modules = sight(self.model)
            if modules.seen:
                stands |= asking_for_regard(self.model, modules, self._leave)
            elif is_hugging_face(self.model) and not calls_torch(self.model):
                substituted(self.model)  # which refuses it
            stands |= _seeing_within_the_call(self.model)
        flex_by_regard()
        return {**stands, **by_torch(self.model), **substituted_functions(self.model)}

    def around(self, again: bool) -> AbstractContextManager[None]:
        """A pass is listened to, not those that checkpointing runs again."""
        if again or self._listener is None or not self.listens():
            return nullcontext()
        return _heard_by(self._listener)

    def listens(self) -> bool:
        """Not within a block in which nobody does who did before."""
        return SILENCE.get() is self._silence

    def see(self, call: HeardCall) -> None:
        """Replay a call of the model, and tell of it."""
        now = self.now
        if now is None:
            return
        if call.starts is not None:
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

    def miss(self, why: str) -> None:
        """Attention that cannot be heard, in a pass of the model."""
        if self.now is not None and self._listener in listeners():
            self._missed(why)


@contextmanager
def prepared(model: nn.Module) -> Iterator[None]:
    """Within the block, everything in the model that attends can be heard by listeners."""
    hooks = AttentionHooks(model, None)
    with hooks:
        yield


def _seeing_within_the_call(model: nn.Module) -> Substitutes:
    """`generate` has the model read its pictures with its words, in one call. From transformers
    5.2x on it may encode pictures before, by calls of their own, which would be further prompts."""
    name = "_supports_mm_encoder_outputs"
    return {
        (id(module), name): (module, lambda _: lambda: False)
        for module in model.modules()
        if hasattr(module, name)
    }


_MODE: ContextVar[bool] = ContextVar("regard_intercepts", default=False)


@contextmanager
def _heard_by(listener: Listener[Any]) -> Iterator[None]:
    """Within the block there is a listener, and followers get what torch is asked for, once."""
    with listening(listener):
        if _MODE.get():
            yield
            return
        token = _MODE.set(True)
        try:
            with _TorchCalls():
                yield
        finally:
            _MODE.reset(token)


class _TorchCalls(TorchFunctionMode):
    """Sees attention among the functions of torch that a pass calls."""

    def __init__(self) -> None:
        super().__init__()
        self._weights: tuple[int, ...] = ()  # the shape of the last softmax
        self._raised: tuple[int, ...] = ()  # of the last exponential, which a sum may divide
        self._padded: dict[str, Tensor | None] = {}  # in this pass, by what is around a module

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
                tell(lambda: _of_torch(found, *args, **given))
        else:
            self._notice(kind, args, found)
        return found

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
                miss("")

    def _projected(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """nn.MultiheadAttention, whose inner call no mode gets to see. Where it is asked for its
        weights it calls no function at all: then it is run once more, without."""
        given = signature(func).bind(*args, **kwargs)
        given.apply_defaults()
        padding = self._padding_of(given.arguments)
        if not given.arguments["need_weights"]:
            return _with_seen_attention(func, padding)(*args, **kwargs)
        found = func(*args, **kwargs)
        again = given.arguments | {"need_weights": False, "training": False}
        with torch.no_grad():
            _with_seen_attention(func, padding)(**again)
        return found

    def _padding_of(self, given: dict[str, Any]) -> TokenPadding:
        """Which keys and which queries of nn.MultiheadAttention are real. In self-attention they
        are the same tokens; of attention to another sequence, the module beside it that attends to
        its own has them, as in nn.TransformerDecoderLayer."""
        callers = (hooks.caller() for hooks in following() if isinstance(hooks, ModelHooks))
        caller = next(filter(None, callers), None)
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


def _with_seen_attention(function: Any, padding: TokenPadding) -> Callable[..., Any]:
    """A function of torch's whose own call of torch's attention is told: its code over other
    globals, as those of torch are every thread's."""
    real = F.scaled_dot_product_attention

    def seen(*args: Any, **kwargs: Any) -> Tensor:
        output: Tensor = real(*args, **kwargs)
        tell(lambda: padding.told(_of_torch(output, *args, **kwargs)))
        return output

    names = {**function.__globals__, "scaled_dot_product_attention": seen}
    own = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    own.__kwdefaults__ = function.__kwdefaults__
    return own


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
    """Whether regard itself called torch, not by running a module that it follows."""
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(_BETWEEN):
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__")).startswith("regard.")


_BETWEEN = ("torch.", "regard.hear.attached", "regard.hear.hooks")
