"""How a model's attention is intercepted: in `attend`, and in torch's own function.

Modules that call torch's `scaled_dot_product_attention` are not changed. Attention that is computed
by other means is noticed: functions whose name says so (FlexAttention, flash-attn's operators), and
a softmax whose result is multiplied with something. A module that ran counts as attention where its
class is called so, or where it was noticed; modules around or inside one that was recorded do not
count by their name alone.

accelerate's `cpu_offload`, `disk_offload` and `dispatch_model` leave parameters on the meta device;
a hook on the module puts the numbers there before each forward and takes them away afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from inspect import signature
from types import FrameType
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.engine.api import replay_with
from regard.engine.attention import Attention
from regard.errors import InputError
from regard.mask import Causal
from regard.recorder.hooks import without_numbers
from regard.summary import Summary

_COMPILERS = ("torch._dynamo", "torch.nn.attention.flex_attention")


@contextmanager
def intercepted(
    model: nn.Module,
    saw: Callable[[Attention, Tensor, Tensor], None],
    missed: Callable[[], None] | None = None,
) -> Iterator[None]:
    """Within the block, every module that asks transformers for its attention computes it with
    regard, which tells those who listen; `saw` gets what torch's function computes, and `missed`
    is called where attention is computed by other means.

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
                stack.enter_context(switched(model, found))
            elif is_hugging_face(model) and not calls_torch(model):
                stack.enter_context(using(model))  # which refuses it
        stack.enter_context(TorchIntercept(saw, missed))
        yield


def is_hugging_face(model: nn.Module) -> bool:
    """Whether transformers, or somebody who builds on it, wrote the model."""
    return any(kind.__module__.startswith("transformers.") for kind in type(model).__mro__)


# ── torch's scaled_dot_product_attention ───────────────────────────────────────────────────────


