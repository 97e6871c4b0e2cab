"""`regard report`: what the heads of a recording do, in order of surprise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli.spans import parse_span
from regard.cli.terminal import advancing, show_lines, status, write
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.draw import Paper, StyledLine
    from regard.kv import Eviction
    from regard.recording import Recording
    from regard.study import EvictionStudy, Report

_FORMS = {".md": "markdown", ".json": "json", ".html": "page", ".txt": "text"}  # by ending
_PAGE = 100  # columns of a text file
_KNOCKED = 256  # tokens of the prompt that a knocked-out model reads


def report(
    file: Path = typer.Argument(
        ..., metavar="FILE", help="A recording, or a folder of one per rank."
    ),
    top: int = typer.Option(12, help="Findings to print; 0 for the table of labels alone."),
    prompt: int = typer.Option(0, help="Index of the recorded text."),
    needle: str | None = typer.Option(
        None, metavar="A:B", help="Token range of a needle that the model had to copy."
    ),
    causal: bool = typer.Option(
        False, "--causal", help="Ablate each reported head and measure the effect; takes a while."
    ),
    keep: bool = typer.Option(
        False,
        "--keep",
        help="Store the results of --causal in FILE, for later reports and the page.",
    ),
    model: str | None = typer.Option(
        None, help="The model for --causal. Default: the recorded one."
    ),
    markdown: bool = typer.Option(False, "--markdown", help="Print Markdown."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON, with the scores of all heads."),
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        help="The file to write, in the format of its suffix: .md, .json, .html or .txt.",
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace an existing file."),
    evict: str | None = typer.Option(
        None,
        metavar="METHOD",
        help="Also show which keys an eviction would drop and how much attention each head would "
        "lose: h2o, kvzip, observed, snapkv or tova.",
    ),
    budget: str = typer.Option(
        "0.5", metavar="N|SHARE", help="Keys that --evict keeps: a number, or a share such as 0.5."
    ),
    sinks: int = typer.Option(4, help="First keys that --evict always keeps."),
    recent: int = typer.Option(64, help="Last keys that --evict always keeps."),
    heads: str | None = typer.Option(
        None,
        metavar="LABELS",
        help="Heads to include in -o page.html: L5H1, L5, a comma-separated list, or all. Default: "
        "all if their weights fit, else those in the findings.",
    ),
) -> None:
    """Describe what each head does, with scores and example rows.

    A head gets a label if its score exceeds a threshold above chance, enough of its attention is
    not on sinks, and the score over that many rows is statistically significant. Each label comes
    with the rows that show it best and one that does not. Texts under 16 tokens get no labels.
    Findings are ordered by how far the head is from the rest of its layer.

    Weights show where a head attends, not whether it matters; --causal ablates heads to test that.
    """
    form = _form(markdown, as_json, output)
    if heads is not None and form != "page":
        raise InputError("--heads is about the page of a report; give -o page.html as well")
    if top < 0:
        raise InputError(f"--top {top}: give how many findings to tell, 0 or more")
    if keep and not causal:
        raise InputError("--keep adds what --causal finds to the file; give both")
    if evict is not None and form == "page":
        raise InputError("--evict is printed, as text, Markdown or JSON; give another -o, or none")
    eviction = None if evict is None else _eviction(evict, budget, sinks, recent)
    import regard.recording
    from regard.files import check_free
    from regard.study import make_report, study_eviction

    if output is not None:
        check_free(output, overwrite=overwrite)
    with regard.recording.open(file) as recording:
        about_text = (needle, heads, eviction)
        is_about_text = causal or prompt != 0 or any(given is not None for given in about_text)
        if not is_about_text and not recording.prompts and len(recording.training):
            _report_run(recording, form, output, overwrite)
            return
        span = _needle(recording, prompt, needle)
        found = make_report(recording, prompt, top=top, needle=span)
        if causal:
            _refuse_live(recording, keep)
            knocked = _knock_out(recording, found, model)
            if keep:
                _keep(recording, file, prompt, knocked)
            found = make_report(recording, prompt, top=top, needle=span, knocked=knocked)
        evicted = None if eviction is None else study_eviction(recording, eviction, prompt)
        if form == "page" and output is not None:
            _save_page(recording, prompt, found, heads, output, overwrite)
            return
    if output is None:
        _print(found, form, evicted)
    else:
        _save(found, form, output, overwrite, evicted)


def _eviction(by: str, budget: str, sinks: int, recent: int) -> Eviction:
    from regard.kv import METHODS, Eviction

    if by not in METHODS:
        raise InputError(f"--evict {by}: give one of {', '.join(METHODS)}")
    try:
        given = float(budget) if not budget.strip().isdecimal() else int(budget)
    except ValueError as error:
        raise InputError(
            f"--budget {budget}: give a number of keys, or a share up to 1.0"
        ) from error
    return Eviction(by, given, sinks, recent)


def _report_run(recording: Recording, form: str, output: Path | None, overwrite: bool) -> None:
    """A training run, where nothing else was recorded."""
    from regard.draw import Paper, finished, plain
    from regard.draw.pages import overview_lines
    from regard.files import write_text
    from regard.views.run import training_answer

    def drawn(paper: Paper) -> list[StyledLine]:
        return overview_lines(recording, 0, "entropy", paper)

    if form == "page" and output is not None:
        _write_page(recording, output, overwrite)
        return
    if output is None and form == "text":
        show_lines(drawn)
        return
    if form == "json":
        told = {"training": training_answer(recording.training)}
        text = json.dumps(told, indent=2, allow_nan=False)
    else:
        paper = Paper(width=_PAGE)
        text = "\n".join(plain(finished(drawn(paper), paper)))
        text = f"```text\n{text}\n```" if form == "markdown" else text
    if output is None:
        write(text)
    else:
        write_text(output, text + "\n", "-o", overwrite=overwrite)
        write(f"written: {output}", error=True)


def _knock_out(recording: Recording, found: Report, name: str | None) -> Mapping[str, Any]:
    """What the knock-out of every head that is told of does, and of those that look back."""
    from regard.intervene import causal_evidence
    from regard.models import load

    told = [one.head.label for one in found.told]
    back = [one.head.label for one in found.found if one.finding.pattern == "prefix-matching"]
    labels = list(dict.fromkeys([*told, *back]))
    ids = recording.prompts[found.prompt].ids
    if not labels or len(ids) < 2:
        return {}
    given = name or str(recording.model.get("name", ""))
    console = status()
    with console.status(f"loading {given}"):
        loaded = load(given)
    with advancing(f"knocking out {len(labels)} heads of {given}") as advance:
        evidence = causal_evidence(loaded.model, ids[:_KNOCKED].tolist(), labels, go_on=advance)
    return {label: one.to_dict() for label, one in evidence.items()}


def _refuse_live(recording: Recording, keep: bool) -> None:
    if keep and recording.files:
        raise InputError(
            f"{recording.name}: a folder of documents; --keep adds to one of its files"
        )
    if keep and recording.is_live:
        raise InputError(f"{recording.name}: still being written; --keep adds to a finished file")


def _keep(recording: Recording, file: Path, prompt: int, knocked: Mapping[str, Any]) -> None:
    """Append the evidence to the file, what was kept before included."""
    from regard.recording.format.write import annotate
    from regard.recording.notes import KNOCKED_NOTE, write_knocked

    view = recording.prompt(prompt)
    if not knocked:
        return
    annotate(file, {f"{KNOCKED_NOTE}{view.number}": write_knocked({**view.knocked, **knocked})})
    write(f"kept in {file}: {len(knocked)} knock-outs", error=True)


def _form(markdown: bool, as_json: bool, output: Path | None) -> str:
    """text, markdown, json or page."""
    if markdown and as_json:
        raise InputError("--markdown and --json are two forms; give one of them")
    if markdown or as_json:
        return "markdown" if markdown else "json"
    if output is None or not output.suffix:
        return "text"
    form = _FORMS.get(output.suffix.lower())
    if form is None:
        *most, last = _FORMS
        raise InputError(f"-o {output}: the ending says the form; give {', '.join(most)} or {last}")
    return form


def _needle(recording: Recording, prompt: int, text: str | None) -> range | None:
    from regard.study.heads import prompt_of

    if text is None:
        return None
    return parse_span("--needle", text, range(len(prompt_of(recording, prompt).tokens)))


def _print(found: Report, form: str, evicted: EvictionStudy | None) -> None:
    if form != "text":
        write(_written(found, form, evicted).rstrip("\n"))
        return
    show_lines(lambda paper: _lines(found, evicted, paper))


def _lines(found: Report, evicted: EvictionStudy | None, paper: Paper) -> list[StyledLine]:
    from regard.draw.pages import eviction_lines, report_lines

    more = [] if evicted is None else [[], *eviction_lines(evicted, paper)]
    return [*report_lines(found, paper), *more]


def _save(
    found: Report, form: str, output: Path, overwrite: bool, evicted: EvictionStudy | None
) -> None:
    from regard.files import write_text

    write_text(output, _written(found, form, evicted), "-o", overwrite=overwrite)
    write(f"written: {output}", error=True)


def _save_page(
    recording: Recording,
    prompt: int,
    found: Report,
    heads: str | None,
    output: Path,
    overwrite: bool,
) -> None:
    """One self-contained file, and on stderr what is in it."""
    named = None if heads is None else [one.strip() for one in heads.split(",")]
    carries = _write_page(recording, output, overwrite, prompt=prompt, heads=named, report=found)
    if heads is None and len(carries["heads"]) < len(recording.prompt(prompt)):
        write(f"heads: {', '.join(carries['heads'])} (--heads chooses others)", error=True)


def _write_page(
    recording: Recording, output: Path, overwrite: bool, prompt: int = 0, **which: Any
) -> Any:
    """What it carries."""
    from regard.files import write_text
    from regard.viewer.carried import LIMIT, carried_recording
    from regard.viewer.notebook import page_title
    from regard.viewer.selfcontained import make_page, room_in
    from regard.views.text import bytes_in_words

    data, blobs = carried_recording(recording, prompt=prompt, limit=room_in(LIMIT), **which)
    page = make_page(data, title=page_title(recording, prompt), blobs=blobs)
    write_text(output, page, "-o", overwrite=overwrite)
    size, carries = bytes_in_words(len(page.encode())), data["carries"]
    write(f"written: {output}, {size}. {' '.join(carries['words'])}", error=True)
    return carries


def _written(found: Report, form: str, evicted: EvictionStudy | None) -> str:
    """The whole text. JSON is in ASCII, so that no token can steer a terminal."""
    from regard.draw import Paper, plain
    from regard.draw.pages import eviction_lines
    from regard.study import report_markdown
    from regard.views.findings import report_answer

    paper = Paper(width=_PAGE)
    if form == "json":
        told = {} if evicted is None else {"eviction": evicted.as_dict()}
        return json.dumps(report_answer(found) | told, indent=2, allow_nan=False) + "\n"
    if form == "markdown":
        lines = [] if evicted is None else plain(eviction_lines(evicted, paper))
        more = "\n".join(["", "```text", *lines, "```", ""]) if lines else ""
        return report_markdown(found) + more
    return "\n".join(plain(_lines(found, evicted, paper))) + "\n"
