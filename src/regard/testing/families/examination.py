"""One model type → its outcome."""

from __future__ import annotations

import time
import traceback
import warnings
from dataclasses import replace

from regard.errors import RegardWarning, UnavailableError
from regard.testing.families.build import build
from regard.testing.families.checks import CHECKS
from regard.testing.families.inputs import accepted
from regard.testing.families.outcome import Kind, Outcome
from regard.testing.families.subject import Subject

_BADNESS: tuple[Kind, ...] = ("right", "refused", "wrong", "crashed")


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
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        checks = {check: _answer(check, subject) for check in CHECKS}
    warned = [str(one.message) for one in heard if issubclass(one.category, RegardWarning)]
    worst = max((kind for kind, _ in checks.values()), key=_BADNESS.index)
    said = [text for kind, text in checks.values() if kind == worst and text] or warned
    return Outcome(
        name,
        worst,
        " | ".join(dict.fromkeys(said)),
        checks={check: text or kind for check, (kind, text) in checks.items()},
        notes=tuple(subject.notes),
        reference=subject.reference,
        model=type(model).__name__,
        inputs=tuple(inputs),
    )


def _answer(check: str, subject: Subject) -> tuple[Kind, str]:
    """What one check finds: its kind, and in words what is not right."""
    try:
        wrong = CHECKS[check](subject)
    except UnavailableError as error:
        return "refused", str(error)
    except Exception as error:  # noqa: BLE001 - anything that is no refusal is a crash
        return "crashed", f"{check}: {_sentence(error)} ({_place(error)})"
    return ("wrong", "; ".join(f"{check}, {one}" for one in wrong)) if wrong else ("right", "")


def _sentence(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".strip()


def _place(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.filename.rpartition('/')[2]}:{last.lineno}"
