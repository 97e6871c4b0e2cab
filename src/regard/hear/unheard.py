"""Attention that ran and was not heard, and what else mixes tokens: which modules, and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from regard.hear.hooks import ModelHooks
from regard.hear.intercept import is_hugging_face
from regard.hear.mixing import MIXES
from regard.hear.names import without_numbers
from regard.hear.wrapped import instead_of

_WORD = re.compile(r"Attention|Attn|SelfAtt|CrossAtt|MultiHead|MHA(?![a-z])")
_PROJECTIONS = (  # what modules call the layers that make queries, keys and values
    {"q_proj", "k_proj", "v_proj"}, {"query", "key", "value"}, {"to_q", "to_k", "to_v"},
    {"wq", "wk", "wv"}, {"w_q", "w_k", "w_v"}, {"q", "k", "v"}, {"q_lin", "k_lin", "v_lin"},
    {"query_proj", "key_proj", "value_proj"}, {"qkv"}, {"qkv_proj"}, {"to_qkv"}, {"wqkv"},
    {"c_attn"}, {"query_key_value"}, {"in_proj_qkv"},
)  # fmt: skip


def is_named(module: nn.Module) -> bool:
    """Whether its class is called attention."""
    return bool(_WORD.search(type(module).__name__))


def _projects(module: nn.Module) -> bool:
    """Whether it has layers for queries, keys and values."""
    inner = {name.lower() for name, _ in module.named_children()}
    return any(names <= inner for names in _PROJECTIONS)


def _is_scripted(module: nn.Module) -> bool:
    """Whether TorchScript computes attention in it, which no Python sees."""
    if not isinstance(module, torch.jit.ScriptModule):
        return False
    return "scaled_dot_product_attention" in str(getattr(module, "inlined_graph", ""))


def missed_modules(where: ModelHooks, noticed: Mapping[str, str]) -> dict[str, str]:
    """By path, with the reason where one is known: modules that ran and gave nothing, although they
    look like attention, were `noticed` attending, or mix tokens as `where` measured it. Outer ones
    instead of those inside them."""
    attention = _unheard_attention(where, noticed)
    mixing = where.samples.mixing(where.model, where.ran, where.attended)
    apart = [
        path
        for path in mixing
        if not any(_is_within(path, one) or _is_within(one, path) for one in attention)
    ]
    named = {path: _reason(path, noticed) for path in attention}
    return named | dict.fromkeys(apart, MIXES)


def _unheard_attention(where: ModelHooks, noticed: Mapping[str, str]) -> list[str]:
    modules: dict[str, Any] = dict(where.model.named_modules())
    heard = where.attended
    around = {outer for path in heard for outer in _outer(path)} | set(heard)
    paths: list[str] = []
    for path, module in modules.items():  # outer modules come first
        # inside an attention that was heard there are others: its dropout, its output
        named = is_named(module) and not any(
            outer in around and is_named(modules[outer]) for outer in _outer(path)
        )
        projects = _projects(module) and not any(outer in heard for outer in _outer(path))
        looks = path not in around and (named or projects or _is_scripted(module))
        counts = path in where.ran and (looks or path in noticed)
        if counts and not any(outer in paths for outer in _outer(path)):
            paths.append(path)
    return paths


def _reason(path: str, noticed: Mapping[str, str]) -> str:
    """Why a module could not be heard, or one inside it."""
    inside = (reason for inner, reason in noticed.items() if _is_within(inner, path))
    return next(filter(None, (noticed.get(path), *inside)), "")


def _is_within(path: str, outer: str) -> bool:
    return not outer or f"{path}.".startswith(f"{outer}.")


def why_missed(
    model: nn.Module, missed: Mapping[str, str], heard: Collection[str]
) -> tuple[list[str], str]:
    """The modules in words, with the reason where one is known; and the end of a warning that
    lists them, those whose attention was observed, and what would work."""
    names = _named(model, missed)
    others = [f"observed: {', '.join(_named(model, dict.fromkeys(sorted(heard), '')))}"]
    advice = [] if all(why == MIXES for why in missed.values()) else [HEARD]
    parts = [", ".join(names), *(others if heard else []), *_families(model, missed), *advice]
    return names, "; ".join(parts)


def what_ran(where: ModelHooks, noticed: Mapping[str, str]) -> str:
    """Of a model in which nothing was heard."""
    model = where.model
    name, missed = type(model).__name__, missed_modules(where, noticed)
    if missed:
        named = f"{name} ran, with {', '.join(_named(model, missed))}"
        return "; ".join(filter(None, [named, *_families(model, missed), instead_of(model)]))
    ran = f"{name} ran, and nothing in it looks like attention"
    return "; ".join(filter(None, [ran, instead_of(model)]))


def _named(model: nn.Module, modules: Mapping[str, str]) -> list[str]:
    """Layers alike together, with the reason where one is known."""
    groups: Counter[tuple[str, str]] = Counter()
    for path, reason in modules.items():
        place = without_numbers(path.replace("_orig_mod.", ""))  # torch.compile's wrapper
        kind = type(model.get_submodule(path)).__name__
        groups[f"{place or 'the model'} ({kind})", reason] += 1
    words = []
    for (name, reason), count in groups.items():
        many = name if count == 1 else f"{name}, {count} of them"
        words.append(f"{many}: {reason}" if reason else many)
    return words


HEARD = (
    "regard observes attention that is computed by regard.attend, transformers' attention "
    "interface, torch's scaled_dot_product_attention, FlexAttention or varlen_attn, flash-attn, "
    "xformers or Transformer Engine: use one of them, or pass q and k to regard.replay"
)


def _families(model: nn.Module, missed: Mapping[str, str]) -> Iterator[str]:
    """Which families of transformers compute their attention by themselves."""
    modules: dict[str, Any] = dict(model.named_modules())
    kinds: dict[str, list[type[nn.Module]]] = {}
    attention = {path: modules[path] for path, why in missed.items() if why != MIXES}
    for path, module in attention.items():
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
