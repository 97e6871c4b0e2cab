"""What a recorder decides about a call is a value: asking for it counts nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from recorder.models import tiny, tokens
from recorder.test_session import everything
from regard.recorder.call_slice import CallSlice, Progress, last_keys
from regard.recorder.session import Recorder

_QUIET = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}


def part(**facts: Any) -> CallSlice:
    """A chunk of 4 rows behind 6 tokens, as one prompt's part of a call."""
    plain: dict[str, Any] = {
        "first": 1, "count": 1, "rows": range(4), "keys": range(10), "row_start": 6,
        "key_start": 0, "known_keys": 6, "kept": range(1, 4), "begins": True, "heads": (0, 1),
        "kind": "self", "exact": True, "whole": False, "length": 10,
    }  # fmt: skip
    return CallSlice(**(plain | facts))


def test_asking_twice_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, ids = tiny("llama", num_key_value_heads=2), tokens(20, 2)

    def run(path: Path) -> dict[str, Any]:
        with torch.no_grad(), regard.record(model, path, queries="3:22", budget=200_000):
            model.generate(ids, max_new_tokens=4, **_QUIET)
            model(tokens(9))
        return everything(path)

    once, real = run(tmp_path / "once"), Recorder.wants
    asked = []

    def wants(self: Recorder, call: Any) -> Any:
        first, second = real(self, call), real(self, call)
        assert first.plan is not None and second.plan is not None
        assert first.plan.slices == second.plan.slices and first.plan.plan is second.plan.plan
        asked.append(first)
        return second

    monkeypatch.setattr(Recorder, "wants", wants)
    assert run(tmp_path / "twice") == once
    assert len(asked) == 2 * (1 + 3 + 1)  # layers; the prompt, tokens that were read, another


def test_new_keys_and_progress() -> None:
    key = torch.arange(2 * 1 * 10 * 3.0).reshape(2, 1, 10, 3)
    one = part()
    assert (one.entries, one.fresh) == (slice(1, 2), slice(6, 10))
    (last,) = last_keys(key, [one])
    after = one.after(None, last)
    assert (after.rows, after.kept, after.keys, after.length) == (10, 3, 10, 10)
    assert after.last_key is not None and torch.equal(after.last_key, key[1, :, 9])
    before = Progress(6, 5, 12, 10, None)
    assert (one.after(before, last).kept, one.after(before, last).keys) == (8, 12)
    assert part(known_keys=12).fresh == slice(10, 10)  # a sliding cache shows nothing new
    assert last_keys(key, [part(kind="cross")]) == [None]


def test_cells_are_the_sweeps_own_where_both_begin_one() -> None:
    whole = part(row_start=32, key_start=16)
    assert whole.is_aligned(16) and not whole.is_aligned(32)
    assert not part(rows=range(1, 4), row_start=0).is_aligned(16)
