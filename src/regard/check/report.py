"""What was checked and what it gave, as values, in words and as a picture."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from regard.check.layers import MixingLayer

_WORDS = ("not asked", "allowed", "ok", "not decided", "found")  # from mild to severe


class Decision(str):
    """ "ok", "found", "allowed: …", "not decided: …" or "not asked: …", with what it rests on."""

    decided_by: str = ""  # "bits", "float64", "noise" or ""
    control: float = 0.0  # how far rows moved that must, in shares of the largest entry
    smallest: float = 0.0  # leak that would have been seen, in shares of what a token does
    noise: float = 0.0  # how far rows moved that must not, within what rounding explains

    def resting_on(self, by: str, control: float, smallest: float, noise: float = 0.0) -> Decision:
        """The same, with what decided it."""
        self.decided_by, self.control, self.smallest, self.noise = by, control, smallest, noise
        return self

    @property
    def rests_on(self) -> str:
        """In words."""
        by = {"bits": "same bits", "float64": "float64", "noise": "against its noise"}
        noise = f", noise {self.noise:.0e}" if self.noise else ""
        return (
            f"{by[self.decided_by]}; a token moves rows by {self.control:.0e}; "
            f"a leak of {self.smallest:.0e} of that would show{noise}"
        ) if self.control else ""  # fmt: skip

    @property
    def severity(self) -> int:
        """From mild to severe."""
        return next(n for n, words in enumerate(_WORDS) if self.startswith(words))


@dataclass(frozen=True)
class Finding:
    """Rows that move and must not."""

    rule: str
    module: str  # the first whose rows move though its inputs do not; "" where it is not known
    rows: tuple[int, ...]  # positions of the sequence that moves most
    source: str  # what was changed
    change: float  # how far rows move, in shares of the largest entry of the output
    text: str
    reproduce: str  # lines of torch that show it; `model` and `batch` are those that were checked
    hidden: dict[str, float] = field(default_factory=dict)  # head → mass on what must be hidden


@dataclass(frozen=True)
class Report:
    """What `regard.check` returns."""

    findings: list[Finding]  # most severe first
    checked: dict[str, Decision]
    layers: list[MixingLayer]
    about: str  # the model and the batch, in words
    forwards: int = 0  # of the model, those on a cache apart

    @property
    def ok(self) -> bool:
        """Nothing is wrong, and everything that was asked is decided."""
        return not self.findings and not self.undecided

    @property
    def undecided(self) -> dict[str, Decision]:
        """The rules that were asked for and not decided."""
        return {n: v for n, v in self.checked.items() if v.startswith("not decided")}

    def raise_for_findings(self) -> None:
        """AssertionError with the sentences: a test of one line."""
        if self.findings:
            raise AssertionError("\n".join(each.text for each in self.findings))

    def __str__(self) -> str:
        lines = [f"regard check: {self.about}", ""]
        for rule, verdict in self.checked.items():
            rests_on = f"   ({verdict.rests_on})" if verdict.rests_on else ""
            lines.append(f"  {rule:10} {verdict}{rests_on}")
        width = min(max((len(layer.name) for layer in self.layers), default=0), 48)
        lines += ["", "  what each layer sees, as measured"] if self.layers else []
        for layer in self.layers:
            declared = f"   declared: {layer.declared}" if layer.declared else ""
            lines.append(f"  {layer.name:{width}}  {layer.sees}{declared}")
        for n, finding in enumerate(self.findings, 1):
            lines += ["", f"{n}. {finding.text}"]
            for head, mass in finding.hidden.items():
                lines.append(f"   {head} gives {mass:.2g} to what it must not see")
            lines += ["", *(f"    {line}" for line in finding.reproduce.splitlines())]
        return "\n".join(lines)

    __repr__ = __str__

    def plot(self) -> Any:
        """The measured matrix of every layer that mixes positions, as a matplotlib figure."""
        from matplotlib.figure import Figure

        across = max(min(len(self.layers), 4), 1)
        down = -(-len(self.layers) // across) or 1
        figure = Figure(figsize=(3 * across, 3.2 * down), layout="constrained")
        axes = figure.subplots(down, across, squeeze=False).flat
        for axis, layer in zip(axes, self.layers, strict=False):
            rows, keys = zip(*layer.cells(), strict=True) if layer.cells() else ((), ())
            axis.plot(keys, rows, "s", markersize=max(90 / layer.length, 1))
            axis.set(xlim=(-0.5, layer.length - 0.5), ylim=(layer.length - 0.5, -0.5), aspect=1)
            axis.set(xlabel="changed position", ylabel="row that moves")
            axis.set_title(f"{layer.name}\n{layer.sees}", fontsize=8)
        for axis in list(axes)[len(self.layers) :]:
            axis.set_axis_off()
        return figure
