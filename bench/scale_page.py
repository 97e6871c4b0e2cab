"""Fills the tables of docs/scale.md: the worked example, and what small runs measured.

    python -m bench parallel --csv bench/results.csv
    python -m bench.scale_page            write the tables
    python -m bench.scale_page --check    exit 1 where the page says something else

Where a size was measured more than once the last row counts.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from pathlib import Path

from bench.cost import Layer, Machine, hidden_from, merge_share
from regard.errors import FileError, RegardError

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results.csv"
PAGE = ROOT / "docs" / "scale.md"

TOKENS = 2**20
LAYER = Layer(heads=32, key_heads=8, dim=128, value_dim=128, itemsize=2)
NODE = 8  # GPUs
INFINIBAND, NVLINK, MEMORY = 50e9, 450e9, 4e12  # bytes a second and GPU
ASSUMED_FLOPS = 500e12
MEASURED_BY = {
    "suite": "gpu forward", "what": "statistics", "dim": "128", "tokens": "16384",
    "causal": "False",
}  # fmt: skip
# of a CPU core: what gloo passes on over loopback, what it reads and writes
CORE_LINK, CORE_MEMORY = 1e9, 10e9

Row = dict[str, str]


def rows_of(path: Path) -> list[Row]:
    """Every row of the results."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def parts(rows: list[Row]) -> dict[str, str]:
    """What stands between the page's markers, by their names."""
    return {"example": example(rows), "measured": measured(rows)}


def filled(page: str, wanted: dict[str, str]) -> str:
    """The page with its parts replaced; FileError where one has no place."""
    for name, text in wanted.items():
        place = re.search(rf"<!-- {name}: .*? -->\n(.*?)<!-- end -->", page, re.DOTALL)
        if place is None:
            raise FileError(f"the page has no place for the part {name!r}")
        page = f"{page[: place.start(1)]}\n{text}\n\n{page[place.end(1) :]}"
    return page


# ── the worked example ───────────────────────────────────────────────────────────────────────


def example(rows: list[Row]) -> str:
    """Three ways to put one sequence on many GPUs."""
    found = [row for row in rows if all(row[name] == v for name, v in MEASURED_BY.items())]
    flops, source = ASSUMED_FLOPS, "assumed"
    if found and found[-1]["tflops"]:
        flops = float(found[-1]["tflops"]) * 1e12
        source = f"measured on {found[-1]['machine']}: row *{', '.join(MEASURED_BY.values())}*"
    machine = Machine(flops, INFINIBAND, MEMORY)
    lines = [
        f"Attention computes {flops / 1e12:.0f} TFLOP/s ({source}). Assumed: InfiniBand passes on "
        f"{INFINIBAND / 1e9:.0f} GB/s a GPU, NVLink {NVLINK / 1e9:.0f} GB/s, memory "
        f"{MEMORY / 1e12:.0f} TB/s.",
        "",
        "| per rank, one layer, forward | 64 GPUs, ring | 1,000 GPUs, ring | 1,000 GPUs, heads in "
        "a node, ring of 125 nodes |",
        "| --- | --- | --- | --- |",
    ]
    setups = (
        _column(LAYER, machine, 64),
        _column(LAYER, machine, 1000),
        _column(LAYER.over_heads(NODE), machine, 1000 // NODE),
    )
    lines += [f"| {name} | {' | '.join(s[name] for s in setups)} |" for name in setups[0]]
    return "\n".join(lines)


def _column(layer: Layer, machine: Machine, ring: int) -> dict[str, str]:
    """One setup in words: a ring of so many ranks, and what each computes."""
    n = -(-TOKENS // ring)
    sent, work = layer.shard(n), layer.work(n, causal=True) / machine.flops
    link = sent / machine.link
    merging = layer.merging(n) / machine.memory
    total = ring * (max(work, link) + merging)
    memory = sum(layer.memory(n, top=8, rows=5).values())
    return {
        "tokens in a shard": f"{n:,}",
        "bytes sent a ring step": f"{sent / 2**20:.1f} MiB",
        "the same by InfiniBand": _ms(link),
        "the same by NVLink": _ms(sent / NVLINK),
        "arithmetic of a step": _ms(work),
        "merging of a step": f"{_ms(merging)} ({merge_share(layer, machine, n, True):.0%})",
        "hidden (InfiniBand) from": f"{hidden_from(layer, machine, True):,.0f} tokens a shard",
        "so messages are": "hidden" if link <= work else f"{link / work:.1f} × the arithmetic",
        "steps": f"{ring:,}",
        "the layer": f"{_ms(total)}; arithmetic alone {_ms(ring * work)}",
        "memory, everything measured": f"{memory / 2**30:.2f} GiB",
    }


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2g} ms" if seconds < 0.0995 else f"{seconds * 1e3:.0f} ms"


# ── small runs ───────────────────────────────────────────────────────────────────────────────


def measured(rows: list[Row]) -> str:
    """Two ranks on two cores against one, beside what the model says."""
    newest = {(int(r["tokens"]), r["what"]): r for r in rows if r["suite"] == "parallel"}
    if not newest:
        return "`bench/results.csv` has no rows of the suite `parallel` yet."
    one = next(iter(newest.values()))
    lines = [
        f"{one['machine']}, {one['dtype']}, causal, {one['heads']} heads of {one['dim']}, a thread "
        "for each rank; medians of interleaved rounds.",
        "",
        "| tokens | | ms (p20–p80) | bytes a rank sent | efficiency | by the model |",
        "| ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for (tokens, what), row in sorted(newest.items(), key=lambda item: item[0][0]):
        alone = newest[tokens, row["peer"]]
        time = f"{_short(row['median_ms'])} ({_short(row['p20_ms'])}–{_short(row['p80_ms'])})"
        sent = re.search(r"sends (\d+) bytes", row["note"])
        counted = f"{int(sent[1]):,}" if sent else "0"
        share = re.search(r"efficiency ([\d.]+)", row["note"])
        both = (share[1], f"{_foreseen(row, alone):.3f}") if share else ("1", "1")
        lines.append(f"| {tokens:,} | {what} | {time} | {counted} | {both[0]} | {both[1]} |")
    return "\n".join(lines)


def _short(milliseconds: str) -> str:
    return f"{float(milliseconds):,.4g}"


def _foreseen(row: Row, alone: Row) -> float:
    """Efficiency of two ranks: arithmetic over arithmetic, copying and merging. Between cores
    nothing is hidden: who copies cannot compute."""
    heads, dim, half = int(row["heads"]), int(row["dim"]), int(row["tokens"]) // 2
    layer = Layer(heads, heads, dim, dim, 4)
    work = float(alone["median_ms"]) / 1e3 / 2
    if row["what"] == "ring":
        more = layer.shard(half) / CORE_LINK + layer.merging(half) / CORE_MEMORY
    else:
        more = layer.trade(half, 2) / CORE_LINK
    return work / (work + more)


def main(arguments: list[str] | None = None, page: Path = PAGE, results: Path = RESULTS) -> int:
    """Write the tables, or compare them; the exit status."""
    parser = argparse.ArgumentParser(description="Fill the tables of docs/scale.md.")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    given = parser.parse_args(arguments)
    try:
        before = page.read_text(encoding="utf-8")
        wanted = filled(before, parts(rows_of(results)))
    except RegardError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if not given.check:
        page.write_text(wanted, encoding="utf-8")
    elif before != wanted:
        print(f"{page.name} differs from its rows; run: python -m bench.scale_page")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
