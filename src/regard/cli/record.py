"""`regard record`: a model reads a prompt, and where it looked is written down."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli.documents import Many, duration, record_documents
from regard.cli.models import known_names
from regard.cli.ranks import Ranks, record_over_ranks
from regard.cli.seen import effects, parse_boxes, pictures_of
from regard.cli.terminal import again, recording_bar, show_lines, status, write, write_json
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

    With --audio, a speech model such as whisper-tiny.en transcribes a WAV, FLAC, Ogg or MP3
    file; long files are recorded in clips of 30 seconds, one prompt each.
    """
    from regard.recorder.plan import parse_budget
    from regard.recorder.shards import ModelSpec, RecordOptions

    room = parse_budget(budget)
    options = RecordOptions(chat, generate, layers, heads, queries, room, truncate=truncate)
    spec = ModelSpec(model, options, dtype, device)
    run = _Run(spec, output or Path("run.regard"), overwrite, plan_only, as_json)
    if audio:
        words = text or file or stdin or chat or truncate or documents
        if words or Ranks.here() is not None:
            raise InputError(
                "--audio is recorded alone, by one process: leave out --text, --file, --stdin, "
                "--chat, --truncate, --documents and torchrun"
            )
        _record_sounds(run, audio)
        return
    if image:
        if file or stdin or truncate or documents or plan_only or Ranks.here() is not None:
            raise InputError(
                "--image is recorded with --text or alone, by one process: leave out --file, "
                "--stdin, --truncate, --documents, --plan and torchrun"
            )
        boxes = parse_boxes(without)
        _record_pictures(run, pictures_of(image, text), boxes)
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
    _record_prompts(run, _prompts(text, file, stdin))


@dataclass(frozen=True)
class _Run:
    """One file: what is loaded for it, where it goes, and how it is told of."""

    spec: ModelSpec
    output: Path
    overwrite: bool
    plan_only: bool
    as_json: bool

    def load(self) -> Any:
        """The model, once it is known that the file can be made."""
        if not self.plan_only:
            _check_output(self.output, self.overwrite)
        with status().status(f"loading {self.spec.model}"):
            return self.spec.load()

    @contextmanager
    def recorder(self, loaded: Any) -> Iterator[Recorder]:
        """What records; where it is stopped, or finds no memory, what is left is told."""
        from regard.recorder import record as recorder_for

        options = self.spec.options
        recorder = recorder_for(
            loaded.model, self.output, tokenizer=loaded.processor or loaded.tokenizer,
            layers=options.layers, heads=options.heads, queries=options.queries,
            budget=options.budget, overwrite=self.overwrite,
        )  # fmt: skip
        recorder.name = loaded.name
        try:
            with recorder:
                yield recorder
        except KeyboardInterrupt:
            write(f"regard: stopped; {_what_is_left(recorder.left, self.output)}", error=True)
            raise
        except TooLargeError as error:
            if recorder.left == self.output:  # else the error has such a note
                error.add_note(_what_is_left(self.output, self.output))
            raise

    def finish(self, recorder: Recorder, agreement: Agreement | None = None, **more: Any) -> None:
        """What the model would say, how well replay agrees, all heads at a glance, where to go."""
        from regard.draw.pages import overview_lines
        from regard.views.overview import first_head, whole_overview

        with recorder.recording as found:
            if self.as_json:
                facts = {"file": str(self.output), "bytes": self.output.stat().st_size}
                check = None if agreement is None else asdict(agreement)
                write_json({**facts, **whole_overview(found), "check": check, **more})
                return
            show_lines(lambda paper: overview_lines(found, 0, None, paper))
            if agreement is not None:
                write(agreement.line())
            closer = f"{again('regard show')} {self.output} {first_head(found)}"
            write(f"written: {self.output}; look closer: {closer}")


