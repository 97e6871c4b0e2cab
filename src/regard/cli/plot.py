"""`regard plot`: a recording as a picture in a file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli.terminal import status, tell_if_slow, write, write_json
from regard.errors import InputError
from regard.files import check_output, real

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.plot import Style
    from regard.recording import Recording

_STATISTIC = "off sinks"
_SIZE = re.compile(r"\s*([0-9]{1,4}(?:\.[0-9]{1,6})?)\s*[x×]\s*([0-9]{1,4}(?:\.[0-9]{1,6})?)\s*")


@dataclass(frozen=True)
class _Wish:
    """What the command line asks for."""

    head: str | None
    grid: str | None
    entropy: bool
    row: int | None
    key: int | None
    over_picture: bool
    cell: int | None
    largest: bool
    raw: bool
    stack: str | None
    prompt: int

    @property
    def kind(self) -> str:
        """Which of the pictures it is."""
        if self.entropy:
            return "entropy"
        if self.over_picture:
            return "heads" if self.head is None else "picture"
        if self.head is None:
            return "grid"
        return "head" if self.row is None else "row"

    def given(self) -> list[str]:
        """The options that were used and are not for every picture."""
        used = {
            "--grid": self.grid is not None, "--entropy": self.entropy,
            "--row": self.row is not None, "--key": self.key is not None,
            "--over-picture": self.over_picture, "--cell": self.cell is not None,
            "--max": self.largest, "--raw": self.raw, "--stack": self.stack is not None,
        }  # fmt: skip
        return [option for option, is_used in used.items() if is_used]


# What goes with each picture.
_OPTIONS = {
    "head": ("--cell", "--max", "--raw"),
    "row": ("--row", "--raw"),
    "grid": ("--grid", "--stack"),
    "entropy": ("--entropy",),
    "picture": ("--over-picture", "--row", "--key", "--raw"),
    "heads": ("--over-picture", "--row", "--raw"),
}
_WORDS = {
    "head": "a head", "row": "a row", "grid": "all heads", "entropy": "entropies",
    "picture": "a head over its picture", "heads": "all heads over their picture",
}  # fmt: skip


def plot(
    file: Path = typer.Argument(
        ..., metavar="FILE", help="A recording, or a folder of one per rank."
    ),
    head: str | None = typer.Argument(
        None, metavar="HEAD", help="A head such as L5H1. Default: one number per head."
    ),
    grid: str | None = typer.Option(
        None,
        metavar="STAT",
        help='Statistic to show: entropy, "on sinks", evenness … Default: off sinks.',
    ),
    entropy: bool = typer.Option(False, "--entropy", help="Draw the entropy of each layer."),
    row: int | None = typer.Option(None, help="Draw one row of HEAD; -1 is the last."),
    key: int | None = typer.Option(
        None, help="With --over-picture, draw who looks at this key of HEAD; -1 is the last."
    ),
    over_picture: bool = typer.Option(
        False, "--over-picture", help="Draw --row or --key over the picture it is a part of."
    ),
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        help="A .png or .svg file. Default: a PNG next to FILE: run-L5H1.png.",
    ),
    largest: bool = typer.Option(
        False, "--max", help="Show the largest weight of each cell, not the mean."
    ),
    raw: bool = typer.Option(
        False, "--raw", help="Show plain weights, without ratio or log scale."
    ),
    cell: int | None = typer.Option(
        None, help="Tokens per map cell. Default: the smallest that fits."
    ),
    stack: str | None = typer.Option(None, help="The stack --grid shows, if there are several."),
    prompt: int = typer.Option(0, help="Index of the recorded text."),
    dark: bool = typer.Option(False, "--dark", help="Use a dark background."),
    size: str | None = typer.Option(
        None, metavar="WxH", help="Size in inches, such as 8x6; 3.3x3 fits a column of a paper."
    ),
    dpi: int = typer.Option(160, help="Pixels per inch."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace an existing file."),
    as_json: bool = typer.Option(False, "--json", help="Print a summary of the output as JSON."),
) -> None:
    """Draw a recording: a head, a row, all heads or layers.

    With HEAD, draws its map, coloured by the ratio of each cell to uniform attention, or one row of
    it (--row). Without HEAD, draws one number per head (--grid) or the entropy of each layer
    (--entropy). Every picture shows its scale.

    With --over-picture, draws what the patch or token of --row looks at in the picture that the
    model saw, or who looks at that of --key; without HEAD, the same row in every head.

    In Python, regard.open(FILE).plot_head("L5H1"), plot_row, plot_grid, plot_entropy,
    plot_picture and plot_heads_over_picture return the same pictures as matplotlib figures.
    """
    from regard.plot import format_of

    wish = _Wish(head, grid, entropy, row, key, over_picture, cell, largest, raw, stack, prompt)
    _check(wish)
    path = output or _beside(file, wish)
    kind = format_of(path)
    style: Style = {"dark": dark, "dpi": dpi}
    if size is not None:
        style["size"] = _parse_size(size)
    check_output(file, path, overwrite=overwrite)
    figure, statistic = _draw(file, wish, style, path, kind, overwrite)
    _report(path, wish, figure, statistic, as_json)


def _check(wish: _Wish) -> None:
    """InputError for words that do not go together."""
    if wish.key is not None and not wish.over_picture:
        raise InputError("--key is drawn over a picture; give --over-picture as well")
    if wish.kind == "heads" and wish.row is None:
        raise InputError("--over-picture: give --row N, the row that every head shows")
    if wish.kind == "picture" and (wish.row is None) == (wish.key is None):
        raise InputError("--over-picture: give --row or --key, one of them")
    if wish.head is None and wish.row is not None and not wish.over_picture:
        raise InputError("--row is about one head; name it, as in: regard plot FILE L5H1 --row 7")
    if wish.head is not None and wish.entropy:
        raise InputError(f"--entropy is about all heads; leave out {wish.head!r}, or --entropy")
    for option in wish.given():
        if option not in _OPTIONS[wish.kind]:
            fitting = [_WORDS[kind] for kind, known in _OPTIONS.items() if option in known]
            raise InputError(
                f"{option} is for a picture of {' or '.join(fitting)}, and this is one of "
                f"{_WORDS[wish.kind]}; leave it out"
            )


def _parse_size(text: str) -> tuple[float, float]:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise InputError(f"--size {text!r}: give width and height in inches, such as 8x6")
    return float(match[1]), float(match[2])


def _beside(file: Path, wish: _Wish) -> Path:
    """run.regard → run-L5H1.png, run-P1-L5H1-row7.png, run-off-sinks.png, run-entropy.png."""
    name = real(file)
    stem = name.name if name.is_dir() else name.stem
    what = {
        "head": wish.head, "row": f"{wish.head}-row{wish.row}",
        "picture": f"{wish.head}-{_at(wish)}-over-picture",
        "heads": f"heads-{_at(wish)}-over-picture",
        "grid": "-".join(filter(None, [wish.stack, wish.grid or _STATISTIC])), "entropy": "entropy",
    }[wish.kind]  # fmt: skip
    # a label is somebody's text until the recording has been asked for it
    plain = re.sub(r"[^\w.-]", "_", str(what).replace(" ", "-"))
    which = f"P{wish.prompt}-" if wish.prompt else ""
    return file.parent / f"{stem}-{which}{plain}.png"


def _at(wish: _Wish) -> str:
    return f"row{wish.row}" if wish.key is None else f"key{wish.key}"


def _draw(
    file: Path, wish: _Wish, style: Style, path: Path, kind: str, overwrite: bool
) -> tuple[Figure, str | None]:
    """The picture that was written, and the statistic it shows, if it is a grid."""
    import regard.recording
    from regard.files import appearing
    from regard.plot import write_picture

    with regard.recording.open(file) as recording:
        figure = _figure(recording, wish, style)
        _tell_if_unknown(recording, wish)
        statistic = _statistic(recording, wish)
    with appearing(path, overwrite=overwrite) as part:
        write_picture(figure, part, kind)
    return figure, statistic


def _statistic(recording: Recording, wish: _Wish) -> str | None:
    """The name of the statistic of a grid, by which Python and files know it."""
    from regard.recording.statistics import find_statistic

    if wish.kind != "grid":
        return None
    return find_statistic(wish.grid or _STATISTIC, recording.statistic_kinds)


def _figure(recording: Recording, wish: _Wish, style: Style) -> Figure:
    if not recording.prompts:
        raise InputError("nothing was recorded yet, so there is nothing to draw")
    if wish.kind == "entropy":
        return recording.plot_entropy(prompt=wish.prompt, **style)
    if wish.kind == "heads" and wish.row is not None:
        return recording.plot_heads_over_picture(
            wish.row, prompt=wish.prompt, raw=wish.raw, **style
        )
    if wish.head is None:
        _check_stack(recording, wish)
        return recording.plot_grid(
            wish.grid or _STATISTIC, stack=wish.stack, prompt=wish.prompt, **style
        )
    if wish.over_picture:
        return recording.plot_picture(
            wish.head, query=wish.row, key=wish.key, prompt=wish.prompt, raw=wish.raw, **style
        )
    if wish.row is not None:
        return recording.plot_row(wish.head, wish.row, prompt=wish.prompt, raw=wish.raw, **style)
    _tell_if_slow(recording, wish.head, wish)
    return recording.plot_head(
        wish.head, prompt=wish.prompt, cell=wish.cell, how="max" if wish.largest else "mean",
        raw=wish.raw, **style,
    )  # fmt: skip


def _check_stack(recording: Recording, wish: _Wish) -> None:
    """The one stack needs no name, one of several does."""
    known = recording.prompts[wish.prompt].stacks if _has_prompt(recording, wish) else {}
    if wish.stack is None and len(known) > 1 and "" not in known:
        raise InputError(f"--grid: there are the stacks {', '.join(known)}; give one with --stack")


def _tell_if_unknown(recording: Recording, wish: _Wish) -> None:
    """A grid with holes says why."""
    from regard.views.text import why_unknown

    prompt = recording.prompt(wish.prompt)
    statistic = _statistic(recording, wish)
    reason = "" if statistic is None else why_unknown(prompt, statistic)
    if reason:
        status().print(reason)


def _tell_if_slow(recording: Recording, label: str, wish: _Wish) -> None:
    """A long text whose map was not kept takes a while."""
    if not _has_prompt(recording, wish):
        return
    head = recording.prompts[wish.prompt][label]
    own = head.place.pool_cell
    if wish.largest or not own or (wish.cell or own) % own:
        tell_if_slow(head)


def _has_prompt(recording: Recording, wish: _Wish) -> bool:
    return -len(recording.prompts) <= wish.prompt < len(recording.prompts)


def _report(path: Path, wish: _Wish, figure: Figure, statistic: str | None, as_json: bool) -> None:
    width, height = (round(side * figure.dpi) for side in figure.get_size_inches())
    says = str(figure.get_label()).splitlines()[1:-1]  # between the title and the caveat
    if not as_json:
        write(f"written: {path} ({width}×{height} pixels; {'; '.join(says)})")
        return
    facts: dict[str, Any] = {
        "file": str(path), "picture": wish.kind, "prompt": wish.prompt, "head": wish.head,
        "row": wish.row, "key": wish.key, "statistic": statistic,
        "width": width, "height": height, "says": says,
    }  # fmt: skip
    write_json(facts)
