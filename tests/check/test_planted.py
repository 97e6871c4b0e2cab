"""Faults of −12 instead of −∞, and of sizes down to a millionth, planted in one module of each of
eight architectures: the rule they break is found and no other, at that module."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest
import torch

from check.architectures import ARCHITECTURES, ids, make, padded
from check.faults import (
    ahead,
    beside,
    beside_at,
    beyond,
    decoding,
    first_row,
    hidden_padding,
    in_training,
    later,
    opened,
    padding,
    plant,
    soft,
    windowed,
)
from regard.check import Finding, Report, check

SIZES = (1e-3, 1e-6)
PACK = torch.tensor([[*range(7), *range(9), *range(8)]])  # positions of three documents
CAUSAL = [name for name, own in ARCHITECTURES.items() if own.is_causal]
CACHED = [name for name, own in ARCHITECTURES.items() if own.has_cache]
PACKED = [name for name, own in ARCHITECTURES.items() if own.has_packs]
MASKED = [name for name in ARCHITECTURES if name != "recurrent"]  # its modules are given no mask


def checked(name: str, model: Any, batch: Any, *rules: str) -> Report:
    """By these rules, or all of them. Plain torch declares nothing: it is told."""
    return check(model, batch, causal=True if name == "recurrent" else None, rules=rules or None)


def asked(size: float, *rules: str) -> tuple[str, ...]:
    """All rules at one size, so that no other is accused; at the others these alone, for time."""
    return () if size == 1e-3 else rules


def found(report: Report, rule: str, module: str) -> Finding:
    """The one finding's, whose rule and place are right."""
    assert report.checked[rule] == "found"
    assert {each.rule for each in report.findings} == {rule}, report
    assert {each.module for each in report.findings} == {module}, report
    first = report.findings[0]
    assert first.rows and first.change > 0
    assert first.text.startswith(f"{rule}: ") and module in first.text
    return first


def shown(finding: Finding, model: Any, batch: Any) -> float:
    """What its lines print, which know nothing of this package."""
    assert "regard" not in finding.reproduce
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(finding.reproduce, {"model": model, "batch": batch})
    return float(printed.getvalue().strip().removeprefix("tensor(").split(",")[0].rstrip(")"))


def agrees(finding: Finding, model: Any, batch: Any, within: float = 1.3) -> None:
    """Rows move as far as the finding says; about so where fewer are shown, or others dropped."""
    assert finding.change / within < shown(finding, model, batch) < finding.change * within


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CAUSAL)
def test_later_tokens(name: str, size: float) -> None:
    path, batch = ARCHITECTURES[name].mixer, {"input_ids": ids()}
    model = plant(make(name), path, ahead(size))
    report = checked(name, model, batch, *asked(size, "future"))
    finding = found(report, "future", path)
    position = int(finding.source.split()[1])
    assert finding.rows[-1] == position - 1
    assert 1e-2 * size < finding.change < 10 * size
    agrees(finding, model, batch)


@pytest.mark.parametrize("name", [name for name in MASKED if name in CAUSAL])
def test_minus_twelve_instead_of_minus_infinity(name: str) -> None:
    path, batch = ARCHITECTURES[name].mixer, {"input_ids": ids()}
    model = plant(make(name), path, soft(later))
    finding = found(checked(name, model, batch), "future", path)
    assert finding.change < 0.01
    agrees(finding, model, batch)


def place_of_padding(name: str) -> str:
    """The first layer, in which what padding holds has not mixed with what follows it."""
    return ARCHITECTURES[name].mixer.replace(".1.", ".0.")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_padding(name: str, side: str, size: float) -> None:
    if name == "recurrent" and side == "left":
        return  # a GRU that runs over padding first is another fault, below
    path, batch = place_of_padding(name), padded(side)
    model = plant(make(name), path, padding(size))
    finding = found(checked(name, model, batch, *asked(size, "padding")), "padding", path)
    agrees(finding, model, batch)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", MASKED)
def test_padding_that_minus_twelve_hides(name: str, side: str) -> None:
    if side == "right" and ARCHITECTURES[name].is_causal:
        return  # it lies behind every token
    path, batch = place_of_padding(name), padded(side)
    model = plant(make(name), path, soft(hidden_padding))
    agrees(found(checked(name, model, batch), "padding", path), model, batch)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_another_sequence(name: str, size: float) -> None:
    path, batch = ARCHITECTURES[name].mixer, {"input_ids": ids()}
    model = plant(make(name), path, beside(size))
    finding = found(checked(name, model, batch, *asked(size, "batch")), "batch", path)
    assert finding.rows == tuple(range(20))
    agrees(finding, model, batch, within=5)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("place", ["next but one", "from the end", "other of two", "half away"])
@pytest.mark.sampled(8)
def test_another_sequence_by_its_place(place: str, count: int) -> None:
    """Changes are tried side by side in one batch: whichever sequences see which, it is no sight of
    later tokens, and not overlooked."""

    path, batch = ARCHITECTURES["llama"].mixer, {"input_ids": ids(count)}
    model = plant(make("llama"), path, beside_at(place, 0.1))
    finding = found(check(model, batch), "batch", path)
    assert shown(finding, model, batch) > 0.1 * finding.change


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_another_sequence_of_a_padded_batch(name: str) -> None:
    path, batch = ARCHITECTURES[name].mixer, padded("right")
    model = plant(make(name), path, beside(1e-3))
    agrees(found(checked(name, model, batch), "batch", path), model, batch, within=5)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PACKED)
