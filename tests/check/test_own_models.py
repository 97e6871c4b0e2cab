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
from check.reports import broken, clean, open_rules
from regard.check import check
from regard.nn import LanguageModel, LanguageModelConfig


def rows(count: int = 3, length: int = 11, seed: int = 5) -> Tensor:
    """(count, length, 32) embeddings."""
    return torch.randn(count, length, 32, generator=torch.Generator().manual_seed(seed))


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
    broken(report, "future", "layers.0.self_attn")


def test_is_causal_without_a_mask_sees_everything() -> None:
    """A known trap of torch: is_causal is a hint about the mask that is given."""

    class Hinted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.MultiheadAttention(32, 4, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            mixed: Tensor = self.mix(x, x, x)[0]
            return mixed

    broken(check(seeded(Hinted), rows(), causal=True), "future", "mix")


def test_one_head_without_a_mask() -> None:
    """(B·H, L, L) masks of nn.MultiheadAttention: one head of one sequence is open."""
    model, x = seeded(encoder), rows(2, 10)
    mask = causal_mask(10).repeat(8, 1, 1)
    clean(check(model, {"src": x, "mask": mask}, causal=True, rules=["future"]), "future")
    mask[3] = 0
    report = check(model, {"src": x, "mask": mask}, causal=True, rules=["future"])
    broken(report, "future", "layers.0.self_attn")


@pytest.mark.parametrize("is_batch_first", [True, False])
def test_a_decoder_beside_an_encoder(is_batch_first: bool) -> None:
    model = seeded(nn.Transformer, 32, 4, 1, 2, 48, batch_first=is_batch_first)
    source, target = rows(2, 9), rows(2, 12, seed=6)
    given = [x if is_batch_first else x.transpose(0, 1) for x in (source, target)]
    batch = {"src": given[0], "tgt": given[1], "tgt_mask": causal_mask(12)}
    clean(check(model, batch, causal=True), "future", "batch")
    report = check(model, {"src": given[0], "tgt": given[1]}, causal=True)
    broken(report, "future", "decoder.layers.0.self_attn")


def test_a_window_by_name() -> None:
    model, batch = seeded(models.Words, window=5), {"tokens": ids(2, 16)}
    clean(check(model, batch, causal=True, window={"mix.0": 5}), "window")
    for told, words in ((4, "sees 5 positions, more than the 4"), (6, "sees 5 positions, less")):
        report = check(model, batch, causal=True, window={"mix.0": told})
        broken(report, "window", "mix.0")
        assert words in report.findings[0].text
    report = check(model, batch, causal=True, window={"mix.1": 40}, rules=["window"])
    assert report.checked["window"].startswith("not decided") and not report.ok


def padding(side: str) -> dict[str, Tensor]:
    """Of another name: True is padding, as in torch."""
    hidden = torch.zeros(2, 12, dtype=torch.bool)
    hidden[1, slice(0, 4) if side == "left" else slice(-4, None)] = True
    return {"tokens": ids(2, 12), "padding_mask": hidden}


ALL = ("future", "batch", "training")
SIZES = LanguageModelConfig(vocabulary=64, dim=32, heads=4, layers=2)
# a model, its batch, and the rules that are decided
RIGHT: dict[str, tuple[Callable[[], Any], Any, tuple[str, ...]]] = {
    "padding on the left": (models.Words, padding("left"), (*ALL, "padding")),
    "padding on the right": (models.Words, padding("right"), (*ALL, "padding")),
    "a convolution": (models.Shifted, ids(2, 20), ALL),
    "by Fourier transforms": (models.Long, ids(2, 20), ALL),
    "a longer one": (models.Long, ids(2, 37), ALL),
    "a cache in a tuple": (models.Steps, {"tokens": ids(2, 20)}, ("future", "cache", "training")),
    "of its own class": (models.Counted, {"tokens": ids(2, 20)}, (*ALL, "cache")),
    "regard's own": (lambda: LanguageModel(SIZES), ids(2, 20), (*ALL, "cache")),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_models(name: str) -> None:
    make, batch, decided = RIGHT[name]
    report = check(seeded(make), batch, causal=True)
    clean(report, *decided)
    assert make is not models.Shifted or [each.sees for each in report.layers] == ["window 3"]
    assert make is not models.Long or report.checked["future"].decided_by == "float64"


# what makes a model, of which size, and the finding
WRONG: list[tuple[Callable[..., Any], float, str, str | None]] = [
    (models.Shifted, 1, "future", "mix"),
    (models.Shifted, 2, "future", "mix"),
    (lambda _: models.Channels(), 0, "future", "kernel"),
    # without padding what is last wraps round to the first rows
    (lambda _: models.Long(is_padded=False), 0, "future", None),
    *((models.Steps, late, "cache", None) for late in (1e-6, 1e-3, 1.0)),
    # one off in the positions that are read behind a cache
    *((models.Counted, off, "cache", "place") for off in (1, -1)),
]


@pytest.mark.parametrize(("make", "size", "rule", "module"), WRONG)
def test_wrong_models(make: Any, size: float, rule: str, module: str | None) -> None:
    report = check(seeded(make, size), {"tokens": ids(2, 20)}, causal=True)
    assert {each.rule for each in report.findings} == {rule}, report
    if module is not None:
        broken(report, rule, module)
    if module == "kernel":
        assert [each.sees for each in report.layers] == ["window 2 to both sides"]


def test_batch_norm_is_named_as_what_it_is() -> None:
    x = torch.randn(4, 3, 9, 9, generator=torch.Generator().manual_seed(3))
    report = check(seeded(models.Pictures), x)
    broken(report, "batch", "norm")
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


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-5])
def test_a_callable_with_a_leak(size: float) -> None:
    ahead = check(lambda x: x + size * x.roll(-1, 1), rows(), causal=True)
    beside = check(lambda x: x + size * x.mean(0), rows(), causal=True)
    broken(ahead, "future", "")
    broken(beside, "batch", "")


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
    assert "causal=" in open_rules(check(seeded(encoder), rows()))["future"]
