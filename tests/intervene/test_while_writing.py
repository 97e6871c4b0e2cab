"""An edge of one row, knocked out while a model of ours writes: that row changes, none before."""

from __future__ import annotations

import torch

import regard
from regard.intervene import Edge
from regard.nn import Seq2Seq, Seq2SeqConfig


def test_the_row_is_counted_from_the_first_that_was_written():
    torch.manual_seed(0)
    model = Seq2Seq(Seq2SeqConfig(vocabulary=30, layers=2, dim=16, heads=2)).eval()
    source = torch.randint(0, 30, (1, 7))

    def written() -> list[torch.Tensor]:
        found: list[torch.Tensor] = []
        hook = model.register_forward_hook(lambda *given: found.append(given[2][:, -1].clone()))
        model.generate(source, start=1, tokens=5)
        hook.remove()
        return found

    plain = written()
    with regard.knock_out(model, edges=[Edge(queries=2, keys=slice(0, None), heads="cross")]):
        without = written()
    change = [float((a - b).abs().max()) for a, b in zip(plain, without, strict=True)]
    assert max(change[:2]) < 1e-5 and change[2] > 0.01
