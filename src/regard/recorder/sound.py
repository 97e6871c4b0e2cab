"""Sound files → clips that a model of speech reads, and their recording."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import ceil, gcd
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import FileError, InputError, MissingExtraError
from regard.files import open_file, reason, shown
from regard.hear.weights import device_of
from regard.models import Loaded
from regard.recorder.axes import Heard
from regard.recorder.drive import SizeListener, is_encoder_decoder
from regard.recorder.plan import Choice, Plan, Size, make_plan
from regard.recorder.session import Recorder

_Samples = NDArray[np.float32]  # (n,): one channel, in −1 … 1
_INPUTS = ("input_features", "input_values")  # what models of speech call their input
_WIDEST = 1024  # pixels of a spectrogram
_LONGEST = 30.0  # seconds of a clip, where the model does not say


@dataclass(frozen=True)
class Clip:
    """A part of a sound that a model reads at once."""

    inputs: Mapping[str, Tensor]
    title: str
    seconds: float  # of sound, without the silence that the model is given behind it
    heard: Heard
    spectrogram: NDArray[np.uint8] | None = None  # (h, w) of those seconds, low tones below


def check_reads_sound(loaded: Loaded, name: str) -> None:
    """Refuse models of text and pictures."""
    wanted = getattr(loaded.model, "main_input_name", "input_ids")
    if wanted not in _INPUTS or not hasattr(_extractor(loaded), "sampling_rate"):
        raise InputError(
            f"--audio: {name} reads {wanted.replace('_', ' ')}, not sound; give a model of speech, "
            "such as whisper-tiny.en"
        )


def clips(loaded: Loaded, path: Path) -> list[Clip]:
    """A sound file in pieces as long as the model takes at once."""
    extractor = _extractor(loaded)
    rate = int(extractor.sampling_rate)
    samples = read_sound(path, rate)
    longest = float(getattr(extractor, "chunk_length", None) or _LONGEST)
    step = int(longest * rate)
    made = []
    for start in range(0, len(samples), step):
        part = samples[start : start + step]
        inputs = loaded.processor(
            part, sampling_rate=rate, return_tensors="pt", return_attention_mask=True
        )
        end, seconds = (start + len(part)) / rate, len(part) / rate
        title = f"{path.name}, {_clock(start / rate)}–{_clock(end)}"
        heard = replace(_heard(loaded, inputs), start=start / rate)
        picture = spectrogram(_bands(loaded, inputs, part), seconds / heard.seconds)
        made.append(Clip(_cast(inputs, loaded.model), title, seconds, heard, picture))
    return made


def _heard(loaded: Loaded, inputs: Mapping[str, Tensor]) -> Heard:
    """How long the model's input is, and the step of its positions where the model says."""
    extractor, config = _extractor(loaded), loaded.model.config
    rate = int(extractor.sampling_rate)
    if "input_values" in inputs and inputs["input_values"].ndim == 2:
        ratio = getattr(config, "inputs_to_logits_ratio", None)
        seconds = inputs["input_values"].shape[1] / rate
        return Heard(seconds, step=ratio / rate if isinstance(ratio, int) else None)
    bands = _bands(loaded, inputs, np.zeros(0, np.float32))
    hop = getattr(extractor, "hop_length", None) or rate // 100  # 10 milliseconds
    return Heard(bands.shape[1] * hop / rate)


def _bands(loaded: Loaded, inputs: Mapping[str, Tensor], samples: _Samples) -> _Samples:
    """(bands, moments) as the model reads them; where it reads samples, their own spectrum."""
    features = next((inputs[name] for name in _INPUTS if name in inputs), None)
    if features is None or features.ndim != 3:
        return spectrum(samples)
    found = features[0].float().cpu().numpy()
    mels = getattr(_extractor(loaded), "feature_size", None)
    is_turned = (
        found.shape[1] == mels or getattr(_extractor(loaded), "num_mel_bins", 0) == (found.shape[1])
    )
    return found.T if is_turned and found.shape[0] != mels else found


def spectrum(samples: _Samples, window: int = 400, hop: int = 160) -> _Samples:
    """(window / 2 + 1, moments): log₁₀ of the power in each band, at most 8 below the largest."""
    padded = np.pad(samples, (0, max(window - len(samples), 0)))
    frames = np.lib.stride_tricks.sliding_window_view(padded, window)[::hop]
    power = np.abs(np.fft.rfft(frames * np.hanning(window), axis=1)) ** 2
    found = np.log10(np.maximum(power, 1e-10)).T
    return np.maximum(found, found.max() - 8.0).astype(np.float32)


def spectrogram(bands: _Samples, share: float) -> NDArray[np.uint8]:
    """(bands, ≤ 1024): its first `share` of moments as shades, from the faintest to the loudest,
    low tones below; neighbours are averaged where there are more than fit."""
    moments = min(max(round(bands.shape[1] * share), 1), bands.shape[1])
    kept = bands[:, :moments][::-1]
    starts = np.unique(np.linspace(0, moments, min(moments, _WIDEST), endpoint=False).astype(int))
    sums = np.add.reduceat(kept, starts, axis=1)
    means = sums / np.diff(np.append(starts, moments))
    low, high = float(means.min()), float(means.max())
    shades = (means - low) / (high - low or 1.0) * 255
    return np.rint(np.nan_to_num(shades)).astype(np.uint8)


