"""No launch asks for more shared memory than there is, whatever a mask or a bias brings along."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import regard
import warm
from regard.engine import api
from regard.engine.backends.gpu.bind import Bound, bind
from regard.engine.backends.gpu.launch import stages

SCRIPT = Path(__file__).with_name("room.py")


@pytest.mark.parametrize(
    ("capability", "dim", "most"), [(90, 128, 227), (80, 128, 163), (80, 64, 99), (80, 256, 163)]
)
def test_the_forward_fits(capability: int, dim: int, most: int) -> None:
    run = warm.run(SCRIPT, str(capability), str(dim))
    assert run.returncode == 0, run.stderr[-2000:]
    taken = json.loads(run.stdout)
    assert {rule: kib for rule, kib in taken.items() if kib > most} == {}


def bound(dtype: torch.dtype = torch.bfloat16, dim: int = 128, **options: object) -> Bound:
    """A call of 70 queries and 130 keys."""
    query, key = (torch.zeros(1, 2, n, dim, dtype=dtype) for n in (70, 130))
    given = {"mask": None, "scale": None, "bias": None, "softcap": None, "sink": None} | options
    return bind(api._call(query, key, key, *given.values(), 0.0))  # type: ignore[arg-type]


def test_tiles_are_fetched_ahead_as_far_as_there_is_room() -> None:
    table = torch.ones(70, 130, dtype=torch.bool)
    flags = regard.Padding(torch.arange(130) % 3 > 0)
    bias = torch.zeros(70, 130)
    assert stages(bound(), 3) == stages(bound(mask=regard.Causal()), 3) == 3
    assert stages(bound(mask=flags), 3) == 3
    assert stages(bound(mask=table), 3) == stages(bound(bias=bias), 3) == 2
    assert stages(bound(bias=regard.RelativeBias(torch.zeros(32, 2))), 3) == 2
    assert stages(bound(mask=table, bias=bias.bfloat16()), 3) == 2
    assert stages(bound(mask=table, bias=bias), 3) == 1
    assert stages(bound(mask=table, bias=bias, dim=256), 2) == 1
    assert stages(bound(mask=table, bias=bias, dim=64), 3) == 2
    assert stages(bound(torch.float32, mask=table, bias=bias), 2) == 2
