"""Statistics over many texts are what the rows of all of them come to."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
import torch

import regard
from recorder.models import tiny, tokens
from regard.errors import FileError, InputError
from regard.mask import Causal
from regard.recording import STATISTICS, Memory, Merged, Recording, Writer
from regard.recording.merged import MERGED_NOTE, merge_prompts, read_merged, written
from support.recordings import Chunk, write_recording

LENGTHS = (1, 2, 9, 70, 33)


@cache
def made(lengths: tuple[int, ...] = LENGTHS, heads: str | None = None) -> Recording:
    """Texts of these lengths through a model of 2 × 4 heads."""
    model = tiny("llama", num_key_value_heads=2)
    with torch.no_grad(), regard.record(model, heads=heads) as rec:
        for n, length in enumerate(lengths):
            model(tokens(length, seed=n))
    return rec.recording


def dense(layer: int, head: int) -> list[np.ndarray]:
    """The matrix of each text."""
    return [np.asarray(prompt[layer, head], np.float64) for prompt in made().prompts]


def by_rows(of: object) -> np.ndarray:
    """(layers, heads): the mean over all rows of all texts of what a function makes of a matrix;
    rows that are NaN are not counted."""
    found = np.zeros((2, 4))
    for layer, head in np.ndindex(2, 4):
        rows = np.concatenate([of(p, n) for n, p in enumerate(dense(layer, head))])
        found[layer, head] = np.nanmean(rows)
    return found


def earlier(n: int, distance: int) -> np.ndarray:
    """(rows, keys): where a row's token stood before, at least so far back, moved on by one where
    it is about what followed."""
    ids = made().prompts[n].ids
    same = (ids[:, None] == ids[None, :]) & np.tri(len(ids), k=-distance, dtype=bool)
    return same if distance == 1 else np.pad(same, ((0, 0), (1, 0)))[:, :-1]


def on_earlier(p: np.ndarray, n: int, distance: int) -> np.ndarray:
    where = earlier(n, distance)
    return np.where(where.any(-1), (p * where).sum(-1), np.nan)


def entropies(p: np.ndarray, _: int = 0) -> np.ndarray:
    return -(p * np.log(np.where(p > 0, p, 1))).sum(-1)


def normalized(p: np.ndarray, _: int) -> np.ndarray:
    most = np.log(np.arange(1, len(p) + 1))
    return np.where(most > 0, entropies(p) / np.where(most > 0, most, 1), np.nan)


BY_HAND = {
    "first": lambda p, _: p[:, 0],
    "self": lambda p, _: np.diagonal(p),
    "previous": lambda p, _: np.diagonal(p, -1),
    "entropy": entropies,
    "normalized_entropy": normalized,
    "peak": lambda p, _: p.max(-1),
    "sharp": lambda p, _: (p.max(-1) > 0.99).astype(float),
    "concentration": lambda p, _: (p * p).sum(-1),
    "duplicate": lambda p, n: on_earlier(p, n, 1),
    "prefix": lambda p, n: on_earlier(p, n, 2),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_a_mean_is_over_all_rows_of_all_texts(name):
    found = made().merged().grid(name)
    np.testing.assert_allclose(found, by_rows(BY_HAND[name]), rtol=2e-5, atol=1e-6)


def test_a_mean_of_means_would_be_another_number():
    rec = made()
    means = np.mean([rec.grid("entropy", prompt=n) for n in range(len(LENGTHS))], axis=0)
    assert np.abs(rec.merged().grid("entropy") - means).min() > 0.1


def test_the_largest_score_of_all_texts():
    rec = made()
    each = [rec.grid("max_score", prompt=n) for n in range(len(LENGTHS))]
    np.testing.assert_array_equal(rec.merged().grid("max_score"), np.max(each, axis=0))


@pytest.mark.parametrize("name", ["sink", "non_sink"])
def test_sinks_are_looked_for_in_each_text_and_weigh_by_its_rows(name):
    each = [made().grid(name, prompt=n) for n in range(len(LENGTHS))]
    mean = np.average(each, axis=0, weights=LENGTHS)
    np.testing.assert_allclose(made().merged().grid(name), mean, rtol=1e-12)


def test_sinks_and_the_rest_are_all_there_is():
    merged = made().merged()
    np.testing.assert_allclose(merged.grid("sink") + merged.grid("non_sink"), 1, atol=1e-5)


def test_norms_are_compared_with_the_layer_over_all_texts():
    rec = made()
    norms = np.zeros((2, 4))
    for layer, head in np.ndindex(2, 4):
        rows = [prompt[layer, head].stored["output_norm"].values for prompt in rec.prompts]
        norms[layer, head] = np.concatenate(rows).mean()
    wanted = norms / norms.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(rec.merged().grid("output_norm"), wanted, rtol=1e-5)


def test_rows_are_counted():
    merged = made().merged()
    every = sum(LENGTHS)
    assert (merged.documents, merged.tokens, merged.keys) == (5, every, 70)
    assert np.all(merged.rows("entropy") == every)
    assert np.all(merged.rows("previous") == every - len(LENGTHS))
    assert np.all(merged.rows("normalized_entropy") == every - len(LENGTHS))
    assert merged.counted("entropy").tolist() == [every] * 8


def test_one_text_is_itself_to_the_bit():
    for prompt in made().prompts:
        merged = merge_prompts([prompt])
        for name in STATISTICS:
            alone = prompt.grid(name)
            known = np.isfinite(alone)
            np.testing.assert_array_equal(merged.grid(name)[known], alone[known], err_msg=name)


@pytest.mark.parametrize("cut", range(len(LENGTHS) + 1))
def test_however_texts_are_shared_out(cut):
    prompts = made().prompts
    a, b = merge_prompts(prompts[:cut]), merge_prompts(prompts[cut:])
    whole = merge_prompts(prompts)
    for both in (a + b, b + a):
        assert (both.documents, both.tokens, both.keys) == (5, whole.tokens, 70)
        for name in STATISTICS:
            np.testing.assert_allclose(both.grid(name), whole.grid(name), rtol=1e-13)
            np.testing.assert_array_equal(both.rows(name), whole.rows(name))


def test_nothing_adds_nothing():
    whole = made().merged()
    for same in (Merged() + whole, whole + Merged()):
        for name in STATISTICS:
            np.testing.assert_array_equal(same.grid(name), whole.grid(name))
    assert (Merged() + Merged()).labels() == []
    assert Merged().numbers()["entropy"].shape == (0,)


def test_what_a_text_does_not_know_is_not_counted():
    """With keys in bins nobody knows the mass on delimiters."""
    rows = 64
    chunks = [Chunk((0, rows), (0, rows), Causal())]
    fine, _ = write_recording(chunks=chunks)
    binned, _ = write_recording(chunks=chunks, key_bin=2)
    a, b = Recording(fine), Recording(binned)
    assert np.isnan(b.grid("delimiter")).all() and np.isnan(b.merged().grid("delimiter")).all()
    both = a.merged() + b.merged()
    np.testing.assert_array_equal(both.grid("delimiter"), a.grid("delimiter"))
    assert np.all(both.rows("delimiter") == rows) and np.all(both.rows("entropy") == 2 * rows)


def test_other_heads_are_not_merged():
    with pytest.raises(InputError, match="heads 0, 1, 2, 3 of 4 in one text and 1 of 4 in another"):
        made().merged() + made(heads="1").merged()


def test_wrong_names_are_told():
    merged = made().merged()
    with pytest.raises(InputError, match="no statistic 'nonsense'; there are on sinks"):
        merged.grid("nonsense")
    with pytest.raises(InputError, match="no statistic"):
        merged.rows("nonsense")
    with pytest.raises(InputError, match="there is no stack 'cross'"):
        merged.grid("entropy", "cross")


def test_numbers_by_head_are_the_grid():
    merged = made(heads="1,3").merged()
    assert merged.labels() == ["L0H1", "L0H3", "L1H1", "L1H3"]
    grid = merged.grid("peak")
    assert merged.numbers()["peak"].tolist() == [grid[0, 1], grid[0, 3], grid[1, 1], grid[1, 3]]
    assert np.isnan(grid[:, 0]).all()


# ── in a file ────────────────────────────────────────────────────────────────────────────────


def kept(merged: Merged) -> Memory:
    store = Memory()
    words, tensors = written(merged)
    store.note({MERGED_NOTE: words})
    for name, array in tensors.items():
        store.add(name, array)
    return store


def test_written_is_read(tmp_path):
    merged = made().merged()
    words, tensors = written(merged)
    with Writer(tmp_path / "a.regard") as writer:
        writer.note({MERGED_NOTE: words})
        for name, array in tensors.items():
            writer.add(name, array)
    from regard.recording import Reader

    with Reader(tmp_path / "a.regard") as reader:
        found = read_merged(reader)
    assert found is not None
    assert (found.documents, found.tokens, found.keys) == (5, sum(LENGTHS), 70)
    for name in STATISTICS:
        np.testing.assert_array_equal(found.grid(name), merged.grid(name))
        np.testing.assert_array_equal(found.rows(name), merged.rows(name))


def test_a_recording_without_it_says_so():
    assert read_merged(Memory()) is None


def test_statistics_of_another_version_are_not_guessed_at():
    store = kept(made().merged())
    facts = json.loads(store.metadata[MERGED_NOTE])
    store.note({MERGED_NOTE: json.dumps(facts | {"statistics": ["entropy"]})})
    assert read_merged(store) is None


@pytest.mark.parametrize(
    "change",
    [
        {"documents": -1},
        {"tokens": "many"},
        {"keys": True},
        {"places": 5},
        {"places": [{}]},
        {"places": [{"stack": "", "layer": 0, "heads": [3, 1], "total_heads": 4}]},
        {"places": [{"stack": "", "layer": 0, "heads": [0, 9], "total_heads": 4}]},
        {"places": [{"stack": "", "layer": 9999, "heads": [0], "total_heads": 4}]},
        {"places": [{"stack": 7, "layer": 0, "heads": [0], "total_heads": 4}]},
        {"places": [{"stack": "", "layer": 0, "heads": [0], "total_heads": 4}]},
        {"places": [{"stack": "", "layer": 5, "heads": [0, 1, 2, 3], "total_heads": 4}]},
    ],
)
def test_what_cannot_be_is_an_error(change):
    store = kept(made().merged())
    facts = json.loads(store.metadata[MERGED_NOTE]) | change
    store.note({MERGED_NOTE: json.dumps(facts)})
    with pytest.raises(FileError, match="merged"):
        read_merged(store)


def test_a_note_that_is_no_json_is_an_error():
    for text in ("{", "[]", "5", "[" * 100_000):
        store = kept(made().merged())
        store.note({MERGED_NOTE: text})
        with pytest.raises(FileError, match="merged"):
            read_merged(store)
