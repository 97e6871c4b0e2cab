"""Forty families of every kind are as docs/families.md says; the others: `make test-families`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.families import examine, names

PAGE = Path(__file__).parents[3] / "docs" / "families.md"

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


def test_the_sample_is_forty():
    assert len(set(SAMPLE)) == 40


@pytest.mark.parametrize("name", SAMPLE)
def test_a_family_is_as_the_table_says(name):
    found = examine(name)
    assert found.kind == table()[name], found.said
    assert found.kind in ("right", "refused"), found.said
