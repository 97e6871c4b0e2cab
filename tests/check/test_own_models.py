"""Models in plain torch, layers of torch itself and other callables: right ones are left alone, and
their faults found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from check import models
from check.architectures import ids
from check.models import seeded
from regard.check import Report, check
from regard.nn import LanguageModel, LanguageModelConfig


def rows(count: int = 3, length: int = 11, seed: int = 5) -> Tensor:
    """(count, length, 32) embeddings."""
    return torch.randn(count, length, 32, generator=torch.Generator().manual_seed(seed))


def clean(report: Report, *decided: str) -> None:
    report.raise_for_findings()
    assert {rule: report.checked[rule] for rule in decided} == dict.fromkeys(decided, "ok")
    assert report.ok, report


def broken(report: Report, *wanted: tuple[str, str]) -> None:
    """(rule, module) of all findings."""
    assert {(each.rule, each.module) for each in report.findings} == {*wanted}, report


def causal_mask(length: int) -> Tensor:
    return nn.Transformer.generate_square_subsequent_mask(length)


def encoder(is_batch_first: bool = True) -> Any:
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=is_batch_first)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


@pytest.mark.parametrize("is_batch_first", [True, False])
@pytest.mark.parametrize("shape", [(3, 11), (11, 3), (6, 6), (1, 9)])
def test_an_encoder_of_torch(is_batch_first: bool, shape: tuple[int, int]) -> None:
    model, x = seeded(encoder, is_batch_first), rows(*shape)
    x = x if is_batch_first else x.transpose(0, 1)
    mask = causal_mask(shape[1])
    clean(check(model, {"src": x, "mask": mask}, causal=True), "future", "batch")
    clean(check(model, x, causal=False), "batch")
    report = check(model, {"src": x, "mask": mask.clamp_min(-12)}, causal=True)
    broken(report, ("future", "layers.0.self_attn"))


def test_is_causal_without_a_mask_sees_everything() -> None:
    """A known trap of torch: is_causal is a hint about the mask that is given."""

    class Hinted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.MultiheadAttention(32, 4, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            mixed: Tensor = self.mix(x, x, x)[0]
            return mixed

    broken(check(seeded(Hinted), rows(), causal=True), ("future", "mix"))


def test_one_head_without_a_mask() -> None:
    """(B·H, L, L) masks of nn.MultiheadAttention: one head of one sequence is open."""
    model, x = seeded(encoder), rows(2, 10)
    mask = causal_mask(10).repeat(8, 1, 1)
    clean(check(model, {"src": x, "mask": mask}, causal=True, rules=["future"]), "future")
    mask[3] = 0
    report = check(model, {"src": x, "mask": mask}, causal=True, rules=["future"])
    broken(report, ("future", "layers.0.self_attn"))


@pytest.mark.parametrize("is_batch_first", [True, False])
def test_a_decoder_beside_an_encoder(is_batch_first: bool) -> None:
    model = seeded(nn.Transformer, 32, 4, 1, 2, 48, batch_first=is_batch_first)
    source, target = rows(2, 9), rows(2, 12, seed=6)
    given = [x if is_batch_first else x.transpose(0, 1) for x in (source, target)]
    batch = {"src": given[0], "tgt": given[1], "tgt_mask": causal_mask(12)}
    clean(check(model, batch, causal=True), "future", "batch")
    report = check(model, {"src": given[0], "tgt": given[1]}, causal=True)
    broken(report, ("future", "decoder.layers.0.self_attn"))


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_of_another_name(side: str) -> None:
    """True is padding, as in torch."""
    model, hidden = seeded(models.Words), torch.zeros(2, 12, dtype=torch.bool)
    hidden[1, slice(0, 4) if side == "left" else slice(-4, None)] = True
    batch = {"tokens": ids(2, 12), "padding_mask": hidden}
    clean(check(model, batch, causal=True), "future", "padding", "batch", "training")


def test_a_window_by_name() -> None:
    model, batch = seeded(models.Words, window=5), {"tokens": ids(2, 16)}
    clean(check(model, batch, causal=True, window={"mix.0": 5}), "window")
    for told, words in ((4, "sees 5 positions, more than the 4"), (6, "sees 5 positions, less")):
        report = check(model, batch, causal=True, window={"mix.0": told})
        broken(report, ("window", "mix.0"))
        assert words in report.findings[0].text
    report = check(model, batch, causal=True, window={"mix.1": 40}, rules=["window"])
    assert report.checked["window"].startswith("not decided") and not report.ok


@pytest.mark.parametrize("early", [0, 1, 2])
def test_a_convolution(early: int) -> None:
    report = check(seeded(models.Shifted, early), ids(2, 20), causal=True)
    if not early:
        clean(report, "future", "batch", "training")
        assert [each.sees for each in report.layers] == ["window 3"]
        return
    broken(report, ("future", "mix"))


def test_a_convolution_of_torch_itself() -> None:
    report = check(seeded(models.Channels), ids(2, 20), causal=True)
    broken(report, ("future", "kernel"))
    assert [each.sees for each in report.layers] == ["window 2 to both sides"]


@pytest.mark.parametrize("length", [20, 37])
def test_a_convolution_by_fourier_transforms(length: int) -> None:
    """Without padding what is last wraps round to the first rows."""
    report = check(seeded(models.Long), ids(2, length), causal=True)
    clean(report, "future", "batch", "training")
    assert report.checked["future"].decided_by == "float64"
    report = check(seeded(models.Long, is_padded=False), ids(2, length), causal=True)
    assert {each.rule for each in report.findings} == {"future"}


@pytest.mark.parametrize("late", [0.0, 1e-6, 1e-3, 1.0])
def test_a_cache_in_a_tuple(late: float) -> None:
    model, batch = seeded(models.Steps, late), {"tokens": ids(2, 20)}
    report = check(model, batch, causal=True)
    if not late:
        clean(report, "future", "cache", "training")
        return
    assert {each.rule for each in report.findings} == {"cache"}, report


@pytest.mark.parametrize("off", [0, 1, -1])
def test_a_cache_of_its_own_class(off: int) -> None:
    """One off in the positions that are read behind a cache."""
    report = check(seeded(models.Counted, off), {"tokens": ids(2, 20)}, causal=True)
    if not off:
        clean(report, "future", "cache", "batch", "training")
        return
    broken(report, ("cache", "place"))


def test_the_language_model_of_this_package() -> None:
    sizes = LanguageModelConfig(vocabulary=64, dim=32, heads=4, layers=2)
    model = seeded(LanguageModel, sizes)
    clean(check(model, ids(2, 20), causal=True), "future", "cache", "batch", "training")


def test_batch_norm_is_named_as_what_it_is() -> None:
    x = torch.randn(4, 3, 9, 9, generator=torch.Generator().manual_seed(3))
    report = check(seeded(models.Pictures), x)
    broken(report, ("batch", "norm"))
    assert "BatchNorm" in report.findings[0].text and "definition" in report.findings[0].text
    assert "in training mode" in report.findings[0].text
    clean(check(seeded(models.Pictures), x, rules=["batch"]), "batch")


CALLABLES: dict[str, Callable[[Tensor], Tensor]] = {
    "sums": lambda x: x.cumsum(1),
    "before": lambda x: torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1),
}


@pytest.mark.parametrize("name", CALLABLES)
def test_a_callable(name: str) -> None:
    report = check(CALLABLES[name], rows(), causal=True)
    clean(report, "future", "batch")
    assert report.layers == []


def test_a_callable_that_mixes_nothing() -> None:
    """No row moves with another: whether later ones are hidden cannot be seen."""
    report = check(lambda x: x * 2, rows(), causal=True)
    assert not report.findings and report.checked["future"].startswith("not decided")


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-5])
def test_a_callable_with_a_leak(size: float) -> None:
    ahead = check(lambda x: x + size * x.roll(-1, 1), rows(), causal=True)
    beside = check(lambda x: x + size * x.mean(0), rows(), causal=True)
    broken(ahead, ("future", ""))
    broken(beside, ("batch", ""))


def test_a_callable_with_a_leak_as_small_as_rounding() -> None:
    report = check(lambda x: x.cumsum(1) + 1e-7 * x.mean(0), rows(), causal=True)
    assert report.checked["batch"] != "ok" and not report.ok


@pytest.mark.parametrize("layout", ["BLD", "LBD", "BDL", "flat"])
def test_outputs_of_other_layouts(layout: str) -> None:
    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = models.Words()

        def forward(self, tokens: Tensor) -> Tensor:
            logits: Tensor = self.inner(tokens)["logits"]
            if layout == "LBD":
                return logits.transpose(0, 1)
            return {"BLD": logits, "BDL": logits.transpose(1, 2), "flat": logits.flatten(0, 1)}[
                layout
            ]

    clean(check(seeded(Turned), ids(3, 14), causal=True), "future", "batch", "training")


def test_what_nothing_declares_is_asked_for() -> None:
    """A model that sees both sides, and nothing says whether it may."""
    report = check(seeded(encoder), rows())
    assert not report.findings and not report.ok
    verdict = report.checked["future"]
    assert verdict.startswith("not decided") and "causal=" in verdict
