"""Which modules of a model mix tokens, measured: a row of their output moves when other rows of
their input change. Attention, convolutions, state spaces and recurrent layers do; MLPs, norms,
experts and rotary embeddings do not, whatever they are called.

The first call of each kind of module is kept, a few tokens of it. Afterwards a twin of the module
is run on them: it shares the parameters, has its own buffers, no hooks and no cache, and is in
evaluation mode, so that nothing of the model changes. What is measured has rows (batch, tokens,
features) in and as many out: patch embeddings, pooling and pictures (batch, channels, height,
width) have not.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import MethodType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from regard.engine.observers import unheard

MIXES = "it mixes tokens by other means than attention"
_FEW = 16  # tokens of a call that is kept, where the whole would be large
_SMALL = 2**18  # numbers of an input that is kept whole
_CONVOLUTION = nn.modules.conv._ConvNd
_ALONG = (_CONVOLUTION, nn.RNNBase)  # of torch, they mix along an axis of tokens
_NORMS = (nn.LayerNorm, nn.GroupNorm, nn.BatchNorm1d)
_HOOKS = (
    "_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs", "_backward_hooks",
    "_backward_pre_hooks",
)  # fmt: skip


@dataclass(frozen=True)
class _KeptCall:
    """One call: its arguments, and which of them holds the tokens."""

    leaves: list[Any]
    tree: Any
    at: int
    axis: int  # of the tokens
    autocast: torch.dtype | None


class CallSamples:
    """The first call of each kind of module, and what was measured of it; of one model, for all
    that follow it."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}  # of kinds
        self._kinds: WeakKeyDictionary[nn.Module, int | None] = WeakKeyDictionary()
        self._kept: dict[int, _KeptCall | None] = {}  # by kind; None where it is measured
        self._mixes: dict[int, bool] = {}
        self._in_front: WeakSet[nn.Module] = WeakSet()  # convolutions that precede any attention

    @classmethod
    def of(cls, model: nn.Module) -> CallSamples:
        """Those of a model: what is known of its modules is measured once."""
        return _OF_MODELS.setdefault(model, cls())

    def note(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], first: bool
    ) -> None:
        """A module is called; `first`: no attention was observed before it."""
        if first and isinstance(module, _CONVOLUTION):
            self._in_front.add(module)
        kind = self._kind(module)
        if kind is not None and kind not in self._kept:
            sample = _sampled(module, args, kwargs)
            if sample is not None:
                self._kept[kind] = sample

    def mixing(
        self, model: nn.Module, ran: Collection[str], attended: Collection[str]
    ) -> dict[str, nn.Module]:
        """By path: modules that ran, mix tokens and hold no attention that was observed; of such
        inside one another the innermost, a convolution or recurrent layer of torch's only where
        nothing around it is one."""
        around = {outer for path in attended for outer in _outer(path)} | set(attended)
        listed = self._within(model, "", ran, around, covered=False)
        return {
            path: module
            for path, module in listed
            if not self._embeds(path, module) and not _is_apart(path, module, around)
        }

    def _within(
        self, module: nn.Module, path: str, ran: Collection[str], around: set[str], covered: bool
    ) -> list[tuple[str, nn.Module]]:
        kind = self._kind(module)
        measured = path in ran and path not in around and kind in self._kept
        mixes = kind is not None and measured and self._does(kind, module)
        if isinstance(module, _ALONG):
            return [(path, module)] if mixes and not covered else []
        if measured and not mixes:
            return []
        inner: list[tuple[str, nn.Module]] = []
        for name, child in module.named_children():
            inner += self._within(
                child, f"{path}.{name}" if path else name, ran, around, covered or mixes
            )
        return inner or ([(path, module)] if mixes else [])

    def _embeds(self, path: str, module: nn.Module) -> bool:
        """Whether it makes tokens of what the model is given: embeddings and patches by their name,
        a convolution to another number of channels, or one in front of all layers."""
        names = (type(module).__name__.lower(), path.rpartition(".")[2].lower())
        named = any(word in name for name in names for word in ("embed", "patch"))
        if named or not isinstance(module, _CONVOLUTION):
            return named
        is_layer = any(piece.isdecimal() for piece in path.split("."))
        changes = module.in_channels != module.out_channels
        return changes or (module in self._in_front and not is_layer)

    def _does(self, kind: int, module: nn.Module) -> bool:
        sample = self._kept[kind]
        if sample is not None:
            self._mixes[kind], self._kept[kind] = _mixes_tokens(module, sample), None
        return self._mixes[kind]

    def _kind(self, module: nn.Module) -> int | None:
        """Equal for modules that are made alike; None for those that cannot mix or be run alone."""
        if module not in self._kinds:
            kinds = tuple(_made(one) for one in module.modules())
            plain = len(kinds) == 1 and type(module).__module__.startswith("torch.nn.")
            skipped = plain and not isinstance(module, _ALONG)
            number = self._numbers.setdefault(kinds, len(self._numbers))
            self._kinds[module] = None if skipped or not _can_be_copied(module) else number
        return self._kinds[module]


