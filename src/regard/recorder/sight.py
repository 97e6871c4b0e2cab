"""Picture files → what a model that sees is given, and their recording."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import InputError
from regard.hear.weights import device_of
from regard.models import Loaded
from regard.recorder.drive import is_causal_model, is_encoder_decoder
from regard.recorder.pictures import read_picture
from regard.recorder.session import Recorder

_Pixels = NDArray[np.uint8]  # (h, w, 3)


@dataclass(frozen=True)
class Sighting:
    """Pictures, and words with them, that a model reads at once."""

    inputs: Mapping[str, Tensor]
    title: str
    pictures: list[_Pixels]


def check_sees(loaded: Loaded, name: str) -> None:
    """Refuse models of text and sound."""
    if not hasattr(_eyes(loaded), "image_mean") and not _takes_pixels(loaded.model):
        raise InputError(
            f"--image: {name} does not read pictures; give a model that does, such as a ViT, CLIP "
            "or LLaVA"
        )
    if loaded.processor is None:
        raise InputError(
            f"--image: {name} has no image processor beside it (preprocessor_config.json); prepare "
            "its pixels yourself and run it inside regard.record(model)"
        )


def _eyes(loaded: Loaded) -> Any:
    return getattr(loaded.processor, "image_processor", loaded.processor)


def _takes_pixels(model: Any) -> bool:
    from inspect import signature

    return "pixel_values" in signature(model.forward).parameters


def sightings(
    loaded: Loaded, paths: Sequence[Path], texts: Sequence[str], chat: bool
) -> list[Sighting]:
    """One for each picture and each text; all pictures of one text together where the model reads
    them within it."""
    pictures = [read_picture(path) for path in paths]
    names = [path.name for path in paths]
    if not _reads_words(loaded):
        if texts:
            raise InputError("--text: this model reads pictures alone; leave the text out")
        return [
            Sighting(_pixels(loaded, [one]), name, [one])
            for one, name in zip(pictures, names, strict=True)
        ]
    if is_causal_model(loaded.model) or is_encoder_decoder(loaded.model):
        return [
            Sighting(_within(loaded, text, pictures, chat), _title(names, text), pictures)
            for text in (texts or [""])
        ]
    if not texts:
        raise InputError("this model reads a picture beside a text; give --text as well")
    return [
        Sighting(_beside(loaded, text, one), _title([name], text), [one])
        for text in texts
        for one, name in zip(pictures, names, strict=True)
    ]


def _reads_words(loaded: Loaded) -> bool:
    return loaded.tokenizer is not None


def _title(names: Sequence[str], text: str) -> str:
    """Of files and the words with them."""
    words = " ".join(text.split())[:60]
    return ", ".join(names) + (f": {words}" if words else "")


def _pixels(loaded: Loaded, pictures: list[_Pixels]) -> dict[str, Tensor]:
    made = _prepared(loaded.processor, images=_images(pictures), return_tensors="pt")
    return _cast(made, loaded.model)


def _beside(loaded: Loaded, text: str, picture: _Pixels) -> dict[str, Tensor]:
    given = {"text": [text], "images": _images([picture])}
    made = _prepared(loaded.processor, **given, return_tensors="pt", padding=True)
    return _cast(made, loaded.model)


def _within(loaded: Loaded, text: str, pictures: list[_Pixels], chat: bool) -> dict[str, Tensor]:
    """The pictures in front of the text, as the model's template or its processor has it."""
    processor = loaded.processor
    if chat or getattr(processor, "chat_template", None):
        said: list[dict[str, Any]] = [{"type": "image", "image": one} for one in _images(pictures)]
        message = [{"role": "user", "content": [*said, {"type": "text", "text": text}]}]
        made = _prepared(
            processor.apply_chat_template, message, add_generation_prompt=True, tokenize=True,
            return_dict=True, return_tensors="pt",
        )  # fmt: skip
        return _cast(made, loaded.model)
    mark = getattr(processor, "image_token", None) or "<image>"
    words = text if mark in text else mark * len(pictures) + text
    made = _prepared(processor, text=[words], images=_images(pictures), return_tensors="pt")
    return _cast(made, loaded.model)


def _images(pictures: Sequence[_Pixels]) -> list[Any]:
    """As Pillow's images: of an array with one or three rows processors would not know which axis
    the colours are."""
    from PIL import Image

    return [Image.fromarray(one) for one in pictures]


def _prepared(processor: Callable[..., Any], *given: Any, **more: Any) -> Any:
    """What a processor makes of it; its refusal of a picture as one of ours."""
    try:
        return processor(*given, **more)
    except (ValueError, ZeroDivisionError) as error:
        why = str(error).strip().split("\n")[0] or type(error).__name__
        raise InputError(f"the model's processor does not take it: {why:.200}") from error


def _cast(inputs: Mapping[str, Any], model: Any) -> dict[str, Tensor]:
    """Where the model is, colours in its precision."""
    place, kind = device_of(model), next(model.parameters()).dtype
    return {
        name: tensor.to(place, kind if tensor.is_floating_point() else None)
        for name, tensor in inputs.items()
        if isinstance(tensor, Tensor)
    }


def drive_sighting(recorder: Recorder, seen: Sighting, generate: int) -> str:
    """Record one; what the model wrote, "" where it was not asked to."""
    model: Any = recorder.model
    number = recorder.begun
    recorder.show(seen.pictures)
    written: list[int] = []
    with torch.inference_mode():
        if generate:
            found = model.generate(
                **seen.inputs, max_new_tokens=generate, num_beams=1, do_sample=False
            )
            ids = seen.inputs.get("input_ids")
            before = 0 if is_encoder_decoder(model) or ids is None else ids.shape[1]
            written = [int(n) for n in found[0].tolist()[before:]]
        else:
            model(**seen.inputs)
    recorder.say(number, title=seen.title, generated=len(written))
    if not written or recorder.tokenizer is None:
        return ""
    return str(recorder.tokenizer.decode(written, skip_special_tokens=True)).strip()
