"""A model of ours that writes, recorded: one text, as if it had been read whole."""

from __future__ import annotations

import numpy as np
import torch

import regard
from regard.nn import LanguageModel, LanguageModelConfig, generate


def test_what_is_generated_is_one_prompt():
    torch.manual_seed(0)
    model = LanguageModel(LanguageModelConfig(vocabulary=20, layers=2, dim=16, heads=2)).eval()
    with torch.no_grad(), regard.record(model) as rec:
        ids = generate(model, torch.tensor([[3, 1, 4, 1, 5]]), tokens=6)
    assert len(rec.prompts) == 1
    with torch.no_grad(), regard.record(model) as whole:
        model(ids[:, :-1])
    rows = whole["L1H1"].shape[0]
    found, expected = (np.asarray(one["L1H1"].dense())[:rows, :rows] for one in (rec, whole))
    np.testing.assert_allclose(found, expected, atol=1e-6)
