"""The first training batch of a run, checked before its step."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from regard.check.report import Finding, Report
from regard.check.rules import RULES
from regard.check.runs import is_compiled, plain
from regard.check.verdicts import Examination, of_all_ranks
from regard.engine.observers import unheard
from regard.errors import InputError, RegardError, RegardWarning
from regard.hear.attached import Follower, in_backward
from regard.hear.inputs import argument_names, by_name
from regard.monitor.sample import Ranks
from regard.recording import Alarm

_SEQUENCES = 2  # of the batch that are checked: of more, copies of the logits take too much memory
_OPTIONS = ("causal", "window", "documents", "rules", "allow", "by_layer")


@dataclass(frozen=True)
class LeakAlarm(Alarm):
    """A finding of the first batch; `head` is the module that moves first."""

    finding: Finding

    def __str__(self) -> str:
        return f"first batch: {self.finding.text}"


class FirstBatch(Follower):
    """Takes the arguments of the first call of a model, or of a part of it, that is to be
    differentiated, before it is run; follows it no more from then on."""

    everywhere = True

    def __init__(
        self, model: nn.Module, take: Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]
    ) -> None:
        super().__init__(model)
        self._take = take

    def run(
        self, path: str, module: nn.Module, args: Any, kwargs: Any, call: Callable[[], Any]
    ) -> Any:
        """A layer called by itself, such as an embedding in front of the model, mixes nothing."""
        is_trained = torch.is_grad_enabled() and not in_backward()
        if is_trained and any(True for _ in module.children()):
            self.detach()
            self._take(module, args, kwargs)
            return module(*args, **kwargs)  # by whoever follows the model by now
        return call()


def check_options(given: bool | Mapping[str, Any]) -> dict[str, Any]:
    """Options of `regard.check`, by name."""
    options = dict(given) if isinstance(given, Mapping) else {}
    if unknown := sorted(set(options) - set(_OPTIONS)):
        raise InputError(
            f"check_first_batch has {', '.join(unknown)}; give True, or options of regard.check: "
            f"{', '.join(_OPTIONS)}"
        )
    return options


def checked(
    module: nn.Module, args: Any, kwargs: Any, options: Mapping[str, Any], ranks: Ranks
) -> Report | None:
    """The report on what a module was called with, of all ranks; None, with a warning, where it
    cannot be checked on one of them."""
    model = plain(module)
    # as it was written: a compiled one would be compiled again, for other shapes
    eager: Any = nullcontext()
    if is_compiled(model):
        eager = torch.compiler.set_stance("force_eager")
    try:
        with unheard(), eager:
            given = _given(model, args, kwargs)
            return of_all_ranks(lambda: _examined(model, given, options), ranks.group)
    except Exception as error:  # noqa: BLE001 - models refuse in many ways; a run goes on
        kind = "" if isinstance(error, RegardError) else f"{type(error).__name__}: "
        why = " ".join(f"{kind}{error}".split())[:400] or type(error).__name__
    warnings.warn(f"the first batch could not be checked: {why}", RegardWarning, stacklevel=2)
    return None


def _examined(model: nn.Module, given: Any, options: Mapping[str, Any]) -> Report:
    """Without a cache, which is no part of training."""
    asked = dict(options)
    by_layer = bool(asked.pop("by_layer", False))
    asked["rules"] = asked.get("rules") or [rule for rule in RULES if rule != "cache"]
    known: dict[str, Any] = {"causal": None, "window": None, "documents": None, "allow": {}}
    known |= {"progress": None, **asked}
    whole = Examination(model, given, **known)
    if whole.given.shape[0] > _SEQUENCES:
        some = whole.given.mapped(lambda _, x: x[:_SEQUENCES])
        if isinstance(known["documents"], torch.Tensor):
            known["documents"] = some.documents
        whole = Examination(model, some.given, **known)
    whole.is_told = "rules" in options  # else a batch shorter than a window leaves nothing open
    return whole.report(by_layer)


def _given(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One tensor or mapping as it is, else arguments by name, in the order of the signature."""
    if len(args) == 1 and not kwargs:
        return args[0]
    names = argument_names(model)
    given = by_name(names, args, kwargs)
    return {name: given[name] for name in names if name in given} | given