_OF_MODELS: WeakKeyDictionary[nn.Module, CallSamples] = WeakKeyDictionary()


def _made(module: nn.Module) -> Any:
    """What a layer is: its class, of convolutions the size and the step too."""
    sizes = (module.kernel_size, module.stride) if isinstance(module, _CONVOLUTION) else ()
    return type(module), *sizes


def _outer(path: str) -> Iterator[str]:
    """The modules around a path, the model itself first."""
    pieces = path.split(".") if path else []
    return (".".join(pieces[:count]) for count in range(len(pieces)))


def _is_apart(path: str, module: nn.Module, around: set[str]) -> bool:
    """Whether it consists of convolutions in a part of the model without attention, such as the
    features of a sound or a vocoder: its rows are no tokens."""
    layers = [one for one in module.modules() if any(True for _ in one.parameters(recurse=False))]
    plain = (*_NORMS, _CONVOLUTION)
    if not layers or not all(isinstance(one, plain) for one in layers):
        return False
    pieces = path.split(".")
    lists = [".".join(pieces[:n]) for n, piece in enumerate(pieces) if piece.isdecimal()]
    return around.isdisjoint(lists or [".".join(pieces[:-1])])


# ── a call that is kept ──────────────────────────────────────────────────────────────────────


def _sampled(module: nn.Module, args: Any, kwargs: Any) -> _KeptCall | None:
    """The call, cut to few tokens; None where it holds no rows of several tokens."""
    try:
        leaves, tree = tree_flatten((args, kwargs), is_leaf=_is_whole)
    except RecursionError:  # a structure that holds itself
        return None
    at = next((n for n, one in enumerate(leaves) if _holds_rows(one)), None)
    if at is None:
        return None
    rows, axis = leaves[at], _token_axis(module)
    count = rows.shape[axis]
    if count < 2:
        return None
    few = count if rows.numel() <= _SMALL else min(count, _FEW)
    with torch.no_grad(), torch._C.DisableTorchFunction():
        kept = [_kept(one, count, few) for one in leaves]
    device = rows.device.type
    autocast = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    return _KeptCall(kept, tree, at, axis, autocast)


def _is_whole(value: Any) -> bool:
    return not isinstance(value, tuple | list | dict)


def _holds_rows(value: Any) -> bool:
    """(B, L, D) of numbers that can be changed a little."""
    return isinstance(value, Tensor) and value.ndim == 3 and value.is_floating_point()


def _token_axis(module: nn.Module) -> int:
    """Torch's convolutions have (B, D, L), its recurrent layers (L, B, D) unless told otherwise."""
    if isinstance(module, nn.RNNBase):
        return 1 if module.batch_first else 0
    plain = type(module).__module__.startswith("torch.nn.")
    return 2 if plain and isinstance(module, _CONVOLUTION) else 1


