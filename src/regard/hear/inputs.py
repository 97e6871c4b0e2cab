"""What a model was called with: its tensors by name, its padding, and how many sequences.

Models are called with tensors, with one dict (sentence-transformers), with a dataclass, with lists
of such. A tensor's name is its key, its field or the argument it came as.

Queries come as (B, H, L, D): the batch is q's own first axis. What the model was given has to agree
with it. Tokens count sequences beyond doubt (`ModelInputs.batch`); then a batch of q that is a
multiple holds several windows, frames or chunks of each. Whatever could be read in two ways is
refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache, reduce
from inspect import Parameter, signature
from operator import and_
from typing import Any
from weakref import ref

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.arrays import host, is_bool
from regard.declare import is_portable
from regard.engine.call import Call
from regard.errors import InputError
from regard.mask import Extent, Mask, Padding

IDS = ("input_ids", "ids")
MASK = "attention_mask"
_CACHES = ("past_key_values", "cache")
_NO_TOKENS = ("token_type", "position", "segment", "label", "targets")  # names of other integers
_GRIDS = ("grid_thw", "grid_hw")  # names that end so: patches of each picture
_DEEPEST = 8  # containers inside one another


@dataclass(kw_only=True)
class ModelInputs:
    """The arguments of one call, as far as they tell of sequences."""

    ids: Tensor | None = None  # (B, L), by their name; else the only integers (m, n) there are
    mask: Any = None  # the attention mask, as it was given
    cached: int | None = None  # tokens in the cache
    encoded: bool = False  # what an encoder gave is there already
    batch: int | None = None  # sequences, where an argument whose name says what it is has them
    data: list[tuple[tuple[int, ...], bool]] = field(default_factory=list)
    """Shapes of tensors with several axes, and whether each holds whole numbers."""
    whole: list[Tensor] = field(default_factory=list)  # all that may be tokens, (m, n)
    threefold: list[ref[Tensor]] = field(default_factory=list)  # of three axes; not held on to
    # (pictures, 3): frames, rows, columns of each; those of films apart
    grids: list[Tensor] = field(default_factory=list)
    film_grids: list[Tensor] = field(default_factory=list)
    pixels: list[ref[Tensor]] = field(default_factory=list)  # pictures (…, C, h, w); not held on to
    film_pixels: list[ref[Tensor]] = field(default_factory=list)  # likewise
    latents: list[tuple[int, ...]] = field(default_factory=list)  # (B, C, h, w) of diffusion
    texts: list[int] = field(default_factory=list)  # tokens of what steers it
    timesteps: list[float] = field(default_factory=list)  # of it: one, or one a sequence

    @classmethod
    def of(cls, module: nn.Module, arguments: Mapping[str, Any]) -> ModelInputs:
        """Look through everything."""
        made = cls()
        main = _main_inputs(module)
        counts: dict[str, int] = {}
        unnamed: list[Tensor] = []
        if type(module).__module__.startswith("diffusers."):
            made._note_diffusion(arguments)
        for name, value in _walk("", arguments, _DEEPEST, set()):
            made.encoded |= name == "encoder_outputs" and value is not None
            if name == MASK:
                made.mask = value if made.mask is None else made.mask
            elif (length := _length(name, value)) is not None:
                made.cached = length
            elif isinstance(value, Tensor):
                made._take(name, value, main, counts, unnamed)
        if (real := real_tokens(made.mask)) is not None:
            counts[MASK] = len(real)
        order = (*IDS, "inputs_embeds", "decoder_input_ids", "decoder_inputs_embeds", MASK, *main)
        made.batch = next((counts[name] for name in order if name in counts), None)
        if made.ids is None and len(unnamed) == 1:
            made.ids = unnamed[0]
        return made

    def _note_diffusion(self, arguments: Mapping[str, Any]) -> None:
        """Latents (B, C, h, w), or their places (N, 3) of Flux; the step and the text."""
        when = arguments.get("timestep")
        if isinstance(when, Tensor):
            self.timesteps = [float(one) for one in when.detach().reshape(-1).tolist()]
        elif isinstance(when, int | float):
            self.timesteps = [float(when)]
        for name in ("sample", "hidden_states"):
            given = arguments.get(name)
            if isinstance(given, Tensor) and given.ndim in (4, 5):
                self.latents.append(tuple(given.shape))
        text = arguments.get("encoder_hidden_states")
        if isinstance(text, Tensor) and text.ndim == 3:
            self.texts.append(int(text.shape[1]))
        if isinstance(places := arguments.get("img_ids"), Tensor) and places.shape[-1] >= 3:
            rows = places.detach().reshape(-1, *places.shape[-2:])[0]
            high, wide = (int(n) + 1 for n in rows[:, 1:3].amax(0).tolist())
            if high * wide == len(rows):
                batch = arguments.get("hidden_states")
                count = len(batch) if isinstance(batch, Tensor) else 1
                self.latents.append((count, 1, high, wide))

    def holds(self, query: Tensor) -> bool:
        """Whether queries (H, L, D) are what the model was given, as they are."""
        given = (one() for one in self.threefold)
        return any(
            t is not None and t.shape == query.shape and t.data_ptr() == query.data_ptr()
            for t in given
        )

    def _take(
        self,
        name: str,
        value: Tensor,
        main: tuple[str, ...],
        counts: dict[str, int],
        unnamed: list[Tensor],
    ) -> None:
        if value.ndim < 2 or "mask" in name or "bias" in name:
            return
        if name.endswith(_GRIDS) and value.shape[-1] in (2, 3):
            (self.film_grids if "video" in name else self.grids).append(value)
        if name.startswith("pixel_values"):
            (self.film_pixels if "video" in name else self.pixels).append(ref(value))
        self.data.append((tuple(value.shape), not value.is_floating_point()))
        if value.ndim == 3:
            self.threefold.append(ref(value))
        if is_ids(value):
            self.whole.append(value)
        if is_ids(value) and name in IDS:
            self.ids = value if self.ids is None else self.ids
        elif is_ids(value) and not any(word in name for word in _NO_TOKENS):
            unnamed.append(value)
        is_named = name in (*IDS, "decoder_input_ids") and is_ids(value)
        embedded = name in ("inputs_embeds", "decoder_inputs_embeds") and value.ndim == 3
        if is_named or embedded or (name in main and value.is_floating_point()):
            counts.setdefault(name, value.shape[0])


def _main_inputs(module: nn.Module) -> tuple[str, ...]:
    """As models of transformers declare them: a name, or several (OneFormer)."""
    named = getattr(module, "main_input_name", None) or ()
    return (named,) if isinstance(named, str) else tuple(named)


def argument_names(module: nn.Module) -> tuple[str, ...]:
    """What `forward` calls its positional arguments; those of *args are called by its name."""
    own = getattr(type(module), "forward", None)
    if getattr(module.forward, "__func__", None) is own and own is not None:
        return _class_arguments(own)
    return _positional(module.forward)  # of this module alone, as wrappers put it there


@lru_cache(maxsize=1024)
def _class_arguments(forward: Any) -> tuple[str, ...]:
    """Of a class's method, asked once for all its modules: a signature takes long to find."""
    return _positional(forward)[1:]  # without self


