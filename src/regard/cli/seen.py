"""Pictures on the command line: what a model is given of them, and what it answers if a
region of them is hidden."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from regard.errors import InputError

if TYPE_CHECKING:
    from regard.axes import Box
    from regard.models import Loaded
    from regard.recorder.shards import ModelSpec
    from regard.recorder.sight import Sighting

    Sightings: TypeAlias = Callable[[Loaded, ModelSpec], list[Sighting]]


def pictures_of(files: list[Path], texts: list[str]) -> Sightings:
    """Pictures, and the words that go with them, as a model sees them."""

    def see(loaded: Loaded, spec: ModelSpec) -> list[Sighting]:
        from regard.recorder.sight import check_sees, sightings

        check_sees(loaded, spec.model)
        return sightings(loaded, files, texts, spec.options.chat)

    return see


def parse_boxes(texts: Sequence[str]) -> list[Box]:
    """TOP,LEFT,BOTTOM,RIGHT as shares of the picture's height and width."""
    return [_box(text) for text in texts]


def _box(text: str) -> Box:
    from regard.axes import Box  # here, for `--help` loads no numpy

    try:
        top, left, bottom, right = (float(part) for part in text.split(","))
        return Box(top, left, bottom, right)
    except ValueError as error:
        why = f" ({error})" if isinstance(error, InputError) else ""
        raise InputError(
            f"--without {text!r:.40}: give TOP,LEFT,BOTTOM,RIGHT as shares of the picture, such as "
            f"0,0,0.5,0.5 for its upper left quarter{why}"
        ) from None


def effects(
    loaded: Loaded, seen: Sequence[Sighting], boxes: Sequence[Box]
) -> list[tuple[str, str, dict[str, Any]]]:
    """Title, sentence and numbers for each picture and region."""
    from regard.intervene import without_region

    found = []
    for one in seen:
        for box in boxes:
            effect = without_region(loaded.model, one.inputs, box, tokenizer=loaded.tokenizer)
            found.append((one.title, str(effect), asdict(effect)))
    return found
