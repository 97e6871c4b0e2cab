"""Maps of random heads: every tile of every level, the pyramid and the carried cells agree with
the matrix and with each other, also while a recording grows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recording.cases import masks
from regard.mask import Causal
from regard.recording import Recording
from regard.recording.visibility import Sight, seen_cells
from regard.viewer.opened import Opened
from regard.views.cache import Cache
from regard.views.pixels import TILE, Pixels
from regard.views.pyramid import pyramid_of
from regard.views.sightlines import sightlines_of
from regard.views.tiles import HeadMap, levels_of
from regard.views.uniform import HIDDEN, encode_times
from support.recordings import Chunk, write_recording


@st.composite
def problems(draw: Any) -> dict[str, Any]:
    """Sizes around a tile's edge and far below it, any mask, any piece of the rows."""
    queries = draw(st.sampled_from([1, 2, 63, TILE, TILE + 3]))
    keys = draw(st.sampled_from([1, 40, TILE - 1, 2 * TILE + 1]))
    rows = draw(st.sampled_from([(0, queries), (queries // 2, queries)]))
    return {
        "chunks": [Chunk((0, queries), (0, keys), draw(masks(queries, keys)))],
        "rows": rows, "kind": "cross", "tokens": False, "dim": 4,
        "pool_cell": draw(st.sampled_from([3, 16])), "seed": draw(st.integers(0, 9)),
    }  # fmt: skip


def opened(given: dict[str, Any], head: int, **options: Any) -> tuple[Any, HeadMap, Any]:
    store, made = write_recording(**given | options)
    prompt = Recording(store).prompts[0]
    one = prompt[0, head]
    return one, HeadMap(prompt, one, Cache(2**24), "t"), made


def whole(one: HeadMap, level: int, how: Any = "mean") -> np.ndarray:
    """The map put together from its tiles; beyond the matrix there is nothing."""
    rows, keys = one.size(level)
    down, across = (range(-(-n // TILE)) for n in (rows, keys))
    found = np.block([[one.tile(level, y, x, how).codes for x in across] for y in down])
    assert not found[rows:].any() and not found[:, keys:].any()
    return found[:rows, :keys]


@settings(max_examples=20, deadline=None)
@given(problems(), st.integers(0, 3), st.sampled_from(["mean", "max"]))
def test_every_level_is_the_matrix_in_cells(given: Any, head: int, how: str) -> None:
    one, head_map, made = opened(given, head, statistics=False)
    keep = np.zeros((made.place.queries, 1), bool)
    keep[one.recorded.start : one.recorded.stop] = True
    seen = made.truth.exact.visible[head].numpy() & keep
    weights, visible = made.truth.weights()[head] * keep, seen.sum(1)
    even = seen / np.maximum(visible, 1)[:, None]
    for level in levels_of(one, how):
        cuts = [np.arange(0, n, level) for n in seen.shape]

        def pool(cells: np.ndarray, reduce: Any, cuts: Any = cuts) -> np.ndarray:
            return reduce.reduceat(reduce.reduceat(cells, cuts[0], 0), cuts[1], 1)

        hidden = pool(even, np.add) == 0
        times = pool(weights, np.add) / np.where(hidden, 1, pool(even, np.add))
        if how == "max":
            times = pool(weights * visible[:, None], np.maximum)
        found, right = whole(head_map, level, how), encode_times(times, hidden).codes
        assert ((found == HIDDEN) == (right == HIDDEN)).all()
        assert np.abs(found.astype(int) - right).max(initial=0) <= 1
    assert whole(head_map, levels_of(one, how)[-1], how).shape[1] <= TILE


@settings(max_examples=10, deadline=None)
@given(problems(), st.integers(0, 3))
def test_a_pages_pyramid_is_what_the_tiles_show(given: Any, head: int) -> None:
    one, head_map, _ = opened(given, head, statistics=False)
    for level in pyramid_of(one, head_map.sight, head_map, 1):
        if level.tokens in levels_of(one):
            assert np.abs(whole(head_map, level.tokens).astype(int) - level.mean).max() <= 1
        if level.max is not None and level.tokens in levels_of(one, "max"):
            np.testing.assert_array_equal(whole(head_map, level.tokens, "max"), level.max)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_rows_and_keys_may_come_in_any_pieces(data: Any) -> None:
    """A tile that is folded piece by piece is the tile that is folded at once."""
    rows, keys = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 30))
    level, how = data.draw(st.integers(1, 5)), data.draw(st.sampled_from(["mean", "max"]))
    dice = np.random.default_rng(data.draw(st.integers(0, 99)))
    seen = dice.random((rows, keys)) < 0.7
    scores = np.where(seen, 1.0, -np.inf)
    weights, visible = np.where(seen, dice.random((rows, keys)), 0.0), seen.sum(1)
    once, often = Pixels(level, 0, 0, how), Pixels(level, 0, 0, how)
    once.fold(np.arange(rows), 0, (scores, weights), visible)
    cuts = [
        sorted({0, n, *data.draw(st.lists(st.integers(0, n), max_size=3))}) for n in (rows, keys)
    ]
    for top, bottom in zip(cuts[0], cuts[0][1:], strict=False):
        for left, right in zip(cuts[1], cuts[1][1:], strict=False):
            part = np.s_[top:bottom, left:right]
            band = np.arange(top, bottom)
            often.fold(band, left, (scores[part], weights[part]), visible[top:bottom])
    assert np.abs(once.codes().codes.astype(int) - often.codes().codes).max() <= 1
    np.testing.assert_array_equal(once.codes().codes == HIDDEN, often.codes().codes == HIDDEN)


@settings(max_examples=20, deadline=None)
@given(problems(), st.integers(0, 3), st.data())
def test_a_page_carries_each_visible_cell_once(given: Any, head: int, data: Any) -> None:
    one, head_map, made = opened(given, head, statistics=False)
    sight = head_map.sight
    some = data.draw(st.sets(st.sampled_from(list(one.recorded)), max_size=9))
    rows = np.array(sorted(some), np.int64)
    lines = sightlines_of(sight, rows)
    keys = made.place.keys
    seen = made.truth.exact.visible[head].numpy()[rows]
    cells = np.arange(rows.size * keys, dtype=float).reshape(rows.size, keys)
    assert lines.cells == seen.sum() and lines.counts.size == rows.size
    np.testing.assert_array_equal(lines.chosen(cells, 0, rows.size), cells[seen])
    np.testing.assert_array_equal(seen_cells(sight, rows, np.arange(keys)), seen)
    told = lines.as_dict()
    again = np.arange(*told["span"]) if told["rows"] is None else np.array(told["rows"])
    assert again.tolist() == rows.tolist()


# ── while it grows ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pieces", [16, 40])
def test_maps_of_a_growing_recording_are_made_anew(pieces: int) -> None:
    """What was drawn of the rows so far is not served for those that came since."""
    full, made = write_recording(
        chunks=[Chunk((0, 80), (0, 80), Causal())], pieces=pieces, statistics=False
    )
    grown = type(full)()
    grown.note(full.metadata)
    served = Opened(Recording(grown))
    seen: list[int] = []
    for name in sorted(full.entries, key=lambda name: int(name.rpartition("/")[2])):
        grown.add(name, full.words(name), full.entries[name].metadata)
        assert served.refresh() and not served.refresh()
        head = served.recording.prompts[0]["L0H1"] if served.recording.labels() else None
        if head is None or not head.exact:
            continue
        codes = whole(served.head_map(0, "L0H1"), 1)
        rows = len(head.recorded)
        assert not codes[rows:].any() and (codes[:rows, 0] > 0).all()
        seen.append(rows)
    assert seen == sorted(seen) and seen[0] < seen[-1] == 80
    truth = made.truth.weights()[1] * np.arange(1, 81)[:, None]
    right = encode_times(truth, ~made.truth.exact.visible[1].numpy()).codes
    assert np.abs(codes.astype(int) - right).max() <= 1


def test_a_look_at_a_finished_file_costs_nothing(tmp_path: Any) -> None:
    import regard
    from regard.recording.format.write import annotate

    path = tmp_path / "a.regard"
    write_recording(path, chunks=[Chunk((0, 20), (0, 20), Causal())])
    served = Opened(regard.open(path))
    assert not served.refresh() and served.revision == 0
    annotate(path, {"check": '{"rows": 3}'})
    assert served.refresh() and served.recording.check == {"rows": 3}
    assert not served.refresh() and served.revision == 1
    sight = Sight(served.prompt(0).held("L0"), 0)
    assert sight.visible().tolist() == list(range(1, 21))
    served.close()
