"""What the user calls a model → what transformers is to read: a folder, a GGUF file, a hub's id."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.errors import FileError, InputError, RegardError
from regard.files import real
from regard.models.fetch import folder
from regard.models.table import names

_PATIENCE = 5  # seconds for a hub to say whether it has a model
_LONGEST = 240  # characters of somebody else's message


@dataclass(frozen=True)
class Source:
    """Where a model is read from, and how transformers has to be told."""

    name: str
    where: str
    options: dict[str, Any] = field(default_factory=dict)
    remark: str = ""  # why only what was downloaded before can be read

    @property
    def is_folder(self) -> bool:
        """Whether the files lie side by side on this machine."""
        return Path(self.where).is_dir() and "gguf_file" not in self.options


def find_source(given: str) -> Source:
    """A known name first; then what is on the disk; then whatever a hub calls so."""
    if given in names():
        return Source(given, str(folder(given)), {"local_files_only": True})
    try:
        path = Path(given).expanduser()
        if path.is_dir():
            return _in_folder(path)
        if path.is_file():
            return _in_file(path)
    except (OSError, RuntimeError) as error:  # no such user, no permission, too long a name
        if isinstance(error, RegardError):
            raise
        raise FileError(f"{given}: cannot be read ({one_line(error)})") from error
    if path.is_absolute() or given.startswith((".", "~")) or given.count("/") > 1:
        raise unknown(given)
    return _on_hub(given)


def _in_folder(path: Path) -> Source:
    if not (path / "config.json").is_file():
        raise FileError(
            f"{path}: no config.json; a folder with a model holds config.json, its weights and "
            "its tokenizer, as save_pretrained writes them"
        )
    return Source(real(path).name, str(path), {"local_files_only": True})


def _in_file(path: Path) -> Source:
    if path.suffix != ".gguf":
        raise FileError(f"{path}: not a model; give a folder with a config.json, or a .gguf file")
    return Source(path.stem, str(path.parent), {"local_files_only": True, "gguf_file": path.name})


def _on_hub(given: str) -> Source:
    """Asked once and shortly: transformers would try for minutes where there is no network."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, HTTPError  # httpx's, or httpx2's

    try:
        HfApi().model_info(given, timeout=_PATIENCE)
    except HFValidationError:
        raise unknown(given) from None
    except (HTTPError, OSError) as error:
        return Source(given, given, {"local_files_only": True}, remark=one_line(error))
    return Source(given, given)


def unknown(given: str, remark: str = "") -> InputError:
    """The error for what is no model."""
    asked = f" (a hub was asked too: {remark})" if remark else ""
    known = ", ".join(names())
    return InputError(
        f"no model called {given!r}: known names are {known}, or give a folder{asked}"
    )


def one_line(error: Exception) -> str:
    """What another library says, on one line and not for ever."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
