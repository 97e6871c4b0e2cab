"""Plans for prompts of any length, from one short run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recorder.models import tiny, tokens
from regard.errors import InputError
from regard.recorder.drive import estimate
from regard.recorder.plan import Choice, make_plan


def test_a_plan_counts_the_chosen_layers_and_heads() -> None:
    model = tiny("llama", num_key_value_heads=2, num_hidden_layers=3)
    every = estimate(model, tokens(20), Choice())
    some = estimate(model, tokens(20), Choice.of("0,2", "1", None))
    assert every.plan(100, 10**9).places == 3
    long = [replace(size, queries=100, keys=100) for size in every.every]
    assert every.plan(100, 10**9) == make_plan(10**9, long)
    assert [(s.heads, s.key_heads, s.dim) for s in every.chosen] == [(4, 2, 8)] * 3
    assert [size.heads for size in some.chosen] == [1, 1]
    assert some.plan(100, 10**9).total_bytes < every.plan(100, 10**9).total_bytes
    assert 0 < every.seconds(100) < every.seconds(1000) < every.seconds(1000, generate=50)
    assert model.config._attn_implementation == "sdpa"


def test_what_does_not_exist_is_told_before_anything_runs() -> None:
    model = tiny("llama")
    with pytest.raises(InputError, match="layer 7 does not exist"):
        estimate(model, tokens(20), Choice.of("7", None, None))
    with pytest.raises(InputError, match="head 9 does not exist"):
        estimate(model, tokens(20), Choice.of(None, "9", None))
