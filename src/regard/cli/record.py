"""`regard record`: a model reads a prompt, and where it looked is written down."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import typer

from regard.cli.documents import Many, duration, record_documents
from regard.cli.models import known_names
from regard.cli.ranks import Ranks, record_over_ranks
from regard.cli.seen import effects, films_of, parse_boxes, pictures_of
from regard.cli.terminal import again, show_lines, status, write, write_json
from regard.errors import FileError, InputError, TooLargeError
from regard.files import check_regular, open_file, reason, shown

if TYPE_CHECKING:
    from regard.axes import Box
    from regard.cli.seen import Sightings
    from regard.recorder import Recorder
    from regard.recorder.drive import Agreement
    from regard.recorder.plan import Plan
    from regard.recorder.shards import ModelSpec, RecordOptions
    from regard.recorder.tokens import Encoded
    from regard.recording import Recording


def record(
    model: str = typer.Argument(
        ...,
        metavar="MODEL",
        help="A name from `regard models`, a folder, or any model transformers loads.",
        autocompletion=known_names,
    ),
    text: list[str] = typer.Option([], "--text", help="A prompt; can be repeated."),
    file: list[Path] = typer.Option([], "--file", help="A file with a prompt; can be repeated."),
    stdin: bool = typer.Option(False, "--stdin", help="Read a prompt from standard input."),
    audio: list[Path] = typer.Option(
        [], "--audio", help="A sound file, for a speech model; can be repeated."
    ),
    image: list[Path] = typer.Option(
        [], "--image", help="A picture, for a model that sees; can be repeated. With --text, both."
    ),
    video: list[Path] = typer.Option(
        [], "--video", help="A film, for a model that watches; can be repeated. With --text, both."
    ),
    without: list[str] = typer.Option(
        [],
        "--without",
        metavar="T,L,B,R",
        help="Also tell the answer without a region of the picture, in shares of it: 0,0,0.5,0.5.",
    ),
    documents: Path | None = typer.Option(
        None,
        "--documents",
        metavar="PATH",
        help="Record many documents, from a folder of text files or a JSONL file.",
    ),
    jobs: int | None = typer.Option(
        None, "--jobs", help="Processes for --documents; each loads the model. Default: 1."
    ),
    per_file: int | None = typer.Option(
        None, "--documents-per-file", help="Documents per file. Default: 16."
    ),
    field: str | None = typer.Option(
        None, "--field", help="The JSONL field that holds the text. Default: text."
    ),
    skip_bad: bool = typer.Option(
        False, "--skip-bad", help="Skip documents that are empty, invalid or too long."
    ),
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        help="The file to write, or the folder with --documents. Default: run.regard, or run.",
    ),
    overwrite: bool = typer.Option(
        False, "--overwrite", help="Replace an existing file, or existing files of another run."
    ),
    chat: bool = typer.Option(False, "--chat", help="Apply the chat template to the prompt."),
    generate: int = typer.Option(
        0, "--generate", metavar="N", min=0, help="Also generate and record N tokens."
    ),
    truncate: int | None = typer.Option(
        None, "--truncate", metavar="N", min=1, help="Record only the first N tokens of a text."
    ),
    layers: str | None = typer.Option(None, "--layers", help="Layers to record: 0,5-10."),
    heads: str | None = typer.Option(None, "--heads", help="Heads to record in each layer: 0,2-4."),
    queries: str | None = typer.Option(
        None, "--queries", help="Rows to record: 100:200, or n for the last n."
    ),
    budget: str = typer.Option("2GB", "--budget", help="Maximum size of a file."),
    dtype: str | None = typer.Option(
        None,
        "--dtype",
        help="Precision: float32, bfloat16 or float16. Default: float32 on the CPU.",
    ),
    device: str | None = typer.Option(
        None, "--device", help="Device to run on: cpu, cuda, cuda:1 …"
    ),
    plan_only: bool = typer.Option(False, "--plan", help="Print what would be kept, then exit."),
    as_json: bool = typer.Option(False, "--json", help="Print the result as JSON."),
) -> None:
    """Record a model's attention while it processes a prompt.

    Keeps statistics of all heads, and q and k of as many layers as fit the budget, from which their
    weights can be computed exactly. Ctrl-C leaves a file with the tokens processed so far; with
    --overwrite, that file is FILE.partial, and the old file is replaced only on completion.

    Under torchrun, one long prompt is split over all processes and written to a folder with one
    file per process.

    With --documents, writes a folder of files with several documents each; each file is written
    completely or not at all. To resume an interrupted run, repeat the command.

    With --image, a model that sees reads a picture (PNG, JPEG, WebP, BMP, GIF or TIFF), alone or
    with --text. A small copy of the picture is kept in the recording, for the page to draw on. With
    --without, the answer is told again with a region hidden from every query of every layer.

    With --video, a model such as VideoMAE is given as many frames as it wants, evenly spaced, of an
    animated GIF, WebP or PNG; with PyAV (pip install 'regard[video]'), of MP4, WebM and AVI too.

    With --audio, a speech model such as whisper-tiny.en transcribes a WAV, FLAC, Ogg or MP3
    file; long files are recorded in clips of 30 seconds, one prompt each.
    """
    from regard.recorder.plan import parse_budget
    from regard.recorder.shards import ModelSpec, RecordOptions

    room = parse_budget(budget)
    options = RecordOptions(chat, generate, layers, heads, queries, room, truncate=truncate)
    spec = ModelSpec(model, options, dtype, device)
    if audio:
        words = text or file or stdin or chat or truncate or documents
        if words or Ranks.here() is not None:
            raise InputError(
                "--audio is recorded alone, by one process: leave out --text, --file, --stdin, "
                "--chat, --truncate, --documents and torchrun"
            )
        _record_sounds(spec, audio, output or Path("run.regard"), overwrite, plan_only, as_json)
        return
    if image or video:
        if file or stdin or truncate or documents or plan_only or Ranks.here() is not None:
            raise InputError(
                f"--{'image' if image else 'video'} is recorded with --text or alone, by one "
                "process: leave out --file, --stdin, --truncate, --documents, --plan and torchrun"
            )
        if image and video:
            raise InputError("--image and --video are recorded apart; give one of them")
        where, boxes = output or Path("run.regard"), parse_boxes(without)
        seen = pictures_of(image, text) if image else films_of(video, text)
        _record_pictures(spec, seen, where, boxes, overwrite=overwrite, as_json=as_json)
        return
    if without:
        raise InputError("--without hides a region of a picture; give --image FILE as well")
    if documents is not None:
        if text or file or stdin:
            raise InputError("--documents is for many texts, --text, --file and --stdin for a few")
        if Ranks.here() is not None:
            raise InputError("--documents starts its own processes; give --jobs N, not torchrun")
        many = Many(documents, output or Path("run"), jobs, per_file, field, skip_bad, overwrite)
        record_documents(spec, many, plan_only, as_json)
        return
    given = {"--jobs": jobs, "--documents-per-file": per_file, "--field": field}
    given |= {"--skip-bad": skip_bad or None}
    for option in [name for name, value in given.items() if value is not None]:
        raise InputError(f"{option} is about many documents; give --documents PATH as well")
    ranks = Ranks.here()
    if ranks is not None:
        read = partial(_prompts, text, file, stdin)
        folder = output or Path("run")
        record_over_ranks(ranks, spec, read, folder, overwrite, plan_only, as_json)
        return
    words = _prompts(text, file, stdin)
    _record_prompts(spec, words, output or Path("run.regard"), overwrite, plan_only, as_json)


def _record_prompts(
    spec: ModelSpec,
    prompts: list[str],
    output: Path,
    overwrite: bool,
    plan_only: bool,
    as_json: bool,
) -> None:
    """A few prompts into one file."""
    from regard.recorder.drive import check_writes, drive
    from regard.recorder.tokens import check_reads_text

    if not plan_only:
        _check_output(output, overwrite)
    options = spec.options
    with status().status(f"loading {spec.model}"):
        loaded = spec.load()
    check_reads_text(loaded.model, spec.model)
    encoded = [options.encode(loaded, one) for one in prompts]
    plans, seconds = _plans(loaded.model, encoded, options)
    check_writes(loaded.model, spec.model, options.generate)
    _tell_plan(spec.model, encoded, plans, seconds)
    if plan_only:
        _print_plan(plans, seconds, as_json)
        return
    recorder = _recorder(loaded, options, output, overwrite)
    total = sum(one.tokens + options.generate for one in encoded)
    progress = _progress(total, lambda: recorder.written_bytes)
    with _telling_what_is_left(recorder, output), progress as advanced, recorder:
        for one, plan in zip(encoded, plans, strict=True):
            drive(recorder, one, generate=options.generate, plan=plan, advanced=advanced)
        recorder.finish()
        agreement = _compare(recorder, encoded)
    with recorder.recording as found:
        _finish(found, output, agreement, as_json)


def _record_sounds(
    spec: ModelSpec,
    files: list[Path],
    output: Path,
    overwrite: bool,
    plan_only: bool,
    as_json: bool,
) -> None:
    """Sound files into one file, a prompt for each clip; what was understood is printed."""
    from regard.recorder.sound import check_reads_sound, clips, drive_clip, plans_for

    if not plan_only:
        _check_output(output, overwrite)
    options = spec.options
    with status().status(f"loading {spec.model}"):
        loaded = spec.load()
    check_reads_sound(loaded, spec.model)
    parts = [clip for path in files for clip in clips(loaded, path)]
    plans = plans_for(loaded.model, parts, options.choice(), options.budget, options.generate)
    seconds = sum(clip.seconds for clip in parts)
    several = "" if len(parts) == 1 else f" in {len(parts)} clips"
    write(f"{spec.model}: {seconds:.1f} seconds of sound{several}", error=True)
    _tell_bytes(plans)
    if plan_only:
        _print_plan(plans, None, as_json)
        return
    recorder = _recorder(loaded, options, output, overwrite)
    with _telling_what_is_left(recorder, output), recorder:
        for clip, plan in zip(parts, plans, strict=True):
            with status().status(f"recording {clip.title}"):
                words = drive_clip(recorder, clip, options.generate, plan)
            write(f"{clip.title}: {words}" if words else clip.title, error=True)
    with recorder.recording as found:
        _finish(found, output, None, as_json)


def _record_pictures(
    spec: ModelSpec,
    see: Sightings,
    output: Path,
    boxes: list[Box],
    *,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Pictures or films into one file; what the model wrote is printed, and what it says without
    these regions."""
    from regard.recorder.drive import check_writes
    from regard.recorder.sight import drive_sighting

    _check_output(output, overwrite)
    options = spec.options
    with status().status(f"loading {spec.model}"):
        loaded = spec.load()
    seen = see(loaded, spec)
    check_writes(loaded.model, spec.model, options.generate)
    recorder = _recorder(loaded, options, output, overwrite)
    with _telling_what_is_left(recorder, output), recorder:
        for one in seen:
            with status().status(f"recording {one.title}"):
                words = drive_sighting(recorder, one, options.generate)
            write(f"{one.title}: {words}" if words else one.title, error=True)
    told = effects(loaded, seen, boxes)
    with recorder.recording as found:
        more = {"without": [{"title": title, **numbers} for title, _, numbers in told]}
        _finish(found, output, None, as_json, more if boxes else {})
    if not as_json:
        for title, sentence, _ in told:
            write(f"{title}: {sentence}")


