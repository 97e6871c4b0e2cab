"""What the compiler makes of the kernel, without a GPU. Gluon cannot be interpreted; what it
computes is compared with the definition on a GPU (`make test-gpu`)."""

from __future__ import annotations

import inspect
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import warm
from regard.engine.backends.gpu.hopper.kernel import SIZES, attention

SCRIPT = Path(__file__).with_name("compiled.py")
ROOM = 227 * 1024  # shared memory of a block on compute capability 9.0


@cache
def compiled(variant: str) -> dict[str, Any]:
    run = warm.run(SCRIPT, variant)
    assert run.returncode == 0, run.stderr[-2000:]
    found: dict[str, Any] = json.loads(run.stdout)
    return found


@pytest.mark.parametrize("variant", ["causal", "narrow", "no output", "everything"])
def test_products_stay_asynchronous(variant: str) -> None:
    """The assembler says so (C7510 to C7515) where it waits for each product at once."""
    made = compiled(variant)
    assert not re.search(r"C75\d\d|serializ", made["said"]), made["said"]
    assert made["products"] > 0 and made["copies"] > 0
    assert made["shared"] <= ROOM


@pytest.mark.parametrize(("variant", "masked", "plain"), [
    ("causal", 2, 2), ("narrow", 0, 2),
])  # fmt: skip
def test_inner_loops_keep_to_registers(variant: str, masked: int, plain: int) -> None:
    """Two consumers, and for each a loop over masked tiles and one over plain ones, which hides
    nothing: no more selections than the plain one of an unmasked call has."""
    loops = compiled(variant)["loops"]
    assert len(loops) == masked + plain
    assert not any(loop.get("LDL", 0) or loop.get("STL", 0) for loop in loops)
    assert sum(loop.get("FSEL", 0) >= 64 for loop in loops) == masked


def test_sums_of_products_are_fused() -> None:
    """Two statistics that multiply every weight: the score's own product, and three quarters of
    each of theirs."""
    (loop, _) = compiled("narrow")["loops"]
    scores = 64 * 128 // 128  # of a thread
    assert loop["FFMA"] >= scores + 2 * scores * 3 // 4
    assert loop["MUFU"] <= scores + 4


def test_one_compilation_serves_every_length() -> None:
    """All whole numbers are named as such: neither 1 nor a multiple of 16 is special."""
    taken = list(inspect.signature(attention.fn).parameters)
    numbers = taken[taken.index("batch") : taken.index("D")]
    assert set(numbers) == set(SIZES)
    special = {p.name for p in attention.params if p.do_not_specialize}
    assert special == set(SIZES)