def _record_prompts(run: _Run, prompts: list[str]) -> None:
    """A few prompts into one file."""
    from regard.recorder.drive import check_writes, drive
    from regard.recorder.tokens import check_reads_text

    name, options = run.spec.model, run.spec.options
    loaded = run.load()
    check_reads_text(loaded.model, name)
    encoded = [options.encode(loaded, one) for one in prompts]
    plans, seconds = _plans(loaded.model, encoded, options)
    check_writes(loaded.model, name, options.generate)
    _tell_plan(name, encoded, plans, seconds)
    if run.plan_only:
        _print_plan(plans, seconds, run.as_json)
        return
    total = sum(one.tokens + options.generate for one in encoded)
    with (
        run.recorder(loaded) as recorder,
        _progress(total, lambda: recorder.written_bytes) as advanced,
    ):
        for one, plan in zip(encoded, plans, strict=True):
            drive(recorder, one, generate=options.generate, plan=plan, advanced=advanced)
        recorder.finish()
        agreement = _compare(recorder, encoded)
    run.finish(recorder, agreement)


def _record_sounds(run: _Run, files: list[Path]) -> None:
    """Sound files into one file, a prompt for each clip; what was understood is printed."""
    from regard.recorder.sound import check_reads_sound, clips, drive_clip, plans_for

    name, options = run.spec.model, run.spec.options
    loaded = run.load()
    check_reads_sound(loaded, name)
    parts = [clip for path in files for clip in clips(loaded, path)]
    plans = plans_for(loaded.model, parts, options.choice(), options.budget, options.generate)
    seconds = sum(clip.seconds for clip in parts)
    several = "" if len(parts) == 1 else f" in {len(parts)} clips"
    write(f"{name}: {seconds:.1f} seconds of sound{several}", error=True)
    _tell_bytes(plans)
    if run.plan_only:
        _print_plan(plans, None, run.as_json)
        return
    with run.recorder(loaded) as recorder:
        for clip, plan in zip(parts, plans, strict=True):
            _told(clip.title, partial(drive_clip, recorder, clip, options.generate, plan))
    run.finish(recorder)


def _record_pictures(run: _Run, see: Sightings, boxes: list[Box]) -> None:
    """Pictures into one file; what the model wrote is printed, and what it says without these
    regions."""
    from regard.recorder.drive import check_writes
    from regard.recorder.sight import drive_sighting

    options, loaded = run.spec.options, run.load()
    seen = see(loaded, run.spec)
    check_writes(loaded.model, run.spec.model, options.generate)
    with run.recorder(loaded) as recorder:
        for one in seen:
            _told(one.title, partial(drive_sighting, recorder, one, options.generate))
    changed = effects(loaded, seen, boxes)
    without = [{"title": title, **numbers} for title, _, numbers in changed]
    run.finish(recorder, None, **({"without": without} if boxes else {}))
    if not run.as_json:
        for title, sentence, _ in changed:
            write(f"{title}: {sentence}")


def _told(title: str, drive: Callable[[], str]) -> None:
    """A sound or picture is read, and what the model made of it printed."""
    with status().status(f"recording {title}"):
        words = drive()
    write(f"{title}: {words}" if words else title, error=True)


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
            "no prompt; give --text TEXT, --file FILE, --stdin, --image FILE or --audio FILE"
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
    from regard.recorder.plan import human

    told = "{task.completed:.0f}/{task.total} tokens · {task.fields[rate]} · {task.fields[size]}"
    with recording_bar(told) as bar:
        task = bar.add_task("", total=total, rate="", size="")

        def advanced(tokens: float) -> None:
            bar.update(task, advance=tokens)
            speed = bar.tasks[0].speed
            rate = f"{speed:.0f} tokens/s" if speed else ""
            bar.update(task, rate=rate, size=human(written()))

        yield advanced


def _compare(recorder: Recorder, encoded: list[Encoded]) -> Agreement | None:
    """Replayed weights against eager ones, noted in the recording."""
    from regard.recorder.drive import compare_with_eager

    with recorder.so_far() as found:
        agreement = compare_with_eager(recorder.model, found, encoded[0].ids)
    if agreement is not None:
        recorder.note(check=asdict(agreement))
    return agreement
