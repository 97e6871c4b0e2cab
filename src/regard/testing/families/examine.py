"""One model type → its outcome."""

from __future__ import annotations

import time
import traceback
import warnings
from dataclasses import replace

from regard.errors import RegardWarning, UnavailableError
from regard.testing.families.build import build
from regard.testing.families.checks import CHECKS, Subject
from regard.testing.families.inputs import accepted
from regard.testing.families.outcome import Outcome

__all__ = ["examine"]


def examine(name: str) -> Outcome:
    """Build a model type, find its inputs and go through every check."""
    began = time.perf_counter()
    found = _examined(name)
    return replace(found, seconds=round(time.perf_counter() - began, 2))


def _examined(name: str) -> Outcome:
    try:
        model = build(name)
        inputs = accepted(model)
    except Exception as error:  # noqa: BLE001 - whatever it is, there is nothing to examine
        return Outcome(name, "not built", _sentence(error))
    subject = Subject(name, model, inputs)
    found = Outcome(
        name,
        "right",
        reference=str(model.config._attn_implementation),
        model=type(model).__name__,
        inputs=tuple(inputs),
    )
    return _judged(found, subject)


def _judged(found: Outcome, subject: Subject) -> Outcome:
    """Every check's word, and the one that follows from all of them."""
    wrong: list[str] = []
    refused: list[str] = []
    crashed: list[str] = []
    checks: dict[str, str] = {}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for name, check in CHECKS.items():
            try:
                said = check(subject)
            except UnavailableError as error:
                refused.append(_sentence(error))
                checks[name] = f"refused: {_sentence(error)}"
            except Exception as error:  # noqa: BLE001 - this is what a crash is
                crashed.append(f"{name}: {_sentence(error)} ({_place(error)})")
                checks[name] = crashed[-1]
            else:
                wrong += [f"{name}: {one}" for one in said]
                checks[name] = "; ".join(said) or "right"
    warned = [str(one.message) for one in heard if issubclass(one.category, RegardWarning)]
    if crashed:
        return replace(found, kind="crashed", said=" | ".join(crashed), checks=checks)
    if wrong:
        return replace(found, kind="wrong", said=" | ".join(wrong), checks=checks)
    if refused:
        return replace(found, kind="refused", said=refused[0], checks=checks)
    return replace(found, said="; ".join(dict.fromkeys(warned)), checks=checks)


def _sentence(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".strip()


def _place(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.filename.rpartition('site-packages/')[2]}:{last.lineno}"
