"""What a module was called with: the tensors of any structure, each by its name.

Models are called with tensors, with one dict (sentence-transformers), with a dataclass, with lists
of such. A tensor's name is its key, its field or the argument it came as.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from inspect import Parameter, signature
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn

from regard.recorder.padding import real_tokens

IDS = ("input_ids", "ids")
MASK = "attention_mask"
_CACHES = ("past_key_values", "cache")
_NO_TOKENS = ("token_type", "position", "segment", "label", "targets")  # names of other integers
_DEEPEST = 8  # containers inside one another


@dataclass
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

    @classmethod
    def of(cls, module: nn.Module, arguments: Mapping[str, Any]) -> ModelInputs:
        """Look through everything."""
        made = cls()
        main = _main_inputs(module)
        counts: dict[str, int] = {}
        unnamed: list[Tensor] = []
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
    fixed, rest = [], ""
    for one in signature(module.forward).parameters.values():
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