def _positional(function: Any) -> tuple[str, ...]:
    fixed, rest = [], ""
    try:
        parameters = signature(function).parameters.values()
    except ValueError:  # TorchScript's have none
        return ("",)
    for one in parameters:
        if one.kind is Parameter.VAR_POSITIONAL:
            rest = one.name
        elif one.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
            fixed.append(one.name)
    return (*fixed, rest)


def by_name(
    names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a call, in order; those of *args together."""
    fixed, rest = names[:-1], args[len(names) - 1 :]
    found = dict(zip(fixed, args, strict=False)) | kwargs
    return found | {names[-1]: rest} if rest else found


def is_ids(value: Any) -> bool:
    """Whether something can be token ids (B, L)."""
    return (
        isinstance(value, Tensor)
        and value.ndim == 2
        and not value.is_floating_point()
        and value.dtype != torch.bool
    )


def cached_in(arguments: Mapping[str, Any]) -> int:
    """How many tokens the cache among these arguments holds."""
    return max((_length(name, arguments.get(name)) or 0 for name in _CACHES), default=0)


def _length(name: str, value: Any) -> int | None:
    """How many tokens a cache holds, of transformers or of regard.nn."""
    if name not in _CACHES:
        return None
    if hasattr(value, "get_seq_length"):
        return int(value.get_seq_length())
    length = getattr(value, "length", None)
    return length if isinstance(length, int) else None


def _walk(name: str, value: Any, deep: int, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Everything that holds nothing else, by name; masks, caches and encodings as they are."""
    parts = _parts(value) if deep and name not in (MASK, *_CACHES) else None
    if parts is None or id(value) in seen or name == "encoder_outputs":
        yield name, value
    if parts is None or id(value) in seen:
        return
    seen.add(id(value))
    for inner, one in parts:
        yield from _walk(inner or name, one, deep - 1, seen)


def _parts(value: Any) -> list[tuple[str, Any]] | None:
    """What a container holds; None where it is none."""
    if isinstance(value, Tensor | nn.Module | type | str | bytes) or value is None:
        return None
    if isinstance(value, Mapping):
        return [(key if isinstance(key, str) else "", one) for key, one in value.items()]
    if isinstance(value, list | tuple):
        if not value or isinstance(value[0], int | float | str):
            return None
        names = getattr(value, "_fields", [""] * len(value))
        return list(zip(names, value, strict=True))
    if is_dataclass(value):
        return [(one.name, getattr(value, one.name)) for one in fields(value)]
    return list(vars(value).items()) if hasattr(value, "__dict__") else None


# ── which tokens of a padded batch are real ────────────────────────────────────────────────────


_Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Real:
    """What a mask says of the tokens of E batch entries; None: nothing, so that all are real."""

    queries: _Flags | None  # (E, L)
    keys: _Flags | None  # (E, S)


def margins(flags: _Flags) -> list[range]:
    """Of each (E, N) from the first real token to the last; holes inside are left to the mask."""
    firsts = flags.argmax(1) if flags.size else np.zeros(len(flags), int)
    ends = flags.shape[1] - flags[:, ::-1].argmax(1) if flags.size else firsts
    any_real: list[bool] = np.any(flags, 1).tolist()
    return [
        range(first, end) if real else range(0)
        for first, end, real in zip(firsts.tolist(), ends.tolist(), any_real, strict=True)
    ]


def inside(parts: Sequence[range], count: int) -> _Flags:
    """(E, count): whether each token is in its entry's part."""
    at = np.arange(count)
    first, end = np.array([[one.start, one.stop] for one in parts]).T[..., None]
    found: _Flags = (first <= at) & (at < end)
    return found


def real_in(mask: Mask | None, extent: Extent) -> Real:
    """The padding among a mask's conditions."""
    found: list[_Flags | None] = [None, None]
    for padding in _paddings(mask):
        sides = ((padding.queries, extent.queries), (padding.keys, extent.keys))
        for at, (given, count) in enumerate(sides):
            if given is not None:
                real, before = _of_entries(given, count, extent), found[at]
                found[at] = real if before is None else before & real
    return Real(*found)


def shared_mask(
    mask: Mask | None, extent: Extent, rows: Sequence[range], keys: Sequence[range]
) -> tuple[Mask | None, bool]:
    """What is left of a mask without the padding outside each entry's rows and keys, and whether
    that is the same for every entry."""
    for padding in _paddings(mask):
        for given, parts, count in (
            (padding.queries, rows, extent.queries), (padding.keys, keys, extent.keys),
        ):  # fmt: skip
            if given is not None:
                real = _of_entries(given, count, extent)
                if not (real | ~inside(parts, count)).all():
                    return mask, False
    held = () if mask is None else mask.conditions()
    kept = [one for one in held if one.as_padding() is None]
    if any(not is_portable(one) or any(True for _ in one.arrays()) for one in kept):
        return mask, False  # arrays, and functions of an entry, speak of each by itself
    return (reduce(and_, kept) if kept else None), True


def _paddings(mask: Mask | None) -> list[Padding]:
    found = (one.as_padding() for one in (() if mask is None else mask.conditions()))
    return [one for one in found if one is not None]


def _of_entries(given: Any, count: int, extent: Extent) -> _Flags:
    """(E, count) from flags or lengths whose leading axes broadcast against the batch."""
    return np.broadcast_to(_flags(given, count), (*extent.batch, count)).reshape(-1, count)


def without_padding(mask: Mask | None, rows: range, keys: range) -> Mask | None:
    """One entry's mask less the padding that lies outside these rows and keys."""
    held = () if mask is None else mask.conditions()
    kept = [one for one in held if not _is_outside(one.as_padding(), rows, keys)]
    return mask if len(kept) == len(held) else reduce(and_, kept) if kept else None


def _is_outside(padding: Padding | None, rows: range, keys: range) -> bool:
    if padding is None:
        return False
    sides = ((padding.queries, rows), (padding.keys, keys))
    return all(f is None or _flags(f, at.stop)[..., at.start : at.stop].all() for f, at in sides)


def real_tokens(given: Any) -> Tensor | None:
    """(B, ≥ L) booleans from what a model is given as its attention_mask: a tensor (B, S), or the
    masks that `generate` has made of one already."""
    if isinstance(given, dict):
        found = (real_tokens(one) for one in given.values())
        return next((one for one in found if one is not None), None)
    if isinstance(given, Tensor):
        return given.detach() != 0 if given.ndim == 2 else None
    return getattr(given, "counted", None)


def _flags(given: Any, count: int) -> _Flags:
    """(…, count): flags as they are, lengths as flags."""
    return host(given) if is_bool(given) else np.arange(count) < host(given)[..., None]


# ── how many sequences a call holds ────────────────────────────────────────────────────────────


def sequences(
    given: ModelInputs, call: Call, known: int | None, path: str, *, ours: bool = False
) -> int:
    """The number of sequences; `known` where tokens, or earlier calls, have told it.

    ours   the call is one of `regard.attend`, for which (H, L, D) are heads: where the model was
           given these queries themselves, they are one sequence
    """
    batch, path = call.shape.batch, path or "the model"
    if not batch and ours and known is None and given.holds(call.query):
        return 1
    if not batch:
        return _without_batch(given, call, known, path)
    if known is None:
        known = _fitting(given, call) or _folded(given, call)
    if known is None:
        raise InputError(
            f"{path} attends over {_shape(call)}, and none of what the model was given has "
            f"{batch[0]} sequences: {_said(given)}; give token ids as input_ids, or embeddings as "
            "inputs_embeds (batch, tokens, dim), so that the sequences can be counted"
        )
    if known == 1:
        return 1
    entries = math.prod(batch)
    if known != entries and batch[0] % known:
        raise InputError(
            f"{path} attends over {entries} batch entries, the model was given {known} sequences; "
            "record them one by one"
        )
    if known not in (entries, batch[0]) and not _is_shared_out(given, call, known):
        raise InputError(
            f"{path} attends over {_shape(call)}, the model was given {known} sequences "
            f"({_said(given)}): which entries are whose cannot be known; record them one by one"
        )
    return known


def is_empty(call: Call) -> bool:
    """Whether a call has no row: an empty batch, or no token."""
    return call.shape.queries == 0 or 0 in call.shape.batch


def is_over_channels(given: tuple[int, ...], call: Call) -> bool:
    """Whether H heads of L queries (…, H, L, D) are the H·L channels of a module's input, and D its
    positions (XCiT, DaViT): (B, N, C), (B, C, h, w) or (B, h, w, C)."""
    shape = call.shape
    if len(given) not in (3, 4) or shape.queries != shape.keys:
        return False
    layouts = {(math.prod(given[1:-1]), given[-1])}
    if len(given) == 4:
        layouts.add((math.prod(given[2:]), given[1]))
    if (shape.dim, shape.query_heads * shape.queries) not in layouts:
        return False
    # as many channels a head as positions: the tokens of a head's split lie far apart in memory
    is_split = call.key.stride(-1) <= call.key.stride(-2)
    return shape.queries != shape.dim or not is_split


def _without_batch(given: ModelInputs, call: Call, known: int | None, path: str) -> int:
    """(L, D) and (H, L, D), where the first axis could also be the batch, or both in one."""
    if known == 1 or (known is None and _is_alone(given, call)):
        return 1
    told = "" if known is None else f"{known} sequences, "
    raise InputError(
        f"{path} attends over {_shape(call)}, which has no axis for the batch, and the model was "
        f"given {told}{_said(given)}: sequences and heads cannot be told apart; call attention "
        "with (batch, heads, tokens, dim), or record one sequence by its input_ids (1, tokens)"
    )


def _is_alone(given: ModelInputs, call: Call) -> bool:
    """Whether all that was given is one sequence: (1, L, …), or (L, features) without a batch."""
    lengths = (call.shape.queries, call.shape.keys)
    alone = all(shape[0] == 1 for shape, _ in given.data) and call.shape.queries > 1
    plain = all(len(s) == 2 and not whole and s[0] in lengths for s, whole in given.data)
    return alone or plain


def _fitting(given: ModelInputs, call: Call) -> int | None:
    """q's own batch, where something that was given has as many."""
    lengths = (call.shape.queries, call.shape.keys)
    for count in dict.fromkeys((call.shape.batch[0], math.prod(call.shape.batch))):
        for shape, whole in given.data:
            last = shape[1] == count and shape[0] in lengths  # tokens first, then the batch
            alone = count == 1 and len(shape) == 2 and not whole  # (L, features) of one sequence
            if shape[0] == count or last or alone:
                return count
        if not given.data:
            return count
    return None


def _folded(given: ModelInputs, call: Call) -> int | None:
    """The only number of sequences that what was given allows, each of several batch entries."""
    first = call.shape.batch[0]
    every: set[int] | None = None
    for shape, whole in given.data:
        if len(shape) == 2 and not whole:
            continue
        some = {shape[0]} if len(shape) > 3 else {a for a, b in (shape[:2], shape[1::-1]) if b > 1}
        some = {count for count in some if first % count == 0}
        every = some if every is None else every & some
    return every.pop() if every is not None and len(every) == 1 else None


def _is_shared_out(given: ModelInputs, call: Call, known: int) -> bool:
    """Whether each sequence has the same number of entries beside each other: not where heads
    may be among them, nor where pictures are counted by themselves."""
    media = [shape for shape, whole in given.data if len(shape) > 2 and not whole]
    windows = call.shape.query_heads > 1 or any(len(shape) > 3 for shape in media)
    return windows and all(shape[0] in (1, known) for shape in media)


def _shape(call: Call) -> str:
    shape = call.shape
    return f"queries {(*shape.batch, shape.query_heads, shape.queries, shape.dim)}"


def _said(given: ModelInputs) -> str:
    return "tensors " + ", ".join(str(s) for s, _ in given.data) if given.data else "no tensors"
