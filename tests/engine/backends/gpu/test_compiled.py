"""What compilers make of the kernels, which needs no GPU: tiles fit into shared memory, products
into registers, and a loop's values move with it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
import torch

import regard
from engine.backends.gpu.compiling import (
    bound_of,
    call_of,
    carried,
    collecting,
    spilled,
)
from regard.engine.backend import PairSide
from regard.engine.backends.gpu import backward, columns, forward, pairs, prune, wanted
from regard.engine.backends.gpu.bind import bind
from regard.engine.backends.gpu.launch import blocks, room
from regard.engine.call import RowState

pytestmark = pytest.mark.kernels("compile")

QUERIES, KEYS = 130, 300


def rules() -> dict[str, dict[str, Any]]:
    """Options of `attend` for a batch of two with four heads: what each brings for a tile."""
    flags = regard.Padding(torch.arange(2 * KEYS).view(2, KEYS) % 3 > 0)
    ids = [torch.zeros(2, n, dtype=torch.int64) for n in (QUERIES, KEYS)]
    vectors = regard.Causal() & regard.Documents(*ids) & flags
    table = torch.ones(1, 1, QUERIES, KEYS, dtype=torch.bool)
    bias = torch.zeros(2, 4, QUERIES, KEYS)
    spelt = regard.Rule(lambda i, j: (i - j) % 3 == 0)
    near = regard.RelativeBias(torch.zeros(32, 4))
    return {
        "vectors": {"mask": vectors},
        "table": {"mask": vectors & table},
        "by distance": {"bias": near},
        "by half a distance": {"mask": vectors, "bias": near.map(lambda t: t.half())},
        "half a bias": {"mask": vectors & table, "bias": bias.to(torch.bfloat16)},
        "all": {"mask": vectors & table, "bias": bias},
        "spelt": {"mask": spelt},
        "spelt, half a bias": {"mask": spelt, "bias": bias.to(torch.bfloat16)},
        "spelt, a bias": {"mask": spelt, "bias": bias},
    }


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rule", rules())
@pytest.mark.parametrize(
    ("capability", "dim", "most"), [(90, 128, 227), (80, 128, 163), (80, 64, 99), (80, 256, 163)]
)
def test_the_forward_fits(capability: int, dim: int, most: int, rule: str) -> None:
    """Whatever a mask or a bias brings along."""
    given = bound_of(dim, torch.bfloat16, QUERIES, KEYS, **rules()[rule])
    with collecting(forward, capability=capability) as kernels:
        forward.forward(given, True, {"entropy", "raw"}, None)
    (kernel,) = kernels.values()
    assert kernel.metadata.shared <= most * 1024


def test_no_tile_is_narrow_beside_a_wide_one() -> None:
    """Of such a tile the assembler of Triton 3.6 loses the address, where no copy engine brings it:
    a GPU read outside its memory, or the wrong numbers."""
    call = call_of(256, torch.float16, 127, 3)
    narrow = replace(call, value=call.value[..., :16])
    rows = torch.zeros(2, 4, 127)
    heads = torch.zeros(1, 1, dtype=torch.int32)
    sides = (
        PairSide(c, RowState(rows, rows), heads, rows[:, :1])
        for c in (call, call_of(32, torch.float16, 127, 3))
    )
    given: list[dict[str, Any]] = []
    with ExitStack() as stack:
        for page in (forward, pairs):
            stack.enter_context(patch.object(page, "run", lambda *_, **fixed: given.append(fixed)))
        forward.forward(bind(narrow), True, set(), None)
        pairs.pair_sums("js", *sides, rows[:, :1], True)
    assert [fixed.get("DV", fixed.get("DS")) for fixed in given] == [64, 64]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("dim", "dtype", "mass"),
    [(64, "bfloat16", False), (128, "bfloat16", True), (256, "float32", False),
     (256, "float64", False), (256, "float64", True)],
)  # fmt: skip
def test_the_backward_fits(dim: int, dtype: str, mass: bool) -> None:
    kind = getattr(torch, dtype)
    given = bound_of(dim, kind, 70, KEYS, mask=regard.Causal())
    row = given.new(70)
    with collecting(backward) as kernels:
        backward.backward(given, RowState(row, row), given.query, row, row, mass, given.query)
    assert set(kernels) == {"_products", "_prepare", "_query_gradient", "_key_gradients"}
    assert max(k.metadata.shared for k in kernels.values()) <= room(dim, kind) * 1024


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("dim", "dtype"), [(64, "bfloat16"), (128, "bfloat16"), (128, "float32"), (256, "float64")]
)
def test_two_attentions_fit(dim: int, dtype: str) -> None:
    call = call_of(dim, getattr(torch, dtype), 70, 130, mask=regard.Causal())
    row = torch.zeros(2, 4, 70, dtype=call.exact)
    heads = torch.tensor([[0, 1, 2, 3]], dtype=torch.int32)
    teacher = PairSide(call, RowState(row, row), heads, row[:, :1])
    student = PairSide(call, RowState(row, row), heads[:, :1].contiguous(), row[:, :1])
    with collecting(pairs) as kernels:
        pairs.pair_sums("js", teacher, student, row[:, :1], True)
        pairs.pair_key_gradient("js", teacher, student, row[:, :1], row[:, :1])
    assert set(kernels) == {"_row_sums", "_key_gradient"}
    most = (99 if dim <= 64 else 227) * 1024
    assert max(k.metadata.shared for k in kernels.values()) <= most


# dtype, head dim, width of y, options: with and without the copy engine, chunks of y in full, one
# walk over the queries and three
PRODUCTS: dict[str, tuple[torch.dtype, int, int, dict[str, Any]]] = {
    "apart": (torch.bfloat16, 33, 3, {}),
    "bias": (torch.float16, 64, 3, {"bias": torch.zeros(4, QUERIES, KEYS)}),
    "causal": (torch.bfloat16, 128, 64, {"mask": regard.Causal()}),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_with_the_transpose_stay_in_registers(name: str) -> None:
    """On a Hopper GPU products are taken from registers while they are computed; tiles that did
    not fit gave results that were never written, or wrote elsewhere."""
    dtype, dim, width, rule = PRODUCTS[name]
    given = bound_of(dim, dtype, QUERIES, KEYS, **rule)
    state = RowState(given.new(QUERIES), given.new(QUERIES))
    with collecting(columns) as kernels:
        columns._multiplied(given, state, None, torch.zeros(2, 4, QUERIES, width))
    (kernel,) = kernels.values()
    assert spilled(kernel) == 0


# ── loops ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dim", [64, 128])
def test_no_loop_of_the_gather_passes_vectors_on(dim: int) -> None:
    """Rows that are read ahead and passed on are what Triton 3.6 gets wrong: in one of two layouts
    they are those of the first turn for ever. Interpreted kernels have no layouts, so nothing else
    sees this without a GPU."""
    given = bound_of(dim, torch.bfloat16, 2100, 2100, mask=regard.Causal())
    pruner = prune.Pruner(given, 8)
    maxima = given.new(blocks(2100, 64), pruner.tall)
    with collecting(prune, wanted) as kernels:
        pruner.see(maxima, 0, RowState(given.new(2100), given.new(2100)))
    assert set(kernels) == {"_select", "_arrange", "_list", "_gather", "_merge"}
    assert carried(kernels["_gather"].asm["ttgir"]) == []
    assert carried(kernels["_select"].asm["ttgir"]) != []
