"""SmolLM2 goes on from what evictions leave of its cache."""

from __future__ import annotations

import csv

import pytest
import torch

from examples.scripts import load
from real_models import smollm2
from regard.errors import InputError

eviction = load("eviction")


def test_rows_of_all_contenders_and_a_picture(tmp_path, capsys):
    table, picture = tmp_path / "rows.csv", tmp_path / "rows.png"
    eviction.main(
        files=None, model="smollm2", tokens=200, foretold=20, budgets="80,180", into=table,
        plot=picture,
    )  # fmt: skip
    assert "perplexity with all keys" in capsys.readouterr().out
    rows = list(csv.DictReader(table.open()))
    assert [row["by"] for row in rows] == ["full", *eviction.CONTENDERS * 2]
    full, *others = (float(row["perplexity"]) for row in rows)
    assert 1 < full < 500
    assert others[4:] == pytest.approx([full] * len(others[4:]), rel=1e-3)
    assert any(abs(other / full - 1) > 1e-3 for other in others[:4])
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_perplexity_is_that_of_one_pass(tmp_path):
    """With all keys, the loss of transformers' own model over the whole text."""
    loaded = smollm2()
    ids = eviction.read_text((), loaded.tokenizer, 60).repeat(1, 2)
    model = eviction.load("smollm2").model
    rows = eviction.measure(model, ids, 40, [], lambda: None)
    with torch.no_grad():
        logits = loaded.model(ids).logits[0, 79:-1].double()
    loss = torch.nn.functional.cross_entropy(logits, ids[0, 80:])
    assert rows[0].perplexity == pytest.approx(float(loss.exp()), rel=1e-3)
    (tmp_path / "short.txt").write_text("Too short.")
    with pytest.raises(InputError, match="--tokens asks for 4000"):
        eviction.read_text([tmp_path / "short.txt"], loaded.tokenizer, 4000)