def test_another_document(name: str, size: float) -> None:
    path = ARCHITECTURES[name].mixer
    batch = {"input_ids": ids(1, 24), "position_ids": PACK}
    model = plant(make(name), path, first_row(size))
    rules = asked(size, "documents") or ("future", "padding", "documents", "batch", "training")
    report = checked(name, model, batch, *rules)
    finding = found(report, "documents", path)
    assert {each.rows for each in report.findings} >= {tuple(range(7, 24))}
    assert "position_ids" in finding.text
    agrees(finding, model, batch)


@pytest.mark.parametrize("size", [1.0, *SIZES, -12.0])
@pytest.mark.parametrize("name", MASKED)
def test_a_window_one_too_wide(name: str, size: float) -> None:
    path, batch = ARCHITECTURES[name].mixer, {"input_ids": ids()}
    fault = soft(beyond) if size < 0 else opened(beyond, size)
    model = plant(plant(make(name), path, fault), path, windowed(7, name == "bert"))
    report = windows(name, model, batch)
    finding = found(report, "window", path)
    assert "sees 8 positions, more than the 7 declared" in finding.text
    assert shown(finding, model, batch) > 0


@pytest.mark.parametrize("name", MASKED)
def test_a_window_one_too_narrow(name: str) -> None:
    path, batch = ARCHITECTURES[name].mixer, {"input_ids": ids()}
    model = plant(make(name), path, windowed(6, name == "bert"))
    finding = found(windows(name, model, batch), "window", path)
    assert "sees 6 positions, less than the 7 declared" in finding.text


@pytest.mark.parametrize("name", MASKED)
def test_a_right_window(name: str) -> None:
    path, batch = ARCHITECTURES[name].mixer, {"input_ids": ids()}
    report = windows(name, plant(make(name), path, windowed(7, name == "bert")), batch)
    assert report.checked["window"] == "ok" and not report.findings
    layer = next(each for each in report.layers if each.name == path)
    assert layer.sees.startswith("window 7") and layer.declared == "window 7"


def windows(name: str, model: Any, batch: Any) -> Report:
    """Gemma 3 declares its own. A cache is left out: faults that blend two calls have none."""
    declared = None if name == "gemma3" else {ARCHITECTURES[name].mixer: 7}
    rules = ["future", "padding", "batch", "window"]
    return check(model, batch, window=declared, rules=rules)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CACHED)
def test_a_cache(name: str, size: float) -> None:
    path, batch = ARCHITECTURES[name].mixer, {"input_ids": ids()}
    model = plant(make(name), path, decoding(size))
    finding = found(checked(name, model, batch, *asked(size, "cache")), "cache", path)
    assert finding.rows[-1] == 19
    agrees(finding, model, batch, within=5)  # of the first part that is wrong


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_training_mode_alone(name: str, size: float) -> None:
    path, batch = ARCHITECTURES[name].mixer, {"input_ids": ids()}
    rule, fault = ("future", ahead) if ARCHITECTURES[name].is_causal else ("batch", beside)
    model = plant(make(name), path, in_training(fault(size)))
    report = checked(name, model, batch, *asked(size, rule, "training"))
    finding = found(report, rule, path)
    assert report.checked["training"] == "found" and "in training mode" in finding.text
    agrees(finding, model, batch, within=5)
    if size == 1e-3:
        assert checked(name, model, batch, rule).checked[rule] == "ok"


PLACES = ["model.embed_tokens", "model.layers.0", "model.layers.0.mlp", "model.norm", "lm_head",
          "model.layers.0.self_attn.q_proj", "model.layers.1.input_layernorm"]  # fmt: skip


@pytest.mark.parametrize("fault", [ahead, beside], ids=["future", "batch"])
@pytest.mark.parametrize("path", PLACES)
def test_modules_of_every_kind(path: str, fault: Any) -> None:
    rule = {ahead: "future", beside: "batch"}[fault]
    found(check(plant(make("llama"), path, fault(1e-3)), ids(), rules=[rule]), rule, path)


OWN = [
    ("future", ahead, {"input_ids": ids()}),
    ("batch", beside, {"input_ids": ids()}),
    ("padding", padding, padded("left")),
    ("cache", decoding, {"input_ids": ids()}),
    ("documents", first_row, {"input_ids": ids(1, 24), "position_ids": PACK}),
]  # fmt: skip


@pytest.mark.parametrize("half", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(("rule", "fault", "batch"), OWN, ids=[own[0] for own in OWN])
def test_without_a_copy_of_the_whole(rule: str, fault: Any, batch: Any, half: bool) -> None:
    """by_layer: the model's own precision decides, and shows what is large enough."""
    path = place_of_padding("llama")
    model = plant(make("llama"), path, fault(0.3 if half else 1e-3))
    report = check(model.bfloat16() if half else model, batch, rules=[rule], by_layer=True)
    agrees(found(report, rule, path), model, batch, within=10)


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-6])
def test_a_window_without_a_copy_of_the_whole(size: float) -> None:
    """Each layer is measured in double by itself."""
    path, model = ARCHITECTURES["gemma3"].mixer, make("gemma3")
    plant(plant(model, path, opened(beyond, size)), path, windowed(7))
    found(check(model, ids(), rules=["window"], by_layer=True), "window", path)


@pytest.mark.parametrize("rule", ["future", "batch", "cache"])
def test_faults_of_a_model_in_bfloat16(rule: str) -> None:
    fault = {"future": ahead, "batch": beside, "cache": decoding}[rule]
    path = ARCHITECTURES["llama"].mixer
    model = plant(make("llama"), path, fault(1e-6)).bfloat16()
    found(check(model, ids(), rules=[rule]), rule, path)
