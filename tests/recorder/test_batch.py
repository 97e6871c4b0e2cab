"""Short documents of a padded batch: recorded together, and each as if it had been alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import regard
from recorder.models import tiny, tokens
from recorder.test_weights import padded
from recorder.truth import same_numbers
from regard.recorder.plan import Size, make_plan
from regard.recording import check

LENGTHS = (40, 12, 1, 7, 40)
SOME = replace(make_plan(10**9, [Size(4, 4, 8, 40, 40)] * 2), exact=frozenset([1]))
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "all": ("llama", {}), "heads": ("bert", {"heads": [0, 3]}),
    "statistics": ("llama", {"statistics": [regard.statistics.Distance()]}),
    "some q and k": ("bert", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIONS)
def test_every_document_is_recorded_as_it_is_alone(tmp_path, name):
    family, options = OPTIONS[name]
    model, (ids, mask) = tiny(family), padded(LENGTHS, "right")
    with torch.no_grad(), regard.record(model, tmp_path / "run.regard", **options) as rec:
        rec.expect(max(LENGTHS), SOME if name == "some q and k" else None)
        model(input_ids=ids, attention_mask=mask)
    report = check(tmp_path / "run.regard")  # a layer of all of them is one frame
    assert report.is_whole and report.finished == len(LENGTHS)
    assert report.tensors > 100 and report.frames < 10 + 3 * model.config.num_hidden_layers
    for mine, text, real in zip(rec.prompts, ids, mask.bool(), strict=True):
        alone = text[real][None]
        with torch.no_grad(), regard.record(model, **options) as single:
            model(input_ids=alone, attention_mask=torch.ones_like(alone))
        other = single.recording.prompts[0]
        assert mine.ids.tolist() == other.ids.tolist() and mine.note == other.note
        assert list(mine.places) == list(other.places)
        for a, b in zip(mine, other, strict=True):
            assert a.place.segments == b.place.segments
            if name == "some q and k" and a.layer == 0:
                assert not a.exact and a.why_not
            else:
                same_numbers(a, b)
        for statistic in mine.statistic_kinds:
            np.testing.assert_allclose(mine.grid(statistic), other.grid(statistic), atol=2e-5)


def test_half_precision_is_kept_to_the_bit(tmp_path):
    model, (ids, mask) = tiny("bert").to(torch.bfloat16), padded(LENGTHS, "right")
    with torch.no_grad(), regard.record(model, tmp_path / "run.regard") as rec:
        model(input_ids=ids, attention_mask=mask)
    entry = rec.recording.store.entries["P1/L0/q/0"]
    assert entry.dtype == "BF16" and entry.shape[1] == LENGTHS[1]
    np.testing.assert_allclose(rec.prompts[1]["L0H1"].dense().sum(-1), 1, atol=2e-2)


def test_batches_before_an_error_are_whole(tmp_path):
    model, path = tiny("bert"), tmp_path / "run.regard"
    ids, mask = padded(LENGTHS, "right")
    with pytest.raises(RuntimeError), torch.no_grad(), regard.record(model, path):
        model(input_ids=ids, attention_mask=mask)
        model(input_ids=ids.flip(0), attention_mask=mask.flip(0))
        raise RuntimeError
    with regard.open(path) as rec:
        done = [prompt.note.finished for prompt in rec.prompts]
        assert done == [True] * len(LENGTHS) + [False] * len(LENGTHS)
        assert rec.prompts[0]["L1H0"].exact and check(path).is_whole


def test_documents_that_go_on_are_followed_one_by_one():
    """As decoding does, behind a cache that a batch without padding has filled."""
    from transformers import DynamicCache

    model, ids = tiny("llama"), tokens(12, 3)
    cache = DynamicCache(config=model.config)
    with torch.no_grad(), regard.record(model) as rec:
        for part in ids.split([9, 1, 1, 1], 1):
            model(part, past_key_values=cache, use_cache=True)
    for number, prompt in enumerate(rec.recording.prompts):
        with torch.no_grad(), regard.record(model) as single:
            model(ids[number : number + 1])
        for mine, other in zip(prompt, single.recording.prompts[0], strict=True):
            assert mine.place.segments == other.place.segments
            same_numbers(mine, other)
