"""Attention that ran and was not heard: which modules, and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from regard.hear.intercept import is_hugging_face
from regard.hear.names import without_numbers

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


def missed_modules(
    model: nn.Module, ran: Collection[str], heard: Collection[str], noticed: Collection[str]
) -> dict[str, nn.Module]:
    """By path, outer ones instead of those inside them: modules that ran and look like attention,
    or were `noticed` attending, and gave nothing."""
    modules: dict[str, Any] = dict(model.named_modules())
    around = {outer for path in heard for outer in _outer(path)} | set(heard)
    found: dict[str, nn.Module] = {}
    for path, module in modules.items():  # outer modules come first
        # inside an attention that was heard there are others: its dropout, its output
        named = is_named(module) and not any(
            outer in around and is_named(modules[outer]) for outer in _outer(path)
        )
        projects = _projects(module) and not any(outer in heard for outer in _outer(path))
        looks = path not in around and (named or projects or _is_scripted(module))
        counts = path in ran and (looks or path in noticed)
        if counts and not any(outer in found for outer in _outer(path)):
            found[path] = module
    return found


def why_missed(
    model: nn.Module, missed: dict[str, nn.Module], why: Mapping[str, str], heard: Collection[str]
) -> tuple[list[str], str]:
    """The modules in words, with the reason where one is known; and the end of a warning that
    lists them, those whose attention was observed, and what would work."""
    names = _named(missed, why)
    observed = {path: model.get_submodule(path) for path in sorted(heard)}
    others = [f"observed: {', '.join(_named(observed, {}))}"] if observed else []
    return names, "; ".join([", ".join(names), *others, *_families(model, missed), HEARD])


def what_ran(model: nn.Module, ran: Collection[str], noticed: Mapping[str, str]) -> str:
    """Of a model in which nothing was heard."""
    name = type(model).__name__
    missed = missed_modules(model, ran, (), noticed)
    if missed:
        named = f"{name} ran, with {', '.join(_named(missed, noticed))}"
        return "; ".join([named, *_families(model, missed)])
    return f"{name} ran, and nothing in it looks like attention"


def _named(modules: Mapping[str, nn.Module], why: Mapping[str, str]) -> list[str]:
    """Layers alike together, with the reason where one is known."""
    groups: Counter[tuple[str, str]] = Counter()
    for path, module in modules.items():
        place = without_numbers(path.replace("_orig_mod.", ""))  # torch.compile's wrapper
        name = f"{place or 'the model'} ({type(module).__name__})"
        inside = (reason for one, reason in why.items() if f"{one}.".startswith(f"{path}."))
        groups[name, next(filter(None, (why.get(path), *inside)), "")] += 1
    said = []
    for (name, reason), count in groups.items():
        many = name if count == 1 else f"{name}, {count} of them"
        said.append(f"{many}: {reason}" if reason else many)
    return said


HEARD = (
    "regard observes attention that is computed by regard.attend, transformers' attention "
    "interface, torch's scaled_dot_product_attention, FlexAttention or varlen_attn, flash-attn, "
    "xformers or Transformer Engine: use one of them, or pass q and k to regard.replay"
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