def _recorder(loaded: Any, options: RecordOptions, output: Path, overwrite: bool) -> Recorder:
    from regard.recorder import record as recorder_for

    recorder = recorder_for(
        loaded.model, output, tokenizer=loaded.processor or loaded.tokenizer, layers=options.layers,
        heads=options.heads, queries=options.queries, budget=options.budget, overwrite=overwrite,
    )  # fmt: skip
    recorder.name = loaded.name
    return recorder


@contextmanager
def _telling_what_is_left(recorder: Recorder, output: Path) -> Iterator[None]:
    """Of a recording that is stopped, or finds no memory."""
    try:
        yield
    except KeyboardInterrupt:
        write(f"regard: stopped; {_what_is_left(recorder.left, output)}", error=True)
        raise
    except TooLargeError as error:
        if recorder.left == output:  # else the error has such a note
            error.add_note(_what_is_left(output, output))
        raise


def _what_is_left(left: Path | None, output: Path) -> str:
    """Of a recording that was stopped."""
    words = f"what was read so far is in {left}" if left else "nothing was recorded"
    return words if left == output or not output.exists() else f"{words}; {output} is as it was"


# ── what is to be read ───────────────────────────────────────────────────────────────────────


def _prompts(texts: list[str], files: list[Path], stdin: bool) -> list[str]:
    found = [*texts, *(_read(path) for path in files)]
    if stdin:
        found.append(sys.stdin.read().removesuffix("\n"))
    if not found:
        raise InputError(
            "no prompt; give --text TEXT, --file FILE, --stdin, --image FILE, --video FILE or "
            "--audio FILE"
        )
    for one in found:
        if not one.strip():
            raise InputError("a prompt is empty; give some text with --text, --file or --stdin")
    return found


