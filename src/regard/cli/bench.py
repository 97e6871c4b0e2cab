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

# suite → the lengths measured by default
_SUITES = {
    "cpu": "512,1024,2048,4096,8192",
    "record": "2048",
}
_MODEL, _ENCODER, _DOCUMENTS = "smollm2", "minilm", 1000  # what the suite record reads


def bench(
    suite: Annotated[str, typer.Argument(help="The suite to run: cpu or record.")] = "cpu",
    tokens: Annotated[
        str | None,
        typer.Option(help="Comma-separated sequence lengths.", show_default=False),
    ] = None,
    dims: Annotated[str, typer.Option(help="Comma-separated head dimensions.")] = "64,128",
    dtype: Annotated[
        str, typer.Option(help="Precision: float32, bfloat16 or float16.")
    ] = "float32",
    seconds: Annotated[float, typer.Option(help="Seconds per configuration.")] = 2.0,
    csv: Annotated[Path | None, typer.Option(help="Append the rows to this file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """Time regard against torch's own attention, in one process.

    cpu compares with torch's fused attention. record runs smollm2 on a prompt and minilm on 1,000
    short documents, with and without recording them. Results are checked before they are
    timed. Times are medians; each ratio is relative to the peer in the same round, so below 1 is
    faster. GPUs are measured from a clone, by python -m bench gpu (see docs/gpu.md).
    """
    from dataclasses import asdict

    from regard.bench.results import append_csv, check_csv
    from regard.cli.terminal import write, write_json
    from regard.errors import InputError

    if suite == "gpu":
        raise InputError("the suite gpu runs from a clone of the repository: python -m bench gpu")
    if suite not in _SUITES:
        raise InputError(f"there is no suite {suite!r}; there are: {', '.join(_SUITES)}")
    if not 0 <= seconds <= _LONGEST:
        raise InputError(f"--seconds {seconds:g}: give a time from 0 to {_LONGEST}")
    counts = numbers(_SUITES[suite] if tokens is None else tokens, "--tokens")
    if csv is not None:
        check_csv(csv)  # before minutes of measuring
    if suite == "cpu":
        rows = _attention(counts, numbers(dims, "--dims"), dtype, seconds)
    else:
        rows = _recording(counts, seconds)
    if csv is not None:
        append_csv(csv, rows)
    if json:
        write_json([asdict(row) for row in rows])
    else:
        write(_table(rows) if suite == "cpu" else wide_table(rows))


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


def _recording(tokens: list[int], seconds: float) -> list[Result]:
    from regard.bench.record import measure, measure_documents
    from regard.cli.terminal import status

    rows: list[Result] = []
    for n, count in enumerate(tokens, 1):
        said = f"[{n}/{len(tokens) + 1}] {_MODEL}, {count} tokens"
        status().print(said, markup=False)
        rows += measure(_MODEL, count, seconds)
    last = len(tokens) + 1
    status().print(f"[{last}/{last}] {_ENCODER}, {_DOCUMENTS} documents", markup=False)
    return rows + measure_documents(_ENCODER, _DOCUMENTS, seconds)


def wide_table(rows: list[Result]) -> str:
    """A block of lines for each size."""
    lines: list[str] = []
    title = ""
    for row in rows:
        size = f"{row.batch}×{row.heads}×{row.tokens}, {'causal' if row.causal else 'full'}"
        here = f"{row.suite}: d{row.dim}, {size}"
        if here != title:
            head = f"{'ms':>9} {'p20':>9} {'p80':>9} {'ratio':>6} {'TFLOP/s':>8} {'MiB':>8}"
            lines += ["", here, f"{'÷ ' + row.peer:20} {head}"]
            title = here
        speed = "" if row.tflops is None else f"{row.tflops:.0f}"
        extra = "" if row.extra_mib is None else f"{row.extra_mib:.0f}"
        times = f"{row.median_ms:>9.3f} {row.p20_ms:>9.3f} {row.p80_ms:>9.3f} {row.ratio:>6.2f}"
        lines.append(f"{row.what:20} {times} {speed:>8} {extra:>8}")
        lines += [f"{'':20} {row.note}"] if row.note else []
    legend = ["", "MiB: the peak beyond inputs and output"] if rows[0].extra_mib else []
    return "\n".join([*lines[1:], *legend])


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