def _kept(value: Any, count: int, few: int) -> Any:
    """A copy of a tensor, without the tokens beyond; no cache, which a second call would fill."""
    if isinstance(value, Tensor):
        if few < count:
            for axis, size in enumerate(value.shape):
                value = value.narrow(axis, 0, few) if size == count else value
        return value.detach().clone()
    return None if "cache" in type(value).__name__.lower() else value


# ── measured ─────────────────────────────────────────────────────────────────────────────────


def _mixes_tokens(module: nn.Module, sample: _KeptCall) -> bool:
    """Whether the last, the first or the middle row of the output moves when every other row of the
    input does. A module that cannot be run by itself is not known to."""
    rows = sample.leaves[sample.at]
    count, device = rows.shape[sample.axis], rows.device
    dice = torch.Generator().manual_seed(0)
    spread = float(rows.float().std()) or 1.0
    noise = torch.randn(rows.shape, generator=dice).to(device, rows.dtype) * spread
    devices = [device] if device.type == "cuda" else []
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices))
        stack.enter_context(torch.no_grad())
        stack.enter_context(unheard())
        if sample.autocast is not None:
            stack.enter_context(torch.autocast(device.type, sample.autocast))
        twin = _twin(module)
        try:
            before = _rows_out(twin, sample, rows)
            for target in (count - 1, 0, count // 2):
                still = torch.arange(count, device=device) == target
                still = still.reshape([-1 if n == sample.axis else 1 for n in range(3)])
                after = _rows_out(twin, sample, torch.where(still, rows, rows + noise))
                if before is None or after is None:
                    return False
                moved = (after - before).select(sample.axis, target).abs().max()
                if bool(moved > 4 * torch.finfo(rows.dtype).eps * before.abs().max()):
                    return True
        except Exception:  # noqa: BLE001 - whatever a stranger's module raises outside its model
            return False
    return False


def _rows_out(twin: nn.Module, sample: _KeptCall, rows: Tensor) -> Tensor | None:
    """(B, L, D) of what the module makes of these rows; None where it gives no rows."""
    leaves = [_again(one) for one in sample.leaves]
    leaves[sample.at] = rows.clone()
    args, kwargs = tree_unflatten(leaves, sample.tree)
    output = twin(*args, **kwargs)
    while isinstance(output, tuple | list | dict) and output:
        output = next(iter(output.values())) if isinstance(output, dict) else output[0]
    if not isinstance(output, Tensor) or output.ndim != 3 or not output.is_floating_point():
        return None
    count, made = rows.shape[sample.axis], output.shape[sample.axis]
    pads = sample.axis == 2 and made > count  # a causal convolution pads on both sides
    return output.float() if made == count or pads else None


def _again(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def _twin(module: nn.Module) -> nn.Module:
    """The module once more, in evaluation mode: with its parameters, copies of its buffers and of
    what else it writes on, and without hooks."""
    made: nn.Module = object.__new__(type(module))
    for name, value in vars(module).items():
        if name in _HOOKS:
            value = type(value)()
        elif isinstance(value, list | dict | set):
            value = copy.copy(value)
        elif getattr(value, "__self__", None) is module:  # a method that it calls by another name
            value = MethodType(value.__func__, made)
        made.__dict__[name] = value
    made.__dict__["_buffers"] = tree_map(_again, module._buffers)
    made.__dict__["_modules"] = {
        name: None if child is None else _twin(child) for name, child in module._modules.items()
    }
    made.__dict__["training"] = False
    if "_old_forward" in vars(module):  # accelerate's, which runs the module itself
        made.__dict__.pop("forward", None)
    return made


def _can_be_copied(module: nn.Module) -> bool:
    """Not TorchScript's, not compiled ones, and not parameters that other ranks or no device
    hold."""
    strange = any(
        isinstance(one, torch.jit.ScriptModule) or "_orig_mod" in one._modules
        for one in module.modules()
    )
    return not strange and not any(
        hasattr(one, "placements") or one.is_meta or not one.untyped_storage().size()
        for one in module.parameters()
        if one.numel()
    )
