"""`regard check` as a shell sees it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch

from cli.test_record import save_tiny

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


def memory():
    class Full(nn.Module):
        def forward(self, ids):
            raise MemoryError("the device is full")

    return Full(), torch.arange(12)[None]


def stops():
    import os, signal

    class Stopped(nn.Module):
        def forward(self, ids):
            os.kill(os.getpid(), signal.SIGINT)

    return Stopped(), torch.arange(12)[None]
"""


@pytest.fixture
def check(shell, monkeypatch, tmp_path):
    """The verb, run in a folder with models.py."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "neighbour.py").write_text("")
    return partial(shell, "check")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A folder with a tiny Llama and a tokenizer of a few words."""
    return save_tiny(tmp_path_factory.mktemp("tiny"))


def test_a_right_model_is_status_0(check):
    status, out, err = check("models.py:right", "--causal")
    assert status == 0, err
    assert "Reader, 1 × 64 positions" in out
    assert re.search(r"^  future +ok .*float64", out, re.MULTILINE)
    assert re.search(r"^  attention +causal$", out, re.MULTILINE)
    assert "a word of the model's own" in err and "a word" not in out
    assert "\x1b" not in out


def test_a_leak_is_status_1_with_its_place_and_lines_that_show_it(check):
    status, out, _ = check("models.py:leaks", "--causal", "--rule", "future")
    assert status == 1
    assert re.search(r"^1\. future: .*; attention \(MultiheadAttention\) moves", out, re.MULTILINE)
    shown = "".join(line[4:] + "\n" for line in out.splitlines() if line.startswith("    "))
    program = f"from models import leaks\nmodel = leaks()\n{shown}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert float(done.stdout.split()[-1]) > 1e-3


def test_what_is_allowed_is_status_0(check):
    words = ("models.py:leaks", "--causal", "--rule", "future")
    status, out, _ = check(*words, "--allow", "future=an encoder in truth")
    assert status == 0
    assert "allowed: an encoder in truth" in out and "1. " not in out


def test_what_is_declared_on_the_command_line(check):
    status, out, _ = check("models.py:right", "--no-causal", "--rule", "future")
    assert status == 0 and "not asked: later tokens may be seen (causal=)" in out
    status, out, _ = check("models.py:right", "--causal", "--window", 5, "--rule", "window")
    assert status == 1 and "sees 64 positions, more than the 5 declared" in out
    status, out, _ = check("models.py:right", "--causal", "--by-layer", "--rule", "window")
    assert status == 0 and re.search(r"^  attention +causal$", out, re.MULTILINE)


def test_what_is_not_decided_is_status_2(check):
    status, out, _ = check("models.py:blind", "--causal", "--rule", "future")
    assert status == 2
    assert re.search(r"^  future +not decided: no row moves", out, re.MULTILINE)


def test_the_whole_report_as_json(check):
    status, out, _ = check("models.py:leaks", "--causal", "--json")
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


def test_a_function_may_bring_its_batch_or_be_in_a_package(check, tmp_path):
    (tmp_path / "somebodys_models.py").write_text(MODELS)  # no name that a test's module has
    status, out, _ = check("somebodys_models:with_batch", "--causal", "--rule", "batch")
    assert status == 0 and "2 × 12 positions" in out
    status, out, _ = check("models.py:callable_alone", "--causal", "--rule", "future")
    assert status == 1 and "1 × 12 positions" in out


@pytest.mark.parametrize("suffix", [".pt", ".npz", ".safetensors", ".json"])
def test_a_batch_is_read_from_a_file(check, tmp_path, suffix):
    from safetensors.torch import save_file

    ids = torch.arange(20).view(2, 10)
    path = tmp_path / f"batch{suffix}"
    if suffix == ".pt":
        torch.save({"ids": ids}, path)
    elif suffix == ".npz":
        np.savez(path, ids=ids.numpy())
    elif suffix == ".safetensors":
        save_file({"ids": ids}, path)
    else:
        path.write_text(json.dumps({"ids": ids.tolist()}))
    status, out, err = check("models.py:with_batch", "--causal", "--batch", path)
    assert status == 0, err
    assert "2 × 10 positions" in out


def test_ids_alone_are_a_batch(check, tmp_path):
    (tmp_path / "ids.json").write_text("[[1, 2, 3, 4, 5, 6, 7]]")
    status, out, _ = check("models.py:leaks", "--causal", "--batch", "ids.json")
    assert status == 1 and "1 × 7 positions" in out


@pytest.mark.parametrize("side", ["left", "right"])
def test_texts_are_padded(check, tiny, side):
    words = ("--text", "the sea rises twice a day", "--text", "moon pulls on water")
    status, out, err = check(tiny, *words, "--pad", side, "--rule", "padding")
    assert status == 0, err
    assert "2 × 6 positions" in out and re.search(r"^  padding +ok", out, re.MULTILINE)


