"""What a report holds, and what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import regard
from check.architectures import ARCHITECTURES, ids, make, padded
from check.faults import ahead, beside, plant
from check.models import Words
from check.reports import open_rules
from regard.check import Decision, Finding, Report, check
from regard.errors import RegardError

RULES = ("future", "padding", "documents", "batch", "window", "cache", "training")


def leaking(size: float = 1e-3) -> Any:
    return plant(make("llama"), ARCHITECTURES["llama"].mixer, beside(size))


def test_the_folder_is_the_function() -> None:
    assert regard.check(make("llama"), ids()).ok
    assert check(make("llama"), ids()).ok


def test_every_rule_has_a_verdict() -> None:
    report = check(make("gemma3"), padded("left"))
    assert tuple(report.checked) == RULES
    for rule in ("future", "padding", "batch", "window", "cache", "training"):
        verdict = report.checked[rule]
        assert isinstance(verdict, Decision) and verdict == "ok"
        assert verdict.decided_by in ("bits", "float64", "noise")
        assert 0 < verdict.smallest < 1e-3 and 1e-3 < verdict.control < 10
        assert verdict.decided_by and f"{verdict.control:.0e}" in verdict.rests_on
    assert report.checked["documents"] == "not asked: the batch is no pack"
    assert report.ok and report.undecided == {} and report.findings == []
    report.raise_for_findings()


def test_what_each_layer_sees_beside_what_it_declares() -> None:
    layers = check(make("gemma3"), ids()).layers
    assert [(each.name, each.sees, each.declared) for each in layers] == [
        ("model.layers.0.self_attn", "causal", "full attention"),
        ("model.layers.1.self_attn", "window 7", "window 7"),
    ]
    row, key = 9, 3
    assert (row, key) in layers[1].cells() and (row, key - 1) not in layers[1].cells()


def test_in_words() -> None:
    report = check(leaking(), {"input_ids": ids()})
    words = str(report)
    assert words == repr(report)
    first = report.findings[0]
    for part in (*RULES, first.text, "LlamaForCausalLM, 2 × 20 positions, float32", "declared",
                 "model.layers.0.self_attn  causal", *first.reproduce.splitlines()):  # fmt: skip
        assert part in words or part == "declared"
    assert "declared: window 7" in str(check(make("gemma3"), ids()))


def test_findings_raise_with_their_sentences() -> None:
    report = check(leaking(), {"input_ids": ids()})
    with pytest.raises(AssertionError, match="batch: the other sequences move rows 0 to 19"):
        report.raise_for_findings()


def test_the_most_severe_finding_comes_first() -> None:
    model = plant(make("llama"), "model.layers.1.self_attn", beside(1e-5))
    plant(model, "model.layers.0.self_attn", ahead(0.5))
    report = check(model, {"input_ids": ids()}, rules=["future", "batch"])
    assert [each.rule for each in report.findings] == ["future", "batch"]
    assert report.findings[0].change > report.findings[1].change
    assert [each.module for each in report.findings] == [
        "model.layers.0.self_attn", "model.layers.1.self_attn",
    ]  # fmt: skip


def test_a_picture() -> None:
    figure = check(make("gemma3"), ids()).plot()
    titles = [axis.get_title() for axis in figure.axes if axis.axison]
    assert titles == ["model.layers.0.self_attn\ncausal", "model.layers.1.self_attn\nwindow 7"]
    check(lambda x: x.cumsum(1), torch.randn(2, 6, 4), causal=True).plot()


def test_a_report_travels() -> None:
    report = check(make("llama"), padded("left"))
    again: Report = pickle.loads(pickle.dumps(report))
    assert str(again) == str(report)
    assert again.checked["future"].control == report.checked["future"].control
    finding = check(leaking(), ids(), rules=["batch"]).findings[0]
    assert pickle.loads(pickle.dumps(finding)) == finding
    assert isinstance(finding, Finding)


def test_what_is_allowed_is_no_finding() -> None:
    report = check(leaking(), ids(), rules=["batch"], allow={"batch": "a norm over all"})
    assert report.checked["batch"] == "allowed: a norm over all"
    assert report.findings == [] and report.ok
    assert check(leaking(), ids(), allow={"future": "meant"}).checked["batch"] == "found"
    right = check(make("llama"), ids(), rules=["batch"], allow={"batch": "a norm over all"})
    assert right.checked["batch"] == "ok"


def test_some_rules() -> None:
    report = check(make("llama"), ids(), rules=["future", "cache"])
    assert [rule for rule, own in report.checked.items() if own == "ok"] == ["future", "cache"]
    assert report.checked["batch"] == "not asked: left out of rules="
    assert report.ok


class Nothing(nn.Module):
    """Returns no rows."""

    def forward(self, tokens: Any) -> Any:
        return {"count": 3}


def nowhere() -> Words:
    with torch.device("meta"):
        return Words()


EMPTY: list[Any] = [
    None, 3, "words", [], {}, {"labels": ids()}, {"input_ids": [[1, 2]]}, ids()[:0],
    torch.zeros(2, 0, dtype=torch.long), {"input_ids": None},
]  # fmt: skip
REFUSED: list[tuple[dict[str, Any], str]] = [
    *(({"batch": batch}, "^[^\n]*give token ids[^\n]*$") for batch in EMPTY),
    ({"rules": ["causality"]}, "no rule is called causality; rules: future, "),
    ({"allow": {"futures": "known"}}, "no rule is called futures; rules: future, "),
    ({"documents": [0] * 7}, r"documents has shape \(7,\); give a number for each"),
    ({"model": Nothing()}, "returns dict without a tensor of"),
    ({"model": nowhere(), "causal": True}, "meta"),
]


@pytest.mark.parametrize(("given", "reason"), REFUSED)
def test_what_cannot_be_checked_is_refused(given: dict[str, Any], reason: str) -> None:
    given = {"batch": ids()} | given
    with pytest.raises(RegardError, match=reason):
        check(given.pop("model", None) or make("llama"), given.pop("batch"), **given)


EMBEDDINGS = torch.randn(2, 11, 32, generator=torch.Generator().manual_seed(8))
DICE = torch.Generator()
# what is called, and the reason why it is not known whether rows see what follows
UNDECIDED: dict[str, tuple[Callable[[], Any], Any, str]] = {
    "special tokens": (lambda: make("llama"), torch.full((2, 12), 1), ""),
    "no row moves another": (lambda: lambda x: x * 2, EMBEDDINGS, ""),
    "noise of an own generator": (
        lambda: lambda x: x.cumsum(1) + 0.1 * torch.randn(x.shape, generator=DICE), EMBEDDINGS, ""
    ),
    "a row a sequence": (
        lambda: lambda x: x.cumsum(1)[:, -1], EMBEDDINGS, "the model returns no row a position",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNDECIDED)
def test_what_cannot_be_seen_is_not_decided(name: str) -> None:
    made, batch, why = UNDECIDED[name]
    asked = {} if batch.dtype == torch.long else {"causal": True}
    assert open_rules(check(made(), batch, **asked))["future"].startswith(f"not decided: {why}")


@pytest.mark.parametrize("name", ["llama", "gpt2", "recurrent"])
def test_zero_weights_are_not_decided(name: str) -> None:
    model = make(name)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    left = open_rules(check(model, ids(), causal=True))
    assert left.keys() >= {"future", "padding", "batch", "training"}


def test_one_layer_of_zeros_is_not_decided() -> None:
    """Its projections may yet open a leak once they are trained."""
    model = make("llama")
    with torch.no_grad():
        model.model.layers[1].self_attn.o_proj.weight.zero_()
    left = open_rules(check(model, ids()))
    assert left["future"].startswith("not decided: model.layers.1.self_attn")


def test_progress_in_words() -> None:
    heard: list[str] = []
    check(make("llama"), ids(), progress=heard.append)
    assert heard[:2] == ["as it is", "in float64"] and "what each layer sees" in heard


def test_a_small_leak_in_half_precision_alone_is_not_ok() -> None:
    """By layers no copy decides: what bf16 cannot show is said."""
    model = plant(make("llama"), ARCHITECTURES["llama"].mixer, beside(1e-6)).bfloat16()
    report = check(model, ids(), by_layer=True)
    assert not (report.checked["batch"] == "ok" and report.checked["batch"].smallest < 1e-6)
    assert check(model, ids()).checked["batch"] == "found"
