"""Packs as loaders give them: by positions, cuts or what is told, one or several side by side."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import DataCollatorWithFlattening

from check.architectures import ids, make
from check.faults import beside, first_row, plant
from check.models import Attention, seeded
from regard.check import Report, check

LLAMA = "model.layers.1.self_attn"
DOCUMENTS = torch.tensor([[0] * 7 + [1] * 9 + [2] * 8])
POSITIONS = torch.tensor([[*range(7), *range(9), *range(8)], [*range(10), *range(14)]])
TWO = {"input_ids": ids(2, 24), "position_ids": POSITIONS}
ONE = {"input_ids": ids(1, 24), "position_ids": POSITIONS[:1]}


class Cut(nn.Module):
    """Documents are told by cuts, and read or not."""

    def __init__(self, is_right: bool) -> None:
        super().__init__()
        self.embed, self.mix, self.is_right = nn.Embedding(64, 32), Attention(), is_right

    def forward(self, input_ids: Tensor, cu_seqlens: Tensor, max_seqlen: int) -> Tensor:
        places = torch.arange(input_ids.shape[1])
        document = torch.bucketize(places, cu_seqlens[1:], right=True)
        allowed = document[:, None] == document
        rows: Tensor = self.mix(self.embed(input_ids), allowed if self.is_right else None)
        return rows


class Segmented(nn.Module):
    """Documents are told by a number a token, of a name of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.mix = nn.Embedding(64, 32), Attention()

    def forward(self, tokens: Tensor, segments: Tensor) -> Tensor:
        allowed = segments[:, None, :, None] == segments[:, None, None]
        rows: Tensor = self.mix(self.embed(tokens), allowed)
        return rows


def clean(report: Report, *decided: str) -> None:
    report.raise_for_findings()
    assert {rule: report.checked[rule] for rule in decided} == dict.fromkeys(decided, "ok")
    assert report.ok, report


@pytest.mark.parametrize("name", ["llama", "gemma3", "qwen3_moe"])
def test_packs_side_by_side(name: str) -> None:
    clean(check(make(name), TWO), "future", "documents", "batch", "training")


def test_a_fault_in_packs_side_by_side() -> None:
    report = check(plant(make("llama"), LLAMA, first_row(1e-3)), TWO)
    assert {(each.rule, each.module) for each in report.findings} == {("documents", LLAMA)}


def test_packs_that_see_one_another() -> None:
    report = check(plant(make("llama"), LLAMA, beside(1e-3)), TWO)
    assert {(each.rule, each.module) for each in report.findings} == {("batch", LLAMA)}


@pytest.mark.parametrize("is_told", [False, True], ids=["positions", "cuts as well"])
def test_batches_of_the_collator(is_told: bool) -> None:
    texts = [{"input_ids": ids(1, n, seed=n)[0].tolist()} for n in (5, 9, 7)]
    batch = DataCollatorWithFlattening(return_flash_attn_kwargs=is_told)(texts)
    clean(check(make("llama"), batch), "future", "documents", "training")


@pytest.mark.parametrize("is_right", [True, False])
def test_cuts(is_right: bool) -> None:
    batch = {"input_ids": ids(1, 24), "cu_seqlens": torch.tensor([0, 7, 16, 24]), "max_seqlen": 9}
    report = check(seeded(Cut, is_right), batch, causal=True)
    if is_right:
        clean(report, "future", "documents", "training")
        return
    assert {(each.rule, each.module) for each in report.findings} == {("documents", "mix")}
    assert "cu_seqlens" in report.findings[0].text


TOLD: dict[str, Any] = {
    "a tensor": DOCUMENTS, "a row": DOCUMENTS[0], "a list": DOCUMENTS[0].tolist(),
}  # fmt: skip


@pytest.mark.parametrize("documents", TOLD)
def test_documents_that_are_told(documents: str) -> None:
    batch = {"tokens": ids(1, 24), "segments": DOCUMENTS}
    report = check(seeded(Segmented), batch, causal=True, documents=TOLD[documents])
    clean(report, "future", "documents", "training")
    clean(check(make("llama"), ONE, documents=TOLD[documents]), "future", "documents")
    report = check(make("llama"), {"input_ids": ids(1, 24)}, documents=TOLD[documents])
    assert {each.rule for each in report.findings} == {"documents"}
    assert "documents=" in report.findings[0].text


def test_one_text_whose_positions_start_again() -> None:
    check(make("llama"), ONE, documents=False).raise_for_findings()


def test_documents_of_one_token() -> None:
    positions = torch.tensor([[0, 0, 1, 0, 0, 1, 2, 0]])
    check(make("llama"), {"input_ids": ids(1, 8), "position_ids": positions}).raise_for_findings()
