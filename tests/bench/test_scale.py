"""What attention over ranks costs is counted as the code holds and sends it, and docs/scale.md
says so."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import regard
from bench import scale_page
from bench.cost import Layer, Machine, hidden_from, merge_share
from regard.bench import Result, append_csv
from regard.engine.call import parts_of
from regard.errors import FileError
from regard.parallel import Shards
from regard.state import merge

LAYER = Layer(heads=6, key_heads=3, dim=8, value_dim=4, itemsize=2)
MACHINE = Machine(flops=1e12, link=1e9, memory=1e11)


def inputs(tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    shapes = ((6, tokens, 8), (3, tokens, 8), (3, tokens, 4))
    q, k, v = (torch.randn(1, *shape).bfloat16() for shape in shapes)
    return q, k, v


# ── bytes ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("tokens", [1, 64])
def test_bytes_are_those_of_the_tensors(tokens: int) -> None:
    q, k, v = inputs(tokens)
    rows = (regard.Entropy(), regard.MaxScore(), regard.Distance())
    part = regard.attend_partial(q, k, v, summaries=(*rows, regard.Top(5)))
    parts = LAYER.memory(tokens, top=5, rows=len(rows))
    assert LAYER.shard(tokens) == k.nbytes + v.nbytes == parts["k, v"]
    assert parts["k, v of others"] == 2 * parts["k, v"]
    assert parts["q"] == q.nbytes and parts["running output"] == part.out.nbytes
    lse = 2 * part.lse.nbytes  # as two numbers
    statistics = sum(tensor.nbytes for each in part.summaries.values() for tensor in parts_of(each))
    assert parts["lse and statistics"] == lse + statistics
    assert LAYER.partial(tokens) == part.out.nbytes + lse


def test_gradients_travel_as_exact_sums() -> None:
    _, k, v = inputs(9)
    assert LAYER.shard_backward(9) == k.nbytes + v.nbytes + k.float().nbytes + v.float().nbytes


def test_a_merge_reads_and_writes_seven_times_an_output() -> None:
    """Two products and a sum, each of a block of half the rows."""
    half = regard.attend_partial(*inputs(8))
    assert LAYER.merging(16) == 2 * 7 * merge(half, half).out.nbytes


def test_what_is_traded() -> None:
    q, k, v = inputs(10)
    back = 6 * 10 * (4 * 2 + 4)
    assert LAYER.trade(10, 3) == (q.nbytes + k.nbytes + v.nbytes + back) * 2 / 3
    assert LAYER.trade(10, 1) == 0
    # more ranks than key heads: each of six has a copy
    assert LAYER.trade(10, 6) == (q.nbytes + 2 * (k.nbytes + v.nbytes) + back) * 5 / 6


def test_heads_are_shared_out_and_key_heads_never_cut() -> None:
    assert LAYER.over_heads(3) == Layer(2, 1, 8, 4, 2)
    assert LAYER.over_heads(6) == Layer(1, 1, 8, 4, 2)


# ── operations ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("world", [1, 2, 5])
def test_zigzag_shards_have_half_of_the_pairs_in_every_step(world: int) -> None:
    shards = Shards.zigzag(16 * world, world)
    for rank in range(world):
        for owner in range(world):
            rows, cols = shards.positions(rank), shards.positions(owner)
            own = 8 if rank == owner else 0  # a row sees itself: half a diagonal more
            assert int((cols <= rows[:, None]).sum()) == 16 * 16 // 2 + own
    assert LAYER.work(10, causal=False) == 2 * 6 * 10 * 10 * (8 + 4)
    assert LAYER.work(16, causal=True) == LAYER.work(16, causal=False) / 2


@pytest.mark.parametrize("causal", [True, False])
def test_hidden_from_where_message_and_arithmetic_take_as_long(causal: bool) -> None:
    tokens = round(hidden_from(LAYER, MACHINE, causal))
    by_hand = LAYER.key_heads / LAYER.heads * LAYER.itemsize * MACHINE.flops / MACHINE.link
    assert tokens == round(by_hand if causal else by_hand / 2)
    message, arithmetic = LAYER.shard(tokens) / MACHINE.link, LAYER.work(tokens, causal) / 1e12
    assert message == pytest.approx(arithmetic, rel=1e-3)


def test_merging_weighs_less_on_long_shards() -> None:
    square = Layer(6, 3, 8, 8, 2)
    by_hand = 14 * MACHINE.flops / (1000 * MACHINE.memory)
    assert merge_share(square, MACHINE, 1000, True) == pytest.approx(by_hand)
    assert merge_share(square, MACHINE, 2000, True) == pytest.approx(by_hand / 2)


# ── the page ─────────────────────────────────────────────────────────────────────────────────

ROW = Result(
    "2026-01-02", "parallel", "one rank", "cpu", 8192, 64, 2, True, "float32", 400.0, 390.0, 420.0,
    "one rank", 1.0, 5, 1, "a machine", "2.13", "0.1", 1, 0.05, None, "1 rank of one thread",
)  # fmt: skip
MARKED = (
    "a\n<!-- example: by hand -->\nold\n<!-- end -->\nb\n<!-- measured: x -->\n<!-- end -->\nc\n"
)


@pytest.fixture
def results(tmp_path):
    path = tmp_path / "results.csv"
    note = "2 ranks of one thread, efficiency 0.952, each sends 4194304 bytes a step"
    ring = replace(ROW, what="ring", median_ms=210.0, ratio=0.525, note=note)
    ulysses = replace(ring, what="ulysses")
    append_csv(path, [ROW, replace(ring, median_ms=999.0), ring, ulysses])
    return path


def test_the_page_is_up_to_date():
    assert scale_page.main(["--check"]) == 0, "run: python -m bench.scale_page"


def test_measured_rows_become_a_table_with_what_the_model_foresees(results):
    lines = scale_page.measured(scale_page.rows_of(results)).splitlines()
    assert lines[0].startswith("a machine, float32, causal, 2 heads of 64")
    assert lines[-3] == "| 8,192 | one rank | 400 (390–420) | 0 | 1 | 1 |"
    copying = 4194304 / scale_page.CORE_LINK + 28 * 2 * 4096 * 64 / scale_page.CORE_MEMORY
    trade = 4096 * (3 * 128 * 4 + 2 * (64 * 4 + 4)) / 2 / scale_page.CORE_LINK
    for line, what, beside in zip(lines[-2:], ("ring", "ulysses"), (copying, trade), strict=True):
        row = f"| 8,192 | {what} | 210 (390–420) | 4,194,304 | 0.952 | {0.2 / (0.2 + beside):.3f} |"
        assert line == row
    assert "999" not in "".join(lines)  # the last row of a size counts
    assert "no rows of the suite `parallel`" in scale_page.measured([])


def test_the_example_takes_a_measured_speed_where_there_is_one(tmp_path):
    path = tmp_path / "results.csv"
    gpu = replace(ROW, suite="gpu forward", what="statistics", tokens=16384, dim=128, causal=False)
    append_csv(path, [replace(gpu, tflops=100.0), replace(gpu, tflops=400.0, machine="a GPU")])
    append_csv(path, [replace(gpu, tflops=1.0, causal=True)])
    assumed, measured = scale_page.example([]), scale_page.example(scale_page.rows_of(path))
    assert "500 TFLOP/s (assumed)" in assumed and "5,000 tokens a shard" in assumed
    assert "400 TFLOP/s (measured on a GPU: row *gpu forward, statistics" in measured
    assert "4,000 tokens a shard" in measured


def test_the_example_by_hand():
    lines = {
        cells[1]: cells[2:5]
        for line in scale_page.example([]).splitlines()
        if (cells := [cell.strip() for cell in line.split("|")]) and len(cells) == 6
    }
    assert lines["tokens in a shard"] == ["16,384", "1,049", "8,389"]
    assert lines["bytes sent a ring step"] == ["64.0 MiB", "4.1 MiB", "4.1 MiB"]
    assert lines["so messages are"] == ["hidden", "4.8 × the arithmetic", "hidden"]


def test_writing_and_comparing(results, tmp_path, capsys):
    path = tmp_path / "page.md"
    path.write_text(MARKED)
    assert scale_page.main(["--check"], path, results) == 1
    assert "differs" in capsys.readouterr().out and path.read_text() == MARKED
    assert scale_page.main([], path, results) == 0
    assert scale_page.main(["--check"], path, results) == 0
    page = path.read_text()
    assert "old" not in page and page.startswith("a\n") and page.endswith("\nc\n")
    assert page.index("4,194,304") > page.index("b\n") > page.index("tokens in a shard")
    path.write_text("nothing")
    assert scale_page.main([], path, results) == FileError.exit_code
    assert "no place for the part 'example'" in capsys.readouterr().err
