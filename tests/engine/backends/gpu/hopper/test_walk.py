"""Which rows a program gets and which tiles they walk: the kernel's own lines, run as Python."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from regard.engine.backends.gpu.hopper import walk as page
from regard.engine.backends.gpu.hopper.work import Schedule, Sight

ROWS = KEYS = 128


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The language's few scalar words, for program `number` of `many`."""
    own = SimpleNamespace(number=0, many=1)
    words = SimpleNamespace(
        minimum=min, maximum=max, program_id=lambda axis: own.number,
        num_programs=lambda axis: own.many, load=lambda at: at.value,
    )  # fmt: skip
    monkeypatch.setattr(page, "gl", words)
    return own


def dealt(
    program: SimpleNamespace, units: int, blocks: int, crowd: int, many: int
) -> list[list[tuple[int, int]]]:
    """Every program's (unit, block), in its order."""
    plan, hands = Schedule(units * blocks, blocks, base=0, tall=0, crowd=crowd), []
    for number in range(many):
        program.number, program.many = number, many
        hands.append([page.deal.fn(turn, plan) for turn in range(page.turns_of.fn(plan))])
    return hands


@pytest.mark.parametrize("many", [1, 2, 7, 132])
@pytest.mark.parametrize(
    ("units", "blocks", "crowd"), [(1, 1, 1), (3, 5, 1), (3, 5, 3), (10, 13, 4), (64, 32, 64)]
)
def test_every_block_is_dealt_once(
    program: SimpleNamespace, many: int, units: int, blocks: int, crowd: int
) -> None:
    hands = dealt(program, units, blocks, crowd, many)
    every = sorted(item for hand in hands for item in hand)
    assert every == [(unit, block) for unit in range(units) for block in range(blocks)]
    assert max(map(len, hands)) - min(map(len, hands)) <= 1


@pytest.mark.parametrize(("units", "blocks"), [(16, 128), (64, 32)])
def test_causal_walks_even_out(program: SimpleNamespace, units: int, blocks: int) -> None:
    """Block n walks n + 1 tiles; no program walks much more than its share."""
    hands = dealt(program, units, blocks, units, 132)
    tiles = [sum(block + 1 for _, block in hand) for hand in hands]
    assert max(tiles) <= 1.03 * sum(tiles) / len(tiles)


# ── walks ────────────────────────────────────────────────────────────────────────────────────


def sight_of(queries: int, keys: int, least: int | None, most: int | None) -> Sight:
    return Sight(
        heads=1, group=1, queries=queries, keys=keys, position=0, scale=1.0, least=least, most=most,
        low=None, high=None, span_stride=0, ranges=None, range_stride=0, sink=None,
    )  # fmt: skip


def visible(sight: Sight, i: int) -> range:
    low = 0 if sight.least is None else max(0, i + sight.least)
    high = sight.keys if sight.most is None else min(sight.keys, i + sight.most + 1)
    return range(low, max(low, high))


@pytest.mark.parametrize(
    "sight",
    [
        sight_of(300, 300, None, None), sight_of(1, 1, None, None), sight_of(300, 1000, None, None),
        sight_of(300, 300, None, 0), sight_of(300, 500, None, 200), sight_of(500, 300, None, -200),
        sight_of(700, 700, -100, 0), sight_of(700, 700, -3, 5), sight_of(700, 700, 0, 0),
        sight_of(600, 640, -90, 240), sight_of(256, 256, -400, 0), sight_of(300, 300, 40, None),
        sight_of(300, 300, 299, None), sight_of(300, 200, 250, None),
        sight_of(300, 300, None, -400),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.usefixtures("program")
def test_a_walk_visits_what_is_seen_and_masks_what_is_hidden(sight: Sight) -> None:
    for first in range(0, sight.queries, ROWS):
        last, right, left, count = page.walk.fn(sight, 0, first, ROWS, KEYS)
        rows = range(first, min(first + ROWS, sight.queries))
        seen = {j // KEYS for i in rows for j in visible(sight, i)}
        visited = [last - step for step in range(count)]
        assert seen <= set(visited) and count >= 1 and min(visited) >= 0
        assert 1 <= right <= left <= count
        for tile in visited[right:left]:
            whole = range(tile * KEYS, (tile + 1) * KEYS)
            assert all(set(whole) <= set(visible(sight, i)) for i in rows)
        if sight.least is None:  # masked tiles first, and only plain ones behind them
            assert left == count
        if sight.most is None:
            assert right == 1


class Table:
    """A pointer into numbers."""

    def __init__(self, numbers: list[int], place: int = 0) -> None:
        self.numbers, self.place = numbers, place

    def __add__(self, ahead: int) -> Table:
        return Table(self.numbers, self.place + ahead)

    @property
    def value(self) -> int:
        return self.numbers[self.place]


@pytest.mark.usefixtures("program")
def test_spans_come_from_a_table() -> None:
    """Of batch entry 1 the second block: tiles 1 to 5, whole ones 2 to 3. Rows that see nothing
    walk one masked tile."""
    for numbers, stride, place, right in (
        ([*[0] * 12, 1, 2, 4, 6], 8, (1, 128), (5, 2, 4, 5)),
        ([2, 3, 3, 0], 0, (0, 0), (2, 1, 1, 1)),
    ):  # fmt: skip
        sight = sight_of(256, 1000, None, None)
        sight = sight._replace(ranges=Table(numbers), range_stride=stride)
        assert page.walk.fn(sight, *place, ROWS, KEYS) == right
