"""`regard.json` in a converted folder: what it was made from, and each file's size and checksum."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.models.table import KnownModel
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
