"""Heads of random sizes, cuts, masks and rules, asked everything, against the dense definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.mask import Causal, Documents, Mask, Padding, Prefix, Table, Window
from regard.recording import Memory, Recording
from regard.score import ALiBi, BiasTable, ScoreRule
from support.recordings import Chunk, write_recording

_HEADS = 4


@st.composite
def masks(draw: Any, queries: int, keys: int) -> Mask | None:
    """Of any kind that a recording can write down, one condition or two."""
    dice = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    kinds: list[Any] = [
        None,
        Causal(),
        Causal("start"),
        Window(draw(st.integers(0, 12))),
        Window(draw(st.integers(0, 5)), draw(st.integers(0, 5))),
        Causal() | Prefix(torch.tensor(draw(st.integers(0, keys)))),
        Padding(torch.tensor(draw(st.integers(0, keys)))),
        Padding(torch.rand(keys, generator=dice) > 0.4),
        Table(torch.rand(queries, keys, generator=dice) > 0.4),
        Table(torch.rand(_HEADS, queries, keys, generator=dice) > 0.4),
        Documents(
            torch.randint(0, 3, (queries,), generator=dice).sort().values,
            torch.randint(0, 3, (keys,), generator=dice).sort().values,
        ),
    ]
    one, other = draw(st.sampled_from(kinds)), draw(st.sampled_from(kinds))
    return one if one is None or other is None else one & other


@st.composite
def rules(draw: Any, queries: int, keys: int) -> ScoreRule:
    """Scale, cap, bias and sink in any company."""
    dice = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    biases = [
        None,
        ALiBi(torch.rand(_HEADS, generator=dice)),
        BiasTable(torch.randn(_HEADS, queries, keys, generator=dice)),
        BiasTable(torch.randn(1, queries, keys, generator=dice)),
    ]
    return ScoreRule(
        draw(st.sampled_from([0.1, 0.25, 1.0])),
        draw(st.sampled_from([None, 2.0, 30.0])),
        draw(st.sampled_from(biases)),
        draw(st.sampled_from([None, torch.randn(_HEADS, generator=dice)])),
    )


@st.composite
def problems(draw: Any) -> dict[str, Any]:
    """Segments one after another; each sees keys from the first on."""
    cuts = draw(st.lists(st.integers(1, 40), min_size=1, max_size=3))
    chunks, start = [], 0
    for count in cuts:
        stop = start + count
        rows = (start, stop)
        mask = draw(masks(count, stop))
        chunks.append(Chunk(rows, (0, stop), mask, draw(rules(count, stop))))
        start = stop
    return {
        "chunks": chunks,
        "key_heads": draw(st.sampled_from([1, 2, 4])),
        "dim": draw(st.sampled_from([1, 5, 16])),
        "pieces": draw(st.sampled_from([1, 7, 64])),
        "seed": draw(st.integers(0, 9)),
        "pool_cell": draw(st.sampled_from([1, 4, 16])),
        "recorded": draw(st.sampled_from([None, (1, 3)])),
    }


@settings(max_examples=60, deadline=None)
@given(problems(), st.booleans())
def test_every_answer_is_the_definitions(given: dict[str, Any], stored: bool) -> None:
    """Computed again from q and k (`stored` false), or as it was written down."""
    store, made = write_recording(statistics=stored, **given)
    truth = made.truth.weights()
    seen = made.truth.exact.visible.numpy()
    for head in Recording(store):
        p, visible = truth[head.head], seen[head.head]
        near = {"atol": 2e-5, "rtol": 2e-4}
        assert head.exact, head.why_not
        np.testing.assert_allclose(head.dense(), p, **near)
        assert head.visible().tolist() == visible.sum(-1).tolist()
        sink = made.truth.exact.sink.numpy()[head.head]
        np.testing.assert_allclose(head.sink_mass(), sink, **near)
        np.testing.assert_allclose(p.sum(-1) + sink, visible.any(-1) | (sink > 0), **near)
        np.testing.assert_allclose(head.received(), p.sum(0), **near)
        np.testing.assert_allclose(head.peak().weights, p.max(-1), **near)
        np.testing.assert_allclose(head.concentration(), (p**2).sum(-1), **near)
        shares = np.concatenate([p, sink[:, None]], -1)
        entropy = -(shares * np.log(np.where(shares > 0, shares, 1))).sum(-1)
        np.testing.assert_allclose(head.entropy(), entropy, **near)
        queries, keys = p.shape
        by_distance = [np.trace(p, e - (queries - 1)) for e in range(queries + keys - 1)]
        np.testing.assert_allclose(head.offsets(), by_distance, **near)
        cell = 2 * made.place.pool_cell
        map_of = [[p[a : a + cell, b : b + cell].mean() for b in range(0, keys, cell)]
                  for a in range(0, queries, cell)]  # fmt: skip
        np.testing.assert_allclose(head.pooled(cell), map_of, **near)
        x = np.random.default_rng(0).standard_normal((keys, 2))
        np.testing.assert_allclose(head @ x, p @ x, atol=2e-4)


@settings(max_examples=20, deadline=None)
@given(problems(), st.data())
def test_a_file_answers_as_memory_does(
    tmp_path_factory: Any, given: dict[str, Any], data: st.DataObject
) -> None:
    """Bit for bit, whichever cells are asked for and in whatever pieces they were written."""
    memory, made = write_recording(statistics=False, **given)
    path = tmp_path_factory.mktemp("file") / "a.regard"
    write_recording(path, statistics=False, **given | {"pieces": 33})
    one = Recording(memory)[0, 1]
    with regard.open(path) as rec:
        other = rec[0, 1]
        rows = data.draw(st.lists(st.integers(0, made.place.queries - 1), max_size=4))
        np.testing.assert_array_equal(one.rows(rows), other.rows(rows))
        for row in rows:
            key = data.draw(st.integers(0, made.place.keys - 1))
            assert one[row, key] == other[row, key]


def test_nothing_is_recorded_of_an_empty_history() -> None:
    store = Memory()
    store.note({"contents": "attention/1"})
    assert len(Recording(store)) == 0 and Recording(store).prompts == []
