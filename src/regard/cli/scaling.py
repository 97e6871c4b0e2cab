"""`regard scaling`: why scores are divided by √d_k, measured on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from regard.cli.terminal import ascii_only, print_lines, results, write_json
from regard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regard.learn.scaling import Reading


def scaling(
    max_d_k: int = typer.Option(4096, "--max-d-k", help="Measure 1, 2, 4 … up to this d_k."),
    d_k: list[str] = typer.Option(
        [],
        "--d-k",
        metavar="LIST",
        help="Measure only these, such as 16,64,1024.",
        show_default=False,
    ),
    keys: int = typer.Option(16, "--keys", help="Keys per query."),
    rows: int = typer.Option(4096, "--rows", help="Queries per d_k."),
    seed: int = typer.Option(0, "--seed", help="Seed of the random q, k and gradients."),
    as_json: bool = typer.Option(False, "--json", help="Print the measurements as JSON."),
) -> None:
    """Measure attention with and without the division by √d_k.

    Measures, for each d_k: variance, largest weight (median over the rows), entropy (mean over the
    rows), and the gradient at q (median, 99th percentile, share of dead rows).
    """
    from regard.learn.scaling import measure, powers_of_two

    sizes = _sizes(d_k) if d_k else powers_of_two(max_d_k)
    readings = list(measure(sizes, keys=keys, rows=rows, seed=seed))
    if as_json:
        _write_json(readings, keys, rows, seed)
    else:
        _write_report(readings, keys, rows, seed)


def _sizes(given: Sequence[str]) -> tuple[int, ...]:
    words = ",".join(given).replace(",", " ").split()
    if not words or not all(word.isascii() and word.isdigit() for word in words):
        raise InputError(
            f"--d-k takes whole numbers, as in --d-k 16,64,1024; got '{','.join(given)}'"
        )
    return tuple(sorted({int(word) for word in words}))


def _write_json(readings: Sequence[Reading], keys: int, rows: int, seed: int) -> None:
    from dataclasses import asdict

    from regard.learn.scaling import DEAD, STATISTICS, temperature

    raw, scaled = temperature()
    write_json(
        {
            "keys": keys,
            "rows": rows,
            "seed": seed,
            "upstream": "dL/dweights unit normal",
            "dead_below": DEAD,
            "statistics": STATISTICS,
            "readings": [reading.as_dict() for reading in readings],
            "temperature": {"raw": asdict(raw), "scaled": asdict(scaled)},
        }
    )


def _write_report(readings: Sequence[Reading], keys: int, rows: int, seed: int) -> None:
    from regard.learn.scaling import intro, whole_report

    console = results()
    opening, plain = intro(keys, rows, seed), ascii_only(console)
    print_lines(console, whole_report(readings, opening, width=console.width, ascii_only=plain))
