"""torch's own layers over padded batches, as record and Monitor observe them, against the weights
that the layers themselves give."""

from __future__ import annotations

import random
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import regard

DIM, HEADS, STATISTICS = 16, 2, ("normalized_entropy", "max_score", "peak", "sink_mass")


class Called(NamedTuple):
    """One call of nn.MultiheadAttention."""

    module: nn.MultiheadAttention
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def weights(self) -> Tensor:
        """(B, H, L, S): the layer's own, in one more run of it."""
        options = self.kwargs | {"need_weights": True, "average_attn_weights": False}
        was, self.module.training = self.module.training, False
        with torch.no_grad():
            weights: Tensor = self.module(*self.args, **options)[1]
        self.module.training = was
        return weights


def check(seed: int) -> None:
    """One model of this seed, recorded and monitored."""
    dice = random.Random(seed)
    torch.manual_seed(seed)
    batch, length, memory = dice.randint(1, 4), dice.randint(2, 9), dice.randint(2, 9)
    first = dice.random() < 0.5
    side = dice.choice(["left", "right"])
    source = _padding(dice, batch, length, side)
    target = _padding(dice, batch, memory, side)
    model, run = _built(dice, first, source, target)
    model.train(dice.random() < 0.5)
    grad = dice.random() < 0.5
    given = (torch.randn(batch, n, DIM) for n in (length, memory))
    x, y = (t if first else t.transpose(0, 1) for t in given)
    called: dict[str, Called] = {}
    paths = {path: m for path, m in model.named_modules() if isinstance(m, nn.MultiheadAttention)}
    handles = [
        module.register_forward_pre_hook(_keep(called, path), with_kwargs=True)
        for path, module in paths.items()
    ]
    words = f"seed {seed}: {type(model).__name__}, {batch}×{length}, {side}, batch_first={first}"
    with torch.set_grad_enabled(grad), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with regard.Monitor(model, evaluation=True, limits=_NO_LIMITS) as monitor:
            run(x, y)
            sample = monitor.step()
        assert sample is not None and not monitor.unheard, words
        with regard.record(model) as recorded:
            run(x, y)
    for handle in handles:
        handle.remove()
    adds_keys = getattr(model, "add_zero_attn", False) or getattr(model, "bias_k", None) is not None
    for place, label in enumerate(sample.places):
        path = monitor.module_of(label)[1].path
        weights, kind = called[path].weights(), type(model)
        rows, keys = _real_tokens(path, source, target, kind)
        _compare(weights, rows, {n: sample[n][place] for n in STATISTICS}, words)
        if not adds_keys:
            _check_recorded(recorded, label, weights, rows, keys, words)


_NO_LIMITS = regard.monitor.Limits(entropy=None, max_score=None, sink_mass=None)


def _padding(dice: random.Random, batch: int, length: int, side: str) -> Tensor:
    """(B, N): True is padding, as torch has it; one sequence at least is whole."""
    hidden = torch.zeros(batch, length, dtype=torch.bool)
    for entry in range(1, batch):
        count = dice.randint(1, length)
        hidden[entry, count:] = True
        if side == "left":
            hidden[entry] = hidden[entry].flip(0)
    return hidden


def _built(dice: random.Random, first: bool, source: Tensor, target: Tensor) -> tuple[Any, Any]:
    """A model, and how it is run over x (B, L, D) and y (B, M, D)."""
    options: dict[str, Any] = {"batch_first": first, "dropout": 0.0}
    options["norm_first"] = dice.random() < 0.5
    layers = dice.randint(1, 2)

    def hidden(padding: Tensor) -> Tensor:
        kind = dice.choice(["bool", "float"])
        numbers = torch.zeros(padding.shape).masked_fill(padding, -torch.inf)
        return padding if kind == "bool" else numbers

    of_source, of_target = hidden(source), hidden(target)
    kind = dice.choice(["attention", "encoder", "decoder", "both"])
    if kind == "attention":
        zeros = {"add_zero_attn": dice.random() < 0.3, "add_bias_kv": dice.random() < 0.3}
        model: Any = nn.MultiheadAttention(DIM, HEADS, batch_first=first, **zeros)
        weights = dice.random() < 0.5
        return model, lambda x, y: model(x, x, x, key_padding_mask=of_source, need_weights=weights)
    if kind == "encoder":
        layer = nn.TransformerEncoderLayer(DIM, HEADS, 32, **options)
        model = nn.TransformerEncoder(layer, layers)
        return model, lambda x, y: model(x, src_key_padding_mask=of_source)
    if kind == "decoder":
        model = nn.TransformerDecoder(nn.TransformerDecoderLayer(DIM, HEADS, 32, **options), layers)
        return model, lambda x, y: model(
            y, x, tgt_key_padding_mask=of_target, memory_key_padding_mask=of_source
        )
    model = nn.Transformer(DIM, HEADS, layers, layers, 32, **options)
    return model, lambda x, y: model(
        x, y, src_key_padding_mask=of_source, tgt_key_padding_mask=of_target,
        memory_key_padding_mask=of_source,
    )  # fmt: skip


def _keep(called: dict[str, Called], path: str) -> Any:
    def keep(module: Any, args: Any, kwargs: Any) -> None:
        called[path] = Called(module, args, kwargs)

    return keep


def _real_tokens(path: str, source: Tensor, target: Tensor, kind: type) -> tuple[Tensor, Tensor]:
    """(B, L) and (B, S): rows and keys of a place that are no padding."""
    decodes = kind is nn.TransformerDecoder or path.startswith("decoder.")
    crosses = path.endswith("multihead_attn")
    return ~(target if decodes else source), ~(target if decodes and not crosses else source)


def _compare(weights: Tensor, real: Tensor, numbers: dict[str, Any], words: str) -> None:
    """Means of the rows that are real, head by head."""
    seen = weights > 0
    first = seen.int().argmax(-1, keepdim=True)
    resting = weights.gather(-1, first)[..., 0]
    choices = seen.sum(-1)
    even = torch.special.entr(weights).sum(-1) / choices.clamp(min=2).log()
    for head in range(HEADS):
        rows = real & (choices[:, head] > 0)
        choosing = rows & (choices[:, head] > 1)
        truth = {
            "normalized_entropy": even[:, head][choosing].mean(),
            "peak": weights[:, head].amax(-1)[rows].mean(),
            "sink_mass": resting[:, head][rows].mean(),
        }
        for name, value in truth.items():
            np.testing.assert_allclose(
                numbers[name][head], value.item(), rtol=2e-4, atol=2e-5, err_msg=f"{words}, {name}"
            )


def _check_recorded(
    recorded: Any, label: str, weights: Tensor, rows: Tensor, keys: Tensor, words: str
) -> None:
    """Each sequence is a prompt of its real tokens."""
    prompts = recorded.recording.prompts
    assert len(prompts) == len(rows), words
    for number, (real, sees) in enumerate(zip(rows, keys, strict=True)):
        for n in range(HEADS):
            head = prompts[number][f"{label}H{n}"]
            assert head.recorded == range(int(real.sum())), f"{words}: {head.recorded}"
            right = weights[number, n][real][:, sees]
            mine = torch.as_tensor(np.asarray(head[:, :]))
            torch.testing.assert_close(mine, right, rtol=2e-4, atol=2e-5, msg=words)
            total = float(head.received().sum())
            assert abs(total - float(right.sum())) < 1e-3, f"{words}: received {total}"
