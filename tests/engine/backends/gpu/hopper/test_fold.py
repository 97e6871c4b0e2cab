"""What a row's numbers come to, tile by tile and at the end: the kernel's own lines, run as Python,
against double precision. Every row has scores of another kind, and sees others of its keys."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from engine.backends.gpu.hopper.as_python import Memory, array, run_as_python
from regard.engine.backends.gpu.forward import Asked
from regard.engine.backends.gpu.hopper import finish, fold
from regard.engine.backends.gpu.hopper.work import Schedule, Sight, Work

ROWS, KEYS, TILES, DIM = 64, 128, 6, 8
COUNT = KEYS * TILES - 40  # the last tile is ragged
POSITION = 100  # query i stands at key i + 100
NAMES = ("entropy", "raw", "logit", "squares", "away", "visible")
MOST = 2.0**8  # that a weight may be above its row's reference
HALVES = [torch.bfloat16, torch.float16]


@pytest.fixture(autouse=True)
def as_python(monkeypatch: pytest.MonkeyPatch) -> None:
    run_as_python(monkeypatch, fold, finish)


def scores() -> Tensor:
    """(64, COUNT) products q·k. A walk goes from the last key to the first."""
    dice = torch.Generator().manual_seed(0)
    noise = torch.randn(ROWS, COUNT, generator=dice)
    ramp = torch.linspace(1, 0, COUNT)
    kinds = [
        noise * 11, noise * 300, noise + 2000 * ramp, noise - 2000 * ramp,
        noise * 0.3 + 60 * ramp,  # a maximum that creeps up, below the slack of a tile
        noise * 20 + 3.4e5, noise * 20 - 3.4e5,  # scores of ±30,000
        torch.zeros(ROWS, COUNT),
    ]  # fmt: skip
    return torch.stack([kinds[row % len(kinds)][row] for row in range(ROWS)])


def sees() -> Tensor:
    """(64,) first and last key + 1 of each row: all, the first tiles hidden, the last, nothing."""
    spans = [(0, COUNT), (0, 200), (500, COUNT), (300, 301), (0, 0)]
    return torch.tensor([spans[row // 8 % len(spans)] for row in range(ROWS)], dtype=torch.int32)


def work_of(scale: float, sink: Tensor | None, given: Tensor | None) -> Work:
    low, high = sees().T.contiguous()
    asked = dict.fromkeys(Asked._fields)
    asked |= {name: Memory(torch.full((ROWS,), torch.nan)) for name in NAMES}
    sight = Sight(
        heads=1, group=1, queries=ROWS, keys=COUNT, position=POSITION, scale=scale, least=None,
        most=None, low=Memory(low), high=Memory(high), span_stride=0, ranges=None, range_stride=0,
        sink=None if sink is None else Memory(sink),
    )  # fmt: skip
    state = tuple(Memory(torch.full((ROWS,), torch.nan)) for _ in range(2))
    more = (None, None) if given is None else tuple(Memory(part) for part in given)
    return Work(sight, Schedule(1, 1, 0, ROWS, 1), Asked(**asked), state, more)


def swept(s: Tensor, v: Tensor, work: Work) -> tuple[Tensor, list[Tensor]]:
    """(64, DIM) output, and what the context was multiplied with before every tile."""
    i, unit = array(torch.arange(ROWS)), array(torch.tensor(0))
    padded = torch.nn.functional.pad(s, (0, KEYS * TILES - COUNT))
    values = torch.nn.functional.pad(v.float(), (0, 0, 0, KEYS * TILES - COUNT))
    numbers: Any = fold.nothing(work.sight, None)
    context, factors = torch.zeros(ROWS, DIM), []
    for n in reversed(range(0, KEYS * TILES, KEYS)):
        tile = array(padded[:, n : n + KEYS])
        p, a, numbers = fold.fold(tile, n, numbers, unit, i, work, KEYS, None, True)
        assert not (p > MOST * 1.01).any()  # scores of 30,000 are off by a hundredth
        weights = p.as_subclass(Tensor).to(v.dtype).float()
        factors.append(a.as_subclass(Tensor))
        context = context * factors[-1][:, None] + weights @ values[n : n + KEYS]
    share = finish.finish(numbers, work, unit, i).as_subclass(Tensor)
    return context * share[:, None], factors


def exact(
    s: Tensor, v: Tensor, scale: float, sink: Tensor | None, given: Tensor | None
) -> dict[str, Tensor]:
    """The same in double precision."""
    j, low, high = torch.arange(COUNT), *sees().T
    seen = (j >= low[:, None]) & (j < high[:, None])
    z = (s.double() * scale).masked_fill(~seen, -torch.inf)
    extra = z[:, :0] if sink is None else sink.double().expand(ROWS, 1)
    every = torch.cat([z, extra], 1)
    lse = every.logsumexp(1)
    p = (every - lse[:, None]).exp().nan_to_num()
    told = lse if given is None else given.double().sum(0)
    w = (z - told[:, None]).exp().nan_to_num(posinf=torch.nan)
    largest, far = z.amax(1), torch.arange(ROWS)[:, None] + POSITION - j
    return {
        "lse": lse, "entropy": -(p * (every - lse[:, None]).where(p > 0, 0.0)).sum(1),
        "raw": largest, "logit": largest, "squares": (w * w).sum(1),
        "away": (w * far.abs()).sum(1), "visible": seen.sum(1).double(),
        "output": w @ v.double(),
    }  # fmt: skip


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("sink", [None, -3.0, 5.0, 40.0, -torch.inf])
@pytest.mark.parametrize("told", [False, True])
def test_rows_are_as_in_double_precision(half: torch.dtype, sink: float | None, told: bool) -> None:
    scale, s = float(torch.tensor(128**-0.5)), scores()  # in single precision, as kernels get it
    v = torch.randn(COUNT, DIM, generator=torch.Generator().manual_seed(1)).to(half)
    sunk = None if sink is None else torch.tensor([sink])
    given = None
    if told:  # of more keys: every weight is smaller
        lse = exact(s, v, scale, sunk, None)["lse"].float()
        given = torch.stack([lse, torch.full_like(lse, 0.7)])
    work = work_of(scale, sunk, given)
    output, _ = swept(s, v, work)
    right = exact(s, v, scale, sunk, given)
    # an lse in one single-precision number is off by its last place, and weights by as much
    off = right["lse"].abs().nan_to_num(posinf=0).clamp(min=1) * (3e-7 if told else 1e-8)
    found = {name: getattr(work.asked, name).numbers for name in NAMES}
    found |= {"lse": work.state[0].numbers.double() + work.state[1].numbers.double()}
    for name, value in found.items():
        scale_of = 1 + right[name].abs().nan_to_num(posinf=0)
        slack = (2e-6 + (off if name in ("squares", "away") else 0)) * scale_of
        wrong = (value.double() - right[name]).abs() > slack
        same = value.double() == right[name]  # −∞ both
        assert not (wrong & ~same).any() and not value.isnan().any(), name
    assert ((output.double() - right["output"]).abs() <= (8e-3 + off)[:, None]).all()


def test_nothing_shrinks_while_a_maximum_creeps() -> None:
    """Only the first tile that a row sees, and a leap, set the reference anew."""
    work = work_of(0.1, None, None)
    _, factors = swept(scores(), torch.zeros(COUNT, DIM, dtype=torch.bfloat16), work)
    later = torch.stack(factors[1:])
    creeping, leaping = 4, 2  # of the rows that see all
    assert (later[:, creeping] == 1).all()
    assert (later[:, leaping] < 1).all()


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("place", [3, 400, COUNT - 1])
def test_what_is_no_number_stays_in_its_row(value: float, place: int) -> None:
    s, v = scores(), torch.ones(COUNT, DIM, dtype=torch.bfloat16)
    clean, bad = work_of(0.1, None, None), work_of(0.1, None, None)
    right, _ = swept(s, v, clean)
    s[0, place] = value
    output, _ = swept(s, v, bad)
    assert output[0].isnan().all() and torch.equal(output[1:], right[1:])
    for one, other in zip(bad.state, clean.state, strict=True):
        assert torch.equal(one.numbers[1:], other.numbers[1:])
    assert bad.state[0].numbers[0].isnan() and bad.asked.entropy.numbers[0].isnan()
