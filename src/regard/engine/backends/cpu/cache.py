"""Where kernels compiled on first use are kept: in folders that nobody else may write to."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from regard.engine.backends.cpu.compile import intact, machine_key, source_key


def folders() -> tuple[Path, Path]:
    """The user's cache; and where that cannot be used (a read-only home) one for temporary files,
    which the system may empty."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "regard" / "kernels", Path(tempfile.gettempdir()) / f"regard-kernels-{_user()}"


def stem() -> str:
    """What a library of this machine is called, before its digest."""
    return f"regard_cpu-{source_key()}-{machine_key()}"


def cached(folder: Path) -> Path | None:
    """A library of this machine that only this user can have written; None where there is none."""
    path = intact(folder, stem())
    return path if path is not None and _why_not_ours(path, stat.S_IFREG) is None else None


def why_unsafe(folder: Path) -> str | None:
    """Why nothing may be loaded from the folder or written to it, made where it is missing."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        reason = _why_not_ours(folder, stat.S_IFDIR)
    except OSError as error:
        return f"{folder} cannot be made ({error.strerror})"
    if reason is None and not os.access(folder, os.W_OK) and cached(folder) is None:
        return f"{folder} cannot be written to"
    return reason


def _why_not_ours(path: Path, kind: int) -> str | None:
    """Whoever can write to a library runs code as this user."""
    facts = path.lstat()
    if stat.S_IFMT(facts.st_mode) != kind:
        return f"{path} is a link or no {'folder' if kind == stat.S_IFDIR else 'file'}"
    if facts.st_uid != _user():
        return f"{path} belongs to another user"
    if facts.st_mode & 0o022:
        return f"{path} can be written to by other users"
    return None


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0
