"""Import a file, choose what to call in it, and write down what its calls returned."""

from __future__ import annotations

import sys
import types
import warnings
from pathlib import Path
from typing import Any, Final

from regard.files import real
from regard.learn.programs.entry import Target, targets
from regard.learn.programs.observation import Observation
from regard.learn.programs.sentences import MEMORY, StoppedError, said
from regard.learn.programs.session import Session

_MODULE: Final = "submission"
_WORKS: Final = (
    "attention(q, k, v, mask=None), self_attention(x, w_q, w_k, w_v), or a class built by "
    "(embed_dim, num_heads) and called with x"
)


def observe(path: Path, entry: str = "") -> Observation:
    """Run the file here; in a child process wherever the file is not one's own."""
    seen = Observation()
    warnings.simplefilter("ignore")
    try:
        source = _source(path)
        module = _imported(path, source)
        chosen = _chosen(module, source, entry)
        _watch(seen, chosen, module, source, path)
    except StoppedError as stop:
        seen.problem, seen.failed = str(stop), stop.failed
    finally:
        sys.modules.pop(_MODULE, None)
    return seen


def _source(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise StoppedError("it is not UTF-8 text", failed=False) from None
    except OSError as error:
        raise StoppedError(f"it cannot be opened ({error.strerror})", failed=False) from None


def _imported(path: Path, source: str) -> types.ModuleType:
    module = types.ModuleType(_MODULE)
    module.__file__ = str(path)
    sys.modules[_MODULE] = module
    sys.path.insert(0, str(real(path).parent))
    try:
        exec(compile(source, str(path), "exec"), vars(module))
    except SyntaxError as error:
        raise StoppedError(f"line {error.lineno}: {error.msg}, so it is not Python") from None
    except BaseException as error:  # noqa: BLE001  whatever the file raises is its verdict
        text, _ = said(error, path)
        raise StoppedError(f"importing it fails: {text}") from None
    finally:
        sys.path.remove(str(real(path).parent))
    return module


def _chosen(module: types.ModuleType, source: str, entry: str) -> list[Target]:
    found = targets(module, source)
    if entry:
        found = [one for one in found if one.name == entry]
        if not found:
            there = entry in vars(module)
            problem = (
                "has arguments whose names do not say what they mean" if there else "is not in it"
            )
            raise StoppedError(f"{entry} {problem}; what works: {_WORKS}", failed=False)
    if not found:
        names = [n for n, t in vars(module).items() if getattr(t, "__module__", "") == _MODULE]
        held = f"it has {', '.join(names[:6])}" if names else "it defines no function or class"
        raise StoppedError(f"no attention to call: {held}; what works: {_WORKS}", failed=False)
    return found


def _watch(seen: Observation, found: list[Target], module: Any, source: str, path: Path) -> None:
    """The first target that can be called; the errors of the first where none can.

    The parts of one that runs into an error of its own are not graded in its place: they may be
    right, and it is not.
    """
    first: Observation | None = None
    parts: set[str] = set()
    for target in found[:4]:
        if target.name in parts:
            continue
        trial = Observation()
        try:
            Session(trial, target, module, source, path).run()
        except StoppedError as stop:
            trial.problem, trial.failed = str(stop), stop.failed
            if trial.problem.endswith(MEMORY):
                vars(seen).update(vars(trial))
                return
        if any(call.outs for call in trial.calls):
            vars(seen).update(vars(trial))
            return
        first = first or trial
        if any(call.line for call in trial.calls):
            parts |= target.uses
    vars(seen).update(vars(first or seen))
