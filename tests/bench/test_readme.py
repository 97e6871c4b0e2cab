"""Every figure of the README's tables and of docs/speed.md is a row of bench/results.csv."""

from __future__ import annotations

import csv
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
COLUMNS = ("bare", "row stats", "everything", "afterwards", "eager with weights", "backward")
ON_GPU = ("bare", "statistics", "everything", "eager with weights", "backward")
MASKS = {"True": "causal", "False": "full"}
SPEED = ROOT / "docs" / "speed.md"


def _rows() -> list[dict[str, str]]:
    with (ROOT / "bench" / "results.csv").open() as file:
        return list(csv.DictReader(file))


def _measured() -> dict[tuple[str, ...], str]:
    return {
        (row["tokens"], row["dim"], MASKS[row["causal"]], row["what"]): row["ratio"]
        for row in _rows()
        if row["dtype"] == "float32"
    }


def test_the_table_quotes_the_results() -> None:
    lines = re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \| (.+) \|$", SPEED.read_text(), re.MULTILINE)
    assert len(lines) >= 8
    measured = _measured()
    for tokens, dim, mask, figures in lines:
        for what, figure in zip(COLUMNS, figures.split(" | "), strict=True):
            assert measured[tokens, dim, mask, what] == figure


def test_the_readme_quotes_the_results() -> None:
    readme = (ROOT / "README.md").read_text()
    lines = re.findall(r"^\| (\d+) \| (\S+) \| (\S+) \| (\S+) \|$", readme, re.MULTILINE)
    assert len(lines) == 3
    measured = _measured()
    for tokens, *figures in lines:
        for what, figure in zip(("bare", "everything", "eager with weights"), figures, strict=True):
            assert measured[tokens, "64", "causal", what] == figure


def test_the_table_of_the_gpu_quotes_the_results() -> None:
    lines = re.findall(
        r"^\| (\d+) × (\d+) × (\d+) \| (\d+) \| (\w+) \| (.+) \|$",
        SPEED.read_text(), re.MULTILINE,
    )  # fmt: skip
    assert len(lines) >= 8
    measured = {
        (row["batch"], row["heads"], row["tokens"], row["dim"], MASKS[row["causal"]], row["what"]):
            (row["ratio"], row["peer"])
        for row in _rows() if row["suite"] in ("gpu forward", "gpu backward")
        and not (row["suite"] == "gpu backward" and row["what"] != "backward")
    }  # fmt: skip
    for *size, figures in lines:
        for what, figure in zip(ON_GPU, figures.split(" | "), strict=True):
            assert measured[(*size, what)] == (figure, "cudnn")


def test_what_is_said_below_it_is_measured_too() -> None:
    long, short = (
        {row["what"]: row for row in _rows() if row["suite"] == "gpu length"
         and row["tokens"] == tokens}
        for tokens in ("131072", "1024")
    )  # fmt: skip
    said, briefly = (" ".join(path.read_text().split()) for path in (SPEED, ROOT / "README.md"))
    all_of_it = long["everything"]
    time, memory = round(float(all_of_it["median_ms"])), round(float(all_of_it["extra_mib"]))
    assert f"131,072 tokens × {all_of_it['heads']} heads take {time} ms and {memory} MiB" in said
    assert f"{all_of_it['heads']} heads takes {time} ms and {memory} MiB" in briefly
    bare, peer, everything = (
        short[what]["median_ms"] for what in ("bare", "cudnn", "everything")
    )  # fmt: skip
    assert f"a bare call takes {bare} ms (cuDNN {peer}), everything {everything} ms" in said


def test_what_is_said_of_models_is_measured_too() -> None:
    newest = {(row["suite"], row["what"], row["tokens"]): row for row in _rows()}  # rows are dated
    recorded = [
        ("record smollm2", "recorded", "2048"),
        ("record minilm documents", "recorded", "48"),
    ]
    llama = [
        ("gpu llama", what, n) for what in ("statistics", "recorded") for n in ("8192", "32768")
    ]
    others = [("decode smollm2", "regard", "64"), ("monitor", "monitored", "1024")]
    said = re.findall(r"^\| .+ \| ([\d.]+) ×", SPEED.read_text(), re.MULTILINE)
    assert said == [newest[which]["ratio"] for which in (*recorded, *llama, *others)]
    assert f"| {newest['page', 'overview', '131072']['median_ms']} ms |" in SPEED.read_text()
