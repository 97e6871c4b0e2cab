"""Who can be seen: model families that dispatch attention through transformers' interface.

A module dispatches when one of its methods asks `ALL_ATTENTION_FUNCTIONS` for its attention. A
family with attention classes of its own ignores `attn_implementation`, silently, or looks it up in
a table of its own and fails; here that is an error which names the family.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import torch
import transformers
from torch import nn
from transformers import PreTrainedModel

from regard.errors import UnavailableError

_INTERFACE = "ALL_ATTENTION_FUNCTIONS"
_TORCH = "scaled_dot_product_attention"
_WORD = "Attention"  # in the name of every class that computes it
_EXAMPLES = ("bert", "gpt2", "llama", "qwen3", "t5", "vit", "whisper")


class AttentionModules(NamedTuple):
    """A model's attention modules, by name."""

    seen: dict[str, nn.Module]  # they dispatch
    unseen: dict[str, nn.Module]  # they compute attention by themselves


@cache
def supported_families() -> tuple[str, ...]:
    """The families of the installed transformers whose attention regard sees, by folder name."""
    models = Path(str(transformers.__file__)).parent / "models"
    found = models.glob("*/modeling_*.py")
    mention = (path for path in found if _INTERFACE in path.read_text(encoding="utf-8"))
    return tuple(sorted({path.parent.name for path in mention}))


def sight(model: nn.Module) -> AttentionModules:
    """Which attention modules of a model dispatch and which do not."""
    modules: dict[str, Any] = dict(model.named_modules())
    seen = {name: module for name, module in modules.items() if _dispatches(module.__class__)}
    unseen: dict[str, nn.Module] = {}
    for name, module in modules.items():  # outer modules come first
        known = (*seen, *unseen)
        if _WORD in type(module).__name__ and not _related(name, known):
            unseen[name] = module
    return AttentionModules(seen, unseen)


def check_config(config: Any) -> None:
    """Raise UnavailableError where a configuration belongs to a family that does not dispatch."""
    if config is not None and _ignores_interface(package_of(config)):
        raise refusal(config.model_type, ())


def calls_torch(model: nn.Module) -> bool:
    """Whether a model that does not dispatch calls torch's own function in all its attention."""
    found = sight(model)
    inside: list[list[Any]] = [[*map(type, m.modules())] for m in found.unseen.values()]
    return (
        getattr(getattr(model, "config", None), "_attn_implementation", None) == "sdpa"
        and bool(inside)
        and not found.seen
        and all(any(_mentions(kind, _TORCH) for kind in kinds) for kinds in inside)
    )


@cache
@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def asks_for_sdpa(kind: Any) -> bool:
    """Whether a module decides by the name "sdpa" what its mask looks like (GLM-5)."""
    methods = (inspect.getattr_static(kind, name) for name in dir(kind))
    return any("sdpa" in code.co_consts for method in methods for code in _codes(method))


def refusal(family: str, unseen: Iterable[type[nn.Module]]) -> UnavailableError:
    """The error that says which family cannot be seen, why, and what can."""
    own: tuple[Any, ...] = tuple(unseen)
    heard = any(_mentions(kind, _TORCH) for kind in own)
    return UnavailableError(
        f"{unseen_because(family, own)}; {len(supported_families())} families do, such as "
        f"{', '.join(n for n in _EXAMPLES if n in supported_families())}: "
        "regard.huggingface.supported_families() lists them. "
        + ("Loaded with attn_implementation='sdpa' it can be recorded. " if heard else "")
        + "Queries and keys taken from any model by hand are answered by regard.replay(q, k)"
    )


def unseen_because(family: str, unseen: Iterable[type[nn.Module]]) -> str:
    """Which family is not seen, and why."""
    classes = ", ".join(sorted({kind.__name__ for kind in unseen}))
    own = f" (computed by {classes})" if classes else ""
    return (
        f"{family} does not dispatch its attention{own} through transformers' attention "
        "interface, so it takes no attn_implementation='regard' and regard cannot see it"
    )


def parts_unseen(family: str, unseen: Mapping[str, nn.Module]) -> str:
    """Which modules of a family that is seen are not, by name."""
    names = ", ".join(f"{name} ({type(part).__name__})" for name, part in unseen.items())
    return f"{family}: these modules compute attention by themselves and are not seen: {names}"


def blind_classes(modules: Iterable[str]) -> tuple[type[nn.Module], ...]:
    """The attention classes of these modules; none where any class of theirs dispatches."""
    own: list[Any] = [
        kind
        for name in modules
        for kind in vars(sys.modules[name]).values()
        if isinstance(kind, type) and issubclass(kind, nn.Module) and kind.__module__ == name
    ]
    attention = tuple(kind for kind in own if _WORD in kind.__name__)
    return () if any(_dispatches(kind) for kind in own) else attention


def blind_within(kind: type[nn.Module]) -> tuple[type[nn.Module], ...]:
    """The attention classes of which a model's class is built, by the names in its code; none where
    any that it is built of dispatches, or where a configuration decides what it is built of. Other
    classes beside it may dispatch (SAM's decoder, not its tower)."""
    reached: dict[int, Any] = {}
    todo: list[Any] = [kind]
    while todo:
        one = todo.pop()
        if id(one) in reached:
            continue
        reached[id(one)] = one
        known = vars(sys.modules[one.__module__])
        for name in {name for code in _all_codes(one) for name in code.co_names}:
            if name.startswith("AutoModel"):
                return ()
            named = known.get(name)
            for inner in named.values() if isinstance(named, dict) else (named,):
                is_module = isinstance(inner, type) and issubclass(inner, nn.Module)
                if is_module and inner.__module__.startswith("transformers.models."):
                    todo.append(inner)
    modules = list(reached.values())
    if any(map(_dispatches, modules)):
        return ()
    return tuple(one for one in modules if _WORD in one.__name__)


def package_of(config: Any) -> str:
    """Where a configuration's family lives."""
    return type(config).__module__.rpartition(".")[0]


# ── who dispatches ───────────────────────────────────────────────────────────────────────────


def _dispatches(kind: Any) -> bool:
    return _mentions(kind, _INTERFACE)


@cache
def _mentions(kind: Any, name: str) -> bool:
    """Whether a method of the class uses the name, those that every model has aside."""
    return any(name in code.co_names for code in _all_codes(kind))


def _all_codes(kind: Any) -> Iterator[CodeType]:
    """The code of a class's methods, those that every model has aside."""
    for attribute in dir(kind):
        method = inspect.getattr_static(kind, attribute)
        if method is not _common(attribute):
            yield from _codes(method)


def _common(name: str) -> Any:
    return inspect.getattr_static(PreTrainedModel, name, None)


def _codes(method: Any) -> Iterator[CodeType]:
    """The code of a function, below its decorators, and of the functions inside it."""
    function = inspect.unwrap(getattr(method, "__func__", method))
    todo = [getattr(function, "__code__", None)]
    while todo:
        code = todo.pop()
        if isinstance(code, CodeType):
            yield code
            todo += code.co_consts


def _related(name: str, others: Iterable[str]) -> bool:
    """Whether a module is one of the others, inside one of them or around one of them."""
    return any(_inside(name, other) or _inside(other, name) for other in others)


def _inside(name: str, outer: str) -> bool:
    return outer in ("", name) or name.startswith(f"{outer}.")


@cache
def _ignores_interface(package: str) -> bool:
    """Whether the package's models have attention classes of their own, and none dispatches."""
    return bool(
        blind_classes(name for name in sys.modules if name.startswith(f"{package}.modeling_"))
    )
