"""`regard check`: what is checked, on which batch, and how the verdict is told."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import warm

MODELS = """
import neighbour
import torch
from torch import nn


class Reader(nn.Module):
    \"\"\"A layer of attention that hides later tokens, or does not.\"\"\"

    def __init__(self, hides=True):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.out = nn.Embedding(50, 16), nn.Linear(16, 50)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.hides = hides

    def forward(self, ids):
        print("a word of the model's own")
        x = self.embed(ids)
        later = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
        mask = later if self.hides else None
        return self.out(x + self.attention(x, x, x, attn_mask=mask, need_weights=False)[0])


def right():
    return Reader()


def leaks():
    return Reader(hides=False)


def with_batch():
    return Reader(), torch.arange(24).view(2, 12)


def callable_alone():
    model = Reader(hides=False)
    return lambda ids: model(ids), torch.arange(12)[None]


def blind():
    model = Reader()
    nn.init.zeros_(model.attention.out_proj.weight)
    return model


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(
        hidden_size=32, num_attention_heads=4, num_hidden_layers=1, intermediate_size=32,
        vocab_size=60, max_position_embeddings=32,
    ))


def fails():
    raise ValueError("no weights here")


def gives_three():
    return 3


def needs_more():
    return Reader(), {"ids": torch.arange(12)[None], "surprise": 1}


def together():
    from torch import distributed

    distributed.init_process_group("gloo")
    return Reader(hides=distributed.get_rank() == 0), torch.arange(12)[None]
"""


@pytest.fixture
def check(shell, monkeypatch, tmp_path):
    """The verb, run in a folder with models.py."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "neighbour.py").write_text("")
    return lambda *words: shell("check", *(w for word in words for w in str(word).split("|")))


@pytest.mark.parametrize(
    ("words", "status", "shown"),
    [
        ("right|--causal", 0, r"Reader, 1 × 64 positions"),
        ("right|--causal", 0, r"^  future +ok .*float64"),
        ("right|--causal", 0, r"^  attention +causal$"),
        ("leaks|--causal|--rule|future|--allow|future=an encoder in truth", 0,
         "allowed: an encoder in truth"),
        ("right|--no-causal|--rule|future", 0, r"not asked: later tokens may be seen \(causal=\)"),
        ("right|--causal|--window|5|--rule|window", 1, "sees 64 positions, more than the 5 decl"),
        ("right|--causal|--by-layer|--rule|window", 0, r"^  attention +causal$"),
        ("blind|--causal|--rule|future", 2, "^  future +not decided: no row moves"),
        ("callable_alone|--causal|--rule|future", 1, "1 × 12 positions"),
        ("with_batch|--causal|--rule|batch", 0, "2 × 12 positions"),
        # ids are drawn where there is no tokenizer, of all positions that there are
        ("llama|--pack|--rule|documents", 0, "1 × 48 positions"),
        ("llama|--pad|left|--rule|padding", 0, "2 × 32 positions"),
    ],
)  # fmt: skip
def test_a_function_of_a_file_is_checked(check, words, status, shown):
    stopped, out, err = check(f"models.py:{words}")
    assert stopped == status, err
    assert re.search(shown, out, re.MULTILINE) and "\x1b" not in out
    assert "1. " not in out or status == 1
    assert "a word of the model's own" not in out  # which is on stderr
    assert "a word" in err or "llama" in words


def test_a_leak_is_told_with_its_place_and_lines_that_show_it(check):
    status, out, _ = check("models.py:leaks|--causal|--rule|future")
    assert status == 1
    assert re.search(r"^1\. future: .*; attention \(MultiheadAttention\) moves", out, re.MULTILINE)
    shown = "".join(line[4:] + "\n" for line in out.splitlines() if line.startswith("    "))
    program = f"from models import leaks\nmodel = leaks()\n{shown}"
    done = warm.run(program, cwd=Path.cwd())
    assert done.returncode == 0 and float(done.stdout.split()[-1]) > 1e-3


def test_the_whole_report_as_json(check):
    status, out, _ = check("models.py:leaks|--causal|--json")
    answer = json.loads(out)
    assert status == 1 and answer["ok"] is False and answer["model"] == "models.py:leaks"
    assert answer["checked"]["future"]["verdict"] == "found"
    batch = answer["checked"]["batch"]
    assert batch["decided_by"] == "float64" and batch["control"] > 0.1 > batch["smallest"] > 0
    (first, *_) = answer["findings"]
    assert first["rule"] == "future" and first["module"] == "attention" and first["change"] > 0
    assert first["rows"][0] == 0 and "twin" in first["reproduce"] and first["source"]
    (layer,) = answer["layers"]
    assert layer["name"] == "attention" and layer["kind"] == "MultiheadAttention"
    assert layer["sees"] == "all" and layer["columns"]["63"] == "0:64"
    assert "1 × 64 positions" in answer["about"] and answer["forwards"] > 1


