"""Where converted models lie: a folder is there whole or not at all, whoever else is at work.

    $REGARD_CACHE/models/NAME-VERSION/       or the user's own cache folder, regard/models/…

Work is done in a folder beside the final one and renamed into place under a lock. A process that
was killed leaves a `.NAME-VERSION…` folder, which the next one under the same lock removes.

`regard.json` in a converted folder: what it was made from, and each file's size and checksum.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from regard.errors import FileError, RegardError
from regard.models.table import MODELS, KnownModel, find
from regard.models.wheels import sha256

STAMP = "regard.json"


def write_stamp(folder: Path, model: KnownModel) -> None:
    """Describe the folder as it is now."""
    files = {
        path.relative_to(folder).as_posix(): {"size": path.stat().st_size, "sha256": sha256(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    text = json.dumps(_origin(model) | {"licence": model.licence, "files": files}, indent=2)
    (folder / STAMP).write_text(text + "\n", encoding="utf-8")


def _origin(model: KnownModel) -> dict[str, Any]:
    wheels = {wheel.requirement: wheel.sha256 for wheel in model.wheels}
    return {"name": model.name, "conversion": model.conversion, "wheels": wheels}


def damage(folder: Path, model: KnownModel, *, deep: bool = False) -> list[str]:
    """What is wrong with the folder: sizes only, or every byte."""
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
        origin = {key: stamp[key] for key in _origin(model)}
        files = {name: (one["size"], one["sha256"]) for name, one in stamp["files"].items()}
    except FileNotFoundError:
        return [f"{STAMP} is missing"]
    except OSError as error:
        return [f"{STAMP} cannot be read ({error.strerror})"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return [f"{STAMP} cannot be understood"]
    if origin != _origin(model):
        return ["it was converted by another version of regard"]
    found = [_wrong(folder / name, *what, deep=deep) for name, what in files.items()]
    return [f"{name}: {why}" for name, why in zip(files, found, strict=True) if why]


def _wrong(path: Path, size: int, checksum: str, *, deep: bool) -> str | None:
    try:
        found = path.stat().st_size
        if found != size:
            return f"{found} bytes, not {size}"
        return "its bytes have changed" if deep and sha256(path) != checksum else None
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"


_fcntl = import_module("fcntl") if os.name == "posix" else None


def root() -> Path:
    """The folder of all converted models, whether it exists or not."""
    chosen = os.environ.get("REGARD_CACHE")
    try:
        return Path(chosen).expanduser() / "models" if chosen else _user_cache() / "regard/models"
    except RuntimeError:
        reason = f"REGARD_CACHE={chosen}: no such user" if chosen else "there is no home folder"
        raise FileError(f"{reason}; name a folder to keep models in in REGARD_CACHE") from None


def _user_cache() -> Path:
    chosen = os.environ.get("XDG_CACHE_HOME" if sys.platform != "win32" else "LOCALAPPDATA")
    if chosen:
        return Path(chosen)
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def place(model: KnownModel) -> Path:
    """Where this model lies once it is there."""
    return root() / f"{model.name}-{model.version}"


def known() -> list[KnownModel]:
    """The models that have a short name, and whether each is there already (by sizes only)."""
    return [_seen(model) for model in MODELS]


def check(name: str) -> KnownModel:
    """The model of this name, with every byte of its folder compared with its checksum."""
    return _seen(find(name), deep=True)


def _seen(model: KnownModel, *, deep: bool = False) -> KnownModel:
    where = place(model)
    with readable(where):
        if not where.exists():
            return model
    return replace(model, folder=where, damage=tuple(damage(where, model, deep=deep)))


def remove(name: str) -> bool:
    """Remove the model's folder; False where there was none."""
    where = place(find(name))
    with readable(where):
        if not where.exists():
            return False
        with workplace(where) as work:
            where.rename(work / "old")
    return True


@contextmanager
def readable(where: Path) -> Iterator[None]:
    """What the system says against reading or writing here, as one line."""
    try:
        yield
    except RegardError:
        raise
    except OSError as error:
        at = error.filename or where
        raise FileError(f"{at}: {error.strerror or error}; models are kept in {root()}") from error


@contextmanager
def workplace(where: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[Path]:
    """An empty folder beside the final one, for one process at a time; it is gone afterwards."""
    where.parent.mkdir(parents=True, exist_ok=True)
    with _locked(where.with_name(f".{where.name}.lock"), waiting) as is_alone:
        if is_alone:
            for left in where.parent.glob(f".{where.name}-*"):
                shutil.rmtree(left)
        with tempfile.TemporaryDirectory(prefix=f".{where.name}-", dir=where.parent) as work:
            yield Path(work)


@contextmanager
def _locked(path: Path, waiting: Callable[[], None]) -> Iterator[bool]:
    """Hold the lock; False where the system has none, and then the renaming alone decides."""
    with path.open("wb") as file:
        if _fcntl is not None:
            try:
                _fcntl.flock(file, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                _fcntl.flock(file, _fcntl.LOCK_EX)
        yield _fcntl is not None


def publish(made: Path, where: Path) -> None:
    """The finished folder takes its place, and that of a damaged one."""
    if where.exists():
        where.rename(made.with_name("old"))  # goes with the workplace
    made.rename(where)
