"""What `regard scaling` shows, as lines of (text, style) pieces: a table, a plot, two readings.

Everything fits 80 columns. Where braille and √ cannot be shown, the curves are drawn with letters
and the signs are spelt in ASCII.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.learn.scaling.curves import Curve, plot
from regard.learn.scaling.lab import DEAD, Reading, Temperature, temperature
from regard.learn.text import StyledLine, prose

_RAW, _DIVIDED = "red", "green"


def whole_report(
    readings: Sequence[Reading], opening: list[StyledLine], *, width: int, ascii_only: bool
) -> list[StyledLine]:
    """Table, plot and both readings, below an opening; one d_k alone has nothing to plot."""
    lines = [*opening, *table(readings), []]
    if len(readings) > 1:
        lines.append([("Gradient reaching q, by d_k", "bold")])
        picture = plot(curves(readings), width=max(40, min(width, 80)), ascii_only=ascii_only)
        lines += [*picture, []]
    return [*lines, *summary(readings), *warmth(*temperature())]


def intro(keys: int, rows: int, seed: int) -> list[StyledLine]:
    """What is drawn and what is measured."""
    return [
        [("Why scores are divided by √d_k", "bold")],
        [],
        *prose(
            "q and k have unit variance and are drawn fresh at each d_k: "
            f"{keys} keys, {rows} rows, seed {seed}. "
            "The gradient reaching q is the length of ∂L/∂q, row by row, for ∂L/∂weights drawn "
            "unit normal; where the scores are divided it carries the factor 1/√d_k. "
            f"A row is dead when it is below {DEAD:g}. Over the rows, the largest weight is the "
            "median, the entropy the mean."
        ),
        [],
    ]


# Per figure: three lines of heading, the last one the statistic over the rows; the name of the
# field, and the widths of its two columns.
_FIGURES = (
    ("variance", "of q·k", "all", "variance", 5, 4),
    ("largest", "weight", "median", "largest_weight", 4, 4),
    ("entropy", "(nats)", "mean", "entropy", 4, 4),
    ("gradient", "at q", "median", "gradient_median", 7, 4),
    ("gradient", "at q", "p99", "gradient_p99", 4, 4),
    ("dead", "rows", "share", "dead", 4, 4),
)


def table(readings: Sequence[Reading]) -> list[StyledLine]:
    """One line per d_k: each figure first without the division, then with it."""
    heads = ["     "] * 3
    last = "  d_k"
    for *words, _, raw, divided in _FIGURES:
        heads = [
            head + "  " + str(word).rjust(raw + 1 + divided)
            for head, word in zip(heads, words, strict=True)
        ]
        last += "  " + "raw".rjust(raw) + " " + "÷√d".rjust(divided)
    top: list[StyledLine] = [[(head, "dim")] for head in (*heads, last)]
    return top + [_row(reading) for reading in readings]


def _row(reading: Reading) -> StyledLine:
    line: StyledLine = [(f"{reading.d_k:>5}", "bold")]
    for *_, field, raw, divided in _FIGURES:
        show = _percent if field == "dead" else _short
        line.append(("  " + show(getattr(reading.raw, field)).rjust(raw), _RAW))
        line.append((" " + show(getattr(reading.scaled, field)).rjust(divided), _DIVIDED))
    return line


def _short(value: float) -> str:
    """At most five characters, seven for the very small: 0.27, 4096, 2.7e-4."""
    if 0 < value < 0.00995:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"


def _percent(share: float) -> str:
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


def curves(readings: Sequence[Reading]) -> list[Curve]:
    """The gradient's median and p99, with and without the division."""

    def curve(name: str, mark: str, side: str, field: str) -> Curve:
        points = tuple((float(r.d_k), getattr(getattr(r, side), field)) for r in readings)
        return Curve(name, mark, _RAW if side == "raw" else _DIVIDED, points)

    return [
        curve("p99 ÷√d", "+", "scaled", "gradient_p99"),
        curve("median ÷√d", "o", "scaled", "gradient_median"),
        curve("p99 raw", "#", "raw", "gradient_p99"),
        curve("median raw", "*", "raw", "gradient_median"),
    ]


def summary(readings: Sequence[Reading]) -> list[StyledLine]:
    """Both words of the note, read off one d_k: 1024 where measured, else the largest."""
    r = next((r for r in readings if r.d_k == 1024), max(readings, key=lambda r: r.d_k))
    raw, divided = r.raw, r.scaled
    median = f"{_short(raw.gradient_median)}, divided {_short(divided.gradient_median)}"
    dead = f"{_percent(raw.dead)} of the rows, divided {_percent(divided.dead)}"
    p99 = f"{_short(raw.gradient_p99)}, divided {_short(divided.gradient_p99)}"
    heads = [
        [(f"Reading the line d_k = {r.d_k}", "bold")],
        [(f"  median gradient  {median}", "")],
        [(f"  dead             {dead}", "")],
        [(f"  p99              {p99}", "")],
    ]
    return [*heads, *prose(_verdict(r)), []]


def _verdict(r: Reading) -> str:
    if r.raw.gradient_p99 <= r.scaled.gradient_p99:
        return "Here the division hardly changes anything; ask for a larger d_k."
    if r.raw.gradient_median >= r.scaled.gradient_median:
        return (
            "The largest gradients already explode; the median row does not vanish yet. "
            "That takes a larger d_k."
        )
    return (
        "Both words of the note hold. Most rows saturate, and their gradient vanishes; in the rare "
        "rows where two keys nearly tie, it explodes. A single norm over all rows hides this: "
        f"undivided it is {_short(r.raw.gradient_rms / r.scaled.gradient_rms)} times as large, "
        "because the few outweigh the many."
    )


def warmth(raw: Temperature, divided: Temperature) -> list[StyledLine]:
    """The first note's [6, 4]: what the division does there, and what it does not show."""

    def line(name: str, t: Temperature) -> StyledLine:
        scores = "[" + " ".join(f"{s:g}" for s in t.scores) + "]"
        weights = "[" + " ".join(f"{w:.4f}" for w in t.weights) + "]"
        return [(f"  {scores:<8}{weights:<18}{t.slope:<18.3f}{name}", "")]

    return [
        [("The note's example: ", "bold"), ("q = [2 3 4 1], k₁ = [1 0 1 0], k₂ = [0 1 0 1]", "")],
        [(f"  {'scores':<8}{'softmax':<18}gradient at q·k₁", "dim")],
        line("as they are", raw),
        line("divided by √4", divided),
        *prose(
            "This is temperature: divided, the choice is softer. It does not show vanishing: the "
            "gradient that reaches the raw product is about the same both ways. Vanishing takes "
            "a larger d_k, as in the table."
        ),
    ]
