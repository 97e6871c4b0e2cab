"""Maps of heads: every level of tiles, the pyramid and what a page carries against the matrix, also
while a recording grows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recording.cases import CASES, masks
from regard.errors import InputError, UnavailableError
from regard.mask import Causal
from regard.recording import Recording
from regard.recording import open as open_recording
from regard.recording.format.write import annotate
from regard.recording.replay import Replay
from regard.recording.visibility import Sight, seen_cells
from regard.viewer.opened import Opened
from regard.views import tiles
from regard.views.cache import Cache
from regard.views.pixels import TILE
from regard.views.pyramid import doubled, pyramid_of
from regard.views.sightlines import sightlines_of
from regard.views.tiles import HeadMap, levels_of
from regard.views.uniform import HIDDEN, encode_times, make_cells
from support.recordings import Chunk, in_memory, write_recording

NAMES = [name for name in CASES if "saturated" not in name]


def _maps(name, **options):
    case = CASES[name]
    store, made = write_recording(chunks=case.chunks, **(case.options | options))
    prompt = Recording(store).prompts[0]
    return prompt, [HeadMap(prompt, head, Cache(2**24), "t") for head in prompt], made


def _whole(one, level, how):
    """The map put together from its tiles."""
    rows, keys = one.size(level)
    across = range(-(-keys // TILE))
    lines = [
        np.concatenate([one.tile(level, y, x, how).codes for x in across], axis=1)
        for y in range(-(-rows // TILE))
    ]
    found = np.concatenate(lines)
    assert not found[rows:].any()
    assert not found[:, keys:].any()
    return found[:rows, :keys]


def _definition(made, head, level, how, recorded):
    """Codes from the dense matrix alone."""
    keep = np.zeros(made.place.queries, bool)
    keep[recorded.start : recorded.stop] = True
    seen = made.truth.exact.visible[head].numpy() & keep[:, None]
    weights = made.truth.weights()[head] * keep[:, None]
    visible = seen.sum(1)
    even = seen / np.maximum(visible, 1)[:, None]

    def pool(cells, reduce):
        for axis in (0, 1):
            cells = reduce.reduceat(cells, np.arange(0, cells.shape[axis], level), axis=axis)
        return cells

    hidden = pool(even, np.add) == 0
    if how == "mean":
        times = pool(weights, np.add) / np.where(hidden, 1, pool(even, np.add))
    else:
        times = pool(weights * visible[:, None], np.maximum)
    return encode_times(times, hidden).codes


def _check(found, want):
    np.testing.assert_array_equal(found == HIDDEN, want == HIDDEN)
    assert np.abs(found.astype(int) - want).max(initial=0) <= 1


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", NAMES)
def test_levels_put_together_from_finer_ones_are_the_dense_matrix(name, monkeypatch):
    monkeypatch.setattr(tiles, "_KEPT_LEVEL", 1)
    _, maps, made = _maps(name, statistics=False)
    for one in maps[::3]:
        for how in ("mean", "max"):
            for level in levels_of(one.head, how):
                want = _definition(made, one.head.head, level, how, one.head.recorded)
                _check(_whole(one, level, how), want)


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


@settings(max_examples=20, deadline=None)
@given(problems(), st.integers(0, 3), st.data())
def test_any_map_its_pyramid_and_what_a_page_carries(given: Any, head: int, data: Any) -> None:
    """Tiles of every level are the dense matrix; the pyramid is what they show; of some rows each
    visible cell is carried once."""
    store, made = write_recording(**given, statistics=False)
    prompt = Recording(store).prompts[0]
    one = prompt[0, head]
    head_map = HeadMap(prompt, one, Cache(2**24), "t")
    for how in ("mean", "max"):
        levels = levels_of(one, how)
        for level in levels:
            want = _definition(made, head, level, how, one.recorded)
            _check(_whole(head_map, level, how), want)
        assert levels[-1] * TILE >= made.place.keys
    for level in pyramid_of(one, head_map.sight, head_map, 1):
        if level.tokens in levels_of(one):
            assert np.abs(_whole(head_map, level.tokens, "mean") - 1.0 * level.mean).max() <= 1
        if level.max is not None and level.tokens in levels_of(one, "max"):
            np.testing.assert_array_equal(_whole(head_map, level.tokens, "max"), level.max)
    some = data.draw(st.sets(st.sampled_from(list(one.recorded)), max_size=9))
    rows, keys = np.array(sorted(some), np.int64), made.place.keys
    lines = sightlines_of(head_map.sight, rows)
    seen = made.truth.exact.visible[head].numpy()[rows]
    cells = np.arange(rows.size * keys, dtype=float).reshape(rows.size, keys)
    assert lines.cells == seen.sum() and lines.counts.size == rows.size
    np.testing.assert_array_equal(lines.chosen(cells, 0, rows.size), cells[seen])
    np.testing.assert_array_equal(seen_cells(head_map.sight, rows, np.arange(keys)), seen)
    sent = lines.as_dict()
    again = np.arange(*sent["span"]) if sent["rows"] is None else np.array(sent["rows"])
    assert again.tolist() == rows.tolist()


def test_levels_of_a_pyramid_double_until_one_tile_holds_all():
    assert doubled(1, (700, 700)) == [1, 2, 4]
    assert doubled(4, (100, 900)) == [4]
    assert doubled(1, (256, 256)) == [1]
    _, (one, *_), _ = _maps("causal", exact=False)  # without q and k it begins at the stored cell
    first, *_ = levels = pyramid_of(one.head, one.sight, one, 1)
    assert first.tokens == one.head.place.pool_cell and all(each.max is None for each in levels)


def test_rows_that_follow_one_another_are_told_as_a_span():
    sight = Sight(in_memory()[0].prompts[0].held("L0"), 0)
    whole = sightlines_of(sight, np.arange(12)).as_dict()
    assert (whole["span"], whole["rows"], whole["counts"]) == ([0, 12], None, None)
    assert whole["edges"][:6] == [0, 1, 0, 2, 0, 3]
    some = sightlines_of(sight, np.array([2, 7])).as_dict()
    assert (some["span"], some["rows"], some["edges"]) == (None, [2, 7], [0, 3, 0, 8])
    none = sightlines_of(sight, np.zeros(0, np.int64)).as_dict()
    assert (none["span"], none["edges"]) == ([0, 0], [])


def test_no_cell_is_swept_twice_for_coarse_levels(monkeypatch):
    monkeypatch.setattr(tiles, "_KEPT_LEVEL", 1)
    _, maps, _ = _maps("causal", statistics=False)
    calls = []
    maps[0].tile(4, 0, 0, "mean", lambda: calls.append(1))
    assert calls
    del calls[:]
    for level, y, x in ((2, 0, 0), (2, 1, 1), (1, 2, 0)):
        assert maps[0].tile(level, y, x, "mean", lambda: calls.append(1)).codes.any()
    assert not calls


def test_what_was_done_for_a_tile_that_is_given_up_is_kept(monkeypatch):
    monkeypatch.setattr(tiles, "_KEPT_LEVEL", 1)
    _, alone, _ = _maps("causal", statistics=False)
    calls = []
    want = alone[0].tile(4, 0, 0, "mean", lambda: calls.append(1)).codes
    whole, patience = len(calls), len(calls) // 2
    _, maps, _ = _maps("causal", statistics=False)

    def go_on():
        calls.append(1)
        if len(calls) > patience:
            raise InterruptedError

    del calls[:]
    with pytest.raises(InterruptedError):
        maps[0].tile(4, 0, 0, "mean", go_on)
    del calls[:]
    np.testing.assert_array_equal(
        maps[0].tile(4, 0, 0, "mean", lambda: calls.append(1)).codes, want
    )
    assert 0 < len(calls) <= whole - patience


def test_where_nothing_may_be_seen_nothing_is_computed(monkeypatch):
    _, maps, _ = _maps("causal", statistics=False, lse=False)

    def fail(*_):
        raise AssertionError("a row was computed")

    monkeypatch.setattr(Replay, "state", fail)
    assert not maps[0].tile(1, 0, 2).codes.any()
    with pytest.raises(AssertionError, match="a row was computed"):
        maps[0].tile(1, 1, 1)


def test_what_is_ready_is_what_is_stored_or_was_computed():
    _, maps, _ = _maps("causal", pool_cell=2)
    one = maps[0]
    np.testing.assert_array_equal(one.ready_tile(4, 0, 0).codes, one.tile(4, 0, 0).codes)
    for level, how in ((1, "mean"), (4, "max")):
        assert one.ready_tile(level, 0, 0, how) is None
        made = one.tile(level, 0, 0, how)
        assert one.ready_tile(level, 0, 0, how) is made
    with pytest.raises(InputError, match="does not exist"):
        one.ready_tile(4, 1, 0)


def test_stored_and_computed_levels_agree():
    prompt, maps, made = _maps("causal", pool_cell=2)
    assert levels_of(maps[0].head) == [1, 2, 4]
    for level in (2, 4):
        want = _definition(made, 0, level, "mean", maps[0].head.recorded)
        _check(_whole(maps[0], level, "mean"), want)
        times = make_cells(prompt, maps[0].head, level, "mean").times
        _check(_whole(maps[0], level, "mean"), encode_times(times, np.isnan(times)).codes)


@pytest.mark.parametrize("name", ["causal", "window", "cross", "tables", "chunks"])
def test_a_head_without_q_and_k_is_cut_from_its_map(name):
    _, maps, made = _maps(name, exact=False, pool_cell=3)
    for one in maps[::3]:
        assert levels_of(one.head) == [3]
        want = _definition(made, one.head.head, 3, "mean", one.head.recorded)
        _check(_whole(one, 3, "mean"), want)


def test_levels_of_an_odd_cell_go_on_from_it():
    _, maps, _ = _maps("causal", pool_cell=3)
    assert levels_of(maps[0].head) == [1, 2, 3]
    assert levels_of(maps[0].head, "max") == [1, 2, 4]


def test_what_is_not_there_is_an_error():
    _, maps, _ = _maps("causal")
    one = maps[0]
    for level, y, x in ((1, 3, 0), (1, 0, 3), (4, 1, 0), (1, -1, 0)):
        with pytest.raises(InputError, match="does not exist"):
            one.tile(level, y, x)
    for level in (0, 3, 5, -1, 2**40):
        with pytest.raises(InputError, match="tokens a pixel; there are 1, 2, 4"):
            one.tile(level, 0, 0)
    _, maps, _ = _maps("causal", exact=False)
    assert levels_of(maps[0].head, "max") == []
    with pytest.raises(UnavailableError, match="no map of maxima"):
        maps[0].tile(16, 0, 0, "max")
    _, maps, _ = _maps("causal", exact=False, statistics=False)
    with pytest.raises(InputError, match="no map was kept"):
        maps[0].tile(1, 0, 0)


def test_a_tile_is_computed_once_and_can_be_given_up():
    _, maps, _ = _maps("causal", statistics=False)
    calls = []
    for _ in range(2):
        maps[0].tile(1, 1, 0, "mean", lambda: calls.append(1))
    assert len(calls) == 1

    class GivenUpError(Exception):
        pass

    def give_up():
        raise GivenUpError

    with pytest.raises(GivenUpError):
        maps[0].tile(1, 2, 0, "mean", give_up)
    assert maps[0].tile(1, 2, 0).codes.any()


def test_what_would_take_too_long_is_not_offered(monkeypatch):
    _, maps, _ = _maps("causal", pool_cell=4)
    monkeypatch.setattr(tiles, "_MOST_CELLS", 512**2)
    assert levels_of(maps[0].head) == [1, 2, 4]
    assert levels_of(maps[0].head, "max") == [1, 2]
    monkeypatch.setattr(tiles, "_MOST_CELLS", 256**2)
    assert levels_of(maps[0].head) == [1, 4]


@pytest.mark.parametrize("lse", [True, False])
def test_threads_share_a_map(lse):
    _, alone, _ = _maps("causal", statistics=False, lse=lse)
    want = _whole(alone[0], 1, "mean")
    _, shared, _ = _maps("causal", statistics=False, lse=lse)
    where = [(y, x) for y in range(3) for x in range(3)] * 2
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda at: shared[0].tile(1, *at).codes, where))
    for (y, x), codes in zip(where, found, strict=True):
        part = want[y * TILE : (y + 1) * TILE, x * TILE : (x + 1) * TILE]
        np.testing.assert_array_equal(codes[: part.shape[0], : part.shape[1]], part)


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
        codes = _whole(served.head_map(0, "L0H1"), 1, "mean")
        rows = len(head.recorded)
        assert not codes[rows:].any() and (codes[:rows, 0] > 0).all()
        seen.append(rows)
    assert seen == sorted(seen) and seen[0] < seen[-1] == 80
    truth = made.truth.weights()[1] * np.arange(1, 81)[:, None]
    right = encode_times(truth, ~made.truth.exact.visible[1].numpy()).codes
    assert np.abs(codes.astype(int) - right).max() <= 1


def test_a_look_at_a_finished_file_costs_nothing(tmp_path: Any) -> None:
    path = tmp_path / "a.regard"
    write_recording(path, chunks=[Chunk((0, 20), (0, 20), Causal())])
    served = Opened(open_recording(path))
    assert not served.refresh() and served.revision == 0
    annotate(path, {"check": '{"rows": 3}'})
    assert served.refresh() and served.recording.check == {"rows": 3}
    assert not served.refresh() and served.revision == 1
    sight = Sight(served.prompt(0).held("L0"), 0)
    assert sight.visible().tolist() == list(range(1, 21))
    served.close()