def _extractor(loaded: Loaded) -> Any:
    return getattr(loaded.processor, "feature_extractor", loaded.processor)


def _cast(inputs: Mapping[str, Tensor], model: Any) -> dict[str, Tensor]:
    """Where the model is, sound in its precision."""
    place, kind = device_of(model), next(model.parameters()).dtype
    return {
        name: tensor.to(place, kind if tensor.is_floating_point() else None)
        for name, tensor in inputs.items()
    }


def _clock(seconds: float) -> str:
    """90.5 → 1:30.5."""
    minutes, rest = divmod(round(seconds, 1), 60)
    return f"{minutes:.0f}:{rest:04.1f}".removesuffix(".0")


# ── files ────────────────────────────────────────────────────────────────────────────────────


def read_sound(path: Path, rate: int) -> _Samples:
    """Its channels as one, at so many samples a second. WAV, FLAC, Ogg and MP3."""
    try:
        import soundfile
    except ModuleNotFoundError:
        raise MissingExtraError("reading a sound file", "soundfile", "audio") from None
    try:
        with open_file(path) as file:
            samples, found = soundfile.read(file, dtype="float32", always_2d=True)
    except (OSError, ValueError) as error:
        raise FileError(f"{shown(path)}: cannot be read ({reason(error)})") from None
    except soundfile.LibsndfileError as error:
        said = error.error_string.rstrip(".")
        raise FileError(f"{shown(path)}: not a sound file that can be read ({said})") from None
    if not len(samples):
        raise InputError(f"{shown(path)}: holds no sound")
    if not np.isfinite(samples).all():
        raise InputError(f"{shown(path)}: holds samples that are no numbers")
    return resampled(samples.mean(1), found, rate)


def resampled(samples: _Samples, rate: int, wanted: int) -> _Samples:
    """The same sound at another rate: its spectrum up to half of the lower rate. Silence is put
    behind it first, so that its end does not run into its beginning."""
    if rate == wanted:
        return samples
    common = gcd(rate, wanted)
    step, made = rate // common, wanted // common  # `step` samples become `made`
    blocks = ceil((len(samples) + rate // 10) / step)
    spectrum = np.fft.rfft(samples, blocks * step)
    found = np.fft.irfft(spectrum[: blocks * made // 2 + 1], blocks * made) * (made / step)
    return found[: ceil(len(samples) * wanted / rate)].astype(np.float32)


# ── recording ────────────────────────────────────────────────────────────────────────────────


def plans_for(
    model: Any, parts: Sequence[Clip], choice: Choice, budget: int, generate: int
) -> list[Plan]:
    """What is kept of each clip; InputError where a chosen layer or head does not exist."""
    listener = SizeListener(model)
    inputs = dict(parts[0].inputs)
    if is_encoder_decoder(model):
        inputs["decoder_input_ids"] = torch.zeros(
            (1, 1), dtype=torch.int64, device=device_of(model)
        )
    with torch.inference_mode(), listener.where:
        model(**inputs)
    most = generate or int(getattr(model.config, "max_target_positions", None) or 1)
    sizes = [_after(size, most) for size in listener.chosen(choice)]
    return [make_plan(budget // len(parts), sizes) for _ in parts]


def _after(size: Size, tokens: int) -> Size:
    """A decoder's size after so many tokens, from its size with the first."""
    if size.queries > 1:
        return size
    return replace(size, queries=tokens, keys=max(size.keys, tokens))


def drive_clip(recorder: Recorder, clip: Clip, generate: int, plan: Plan | None = None) -> str:
    """Record one clip; what the model understood, "" of one that writes nothing."""
    number = recorder.begun
    recorder.hear(clip.heard, clip.spectrogram)
    recorder.expect(0, plan)
    with torch.inference_mode():
        written = _read(recorder.model, clip, generate)
    facts = {"sound": _facts(recorder.model, clip)}
    recorder.say(number, title=clip.title, generated=len(written), facts=facts)
    return text_of(recorder.tokenizer, written)


def _facts(model: Any, clip: Clip) -> dict[str, Any]:
    """What a reader has to know of the sound: where it ends, and which heads follow it."""
    heads = getattr(getattr(model, "generation_config", None), "alignment_heads", None)
    width = getattr(model.config, "median_filter_width", None)
    found = {
        "start": clip.heard.start,
        "seconds": clip.seconds,
        "alignment_heads": [list(map(int, one)) for one in heads] if heads else None,
        "median_filter_width": width,
    }
    return {name: value for name, value in found.items() if value is not None}


def _read(model: Any, clip: Clip, generate: int) -> list[int]:
    """At most so many tokens, 0 for as many as the model wants."""
    if not is_encoder_decoder(model):
        model(**clip.inputs)
        return []
    length = {"max_new_tokens": generate, "max_length": None} if generate else {}
    with _without_remarks():
        found = model.generate(**clip.inputs, num_beams=1, do_sample=False, **length)
    return [int(n) for n in found[0].tolist()]


@contextmanager
def _without_remarks() -> Iterator[None]:
    """Whisper's `generate` warns of arguments that it passes to itself."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def text_of(tokenizer: Any, written: Iterable[int]) -> str:
    """The words alone."""
    if tokenizer is None:
        return ""
    return str(tokenizer.decode(list(written), skip_special_tokens=True)).strip()
