"""Film files → the frames that a model of film is given, evenly over its length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import FileError, InputError, MissingExtraError, RegardError
from regard.files import open_file, reason, shown
from regard.models import Loaded
from regard.recorder.drive import is_causal_model, is_encoder_decoder
from regard.recorder.pictures import MOST_PIXELS
from regard.recorder.sight import Sighting, cast, prepared, title_of

_Pixels = NDArray[np.uint8]  # (h, w, 3)
_FORMATS: Final = ("GIF", "WEBP", "PNG")  # that Pillow reads as films
# what PyAV may take a file for: none of these opens another file or an address
_CONTAINERS: Final = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,ogg,flv"
_MOST_FRAMES: Final = 100_000  # of a film
_MOST_KEPT: Final = 1 << 27  # pixels of all frames that are taken from it
_USUAL: Final = 8  # frames, where a model does not say how many it wants


@dataclass(frozen=True)
class Film:
    """Some frames of a film, and when each is seen, in seconds."""

    frames: list[_Pixels]
    seconds: list[float]


class _Shot(NamedTuple):
    number: int
    seconds: float
    pixels: _Pixels


def evenly(count: int, wanted: int) -> list[int]:
    """⌊i · count / wanted⌋ for i < wanted: as transformers samples; a film that has fewer frames
    shows some of them several times."""
    return [i * count // wanted for i in range(wanted)]


def read_film(path: Path, wanted: int) -> Film:
    """So many frames of an animated GIF, WebP or PNG, or of what PyAV reads (MP4, WebM, AVI …); one
    line where it cannot be."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError:
        raise MissingExtraError("reading a film", "PIL", "vision") from None
    try:
        with open_file(path) as file:
            try:
                with Image.open(file, formats=_FORMATS) as image:
                    count = getattr(image, "n_frames", 1)
                    _check(path, image.size, count, wanted)
                    return _film(_of_pillow(image, evenly(count, wanted)), evenly(count, wanted))
            except UnidentifiedImageError:
                file.seek(0)
                return _read_by_av(path, file, wanted)
    except RegardError:
        raise  # it says what is wrong already
    except Image.DecompressionBombError:
        raise FileError(f"{shown(path)}: its frames have too many pixels") from None
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        raise FileError(f"{shown(path)}: cannot be read ({reason(error)})") from None


def _check(path: Path, size: tuple[int, int], count: int, wanted: int) -> None:
    """Before frames are decoded."""
    wide, high = size
    if not wide or not high:
        raise InputError(f"{shown(path)}: a film of {wide} × {high} pixels")
    if count < 2:
        what = "one picture; give it with --image" if count else "no frames"
        raise InputError(f"{shown(path)}: holds {what}")
    if count > _MOST_FRAMES:
        raise FileError(f"{shown(path)}: {count:,} frames; at most {_MOST_FRAMES:,} are read")
    kept = min(wanted, count) * wide * high
    if wide * high > MOST_PIXELS or kept > _MOST_KEPT:
        raise FileError(
            f"{shown(path)}: frames of {wide} × {high} pixels are too large; {wanted} of at most "
            f"{_MOST_KEPT // wanted:,} pixels are read"
        )


def _film(shots: Iterable[_Shot], numbers: Sequence[int]) -> Film:
    """The frames of these numbers, which may repeat."""
    found = {one.number: one for one in shots}
    shown_ones = [found[n] for n in numbers]
    return Film([one.pixels for one in shown_ones], [one.seconds for one in shown_ones])


def _of_pillow(image: Any, numbers: Sequence[int]) -> Iterator[_Shot]:
    """One behind the other, since each is painted over the one before."""
    wanted, seconds = set(numbers), 0.0
    for number in range(max(numbers) + 1):
        image.seek(number)
        image.load()  # WebP tells how long a frame is seen not before
        if number in wanted:
            yield _Shot(number, seconds, np.asarray(image.convert("RGB")))
        seconds += float(image.info.get("duration") or 0) / 1000  # milliseconds


def _read_by_av(path: Path, file: Any, wanted: int) -> Film:
    """Counted first, then decoded: files seldom say how many frames they hold."""
    try:
        import av
    except ModuleNotFoundError:
        raise MissingExtraError(
            "reading a film other than GIF, WebP and PNG", "av", "video"
        ) from None
    options = {"format_whitelist": _CONTAINERS, "protocol_whitelist": "none"}
    try:
        with av.open(file, mode="r", options=options) as container:
            streams = container.streams.video
            if not streams:
                raise InputError(f"{shown(path)}: holds no frames")
            size = streams[0].width, streams[0].height
            packets = container.demux(streams[0])
            count = sum(packet.size > 0 for packet in _at_most(packets, _MOST_FRAMES + 1))
            _check(path, size, count, wanted)
        file.seek(0)
        with av.open(file, mode="r", options=options) as container:
            return _of_av(path, container, count, wanted)
    except av.FFmpegError as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise FileError(f"{shown(path)}: not a film that can be read ({why})") from None


