"""Who can be seen: model families that dispatch attention through transformers' interface.

A module dispatches when one of its methods asks `ALL_ATTENTION_FUNCTIONS` for its attention. A
family with attention classes of its own ignores `attn_implementation`, silently; here that is an
error which names the family.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import transformers
from torch import nn
from transformers import PreTrainedModel

from regard.errors import UnavailableError

__all__ = ["Sight", "check_config", "refusal", "sight", "supported_families"]

_INTERFACE = "ALL_ATTENTION_FUNCTIONS"
_WORD = "Attention"  # in the name of every class that computes it
_EXAMPLES = ("bert", "gpt2", "llama", "qwen3", "t5", "vit", "whisper")


class Sight(NamedTuple):
    """A model's attention modules, by name."""

    seen: dict[str, nn.Module]  # they dispatch
    unseen: dict[str, nn.Module]  # they compute attention by themselves


@cache
def supported_families() -> tuple[str, ...]:
    """The families of the installed transformers whose attention regard sees, by folder name."""
    models = Path(str(transformers.__file__)).parent / "models"
    return tuple(
        sorted({path.parent.name for path in models.glob("*/modeling_*.py") if _mentions(path)})
    )


def sight(model: nn.Module) -> Sight:
    """Which attention modules of a model dispatch and which do not."""
    modules: dict[str, Any] = dict(model.named_modules())
    seen = {name: module for name, module in modules.items() if _dispatches(module.__class__)}
    unseen: dict[str, nn.Module] = {}
    for name, module in modules.items():  # outer modules come first
        known = (*seen, *unseen)
        if _WORD in type(module).__name__ and not _related(name, known):
            unseen[name] = module
    return Sight(seen, unseen)


def check_config(config: Any) -> None:
    """Raise UnavailableError where a configuration belongs to a family that does not dispatch."""
    if config is not None and _ignores_interface(type(config).__module__.rpartition(".")[0]):
        raise refusal(config.model_type, ())


def refusal(family: str, unseen: Iterable[nn.Module]) -> UnavailableError:
    """The error that says which family cannot be seen, why, and which can."""
    classes = ", ".join(sorted({type(module).__name__ for module in unseen}))
    own = f" ({classes} computes it)" if classes else ""
    return UnavailableError(
        f"{family} does not dispatch its attention{own} through transformers' attention "
        f"interface, so regard cannot see it; {len(supported_families())} families do, such as "
        f"{', '.join(_EXAMPLES)}: regard.huggingface.supported_families() lists them"
    )


# ── who dispatches ───────────────────────────────────────────────────────────────────────────


@cache
def _dispatches(kind: Any) -> bool:
    """Whether a method of the class mentions the interface, those that every model has aside."""
    own = (
        method
        for name in dir(kind)
        if (method := inspect.getattr_static(kind, name)) is not _common(name)
    )
    return any(_INTERFACE in code.co_names for method in own for code in _codes(method))


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
    names = [name for name in sys.modules if name.startswith(f"{package}.modeling_")]
    own: list[Any] = [
        kind
        for name in names
        for kind in vars(sys.modules[name]).values()
        if isinstance(kind, type) and issubclass(kind, nn.Module) and kind.__module__ == name
    ]
    attention = [kind for kind in own if _WORD in kind.__name__]
    return bool(attention) and not any(_dispatches(kind) for kind in own)


def _mentions(path: Path) -> bool:
    return _INTERFACE in path.read_text(encoding="utf-8")
