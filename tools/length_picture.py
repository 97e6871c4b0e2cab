"""Draws time and memory against length from bench/results.csv: docs/pictures/length.png.

    python -m bench gpu --only length --csv bench/results.csv
    python tools/length_picture.py

Rows of the suite "gpu length"; where a size was measured more than once the last row counts.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from regard.errors import FileError, RegardError
from regard.plot import About, format_of, write_picture
from regard.plot.sheet import Box, Sheet, opened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results.csv"
PICTURE = ROOT / "docs" / "pictures" / "length.png"
SUITE = "gpu length"
NAMES = {
    "eager with weights": "eager, weights kept",
    "everything": "regard, everything asked for",
    "cudnn": "cuDNN, output only",
}
NOTE = (
    "Everything: output, lse, entropy, max score, the mass each key received, a pooled map, each "
    "query's top 8 keys. Memory: the peak beyond inputs and output; below 1 MiB it is not drawn."
)


class Point(NamedTuple):
    """One contender at one length."""

    tokens: int
    ms: float
    extra_mib: float


class Lines(NamedTuple):
    """Everybody's points, and what is said about them."""

    points: dict[str, list[Point]]
    title: str
    end: str  # why a line ends


def read(path: Path) -> Lines:
    """The newest row of every size; FileError where there is none."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["suite"] == SUITE]
    newest = {(row["what"], int(row["tokens"])): row for row in rows if row["what"] in NAMES}
    if not newest:
        raise FileError(
            f"{path} has no rows of the suite {SUITE!r}; measure them on a GPU: "
            "python -m bench gpu --only length --csv bench/results.csv"
        )
    points: dict[str, list[Point]] = {}
    for (what, tokens), row in sorted(newest.items()):
        point = Point(tokens, float(row["median_ms"]), float(row["extra_mib"]))
        points.setdefault(what, []).append(point)
    one = next(iter(newest.values()))
    mask = "causal" if one["causal"] == "True" else "full"
    title = f"{one['machine']}, {one['dtype']}, {one['heads']} heads of {one['dim']}, {mask}"
    longest = max(newest.values(), key=lambda row: (int(row["tokens"]), row["note"]))
    return Lines(points, title, longest["note"])


def draw(lines: Lines, path: Path) -> None:
    """Two panels side by side, both axes in powers."""
    kind = format_of(path)
    with opened({}, (9.6, 4.4)) as sheet:
        about = About("attention by length", title=lines.title)
        notes = [NOTE, *([f"At the longest, {lines.end}."] if lines.end else [])]
        sheet.write_words(about, "time and memory", notes)
        left, right = _boxes(sheet)
        _panel(sheet, left, lines, "ms", "milliseconds", 0.0)
        _panel(sheet, right, lines, "extra_mib", "MiB beyond inputs and output", 1.0)
    write_picture(sheet.figure, path, kind)


def _boxes(sheet: Sheet) -> tuple[Box, Box]:
    free, half = sheet.free, sheet.free.width / 2
    size = (free.bottom + 0.42, half - 0.75, free.height - 0.7)
    return Box(free.left + 0.55, *size), Box(free.left + half + 0.65, *size)


def _panel(sheet: Sheet, box: Box, lines: Lines, field: str, title: str, least: float) -> None:
    """One number against the length; what is not above `least` is not drawn."""
    axes = sheet.axes(box)
    axes.set_title(title, color=sheet.theme.ink, fontsize=sheet.base)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    lengths: set[int] = set()
    for colour, (what, name) in zip(sheet.theme.lines, NAMES.items(), strict=False):
        drawn = [p for p in lines.points.get(what, ()) if getattr(p, field) > least]
        lengths |= {p.tokens for p in drawn}
        if drawn:
            axes.plot(
                [p.tokens for p in drawn], [getattr(p, field) for p in drawn], color=colour,
                linewidth=1.8, marker="o", markersize=3, label=name,
            )  # fmt: skip
    _name_axes(sheet, axes, sorted(lengths))
    axes.legend(fontsize=sheet.base - 1, frameon=False, labelcolor=sheet.theme.ink)


def _name_axes(sheet: Sheet, axes: Axes, lengths: list[int]) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.set_xticks(lengths, [f"{n // 1024}k" if n >= 1024 else str(n) for n in lengths])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.grid(color=sheet.theme.rule, linewidth=0.4, alpha=0.6)
    axes.set_xlabel("tokens", color=sheet.theme.dim, fontsize=sheet.base - 1, labelpad=1)


def main(words: list[str]) -> int:
    """python tools/length_picture.py [results.csv [picture.png]]"""
    results, picture = [*map(Path, words), *(RESULTS, PICTURE)[len(words) :]][:2]
    try:
        draw(read(results), picture)
    except RegardError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
