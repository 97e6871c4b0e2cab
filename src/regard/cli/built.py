"""A model by its words on the command line: a name, a folder, or a function of somebody's code that
returns a model or a model and a batch."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.batches import Texts, drawn, moved, of_loaded
from regard.errors import FileError, InputError, RegardError
from regard.files import check_regular, real, reason, shown

if TYPE_CHECKING:
    from types import ModuleType

_FUNCTION = re.compile(r"(?P<home>.+\.py|[A-Za-z_][\w.]*):(?P<name>[A-Za-z_]\w*)")
_OWN = "regard_checked"  # the name of a file's module


def model_and_batch(words: str, batch: Any, texts: Texts) -> tuple[Any, Any]:
    """The model, and the batch that was given, else that of the texts, of build(), or a default."""
    named = _FUNCTION.fullmatch(words)
    if named is None or Path(words).exists():
        from regard.models import load

        loaded = load(words)
        return loaded.model, of_loaded(loaded, texts) if batch is None else batch

    home, name = named["home"], named["name"]
    with _in_one_line(words):
        made = _function(home, name)()
    model, own = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not callable(model):
        raise InputError(
            f"{name}() returns a {type(made).__name__}; give a function that returns a model, or a "
            "model and a batch"
        )
    if texts.given:
        raise InputError("--text takes a tokenizer, which a function does not return; give --batch")
    if own is not None and batch is None and texts.are_asked:
        raise InputError(f"{name}() returns a batch, which is checked as it is; leave out --pad")
    batch = own if batch is None else moved(batch, model)
    return model, drawn(model, texts) if batch is None else batch


def _function(home: str, name: str) -> Callable[[], Any]:
    module = _file(Path(home)) if home.endswith(".py") else _module(home)
    function = getattr(module, name, None)
    if not callable(function):
        have = [key for key, x in vars(module).items() if _is_own_function(x, module)]
        raise InputError(f"{home} has no function {name!r}; it has {', '.join(have) or 'none'}")
    made: Callable[[], Any] = function
    return made


def _is_own_function(x: Any, module: ModuleType) -> bool:
    return callable(x) and getattr(x, "__module__", "") == module.__name__


def _file(path: Path) -> ModuleType:
    """A file's module, which finds its neighbours as `python FILE.py` does."""
    try:
        check_regular(path)
    except (OSError, ValueError) as error:
        raise FileError(f"{shown(path)}: cannot be read ({reason(error)})") from None
    sys.path.insert(0, str(real(path).parent))
    spec = spec_from_file_location(_OWN, path)
    assert spec is not None and spec.loader is not None  # of a name that ends in .py
    module = sys.modules[_OWN] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _module(name: str) -> ModuleType:
    """A package's module, or one in the folder where the command was typed."""
    sys.path.insert(0, str(Path.cwd()))
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if not f"{name}.".startswith(f"{error.name}."):
            raise
        raise InputError(f"there is no module {name!r}; give FILE.py:build") from None


@contextmanager
def _in_one_line(words: str) -> Iterator[None]:
    """What somebody's code raises, with the last line of that code."""
    try:
        yield
    except RegardError as error:
        if isinstance(error, InputError | FileError):
            raise
        raise InputError(f"{words}: {error}") from error
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        at = [f for f in frames if "regard" not in Path(f.filename).parts and "<" not in f.filename]
        where = f", {Path(at[-1].filename).name} line {at[-1].lineno}" if at else ""
        why = " ".join(str(error).split())[:300]
        raise InputError(f"{words}: fails ({type(error).__name__}: {why}{where})") from error
