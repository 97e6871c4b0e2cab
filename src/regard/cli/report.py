"""`regard report`: what the heads of a recording do, in order of surprise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli.spans import parse_span
from regard.cli.terminal import ascii_only, print_lines, results, status, write
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.draw import Paper, StyledLine
    from regard.recording import Recording
    from regard.study import Ranked, Report

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
    import regard.recording
    from regard.files import check_free
    from regard.study import make_report

    if output is not None:
        check_free(output, overwrite=overwrite)
    with regard.recording.open(file) as recording:
        is_about_text = causal or prompt != 0 or needle is not None or heads is not None
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
        if form == "page" and output is not None:
            _save_page(recording, prompt, found, heads, output, overwrite)
            return
    if output is None:
        _print(found, form)
    else:
        _save(found, form, output, overwrite)


def _report_run(recording: Recording, form: str, output: Path | None, overwrite: bool) -> None:
    """A training run, where nothing else was recorded."""
    from regard.draw import Paper, finished, paper_of, plain
    from regard.draw.pages import make_overview
    from regard.files import write_text

    if form == "page" and output is not None:
        _write_page(recording, output, overwrite)
        return
    page = make_overview(recording, 0, "entropy")
    console = results()
    if output is None and form == "text":
        paper = paper_of(console, is_ascii=ascii_only(console))
        print_lines(console, finished(page.lines(paper), paper))
        return
    if form == "json":
        text = json.dumps({"training": page.as_dict()["training"]}, indent=2, allow_nan=False)
    else:
        text = "\n".join(plain(finished(page.lines(Paper(width=_PAGE)), Paper(width=_PAGE))))
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
    with console.status(f"knocking out {len(labels)} heads of {given}"):
        evidence = causal_evidence(loaded.model, ids[:_KNOCKED].tolist(), labels)
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


def _print(found: Report, form: str) -> None:
    from regard.draw import paper_of

    if form != "text":
        write(_written(found, form).rstrip("\n"))
        return
    console = results()
    print_lines(console, _lines(found, paper_of(console, is_ascii=ascii_only(console))))


def _save(found: Report, form: str, output: Path, overwrite: bool) -> None:
    from regard.files import write_text

    write_text(output, _written(found, form), "-o", overwrite=overwrite)
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
    from regard.draw.pages.words import bytes_in_words
    from regard.files import write_text
    from regard.viewer.carried import LIMIT, carried_recording
    from regard.viewer.notebook import page_title
    from regard.viewer.selfcontained import make_page, room_in

    data, blobs = carried_recording(recording, prompt=prompt, limit=room_in(LIMIT), **which)
    page = make_page(data, title=page_title(recording, prompt), blobs=blobs)
    write_text(output, page, "-o", overwrite=overwrite)
    size, carries = bytes_in_words(len(page.encode())), data["carries"]
    write(f"written: {output}, {size}. {' '.join(carries['words'])}", error=True)
    return carries


def _written(found: Report, form: str) -> str:
    """The whole text. JSON is in ASCII, so that no token can steer a terminal."""
    from regard.draw import Paper, plain
    from regard.study import report_markdown

    if form == "json":
        return json.dumps(found.as_dict(), indent=2, allow_nan=False) + "\n"
    if form == "markdown":
        return report_markdown(found)
    return "\n".join(plain(_lines(found, Paper(width=_PAGE)))) + "\n"


def _lines(found: Report, paper: Paper) -> list[StyledLine]:
    """As the terminal shows it."""
    from regard.draw import finished, wrapped
    from regard.study.words import CAVEAT, KNOCK_OUT, knock_out_sentence

    lines = wrapped(_about(found), paper, "bold")
    for doubt in found.doubts:
        lines += wrapped(doubt, paper, "bold")
    lines += [[], *_labels(found, paper), []]
    shown, every = len(found.told), len(found.found)
    some = f" ({shown} of {every}; --top tells more)" if shown < every else ""
    lines += [[(f"findings, most surprising first{some}", "bold")]]
    lines += wrapped(f"{CAVEAT} {KNOCK_OUT}", paper, "dim")
    for one in found.told:
        lines += [[], *_finding(one, paper)]
        if one.head.label in found.knocked:
            words = knock_out_sentence(found.knocked[one.head.label])
            lines += wrapped(f"  {words}", paper, indent=2)
    missing = found.unknown()
    if missing:
        words = "; ".join(f"{name}: {why}" for name, why in missing.items())
        lines += [[], *wrapped(f"not known, or not looked for: {words}", paper, "dim")]
    return finished(lines, paper)


def _about(found: Report) -> str:
    from regard.draw.spelling import count

    title = f" {found.title!r}" if found.title else ""
    return (
        f"{found.model or found.file}: prompt {found.prompt}{title}, "
        f"{count(found.tokens, 'token')}, {count(len(found.heads), 'head')}"
    )


def _labels(found: Report, paper: Paper) -> list[StyledLine]:
    from regard.draw import Column, aligned
    from regard.study.words import in_figures

    counts = found.counts()
    strongest = [
        ", ".join(f"{head} {in_figures(score)}" for head, score in found.strongest(label))
        for label in counts
    ]
    numbers = [str(count) for count in counts.values()]
    columns = Column("label", list(counts)), Column("heads", numbers, True)
    return aligned([*columns, Column("strongest", strongest)], paper)


def _finding(one: Ranked, paper: Paper) -> list[StyledLine]:
    from regard.draw import wrapped
    from regard.draw.spelling import visible
    from regard.study import sentence

    words = sentence(one.head, one.finding, lambda token: f"'{visible(token, paper)}'")
    head = f"{one.finding.name}, {one.surprise:.1f} deviations from its layer"
    return [[(head, "")], *wrapped(f"  {words}", paper, indent=2)]
