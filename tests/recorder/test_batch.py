"""Short documents of a padded batch: recorded together, and each as if it had been alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import regard
from recorder.models import tiny, tokens
from regard.recorder.plan import Plan, Size, make_plan
from regard.recording import check

LENGTHS = (40, 12, 1, 7, 40)


def padded(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Ids and attention_mask, padded on the right."""
    real = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    return tokens(max(LENGTHS), len(LENGTHS), seed) * real, real.long()


def recorded(
    model: Any, path: Path, plan: Plan | None = None, **options: Any
) -> regard.recording.Recording:
    ids, mask = padded()
    with torch.no_grad(), regard.record(model, path, **options) as rec:
        rec.expect(max(LENGTHS), plan)
        model(input_ids=ids, attention_mask=mask)
    return rec.recording


def alone(model: Any, number: int, **options: Any) -> Any:
    ids = padded()[0][number : number + 1, : LENGTHS[number]]
    with torch.no_grad(), regard.record(model, **options) as rec:
        model(input_ids=ids, attention_mask=torch.ones_like(ids))
    return rec.recording


SOME = replace(make_plan(10**9, [Size(4, 4, 8, 40, 40)] * 2), exact=frozenset([1]))


@pytest.mark.parametrize(
    "options", [{}, {"heads": [0, 3]}, {"statistics": [regard.Distance()]}, {"plan": SOME}],
    ids=["all", "heads", "statistics", "some q and k"],
)  # fmt: skip
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_every_document_is_recorded_as_it_is_alone(tmp_path, family, options) -> None:
    model = tiny(family)
    rec = recorded(model, tmp_path / "run.regard", **options)
    for number in range(len(LENGTHS)):
        own = {k: v for k, v in options.items() if k != "plan"}
        single = alone(model, number, **own)
        same_prompt(rec.prompts[number], single.prompts[0], "plan" in options)


def same_prompt(mine: Any, other: Any, less: bool) -> None:
    """Notes and stored numbers agree; `less`: q and k were not kept of all layers of mine."""
    assert mine.ids.tolist() == other.ids.tolist()
    assert mine.note == other.note
    assert less == (not mine["L0H0"].exact)
    assert list(mine.places) == list(other.places)
    for label, place in mine.places.items():
        twin = other.places[label]
        assert (place.rows, place.queries, place.keys) == (twin.rows, twin.queries, twin.keys)
        assert (place.query_tokens, place.heads) == (twin.query_tokens, twin.heads)
        assert place.segments == twin.segments
        assert place.exact == twin.exact or (less and place.why_not)
    for a, b in zip(mine, other, strict=True):
        assert set(a.stored) == set(b.stored)
        for name in set(a.stored) - {"top_keys", "offsets"}:
            one, two = a.stored[name].values, b.stored[name].values
            np.testing.assert_allclose(one, two, atol=2e-5, err_msg=f"{a.label} {name}")
        if a.exact:
            np.testing.assert_allclose(a.offsets(), b.offsets(), atol=2e-5)
            np.testing.assert_allclose(a.dense(), b.dense(), atol=1e-5)
    for name in mine.statistic_kinds:
        np.testing.assert_allclose(mine.grid(name), other.grid(name), atol=2e-5, err_msg=name)


def test_a_layer_of_a_batch_is_one_frame(tmp_path) -> None:
    model = tiny("bert")
    recorded(model, tmp_path / "run.regard")
    report = check(tmp_path / "run.regard")
    layers = model.config.num_hidden_layers
    assert report.is_whole and report.finished == len(LENGTHS)
    assert report.tensors > 100 and report.frames < 10 + 3 * layers


def test_bf16_words_are_kept(tmp_path) -> None:
    model = tiny("bert").to(torch.bfloat16)
    rec = recorded(model, tmp_path / "run.regard")
    entry = rec.store.entries["P1/L0/q/0"]
    assert entry.dtype == "BF16" and entry.shape[1] == LENGTHS[1]
    head = rec.prompts[1]["L0H1"]
    np.testing.assert_allclose(head.dense().sum(-1), 1, atol=2e-2)


def test_batches_before_an_error_are_whole(tmp_path) -> None:
    model, path = tiny("bert"), tmp_path / "run.regard"
    with pytest.raises(RuntimeError), torch.no_grad(), regard.record(model, path):
        for seed in range(2):
            ids, mask = padded(seed)
            model(input_ids=ids, attention_mask=mask)
        raise RuntimeError
    with regard.open(path) as rec:
        done = [prompt.note.finished for prompt in rec.prompts]
        assert done == [True] * len(LENGTHS) + [False] * len(LENGTHS)
        assert rec.prompts[0]["L1H0"].exact and check(path).is_whole


def test_documents_that_go_on_are_followed_one_by_one() -> None:
    """As decoding does, behind a cache that a batch without padding has filled."""
    from transformers import DynamicCache

    model, ids = tiny("llama"), tokens(12, 3)
    cache = DynamicCache(config=model.config)
    with torch.no_grad(), regard.record(model) as rec:
        model(ids[:, :9], past_key_values=cache, use_cache=True)
        for at in range(9, 12):
            model(ids[:, at : at + 1], past_key_values=cache, use_cache=True)
    for number, prompt in enumerate(rec.recording.prompts):
        with torch.no_grad(), regard.record(model) as single:
            model(ids[number : number + 1])
        assert prompt["L0H0"].place.segments == single["L0H0"].place.segments
        for mine, other in zip(prompt, single.recording.prompts[0], strict=True):
            np.testing.assert_allclose(mine.dense(), other.dense(), atol=1e-5)
            for name in ("entropy", "received", "pooled", "first", "value_norm"):
                np.testing.assert_allclose(
                    mine.stored[name].values, other.stored[name].values, atol=2e-5, err_msg=name
                )
