"""Families of every kind are as docs/families.md says (the others: `make test-families`), and what
is planted wrong is called wrong."""

from __future__ import annotations

import itertools
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import AttentionInterface

import forked
import regard
from regard.huggingface import register
from regard.huggingface.attention import regard_attention
from support.families import checks, examination, examine, names, outcomes
from support.families.build import build
from support.families.inputs import accepted
from support.families.sight import packed, seen
from support.families.subject import Subject

PAGE = Path(__file__).parents[2] / "docs" / "families.md"
SAMPLE = """
    llama gpt2 gpt_oss gemma2 qwen2_moe mixtral deepseek_v3 llama4_text jamba mamba
    bert modernbert splinter dpr albert bloom longformer esm openai_privacy_filter doge
    t5 bart bigbird_pegasus t5gemma2 vit swin sam_vision_model detr radio videomae
    clip siglip aimv2 git llava qwen3_vl bridgetower whisper wav2vec2 time_series_transformer
""".split()


def table() -> dict[str, str]:
    """Model type → its kind, as the page has it."""
    kinds: dict[str, str] = {}
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        kind = section.split(":")[0].lower()
        kinds |= dict.fromkeys(re.findall(r"`([^` ]+)`(?=[,.]| \|)", section), kind)
    return kinds


def test_the_table_has_every_model_type_and_nothing_wrong():
    kinds = table()
    assert sorted(kinds) == names()
    assert not [name for name, kind in kinds.items() if kind in ("wrong", "crashed")]
    assert sum(kind != "not built" for kind in kinds.values()) >= 450


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", SAMPLE)
def test_a_family_is_as_the_table_says(name):
    outcome = examine(name)
    assert outcome.kind == table()[name], outcome.said
    assert outcome.kind in ("right", "refused"), outcome.said


# ── planted ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def planted() -> Iterator[type[AttentionInterface]]:
    """The interface, in which another function may be registered under our name."""
    yield AttentionInterface
    register()


def slightly_off(*given, **options):
    output, aux = regard_attention(*given, **options)
    return output * 1.01, aux


def uncausal(module, query, key, value, mask, **options):
    return regard_attention(module, query, key, value, None, **options | {"is_causal": False})


def raising(*given, **options):
    raise ZeroDivisionError("planted")


@pytest.mark.parametrize(
    ("function", "kind", "sentence"),
    [
        (slightly_off, "wrong", "built, unpadded: logits is off by "),
        (uncausal, "wrong", "built, unpadded: logits is off by "),
        (raising, "crashed", "built: ZeroDivisionError: planted (test_every_family.py:"),
    ],
)
def test_another_output_is_wrong_and_an_exception_a_crash(planted, function, kind, sentence):
    planted.register("regard", function)
    outcome = examine("llama")
    assert outcome.kind == kind and sentence in outcome.said
    assert outcome.checks["built"] in outcome.said


def test_a_recording_of_another_sequence_is_wrong(monkeypatch):
    """Heads of one sequence that are filed under the other, as a batch guessed wrongly would."""

    class Swapped:
        def __init__(self, model: Any) -> None:
            self._inner = regard.record(model)

        def __enter__(self) -> Any:
            self._inner.__enter__()
            return self

        def __exit__(self, *error: Any) -> None:
            self._inner.__exit__(*error)

        @property
        def prompts(self) -> list[Any]:
            return [*self._inner.prompts][::-1]

    class Planted:
        record = Swapped

    monkeypatch.setattr(checks, "regard", Planted)
    outcome = examine("vit")
    assert outcome.kind == "wrong"
    assert "record, attentions[0]: head 0 of sequence 0 is not in the recording" in outcome.said


# ── what a type sees ─────────────────────────────────────────────────────────────────────────


def subject(name: str) -> Subject:
    model = build(name)
    return Subject(name, model, accepted(model))


def test_a_right_type_is_asked_everything_and_one_that_sees_ahead_is_not_right():
    llama = subject("llama")
    assert seen(llama) == [] and llama.findings == {}
    assert {rule for rule, verdict in llama.verdicts.items() if verdict == "ok"} == {
        "future", "padding", "documents", "batch", "cache", "training"
    }  # fmt: skip
    pack = packed(llama)
    assert pack["input_ids"].shape == pack["position_ids"].shape == (1, 22)
    assert pack["position_ids"][0, 10:13].tolist() == [10, 0, 1]
    ahead = subject("llama")
    ahead.model.config.is_causal = False
    for layer in ahead.model.model.layers:
        layer.self_attn.is_causal = False
    assert any(text.startswith("future: ") for text in seen(ahead))


def test_a_finding_is_new_unless_its_cause_is_listed(monkeypatch):
    assert seen(subject("jamba")) == []
    monkeypatch.setattr("support.families.known.KNOWN", ())
    jamba = subject("jamba")
    cache, documents = seen(jamba)
    assert cache.startswith("cache: five tokens at a time")
    assert documents.startswith("documents: ") and documents.endswith(", packed")
    assert jamba.verdicts["cache"] == "found"


def test_what_cannot_be_checked_is_a_note(monkeypatch):
    vit = subject("vit")
    assert packed(vit) is None and packed(subject("t5")) is None
    monkeypatch.setattr("support.families.sight._batches", lambda _: [("", {}, None)])
    assert seen(vit) == [] and vit.verdicts == {}
    assert vit.notes[-1].startswith("not checked: ")


# ── processes ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "examined", "options", "sentence"),
    [
        (7, os._exit, {}, "the process ended with status 7"),
        (600, time.sleep, {"patience": 0.5}, "no answer within 0.5 s"),
        (itertools.count(), list, {"seconds": 0.1},
         f"the process ended with status {-signal.SIGPROF} (out of time)"),
    ],
)  # fmt: skip
def test_a_process_that_dies_or_hangs_is_an_outcome(
    monkeypatch, given, examined, options, sentence
):
    monkeypatch.setattr(examination.multiprocessing, "get_context", lambda _: forked.context)
    (outcome,) = outcomes([given], examined, processes=1, **options)
    assert (outcome.name, outcome.kind, outcome.said) == (str(given), "crashed", sentence)
