"""Right models are left alone: nothing is found, and what can be decided is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from check.architectures import ARCHITECTURES, ids, make, padded
from check.faults import plant
from check.reports import broken, clean
from regard.check import check

BATCHES = {
    "whole": lambda: {"input_ids": ids()},
    "one sequence": lambda: {"input_ids": ids(1)},
    "ids alone": lambda: ids(3, 17),
    "padded left": lambda: padded("left"),
    "padded right": lambda: padded("right"),
    "square": lambda: {"input_ids": ids(20, 20)},
    "two tokens": lambda: {"input_ids": ids(2, 2)},
    "one token": lambda: {"input_ids": ids(2, 1)},
}


@pytest.mark.parametrize("given", ["whole", "one sequence", "padded left", "padded right"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures(name: str, given: str) -> None:
    if (name, given) == ("recurrent", "padded left"):
        return  # a GRU runs over the padding before its tokens, and is found
    own, causal = ARCHITECTURES[name], True if name == "recurrent" else None
    report = check(make(name), BATCHES[given](), causal=causal)
    asked = ["padding", "batch", "training"]
    clean(report, *asked, *["future"] * own.is_causal, *["cache"] * own.has_cache)
    assert report.forwards <= 10
    layer = next(each for each in report.layers if each.name == own.mixer)
    assert layer.sees == {"gemma3": "window 7", "bert": "all", "recurrent": "window 3"}.get(
        name, "causal"
    )


@pytest.mark.parametrize("given", ["ids alone", "square", "two tokens", "one token"])
@pytest.mark.parametrize("name", ["llama", "gemma3", "bert"])
def test_odd_batches(name: str, given: str) -> None:
    check(make(name), BATCHES[given]()).raise_for_findings()


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name != "recurrent"])
def test_bfloat16(name: str) -> None:
    clean(check(make(name).bfloat16(), padded("right")), "padding", "batch", "training")


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["llama", "gemma3", "qwen3_moe"])
def test_implementations_of_attention(name: str, attention: str) -> None:
    model = make(name)
    model.set_attn_implementation(attention)
    check(model, padded("left")).raise_for_findings()


@pytest.mark.parametrize("name", ["gpt2", "bert", "bart", "recurrent"])
def test_dropout(name: str) -> None:
    """Training mode drops other places of a larger batch, and none because of a token."""
    model = make(name)
    drops = [each for each in model.modules() if isinstance(each, torch.nn.Dropout)]
    for each in drops:
        each.p = 0.5
    report = check(model.train(), padded("right"), causal=True if name == "recurrent" else None)
    clean(report, "training")


@pytest.mark.parametrize("given", ["padded left", "padded right"])
def test_a_prefix(given: str) -> None:
    """The first four tokens see one another: told by causal=4; with causal=True they are found."""
    model = make("llama")
    count = 4 if given == "padded right" else 10

    def open_prefix(module: Any, args: Any, kwargs: Any) -> Any:
        mask = kwargs["attention_mask"].clone()
        if mask.shape[2] == mask.shape[3]:
            seen = (mask[:, 0].diagonal(dim1=1, dim2=2) > -1)[:, None, None, :count]
            mask[:, :, :count, :count] = mask[:, :, :count, :count].masked_fill(seen, 0.0)
        return args, {**kwargs, "attention_mask": mask}

    for layer in model.model.layers:
        layer.self_attn.register_forward_pre_hook(open_prefix, with_kwargs=True)
    asked = ["future", "batch", "training"]
    report = check(model, padded(given), causal=count, rules=asked)
    clean(report, *asked)
    assert check(model, padded(given), causal=True, rules=asked).checked["future"] == "found"
    if given == "padded right":
        assert {each.sees for each in report.layers} == {"prefix 4"}


def test_experts_in_the_packages_own_kernel() -> None:
    """Grouped products refuse doubles: the copy computes one expert after the other."""
    model = make("qwen3_moe")
    model.set_experts_implementation("grouped_mm")
    clean(check(model, padded("left")), "future", "padding", "batch", "cache", "training")


def test_a_decoders_own_input_is_what_changes() -> None:
    batch = {"input_ids": ids(2, 20), "decoder_input_ids": ids(2, 13, seed=3)}
    report = check(make("bart"), batch)
    clean(report, "future", "cache")
    assert "2 × 13 positions" in report.about


def test_pictures() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.ViTModel(transformers.ViTConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
            image_size=16, patch_size=4,
        )).eval()  # fmt: skip
    dice = torch.Generator().manual_seed(2)
    report = check(model, {"pixel_values": torch.randn(2, 3, 16, 16, generator=dice)})
    clean(report, "batch", "training")
    assert report.checked["future"].startswith("not asked")
    assert {layer.sees for layer in report.layers} == {"all"}


def test_a_recurrence_that_runs_over_padding_is_found() -> None:
    """Its state is no longer zero where the first token is read."""
    broken(check(make("recurrent"), padded("left"), causal=True), "padding", "gru")


def test_positions_counted_from_padding_are_found() -> None:
    """GPT-2 with positions of its own, whatever is given."""
    model = make("gpt2")

    def counted(forward: Any, module: Any, args: Any, kwargs: Any) -> Any:
        return forward(torch.arange(args[0].shape[1]).expand_as(args[0]))

    plant(model, "transformer.wpe", counted)
    report = check(model, padded("left"), rules=["padding", "future", "batch"])
    broken(report, "padding", "transformer.wpe")


def test_a_model_that_is_compiled() -> None:
    model = torch.compile(make("llama"), backend="eager")
    clean(check(model, {"input_ids": ids()}), "future", "padding", "batch", "cache", "training")
