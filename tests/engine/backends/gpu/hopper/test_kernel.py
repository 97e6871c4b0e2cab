"""What the compiler makes of the kernel, without a GPU. Gluon cannot be interpreted; what it
computes is compared with the definition on a GPU (`make test-gpu`)."""

from __future__ import annotations

import inspect
import re
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch

import regard
from engine.backends.gpu.compiling import assembled, bound_of, collecting, inner_loops
from regard.engine.backends.gpu.hopper import forward as page
from regard.engine.backends.gpu.hopper import walk
from regard.engine.backends.gpu.hopper.kernel import SIZES, attention
from regard.engine.call import RowState

ROOM = 227 * 1024  # shared memory of a block on compute capability 9.0
THREE = {"entropy", "raw", "squares"}
# head dim, dtype, names, whether there is an output and an lse of more keys, rows whose maxima
# somebody wants, the rule
VARIANTS: dict[str, tuple[int, torch.dtype, set[str], bool, bool, int, dict[str, Any]]] = {
    "causal": (128, torch.bfloat16, THREE, True, False, 0, {"mask": regard.Causal()}),
    "narrow": (64, torch.float16, THREE, True, False, 0, {}),
    "no output": (
        128, torch.bfloat16, {"entropy"}, False, False, 128, {"mask": regard.Padding([7, 9])},
    ),
    "everything": (
        64, torch.bfloat16, {*THREE, "logit", "away", "visible"}, True, True, 128,
        {"mask": regard.Window(100) & regard.Padding([7, 9]), "sink": torch.zeros(4)},
    ),
}  # fmt: skip


def compiled(variant: str) -> Any:
    """A launch over 130 queries and 300 keys, grouped."""
    dim, dtype, names, output, told, tall, rule = VARIANTS[variant]
    bound = bound_of(dim, dtype, 130, 300, **rule)
    more = RowState(bound.new(130), bound.new(130)) if told else None
    watcher: Any = SimpleNamespace(tall=tall, see=lambda *_: None) if tall else None
    with patch.object(page, "_multiprocessors", lambda _: 132), collecting(page, walk) as kernels:
        page.forward(bound, output, names, more, watcher)
    return kernels["attention"]


@pytest.mark.kernels("compile")
@pytest.mark.parametrize(
    ("variant", "masked", "plain"),
    [
        ("causal", 2, 2), pytest.param("narrow", 0, 2, marks=pytest.mark.rest),
        pytest.param("no output", None, None, marks=pytest.mark.rest),
        pytest.param("everything", None, None, marks=pytest.mark.rest),
    ],
)  # fmt: skip
def test_products_stay_asynchronous_and_loops_in_registers(
    variant: str, masked: int | None, plain: int | None
) -> None:
    """The assembler says so (C7510 to C7515) where it waits for each product at once. Two
    consumers, and for each a loop over masked tiles and one over plain ones, which hides nothing:
    no more selections than the plain one of an unmasked call has."""
    kernel = compiled(variant)
    messages = assembled(kernel)
    assert not re.search(r"C75\d\d|serializ", messages), messages
    assert "wgmma.mma_async" in kernel.asm["ptx"] and "cp.async.bulk.tensor" in kernel.asm["ptx"]
    assert kernel.metadata.shared <= ROOM
    if masked is None or plain is None:
        return
    loops = inner_loops(kernel)
    assert len(loops) == masked + plain
    assert not any(loop["LDL"] or loop["STL"] for loop in loops)
    assert sum(loop["FSEL"] >= 64 for loop in loops) == masked
    if variant == "narrow":
        # two statistics multiply every weight: the score's own product, and three quarters of
        # each of theirs, are fused with a sum
        scores = 64 * 128 // 128  # of a thread
        assert loops[0]["FFMA"] >= scores + 2 * scores * 3 // 4
        assert loops[0]["MUFU"] <= scores + 4


def test_one_compilation_serves_every_length() -> None:
    """All whole numbers are named as such: neither 1 nor a multiple of 16 is special."""
    taken = list(inspect.signature(attention.fn).parameters)
    numbers = taken[taken.index("batch") : taken.index("D")]
    assert set(numbers) == set(SIZES)
    special = {p.name for p in attention.params if p.do_not_specialize}
    assert special == set(SIZES)
