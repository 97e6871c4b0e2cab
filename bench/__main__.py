"""`python -m bench SUITE`: rows on stdout and in a CSV file, progress and errors on stderr."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from bench import (
    check,
    decode,
    gpu,
    host,
    monitor,
    page,
    parallel,
    play,
    record,
    report,
    sight,
    vllm,
)  # fmt: skip
from bench.gpu import stage
from regard.bench.results import Result, WrongResultError, append_csv, check_csv
from regard.errors import RegardError

_INTERRUPTED = 130  # 128 + SIGINT, as shells count

# suite → the lengths measured by default
_LENGTHS = {
    "host": [32],
    "check": [64],
    "decode": [64],
    "report": [4096, 8192, 16384, 32768],
    "page": [131072],
    "monitor": [1024],
    "parallel": [8192, 32768],
    "play": [30],
    "record": [2048],
    "sight": [4096],
    "vllm": [128],
    "gpu": [1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072],
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure one suite; the exit status."""
    given = _parser().parse_args(arguments)
    tokens = given.tokens or _LENGTHS[given.suite]
    try:
        if given.csv is not None:
            check_csv(given.csv)  # before minutes of measuring
        if given.suite == "gpu":
            rows, wrong = _on_gpu(given.only, tokens, given.seconds, given.csv)
        else:
            rows, wrong = _measured(given.suite, tokens, given.model, given.seconds), []
            if given.csv is not None:
                append_csv(given.csv, rows)
    except RegardError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return _INTERRUPTED
    if given.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        tables = {
            "decode": speed_table, "vllm": speed_table, "parallel": ranks_table,
            "gpu": wide_table, "record": wide_table,
        }  # fmt: skip
        print(tables.get(given.suite, short_table)(rows))
    for message in wrong:
        print(f"bench: {message}", file=sys.stderr)
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure a suite. Answers are checked before anything is timed. Times are "
        "medians; each ratio is the time over that of the peer in the same round.",
    )
    parser.add_argument("suite", choices=_LENGTHS)
    parser.add_argument("--tokens", type=_lengths, help="lengths, separated by commas")
    parser.add_argument(
        "--model", default="smollm2", help="of check, decode, play, record and vllm"
    )
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=[], help="parts of the suite gpu"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="for each configuration")
    parser.add_argument("--csv", type=Path, help="append the rows to this file")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    return parser


def _lengths(text: str) -> list[int]:
    lengths = [int(part) for part in text.split(",")]
    if min(lengths) < 1:
        raise argparse.ArgumentTypeError("give whole numbers ≥ 1")
    return lengths


def _measured(suite: str, tokens: list[int], model: str, seconds: float) -> list[Result]:
    if suite == "report":
        return report.measure(tokens, seconds)
    if suite == "page":
        return page.measure(tokens)
    each: dict[str, Callable[[int], list[Result]]] = {
        "host": lambda count: host.measure(count, seconds),
        "decode": lambda count: decode.measure(model, count, seconds),
        "monitor": lambda count: monitor.measure(count, seconds),
        "sight": sight.measure,
        "play": lambda count: play.measure(count, model),
        "check": lambda count: check.measure(count, model),
        "vllm": lambda count: vllm.measure(model, count, seconds),
        "record": lambda count: record.measure(model, count, seconds),
        "parallel": lambda count: parallel.measure(parallel.Size(count), seconds),
    }
    rows: list[Result] = []
    for n, count in enumerate(tokens, 1):
        print(f"[{n}/{len(tokens)}] {count} tokens", file=sys.stderr)
        rows += each[suite](count)
    if suite == "record":
        print(f"{record.ENCODER}, {record.DOCUMENTS} documents", file=sys.stderr)
        rows += record.measure_documents(record.ENCODER, record.DOCUMENTS, seconds)
    return rows


def _on_gpu(
    parts: list[str], lengths: list[int], seconds: float, csv: Path | None
) -> tuple[list[Result], list[str]]:
    """Rows, and what was wrong. Rows are written as they come: a long run may be cut short."""
    rows: list[Result] = []
    wrong: list[str] = []
    every = gpu.jobs(stage.cuda(), parts, lengths, seconds)
    for n, job in enumerate(every, 1):
        print(f"[{n}/{len(every)}] {job.part}: {job.label}", file=sys.stderr)
        try:
            measured = job.run()
        except WrongResultError as error:
            wrong.append(str(error))
            continue
        if csv is not None:
            append_csv(csv, measured)
        rows += measured
    return rows, wrong


def short_table(rows: list[Result]) -> str:
    """Time and ratio."""
    lines = [f"{'tokens':>6} {'':13} {'ms':>9} {'ratio':>7}  ÷ {rows[0].peer}"]
    for row in rows:
        lines.append(f"{row.tokens:>6} {row.what:13} {_in_ms(row):>9} {row.ratio:>7.2f}")
    return "\n".join(lines)


def _in_ms(row: Result) -> str:
    """To a tenth, of less than a millisecond to a microsecond."""
    return f"{row.median_ms:.1f}" if row.median_ms >= 1 else f"{row.median_ms:.3f}"


def speed_table(rows: list[Result]) -> str:
    """Time per token, tokens per second and ratio."""
    head = f"{'ms/token':>9} {'tokens/s':>9} {'ratio':>7}  ÷ {rows[0].peer}"
    lines = [f"{'tokens':>6} {'':12} {head}"]
    for row in rows:
        each = f"{row.median_ms:>9.1f} {1e3 / row.median_ms:>9.1f} {row.ratio:>7.2f}"
        lines.append(f"{row.tokens:>6} {row.what:12} {each}")
    return "\n".join(lines)


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


def ranks_table(rows: list[Result]) -> str:
    """Times and ratio, then the note on efficiency and bytes."""
    head = f"{'ms':>9} {'p20':>9} {'p80':>9} {'ratio':>7}  ÷ {rows[0].peer}"
    lines = [f"{'tokens':>6} {'':10} {head}"]
    for row in rows:
        times = f"{row.median_ms:>9.1f} {row.p20_ms:>9.1f} {row.p80_ms:>9.1f} {row.ratio:>7.2f}"
        lines += [f"{row.tokens:>6} {row.what:10} {times}", f"{'':17} {row.note}"]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
