"""Small pictures of all heads, against the dense truth."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from regard.errors import InputError
from regard.mask import Causal, Window
from regard.recording import Memory, Recording, open
from regard.viewer import answers
from regard.viewer.opened import Opened
from regard.views import thumbnails
from regard.views.thumbnails import NONE, SAMPLED, WHOLE, thumbnails_of
from regard.views.uniform import encode_times
from support.recordings import STATES, WORDS, Chunk, in_memory, make_state, write
from viewer.served import make_opened

LONG = [WORDS[n % len(WORDS)] for n in range(600)]


def _expected(made, head, side):
    """From the dense matrix: Σ weights ÷ Σ 1/visible in each of side × side parts."""
    weights = made.truth.weights()[head]
    seen = made.truth.exact.visible.numpy()[head]
    even = seen / np.maximum(seen.sum(1, keepdims=True), 1)
    cells = [np.arange(n) * side // n for n in weights.shape]
    sums = np.zeros((2, side, side))
    for n, one in enumerate((weights, even)):
        np.add.at(sums[n], (cells[0][:, None], cells[1]), one)
    hidden = sums[1] == 0
    return encode_times(sums[0] / np.where(hidden, 1, sums[1]), hidden).codes


def _close(a, b):
    """Equal but for rounding, which may move a code by one."""
    assert a.shape == b.shape
    assert np.array_equal(a == 0, b == 0)
    assert np.abs(a.astype(int) - b.astype(int)).max() <= 1


@pytest.mark.parametrize(("tokens", "asked", "side"), [(100, 20, 20), (12, 32, 12)])
def test_computed_ones_equal_the_truth(tokens, asked, side):
    """A pixel for each token where there are fewer of them."""
    rec, made = in_memory([WORDS[n % 12] for n in range(tokens)], exact=(0, 1))
    found = thumbnails_of(rec.prompts[0], "", asked)
    assert found.codes.shape == (2, 4, side, side) and (found.kinds == WHOLE).all()
    for layer in range(2):
        for head in range(4):
            _close(found.codes[layer, head], _expected(made[0, layer], head, side))


@pytest.mark.parametrize("mask", [Causal(), Causal() & Window(90, 0), None])
def test_stored_maps_equal_the_truth(mask):
    chunks = [Chunk((0, 256), (0, 256), mask)]
    rec, made = in_memory(LONG[:256], exact=(), chunks=chunks, layers=1)
    for side in (16, 8):  # one cell of 16 tokens a pixel, or four
        found = thumbnails_of(rec.prompts[0], "", side)
        assert (found.kinds == WHOLE).all()
        for head in range(4):
            _close(found.codes[0, head], _expected(made[0, 0], head, side))


def test_queries_and_keys_are_stretched_to_a_square(tmp_path):
    with open(make_state(tmp_path / "cross.regard", "cross")) as rec:
        found = thumbnails_of(rec.prompts[0], "cross")
    assert found.codes.shape == (1, 4, 32, 32)
    assert (found.codes > 0).all()  # nothing is hidden: 40 queries see 120 keys


def test_rows_are_sampled_where_all_would_take_too_long(monkeypatch):
    monkeypatch.setattr(thumbnails, "_BUDGET", 4 * 40 * 300)
    rec, made = in_memory(LONG[:300], exact=(0,), layers=1, statistics=False)
    found = thumbnails_of(rec.prompts[0], "", 20)
    assert (found.kinds == SAMPLED).all()
    truth = _expected(made[0, 0], 1, 20)
    assert np.array_equal(found.codes[0, 1] == 0, truth == 0)
    monkeypatch.setattr(thumbnails, "_BUDGET", 4 * 19 * 300)
    assert (thumbnails_of(rec.prompts[0], "", 20).kinds == NONE).all()


def test_heads_without_a_map_are_marked(tmp_path):
    with open(make_state(tmp_path / "none.regard", "no maps")) as rec:
        found = thumbnails_of(rec.prompts[0], "")
    assert (found.kinds == NONE).all() and not found.codes.any()
    with open(make_state(tmp_path / "some.regard", "some heads")) as rec:
        found = thumbnails_of(rec.prompts[0], "")
    assert found.kinds.tolist() == [[WHOLE, NONE, NONE, WHOLE]] * 2


@pytest.mark.parametrize("name", [name for name in STATES if name != "empty"])
def test_every_state_can_be_drawn(tmp_path, name):
    one = Opened(open(make_state(tmp_path / "one.regard", name)))
    for stack in answers.overview(one)["stacks"]:
        found = answers.thumbnails(one, 0, stack["name"])
        assert found.kinds.shape == (stack["layers"], stack["heads"])
        assert len(found.tobytes()) == found.nbytes
    one.close()


def test_others_are_answered_while_they_are_made(tmp_path, monkeypatch):
    one, real = make_opened(tmp_path), answers.thumbnails_of

    def while_another_asks(*given):
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(answers.head_facts, one, 0, "L0H0").result(timeout=120)
        return real(*given)

    monkeypatch.setattr(answers, "thumbnails_of", while_another_asks)
    made = answers.thumbnails(one)
    assert made.kinds.any() and answers.thumbnails(one) is made  # made once


def test_wrong_requests():
    rec, _ = in_memory()
    with pytest.raises(InputError, match="side=65; give 1 to 64"):
        thumbnails_of(rec.prompts[0], "", 65)
    with pytest.raises(InputError, match="there is no stack 'encoder'"):
        thumbnails_of(rec.prompts[0], "encoder")


def test_work_can_be_given_up():
    store = Memory()
    write(store, exact=(0, 1))

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        thumbnails_of(Recording(store).prompts[0], "", 8, stop)