def test_a_folder_is_checked_on_a_text_of_ours(check, tiny):
    status, out, err = check(tiny, "--rule", "future", "--rule", "cache")
    assert status == 0, err
    assert re.search(r"LlamaForCausalLM, 1 × [56]\d positions", out)


def test_texts_are_packed(check, tiny):
    status, out, err = check(tiny, "--pack", "--rule", "documents")
    assert status == 0, err
    assert re.search(r"^  documents +ok", out, re.MULTILINE)
    assert "causal within documents" in out


def test_ids_are_drawn_where_there_is_no_tokenizer(check):
    status, out, err = check("models.py:llama", "--pack", "--rule", "documents")
    assert status == 0, err
    assert "1 × 48 positions" in out  # of all positions that there are, and half of them
    status, out, err = check("models.py:llama", "--pad", "left", "--rule", "padding")
    assert status == 0, err
    assert "2 × 32 positions" in out


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("models.py:fails", 2, "models.py:fails: fails (ValueError: no weights here, models.py"),
        ("models.py:gives_three", 2, "gives_three() returns a int"),
        ("models.py:absent", 2, "has no function 'absent'; it has Reader, right, leaks"),
        ("absent.py:build", 3, "absent.py: cannot be read"),
        ("absent.module:build", 2, "there is no module 'absent.module'"),
        ("absent", 2, "absent"),
        ("models.py:needs_more", 2, "the model cannot be checked on this batch (TypeError"),
        ("models.py:memory", 2, "(MemoryError: the device is full)"),
        ("models.py:right --rule fture", 2, "--rule 'fture': give one of future, padding"),
        ("models.py:right --allow future", 2, "--allow 'future': give RULE=REASON"),
        ("models.py:right --allow fture=x", 2, "give one of future"),
        ("models.py:right --text x", 2, "--text takes a tokenizer"),
        ("models.py:right --pad up", 2, "--pad 'up': give left or right"),
        ("models.py:right --pad left --pack", 2, "a pack has no padding"),
        ("models.py:right --pad left", 2, "takes no attention_mask"),
        ("models.py:right --pack", 2, "takes no position_ids"),
        ("models.py:with_batch --pack", 2, "returns a batch, which is checked as it is"),
        ("models.py:right --batch b.json --pack", 2, "leave out --text"),
        ("models.py:right --batch absent.pt", 3, "absent.pt: cannot be read"),
        ("models.py:right --batch models.py", 2, "give a file in .pt, .npz"),
        ("models.py:right --batch torn.pt", 3, "torn.pt: cannot be read"),
        ("models.py:right --batch torn.npz", 3, "torn.npz: cannot be read"),
        ("models.py:right --batch torn.safetensors", 3, "torn.safetensors: cannot be read"),
        ("models.py:right --batch torn.json", 3, "torn.json: cannot be read"),
        ("models.py:right --batch word.json", 3, "word.json: holds a str"),
    ],
)
def test_what_cannot_be_checked_is_one_line(check, tmp_path, words, status, said):
    for suffix in ("pt", "npz", "safetensors", "json"):
        start = b"PK\x03\x04" if suffix == "npz" else b""
        (tmp_path / f"torn.{suffix}").write_bytes(start + b"\x00torn")
    (tmp_path / "b.json").write_text("[[1, 2]]")
    (tmp_path / "word.json").write_text('"word"')
    answered, out, err = check(*words.split())
    lines = [line for line in err.splitlines() if "a word of the model's own" not in line]
    assert (answered, out, len(lines)) == (status, "", 1), err
    assert lines[0].startswith("regard: ") and said in lines[0]


def test_texts_of_one_length_are_not_padded(check, tiny):
    status, _, err = check(tiny, "--text", "the sea", "--text", "a day", "--pad", "left")
    assert status == 2 and "--pad: the texts are equally long" in err


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


@pytest.mark.parametrize("colour", [{"NO_COLOR": "1"}, {"FORCE_COLOR": "1"}])
def test_colour_is_asked_for_as_everywhere(check, monkeypatch, colour):
    for name, value in colour.items():
        monkeypatch.setenv(name, value)
    _, out, _ = check("models.py:with_batch", "--causal", "--rule", "future")
    assert ("\x1b[32m" in out) == ("FORCE_COLOR" in colour)


def test_ctrl_c_ends_without_a_word(check, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "regard", "check", "models.py:stops"], cwd=tmp_path,
        capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"}, check=False,
    )  # fmt: skip
    assert done.returncode == 128 + signal.SIGINT
    assert (done.stdout, done.stderr) == ("", "")
