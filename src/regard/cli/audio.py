"""`regard record MODEL --audio FILE`: a model of speech, while it writes down what it hears."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.terminal import status, write
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.recorder.shards import ModelSpec
    from regard.recording import Recording


def check_audio_alone(given: dict[str, object]) -> None:
    """InputError where --audio stands beside an option that is about text."""
    wrong = [name for name, value in given.items() if value]
    if wrong:
        raise InputError(f"--audio is about sound; leave out {', '.join(wrong)}")


def record_audio(spec: ModelSpec, files: list[Path], output: Path, overwrite: bool) -> Recording:
    """Each file is one prompt of the recording; what was written is printed."""
    from regard.recorder import record
    from regard.recorder.sound import check_hears, drive_sound, rate_of, read_sound

    with status().status(f"loading {spec.model}"):
        loaded = spec.load()
    check_hears(loaded.model, spec.model)
    rate, options = rate_of(loaded.processor), spec.options
    sounds = [read_sound(path, rate) for path in files]
    seconds = sum(len(one) for one in sounds) / rate
    write(f"{spec.model}: {seconds:.1f} s of sound", error=True)
    recorder = record(
        loaded.model, output, tokenizer=loaded.tokenizer, layers=options.layers,
        heads=options.heads, queries=options.queries, budget=options.budget, overwrite=overwrite,
    )  # fmt: skip
    recorder.name = loaded.name
    with recorder:
        for path, samples in zip(files, sounds, strict=True):
            with status().status(f"listening to {path.name}"):
                written = drive_sound(recorder, loaded.processor, samples, path.name)
            recorder.finish()
            words = loaded.tokenizer.decode(written, skip_special_tokens=True).strip()
            write(f"{path.name}: {words or '(no words)'}", error=True)
    return recorder.recording
