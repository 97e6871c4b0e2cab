"""Reading one text and writing another."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import regard
from nn.small import SIZES, ids, learnt, seq2seq
from regard.errors import ShapeError
from regard.nn import Seq2Seq, Seq2SeqConfig


def test_steps_are_the_whole():
    model, source, target = seq2seq(kv_heads=2), ids(2, 5), ids(2, 6, seed=1)
    with torch.no_grad():
        whole = model(source, target)
        context, cache = model.encoder(source), model.new_cache(6)
        parts = [
            model(source, part, encoder_outputs=context, cache=cache)
            for part in target.split([3, 1, 2], dim=1)
        ]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)
    assert cache.length == 6


def test_the_target_sees_the_source_and_not_its_own_future():
    model, source, target = seq2seq(), ids(1, 5), ids(1, 6, seed=1)
    with torch.no_grad():
        whole = model(source, target)
        torch.testing.assert_close(model(source, target[:, :3]), whole[:, :3])
        assert not torch.allclose(model(ids(1, 5, seed=9), target), whole)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_of_the_source_changes_nothing(side):
    model, source, target = seq2seq(), ids(1, 4), ids(1, 3, seed=1)
    pad = (2, 0) if side == "left" else (0, 2)
    padded, real = F.pad(source, pad), F.pad(torch.ones_like(source), pad)
    with torch.no_grad():
        torch.testing.assert_close(model(padded, target, source_mask=real), model(source, target))
        written = model.generate(padded, start=1, tokens=5, source_mask=real)
        assert torch.equal(written, model.generate(source, start=1, tokens=5))


def test_greedy_writing_is_the_argmax_of_the_whole():
    model, source = seq2seq(), ids(3, 5)
    written = model.generate(source, start=2, tokens=7)
    assert written.shape == (3, 8) and bool((written[:, 0] == 2).all())
    with torch.no_grad():
        likeliest = model(source, written).argmax(-1)
    assert torch.equal(likeliest[:, :-1], written[:, 1:])


def test_it_learns_to_copy():
    torch.manual_seed(0)
    model = Seq2Seq(Seq2SeqConfig(vocabulary=12, layers=1, dim=32, heads=2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    dice = torch.Generator().manual_seed(1)
    for _ in range(250):
        text = torch.randint(2, 12, (32, 4), generator=dice)
        target = F.pad(text, (1, 0), value=1)
        loss = F.cross_entropy(model(text, target)[:, :-1].flatten(0, 1), text.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    text = torch.randint(2, 12, (50, 4), generator=dice)
    written = model.eval().generate(text, start=1, tokens=4)[:, 1:]
    assert float((written == text).all(-1).float().mean()) > 0.9


def test_gradients_reach_everything():
    model = seq2seq(tied=False, source_vocabulary=11, encoder_layers=3, qk_norm=True).train()
    model(ids(2, 5) % 11, ids(2, 4)).square().sum().backward()
    assert all(float(p.grad.abs().sum()) > 0 for p in model.parameters())
    assert model.encoder.embed.table.shape[0] == 11 and len(model.encoder.blocks) == 3


def test_three_stacks_are_heard():
    model, source, target = seq2seq(), ids(1, 5), ids(1, 4, seed=1)
    with torch.no_grad(), regard.record(model) as rec:
        model(source, target)
    assert sorted(rec.stacks) == ["cross", "decoder", "encoder"]
    shapes = {s: torch.as_tensor(rec[f"{s}.L1H3"].rows(range(4))).shape for s in rec.stacks}
    assert shapes["cross"] == (4, 5) and shapes["decoder"] == (4, 4)
    assert shapes["encoder"] == (4, 5)


def test_one_crossing_can_be_knocked_out():
    model, source, target = seq2seq(), ids(1, 5), ids(1, 4, seed=1)
    with torch.no_grad():
        with regard.knock_out(model, heads=["cross"]):
            without = model(source, target)
        for block in model.decoder.blocks:
            block.cross_attention.w_o.weight.zero_()
        torch.testing.assert_close(without, model(source, target))


def test_sizes_of_the_two_sides():
    model = learnt(Seq2Seq(Seq2SeqConfig(**SIZES, source_vocabulary=9)))
    with pytest.raises(ShapeError, match="attention_mask has shape"):
        model(ids(1, 4) % 9, ids(1, 3), source_mask=torch.ones(1, 3))