def _at_most(values: Iterable[Any], count: int) -> Iterator[Any]:
    return (one for _, one in zip(range(count), values, strict=False))


def _of_av(path: Path, container: Any, count: int, wanted: int) -> Film:
    """Frames by their number; where fewer come out than packets went in, those before."""
    numbers = evenly(count, wanted)
    shots: dict[int, _Shot] = {}
    for number, frame in enumerate(_at_most(container.decode(video=0), max(numbers) + 1)):
        if number in numbers:
            at = float(frame.time) if frame.time is not None else 0.0
            shots[number] = _Shot(number, max(at, 0.0), frame.to_ndarray(format="rgb24"))
    if not shots:
        raise InputError(f"{shown(path)}: holds no frames")
    there = [max((n for n in shots if n <= number), default=min(shots)) for number in numbers]
    return _film(shots.values(), there)


# ── models ───────────────────────────────────────────────────────────────────────────────────


def _processor(loaded: Loaded) -> Any:
    """What makes pixels of frames."""
    return getattr(loaded.processor, "video_processor", None) or loaded.processor


def check_watches(loaded: Loaded, name: str) -> None:
    """Refuse models of text, sound and still pictures."""
    if _frames_said(loaded) is None and not hasattr(loaded.processor, "video_processor"):
        raise InputError(
            f"--video: {name} does not read films; give a model that does, such as VideoMAE, ViViT "
            "or Qwen2-VL"
        )
    if loaded.processor is None:
        raise InputError(
            f"--video: {name} has no processor beside it (preprocessor_config.json); prepare its "
            "pixels yourself and run it inside regard.record(model)"
        )


def _frames_said(loaded: Loaded) -> int | None:
    """How many frames the model reads at once, where it or its processor says."""
    config = loaded.model.config
    for one in (config, getattr(config, "vision_config", None), _processor(loaded)):
        count = getattr(one, "num_frames", None)
        if isinstance(count, int) and count > 0:
            return count
    return None


def film_sightings(loaded: Loaded, paths: Sequence[Path], texts: Sequence[str]) -> list[Sighting]:
    """One for each film, and each text with it where the model reads both."""
    wanted = _frames_said(loaded) or _USUAL
    films = [(path.name, read_film(path, wanted)) for path in paths]
    model = loaded.model
    words = loaded.tokenizer is not None and (is_causal_model(model) or is_encoder_decoder(model))
    if not words and texts:
        raise InputError("--text: this model reads films alone; leave the text out")
    return [
        Sighting(
            _told(loaded, film, text) if words else _alone(loaded, film),
            title_of([name], text), film.frames, film.seconds,
        )
        for name, film in films
        for text in (texts or [""])
    ]  # fmt: skip


def _alone(loaded: Loaded, film: Film) -> dict[str, Tensor]:
    processor = _processor(loaded)
    if type(processor).__name__.endswith("VideoProcessor"):
        made = prepared(processor, videos=[np.stack(film.frames)], return_tensors="pt")
    else:  # image processors take the frames of one film as a list of pictures
        made = prepared(processor, images=film.frames, return_tensors="pt")
    return cast(made, loaded.model)


def _told(loaded: Loaded, film: Film, text: str) -> dict[str, Tensor]:
    """The film in front of the text, as the model's template or its processor has it."""
    processor = loaded.processor
    if getattr(processor, "chat_template", None):
        said = [{"type": "video"}, {"type": "text", "text": text}]
        words = processor.apply_chat_template(
            [{"role": "user", "content": said}], add_generation_prompt=True, tokenize=False
        )
    else:
        mark = getattr(processor, "video_token", None) or "<video>"
        words = text if mark in text else mark + text
    made = prepared(
        processor, text=[words], videos=[np.stack(film.frames)], return_tensors="pt",
        do_sample_frames=False, video_metadata=[_metadata(film)],
    )  # fmt: skip
    return cast(made, loaded.model)


def _metadata(film: Film) -> dict[str, Any]:
    """As transformers' processors of film ask for it: frames a second of those that are given."""
    length = film.seconds[-1] - film.seconds[0]
    count = len(film.frames)
    rate = (count - 1) / length if length > 0 else 1.0
    return {"fps": rate, "total_num_frames": count, "duration": count / rate,
            "frames_indices": list(range(count))}  # fmt: skip