def test_a_function_of_a_package(check, tmp_path):
    (tmp_path / "somebodys_models.py").write_text(MODELS)  # no name that a test's module has
    assert check("somebodys_models:with_batch|--causal|--rule|batch")[0] == 0


@pytest.mark.parametrize("suffix", [".pt", ".npz", ".safetensors", ".json"])
def test_a_batch_is_read_from_a_file(check, tmp_path, suffix):
    from safetensors.torch import save_file

    ids, path = torch.arange(20).view(2, 10), tmp_path / f"batch{suffix}"
    if suffix == ".pt":
        torch.save({"ids": ids}, path)
    elif suffix == ".npz":
        np.savez(path, ids=ids.numpy())
    elif suffix == ".safetensors":
        save_file({"ids": ids}, path)
    else:
        path.write_text(json.dumps(ids.tolist()))  # alone, they are a batch too
    status, out, err = check("models.py:with_batch|--causal|--batch", path)
    assert status == 0 and "2 × 10 positions" in out, err


TEXTS = "--text|the sea rises twice a day|--text|moon pulls on water"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (f"{TEXTS}|--pad|left|--rule|padding", r"^  padding +ok"),
        (f"{TEXTS}|--pad|right|--rule|padding", "2 × 6 positions"),
        ("--rule|future|--rule|cache", r"LlamaForCausalLM, 1 × [56]\d positions"),  # a text of ours
        ("--pack|--rule|documents", r"^  documents +ok"),
        ("--pack|--rule|documents", "causal within documents"),
    ],
)
def test_a_folder_is_checked_on_texts(check, model, words, shown):
    status, out, err = check(model, words)
    assert status == 0 and re.search(shown, out, re.MULTILINE), err


@pytest.mark.parametrize(
    ("words", "said", "status"),
    [
        ("models.py:fails", "models.py:fails: fails (ValueError: no weights here, models.py", 2),
        ("models.py:gives_three", "gives_three() returns a int", 2),
        ("models.py:absent", "has no function 'absent'; it has Reader, right, leaks", 2),
        ("absent.py:build", "absent.py: cannot be read", 3),
        ("absent.module:build", "there is no module 'absent.module'", 2),
        ("absent", "absent", 2),
        ("models.py:needs_more", "the model cannot be checked on this batch (TypeError", 2),
        ("models.py:right|--rule|fture", "--rule 'fture': give one of future, padding", 2),
        ("models.py:right|--allow|future", "--allow 'future': give RULE=REASON", 2),
        ("models.py:right|--allow|fture=x", "give one of future", 2),
        ("models.py:right|--text|x", "--text takes a tokenizer", 2),
        ("models.py:right|--pad|up", "--pad 'up': give left or right", 2),
        ("models.py:right|--pad|left|--pack", "a pack has no padding", 2),
        ("models.py:right|--pad|left", "takes no attention_mask", 2),
        ("models.py:right|--pack", "takes no position_ids", 2),
        ("models.py:with_batch|--pack", "returns a batch, which is checked as it is", 2),
        ("models.py:right|--batch|b.json|--pack", "leave out --text", 2),
        ("models.py:right|--batch|absent.pt", "absent.pt: cannot be read", 3),
        ("models.py:right|--batch|models.py", "give a file in .pt, .npz", 2),
        ("models.py:right|--batch|torn.pt", "torn.pt: cannot be read", 3),
        ("models.py:right|--batch|torn.npz", "torn.npz: cannot be read", 3),
        ("models.py:right|--batch|torn.safetensors", "torn.safetensors: cannot be read", 3),
        ("models.py:right|--batch|torn.json", "torn.json: cannot be read", 3),
        ("models.py:right|--batch|word.json", "word.json: holds a str", 3),
        ("MODEL|--text|the sea|--text|a day|--pad|left", "--pad: the texts are equally long", 2),
    ],
)
def test_what_cannot_be_checked_is_one_line(check, refused, model, tmp_path, words, said, status):
    for suffix in ("pt", "npz", "safetensors", "json"):
        start = b"PK\x03\x04" if suffix == "npz" else b""
        (tmp_path / f"torn.{suffix}").write_bytes(start + b"\x00torn")
    (tmp_path / "b.json").write_text("[[1, 2]]")
    (tmp_path / "word.json").write_text('"word"')
    words = words.replace("MODEL", str(model)).split("|")
    assert said in refused("check", *words, status=status)


def test_ranks_that_meet_have_one_verdict_printed_once(check, tmp_path):
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    words = ["check", "models.py:together", "--causal", "--rule", "future", "--json"]
    done = subprocess.run(
        [*launch, "-m", "regard", *words], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False, timeout=240,
    )  # fmt: skip
    answer = json.loads(done.stdout)
    assert answer["checked"]["future"]["verdict"] == "found"
    assert answer["findings"][0]["text"].startswith("rank 1: future")
    assert done.stderr.count("exitcode  : 1") >= 1
