"""One model type → what is found out about it; many, each in a process that may die or hang without
ending the run."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from typing import Any, Literal

from regard.errors import RegardWarning, UnavailableError
from support.families.build import build
from support.families.checks import CHECKS
from support.families.inputs import accepted
from support.families.subject import Subject

Kind = Literal["right", "refused", "wrong", "crashed", "not built"]
KINDS: tuple[Kind, ...] = ("right", "refused", "wrong", "crashed", "not built")


@dataclass(frozen=True)
class Outcome:
    """One model type's result.

    right      everything agrees with transformers' own implementation
    refused    regard says in a sentence that it does not serve the family
    wrong      a check failed: which, and by how much
    crashed    something else than a refusal was raised
    not built  no small model, or no inputs for it, were found automatically
    """

    name: str
    kind: Kind
    said: str = ""  # the sentence, the failed checks, the exception
    checks: dict[str, str] = field(default_factory=dict)  # check → "right" or what it found
    notes: tuple[str, ...] = ()  # what transformers itself does not do or does in two ways
    reference: str = ""  # the implementation the model has by default
    model: str = ""  # the class
    inputs: tuple[str, ...] = ()
    verdicts: dict[str, str] = field(default_factory=dict)  # rule → what `regard.check` says
    findings: dict[str, str] = field(default_factory=dict)  # rule → the sentence
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return vars(self) | {"inputs": [*self.inputs], "notes": [*self.notes]}


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
        verdicts={rule: str(verdict) for rule, verdict in subject.verdicts.items()},
        findings=subject.findings,
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


_PROCESSES = 2
_SECONDS = 120.0  # of processor time for one model type, so that a busy machine fails none
_PATIENCE = 600.0  # seconds on the clock, for one that waits for something

_Examine = Callable[[Any], Outcome]


def outcomes(
    names: Iterable[Any],
    examine: _Examine = examine,
    *,
    processes: int = _PROCESSES,
    seconds: float = _SECONDS,
    patience: float = _PATIENCE,
) -> Iterator[Outcome]:
    """The outcomes of model types as they come in; a process is given one at a time."""
    left = [*names][::-1]
    workers = [_Worker(examine, seconds, patience) for _ in range(min(processes, len(left)))]
    try:
        for worker in workers:
            worker.give(left.pop())
        while busy := [worker for worker in workers if worker.is_busy]:
            wait([worker.pipe for worker in busy], timeout=min(patience, 1.0))
            yield from filter(None, (worker.result() for worker in busy))
            for worker in busy:
                if left and not worker.is_busy:
                    worker.give(left.pop())
    finally:
        for worker in workers:
            worker.stop()


class _Worker:
    """A process that is replaced when it dies or hangs."""

    def __init__(self, examine: _Examine, seconds: float, patience: float) -> None:
        self._examine, self._seconds, self._patience = examine, seconds, patience
        self._process: Any = None
        self.is_busy = False

    def give(self, name: Any) -> None:
        """Let it begin with another model type."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, other = context.Pipe()
            given = (other, self._examine, self._seconds)
            self._process = context.Process(target=_work, args=given, daemon=True)
            self._process.start()
            other.close()  # so that the end of the process ends the pipe
        self._name, self._since, self.is_busy = name, time.monotonic(), True
        self.pipe.send(name)

    def result(self) -> Outcome | None:
        """The outcome, if there is one by now."""
        late = time.monotonic() - self._since > self._patience
        if not self.pipe.poll() and not late:
            return None
        self.is_busy = False
        try:
            if self.pipe.poll():
                return self.pipe.recv()
            said = f"no answer within {self._patience:g} s"
        except EOFError:
            self._process.join()
            status = self._process.exitcode
            spent = status == -signal.SIGPROF
            said = f"the process ended with status {status}{' (out of time)' if spent else ''}"
        self.stop()
        return Outcome(str(self._name), "crashed", said)

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self.pipe.close()
            self._process = None


def _work(pipe: Any, examine: _Examine, seconds: float) -> None:
    """A process's life: names come in, outcomes go out; one that takes too long ends it."""
    import torch
    import transformers

    os.dup2(2, 1)  # some models print; standard output is the caller's table
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    while True:
        try:
            name = pipe.recv()
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_PROF, seconds)  # SIGPROF, which nobody handles
        found = examine(name)
        signal.setitimer(signal.ITIMER_PROF, 0)
        pipe.send(found)