def _read(path: Path) -> str:
    try:
        # the last line break is the editor's, not the prompt's
        with open_file(path) as file:
            return TextIOWrapper(file, encoding="utf-8").read().removesuffix("\n")
    except UnicodeDecodeError:
        raise FileError(f"{shown(path)}: not UTF-8 text") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{shown(path)}: cannot be read ({reason(error)})") from None


def _check_output(path: Path, overwrite: bool) -> None:
    """Before minutes go by: the file can be made."""
    import os

    try:
        check_regular(path)
        if not overwrite:
            raise FileError(f"{path}: exists already; give another name with -o, or --overwrite")
    except FileNotFoundError:
        pass  # a new file
    except FileError:
        raise
    except (OSError, ValueError) as error:
        raise FileError(f"{shown(path)}: {reason(error)}; give another name with -o") from None
    folder = path.parent
    if not folder.is_dir():
        raise FileError(f"{path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise FileError(f"{path}: {folder} cannot be written to; give another place with -o")


# ── the plan ─────────────────────────────────────────────────────────────────────────────────


def _plans(model: Any, encoded: list[Encoded], options: RecordOptions) -> tuple[list[Plan], float]:
    """What is kept of each prompt, and about how long it takes."""
    from regard.recorder.drive import estimate

    estimated = estimate(model, encoded[0].ids, options.choice())
    room = options.budget // len(encoded)
    plans = [estimated.plan(one.tokens + options.generate, room) for one in encoded]
    seconds = sum(estimated.seconds(one.tokens, options.generate) for one in encoded)
    return plans, seconds + estimated.looking(encoded[0].tokens)


def _tell_plan(name: str, encoded: list[Encoded], plans: list[Plan], seconds: float) -> None:
    tokens = sum(one.tokens for one in encoded)
    bos = encoded[0].bos
    front = f"{bos} put in front" if bos else "nothing put in front (no BOS)"
    several = f"{len(encoded)} prompts, " if len(encoded) > 1 else ""
    write(f"{name}: {several}{tokens} token{'' if tokens == 1 else 's'}, {front}", error=True)
    _tell_bytes(plans)
    write(f"  about {duration(seconds)}", error=True)


def _tell_bytes(plans: list[Plan]) -> None:
    from regard.recorder.plan import human

    if len(plans) == 1:
        for line in plans[0].lines():
            write(f"  {line}", error=True)
    else:
        every = sum(plan.total_bytes for plan in plans)
        write(f"  {human(every)} of {human(sum(plan.budget for plan in plans))}", error=True)


def _print_plan(plans: list[Plan], seconds: float | None, as_json: bool) -> None:
    """With about how long it takes, where that is known."""
    if as_json:
        time = {} if seconds is None else {"seconds": round(seconds, 1)}
        write_json({"prompts": [plan.to_dict() for plan in plans], **time})


# ── while it runs ────────────────────────────────────────────────────────────────────────────


@contextmanager
def _progress(total: int, written: Callable[[], int]) -> Iterator[Callable[[float], None]]:
    """A bar with tokens a second, bytes and the time left; nothing where nobody looks."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from regard.recorder.plan import human

    console = status()
    columns = (
        TextColumn("recording"),
        BarColumn(),
        TextColumn(
            "{task.completed:.0f}/{task.total} tokens · {task.fields[rate]} · {task.fields[size]}"
        ),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total, rate="", size="")

        def advanced(tokens: float) -> None:
            bar.update(task, advance=tokens)
            speed = bar.tasks[0].speed
            rate = f"{speed:.0f} tokens/s" if speed else ""
            bar.update(task, rate=rate, size=human(written()))

        yield advanced


# ── the first screen ─────────────────────────────────────────────────────────────────────────


def _compare(recorder: Recorder, encoded: list[Encoded]) -> Agreement | None:
    """Replayed weights against eager ones, noted in the recording."""
    from dataclasses import asdict

    from regard.recorder.drive import compare_with_eager

    with recorder.so_far() as found:
        agreement = compare_with_eager(recorder.model, found, encoded[0].ids)
    if agreement is not None:
        recorder.note(check=asdict(agreement))
    return agreement


def _finish(
    found: Recording,
    output: Path,
    agreement: Agreement | None,
    as_json: bool,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """What the model would say, how well replay agrees, all heads at a glance, where to go on."""
    from dataclasses import asdict

    from regard.draw.pages import overview_lines
    from regard.views.overview import first_head, whole_overview

    if as_json:
        facts = {"file": str(output), "bytes": output.stat().st_size}
        check = None if agreement is None else asdict(agreement)
        write_json({**facts, **whole_overview(found), "check": check, **more})
        return
    show_lines(lambda paper: overview_lines(found, 0, None, paper))
    if agreement is not None:
        write(agreement.line())
    write(f"written: {output}; look closer: {again('regard show')} {output} {first_head(found)}")