class TorchIntercept(TorchFunctionMode):
    """Within the block, `heard` gets every call of torch's function, with its output; `missed` is
    called where attention is computed otherwise.

    The output is torch's own, bit for bit; the attention is replayed beside it. The sweep that
    replays it measures `along(whether there is a bias)` on its way.
    """

    def __init__(
        self,
        heard: Callable[[Attention, Tensor, Tensor], None],
        missed: Callable[[], None] | None = None,
        along: Callable[[bool], tuple[Summary, ...]] = lambda biased: (),
    ) -> None:
        super().__init__()
        self._heard, self._missed, self._along = heard, missed, along
        self._weights: tuple[int, ...] = ()  # the shape of the last softmax

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Torch's own answer, after a look at what it answers."""
        given = kwargs or {}
        # nearly every function is none of ours, and a small model spends its time here
        if torch.compiler.is_compiling() or (kind := _kind(func)) is None:
            return func(*args, **given)
        if kind == "projected":
            return self._projected(func, args, given)
        found = func(*args, **given)
        if kind == "torch":
            if not _is_our_own(sys._getframe(1)):  # which tells those who listen itself
                with torch.no_grad():
                    self._see(found, *args, **given)
        elif self._missed is not None:
            self._notice(kind, args, found)
        return found

    def _notice(self, kind: _Kind, args: tuple[Any, ...], found: Any) -> None:
        """Attention by other means: a function of that name, or softmax, then a product."""
        if kind == "softmax":
            shape = tuple(getattr(found, "shape", ()))
            square = (
                len(shape) == 2 and shape[0] == shape[1]
            )  # (tokens, tokens); not (rows, classes)
            self._weights = shape if square or len(shape) > 2 else ()
            return
        factors = [tuple(one.shape) for one in _tensors(args)]
        if kind == "product" and (not self._weights or self._weights not in factors):
            return
        self._weights = ()
        if self._missed is not None and not _is_our_own(sys._getframe(2)):
            self._missed()

    def _projected(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """nn.MultiheadAttention, whose inner call no mode gets to see. Where it is asked for its
        weights it calls no function at all: then it is run once more, without."""
        given = signature(func).bind(*args, **kwargs)
        given.apply_defaults()
        if not given.arguments["need_weights"]:
            with self._inside():
                return func(*args, **kwargs)
        found = func(*args, **kwargs)
        again = given.arguments | {"need_weights": False, "training": False}
        with torch.no_grad(), self._inside():
            func(**again)
        return found

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """Torch's function, as its own module calls it, is seen."""
        real = F.scaled_dot_product_attention

        def seen(*args: Any, **kwargs: Any) -> Tensor:
            found: Tensor = real(*args, **kwargs)
            with torch.no_grad():
                self._see(found, *args, **kwargs)
            return found

        with patch.object(F, "scaled_dot_product_attention", seen):
            yield

    def _see(
        self,
        output: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> None:
        q, k = query.detach(), key.detach()
        mask: Any = Causal(align="start") if is_causal else None
        bias = None
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            mask = attn_mask
        elif attn_mask is not None:
            bias = attn_mask.detach()
        lead = np.broadcast_shapes(q.shape[:-3], k.shape[:-3])
        q, k = (t.expand(*lead, *t.shape[-3:]) for t in (q, k))
        seen = replay_with(self._along(bias is not None), q, k, None, mask, scale, bias)
        self._heard(seen, output.detach(), value.detach().expand(*lead, *value.shape[-3:]))


_Kind = Literal["torch", "projected", "softmax", "product", "attention"]
_PRODUCTS = ("matmul", "bmm", "mm", "einsum", "__matmul__", "baddbmm", "tensordot")
_WORDS = ("attention", "attn", "flash_fwd")


@cache
def _kind(func: Any) -> _Kind | None:
    """What a function of torch has to do with attention."""
    if func is F.scaled_dot_product_attention:
        return "torch"
    if func is F.multi_head_attention_forward:
        return "projected"
    name = str(getattr(func, "__name__", ""))
    if name in ("softmax", "_softmax", "_safe_softmax"):
        return "softmax"
    if name in _PRODUCTS:
        return "product"
    return "attention" if any(word in name for word in _WORDS) else None


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


# ── attention that ran and was not recorded ────────────────────────────────────────────────────


_WORD = "Attention"


def missed_modules(
    model: nn.Module, ran: Collection[str], heard: Collection[str], by_hand: Collection[str]
) -> dict[str, nn.Module]:
    """By path, outer ones instead of those inside them."""
    modules: dict[str, Any] = dict(model.named_modules())
    around = {outer for path in heard for outer in _outer(path)} | set(heard)
    found: dict[str, nn.Module] = {}
    for path, module in modules.items():  # outer modules come first
        named = _WORD in type(module).__name__ and path not in around
        # beside a heard one, inside the same attention: its dropout, its output
        named = named and not any(
            outer in around and _WORD in type(modules[outer]).__name__ for outer in _outer(path)
        )
        counts = path in ran and (named or path in by_hand)
        if counts and not any(outer in found for outer in _outer(path)):
            found[path] = module
    return found


def why_missed(model: nn.Module, missed: dict[str, nn.Module]) -> tuple[list[str], str]:
    """The modules in words, layers alike together; and a sentence for a warning."""
    groups: dict[str, int] = {}
    for path, module in missed.items():
        name = f"{without_numbers(path) or 'the model'} ({type(module).__name__})"
        groups[name] = groups.get(name, 0) + 1
    said = [name if count == 1 else f"{name}, {count} of them" for name, count in groups.items()]
    return said, "; ".join(
        [
            f"not recorded, although they ran: {', '.join(said)}",
            *_families(model, missed),
            "regard records what goes through regard.attend, transformers' attention interface "
            "or torch's scaled_dot_product_attention",
        ]
    )


def _families(model: nn.Module, missed: dict[str, nn.Module]) -> Iterator[str]:
    """Which families of transformers compute their attention by themselves."""
    modules: dict[str, Any] = dict(model.named_modules())
    kinds: dict[str, list[type[nn.Module]]] = {}
    for path, module in missed.items():
        for outer in (*_outer(path), path):
            family = getattr(getattr(modules[outer], "config", None), "model_type", None)
            if family is not None and is_hugging_face(modules[outer]):
                kinds.setdefault(str(family), []).append(type(module))
                break
    if kinds:
        from regard.huggingface.families import sight, unseen_because

        seen = {type(module) for module in sight(model).seen.values()}
        for family, own in kinds.items():
            if not seen.intersection(own):  # else it dispatches, and attends in another way too
                yield unseen_because(family, own)


def _outer(path: str) -> list[str]:
    """The modules around a path, the model itself first."""
    pieces = path.split(".") if path else []
    return [".".join(pieces[:count]) for count in range(len(pieces))]


# ── where a model's weights are ────────────────────────────────────────────────────────────────


def check_weights(model: nn.Module) -> None:
    """InputError where a model has no numbers to compute with."""
    bringing = [path for path, module in model.named_modules() if _brings(module) is not None]
    for path, module in model.named_modules():
        absent = any(one.is_meta for one in module.parameters(recurse=False))
        if absent and not any(
            f"{path}.".startswith(f"{outer}.") or not outer for outer in bringing
        ):
            raise InputError(
                "the model is on the meta device and computes nothing: "
                f"{path or type(model).__name__} has no weights; load them"
            )


def device_of(model: nn.Module) -> torch.device:
    """Where a model wants its inputs."""
    for module in model.modules():
        hook = _brings(module)
        if hook is not None and hook.execution_device is not None:
            return torch.device(hook.execution_device)
        for parameter in module.parameters(recurse=False):
            return parameter.device
    return torch.device("cpu")


def _brings(module: nn.Module) -> Any:
    """accelerate's hook that brings a module's weights; None where it has none."""
    hook = getattr(module, "_hf_hook", None)
    every = (hook, *getattr(hook, "hooks", ()))
    return next((one for one in every if getattr(one, "offload", False)), None)
