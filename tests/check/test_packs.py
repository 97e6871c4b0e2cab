"""Packs as loaders give them: by positions, cuts or what is told, one or several side by side."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DataCollatorWithFlattening

from check import models
from check.architectures import ids, make
from check.faults import Fault, beside, first_row, plant
from check.models import seeded
from check.reports import broken, clean
from regard.check import check

LLAMA = "model.layers.1.self_attn"
DOCUMENTS = torch.tensor([[0] * 7 + [1] * 9 + [2] * 8])
POSITIONS = torch.tensor([[*range(7), *range(9), *range(8)], [*range(10), *range(14)]])
TWO = {"input_ids": ids(2, 24), "position_ids": POSITIONS}
ONE = {"input_ids": ids(1, 24), "position_ids": POSITIONS[:1]}


@pytest.mark.parametrize("batch", [ONE, TWO], ids=["one", "two"])
@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma3", "qwen3_moe"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_packs_by_positions(name: str, attention: str, batch: Any) -> None:
    model = make(name)
    model.set_attn_implementation(attention)
    report = check(model, batch)
    clean(report, "future", "documents", "training", *["batch"] * (batch is TWO))
    assert all(layer.sees.endswith("within documents") for layer in report.layers)


@pytest.mark.parametrize(("rule", "fault"), [("documents", first_row), ("batch", beside)])
def test_a_fault_in_packs_side_by_side(rule: str, fault: Fault) -> None:
    broken(check(plant(make("llama"), LLAMA, fault(1e-3)), TWO), rule, LLAMA)


@pytest.mark.parametrize("is_told", [False, True], ids=["positions", "cuts as well"])
def test_batches_of_the_collator(is_told: bool) -> None:
    texts = [{"input_ids": ids(1, n, seed=n)[0].tolist()} for n in (5, 9, 7)]
    batch = DataCollatorWithFlattening(return_flash_attn_kwargs=is_told)(texts)
    clean(check(make("llama"), batch), "future", "documents", "training")


def test_documents_of_one_token() -> None:
    positions = torch.tensor([[0, 0, 1, 0, 0, 1, 2, 0]])
    check(make("llama"), {"input_ids": ids(1, 8), "position_ids": positions}).raise_for_findings()


def cut() -> dict[str, Any]:
    """Three documents by where they begin, in rows without an axis of sequences."""
    rows = torch.randn(24, 32, generator=torch.Generator().manual_seed(5))
    return {"hidden": rows, "pack": models.Pack(torch.tensor([0, 7, 16, 24]).int(), 9)}


@pytest.mark.parametrize("is_right", [True, False])
def test_cuts_that_are_read_or_not(is_right: bool) -> None:
    model = seeded(models.Packed, is_right)
    report = check(model, cut(), causal=True)
    where = "within" if is_right else "across"
    assert [each.sees for each in report.layers] == [f"causal {where} documents"]
    if is_right:
        clean(report, "future", "documents")
        return
    broken(report, "documents", "mix")
    assert "cu_seqlens" in report.findings[0].text
    report = check(model, cut(), causal=True, documents=False)  # it is one text
    assert report.checked["documents"].startswith("not asked") and not report.findings


@pytest.mark.parametrize(
    "documents", [DOCUMENTS, DOCUMENTS[0], DOCUMENTS[0].tolist()], ids=["tensor", "row", "list"]
)
def test_documents_that_are_told(documents: Tensor | list[int]) -> None:
    clean(check(make("llama"), ONE, documents=documents), "future", "documents")
    report = check(make("llama"), {"input_ids": ids(1, 24)}, documents=documents)
    assert {each.rule for each in report.findings} == {"documents"}
    assert "documents=" in report.findings[0].text
