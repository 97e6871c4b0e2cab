"""`regard bench`: how fast attention is on this machine, against torch in the same process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from regard.bench.results import Result

# contenders in the order of the table's columns
_COLUMNS = (
    "bare", "bare (cpu)", "row stats", "everything", "afterwards", "eager with weights", "backward",
)  # fmt: skip
_LEGEND = """bare   output only, by default            cpu    the same, implementation="cpu"
stats  and lse, max score, entropy, map   all    and received mass, top 8 keys
later  all of it asked after a bare call  eager  softmax(QKᵀ)V with its weights kept"""


_MOST = 2**22  # tokens, dimensions
_LONGEST = 3600  # seconds a configuration

_IN_A_CLONE = ("gpu", "record")  # suites that were here once


def bench(
    suite: Annotated[str, typer.Argument(help="The suite to run: cpu.")] = "cpu",
    tokens: Annotated[
        str, typer.Option(help="Comma-separated sequence lengths.")
    ] = "512,1024,2048,4096,8192",
    dims: Annotated[str, typer.Option(help="Comma-separated head dimensions.")] = "64,128",
    dtype: Annotated[
        str, typer.Option(help="Precision: float32, bfloat16 or float16.")
    ] = "float32",
    seconds: Annotated[float, typer.Option(help="Seconds per configuration.")] = 2.0,
    csv: Annotated[Path | None, typer.Option(help="Append the rows to this file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """Time regard against torch's own attention, in one process.

    Results are checked before they are timed. Times are medians; each ratio is relative to torch's
    fused attention in the same round, so below 1 is faster. GPUs and the recording of models are
    measured from a clone, by python -m bench gpu (see docs/gpu.md) and python -m bench record.
    """
    from dataclasses import asdict

    from regard.bench.results import append_csv, check_csv
    from regard.cli.terminal import write, write_json
    from regard.errors import InputError

    if suite in _IN_A_CLONE:
        raise InputError(
            f"the suite {suite} runs from a clone of the repository: python -m bench {suite}"
        )
    if suite != "cpu":
        raise InputError(f"there is no suite {suite!r}; there is: cpu")
    if not 0 <= seconds <= _LONGEST:
        raise InputError(f"--seconds {seconds:g}: give a time from 0 to {_LONGEST}")
    counts = numbers(tokens, "--tokens")
    if csv is not None:
        check_csv(csv)  # before minutes of measuring
    rows = _attention(counts, numbers(dims, "--dims"), dtype, seconds)
    if csv is not None:
        append_csv(csv, rows)
    if json:
        write_json([asdict(row) for row in rows])
    else:
        write(_table(rows))


def _attention(tokens: list[int], dims: list[int], dtype: str, seconds: float) -> list[Result]:
    import torch

    from regard.bench.cpu import configurations, measure
    from regard.cli.terminal import status
    from regard.errors import InputError

    kinds = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if dtype not in kinds:
        raise InputError(f"--dtype {dtype}: give one of {', '.join(kinds)}")
    rows: list[Result] = []
    console = status()
    every = list(configurations(tokens, dims, kinds[dtype]))
    for n, at in enumerate(every):
        shape = f"{at.tokens} tokens, d {at.dim}, {'causal' if at.causal else 'full'}"
        console.print(f"[{n + 1}/{len(every)}] {shape}", markup=False)
        rows += measure(at, seconds)
    return rows


def numbers(text: str, option: str) -> list[int]:
    """Of an option, separated by commas."""
    from regard.errors import InputError

    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1 or max(numbers) > _MOST:
        raise InputError(
            f"{option} {text[:60]!r}: give whole numbers up to {_MOST} separated by commas, such "
            "as 512,1024"
        )
    return numbers


def _table(rows: list[Result]) -> str:
    """One line per size, narrow enough for eighty columns."""
    names = ("bare", "cpu", "stats", "all", "later", "eager", "backward")
    lines = [
        "time ÷ torch SDPA, medians (below 1 is faster; backward against SDPA's backward)",
        f"{'tokens':>6} {'d':>4} {'mask':>6} {'sdpa ms':>8} " + " ".join(f"{n:>6}" for n in names),
    ]
    groups: dict[tuple[int, int, bool], dict[str, Result]] = {}
    for row in rows:
        groups.setdefault((row.tokens, row.dim, row.causal), {})[row.what] = row
    for (tokens, dim, causal), found in groups.items():
        ratios = (f"{found[c].ratio:.2f}" if c in found else "–" for c in _COLUMNS)
        mask, sdpa = "causal" if causal else "full", found["sdpa"].median_ms
        line = f"{tokens:>6} {dim:>4} {mask:>6} {sdpa:>8.2f} "
        lines.append(line + " ".join(f"{ratio:>6}" for ratio in ratios))
    return "\n".join([*lines, "", _LEGEND])
