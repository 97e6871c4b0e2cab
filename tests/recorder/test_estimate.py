"""Plans for prompts of any length, from one short run."""

from __future__ import annotations

import pytest

from recorder.models import tiny, tokens
from regard.errors import InputError
from regard.recorder.choice import Choice
from regard.recorder.estimate import estimate
from regard.recorder.plan import make_plan


def test_a_plan_counts_the_chosen_layers_and_heads() -> None:
    model = tiny("llama", num_key_value_heads=2, num_hidden_layers=3)
    every = estimate(model, tokens(20), Choice())
    some = estimate(model, tokens(20), Choice.of("0,2", "1", None))
    assert every.plan(100, 10**9).places == 3
    assert every.plan(100, 10**9) == make_plan(10**9, every.seen.scaled(100))
    assert [size.heads for size in some.chosen.sizes] == [1, 1]
    assert some.plan(100, 10**9).total_bytes < every.plan(100, 10**9).total_bytes
    assert 0 < every.seconds(100) < every.seconds(1000)


def test_what_does_not_exist_is_told_before_anything_runs() -> None:
    model = tiny("llama")
    with pytest.raises(InputError, match="layer 7 does not exist"):
        estimate(model, tokens(20), Choice.of("7", None, None))
    with pytest.raises(InputError, match="head 9 does not exist"):
        estimate(model, tokens(20), Choice.of(None, "9", None))
