"""Tiles against the dense matrix: every kind of mask, ragged edges, rows left out, two lengths."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from recording.cases import CASES
from regard.errors import InputError, UnavailableError
from regard.recording import Recording
from regard.recording.replay import Replay
from regard.views import tiles
from regard.views.cache import Cache
from regard.views.pixels import TILE
from regard.views.tiles import HeadMap, levels_of
from regard.views.uniform import HIDDEN, encode_times, make_cells
from support.recordings import write_recording

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
def test_tiles_are_the_dense_matrix(name):
    _, maps, made = _maps(name, statistics=False)
    for one in maps[::3]:
        for level, how in ((1, "mean"), (1, "max")):
            if level in levels_of(one.head, how):
                want = _definition(made, one.head.head, level, how, one.head.recorded)
                _check(_whole(one, level, how), want)


@pytest.mark.parametrize("how", ["mean", "max"])
@pytest.mark.parametrize("level", [1, 2, 4])
def test_every_level_over_several_tiles(level, how):
    _, maps, made = _maps("causal", statistics=False)
    assert levels_of(maps[0].head, how) == [1, 2, 4]
    want = _definition(made, 0, level, how, maps[0].head.recorded)
    _check(_whole(maps[0], level, how), want)


@pytest.mark.sampled(14)
@pytest.mark.parametrize("how", ["mean", "max"])
@pytest.mark.parametrize("name", NAMES)
def test_levels_put_together_from_finer_ones_are_the_dense_matrix(name, how, monkeypatch):
    monkeypatch.setattr(tiles, "_KEPT_LEVEL", 1)
    _, maps, made = _maps(name, statistics=False)
    for one in maps[::3]:
        for level in levels_of(one.head, how)[1:]:
            want = _definition(made, one.head.head, level, how, one.head.recorded)
            _check(_whole(one, level, how), want)


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


@pytest.mark.parametrize("rows", [(30, 500), (257, 258), (0, 700)])
def test_rows_that_were_not_recorded_are_hidden(rows):
    _, maps, made = _maps("causal", statistics=False, rows=rows)
    for level in (1, 4):
        want = _definition(made, 0, level, "mean", range(*rows))
        _check(_whole(maps[0], level, "mean"), want)


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
