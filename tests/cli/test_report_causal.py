"""`regard report --causal`: every head that is told of is knocked out."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import torch

import regard
from real_models import smollm2
from regard.recorder.drive import drive
from regard.recorder.tokens import Encoded
from regard.study import make_report, report_markdown
from regard.study.words import knock_out_sentence


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two layers of SmolLM2 reading random tokens that are told a second time."""
    dice = torch.Generator().manual_seed(0)
    told = torch.randperm(4000, generator=dice)[:20] + 300
    ids = torch.cat([torch.zeros(1, dtype=torch.long), told, told])[None]
    path = tmp_path_factory.mktemp("causal") / "twice.regard"
    loaded = smollm2()
    recorder = regard.record(loaded.model, path, tokenizer=loaded.tokenizer, layers=[17, 18])
    recorder.name = "smollm2"
    with recorder:
        drive(recorder, Encoded(ids, "", "told twice"))
    return path


@pytest.fixture
def report(shell):
    """The verb: status, stdout, stderr."""
    return partial(shell, "report")


def test_knock_outs_stand_beside_the_labels_and_are_kept(report, twice, tmp_path):
    path = tmp_path / "kept.regard"
    path.write_bytes(twice.read_bytes())
    status, out, err = report(path, "--top", 2, "--causal", "--keep", "--json")
    assert status == 0 and "kept in" in err
    said = json.loads(out)
    names = {"prefix-matching", "induction"}
    looking_back = {h["label"] for h in said["heads"] if names & set(h["labels"])}
    told = {one["label"] for one in said["findings"]}
    assert looking_back and set(said["knocked"]) == looking_back | told
    strongest = min(
        looking_back, key=lambda label: said["knocked"][label]["copying"]["delta_logprob"]
    )
    assert said["knocked"][strongest]["copying"]["delta_logprob"] < -0.5
    assert said["knocked"][strongest]["copies"]

    # from the file, without the model
    assert path.read_bytes()[: twice.stat().st_size] == twice.read_bytes()
    status, out, _ = report(path, "--top", 2, "--json", "--model", "no-such-model")
    again = json.loads(out)
    assert status == 0 and again["knocked"] == said["knocked"] and "induction" in again["counts"]
    status, out, _ = report(path, "--top", 1)
    assert status == 0 and "knocked out: next token's logit" in " ".join(out.split())


def test_only_what_copies_is_called_induction(twice):
    with regard.open(twice) as rec:
        plain = make_report(rec, top=0)
        labels = [h.label for h in plain.heads if "prefix-matching" in h.labels]
        assert labels and "induction" not in plain.counts()
        nothing = dict.fromkeys(("delta_logit", "delta_logprob", "kl"), 0.0)
        nothing |= {f"typical_{name}": 0.0 for name in nothing}
        loss = nothing | {"delta_logit": 0.5, "delta_logprob": -2.0}
        louder = nothing | {"delta_logit": -3.0}  # all logits sink: no token is less likely
        knocked = {
            label: {"text": nothing, "copying": loss if n == 0 else louder}
            for n, label in enumerate(labels)
        }
        found = make_report(rec, top=500, knocked=knocked)
    assert [h.label for h in found.heads if "induction" in h.labels] == labels[:1]
    page = report_markdown(found)
    assert "copied token's logit +0.50 (+0.00), log-probability -2.00 (+0.00)" in page
    assert "lowers the copied token's log-probability by 2" in page
    assert "without the last one, which no token follows" in found.as_dict()["causal_check"]
    assert found.as_dict()["knocked"].keys() == knocked.keys()


def test_words():
    text = {"delta_logit": 0.5, "delta_logprob": -0.125, "kl": 0.01}
    copying = {"delta_logit": -1.25, "delta_logprob": 0.75, "kl": 0.02}
    for part, usual in ((text, (0.0, 0.01, 0.002)), (copying, (0.05, -0.02, 0.0))):
        part |= {f"typical_{name}": value for name, value in zip(list(part), usual, strict=True)}
    said = knock_out_sentence({"text": text, "copying": copying})
    assert "next token's logit +0.50 (typically +0.00), KL 0.010 (0.002), " in said
    assert "log-probability -0.12 (+0.01); copied token's logit -1.25 (+0.05), " in said
    assert said.endswith("log-probability +0.75 (-0.02); means without the last row")


def test_a_model_that_is_not_there(report, twice):
    status, out, err = report(twice, "--top", 1, "--causal", "--model", "no-such-model")
    assert status in (1, 2, 3) and out == ""
    assert "no-such-model" in err and "Traceback" not in err


def test_keep_needs_something_to_keep(report, twice):
    status, _, err = report(twice, "--keep")
    assert status != 0 and "--keep adds what --causal finds" in err
