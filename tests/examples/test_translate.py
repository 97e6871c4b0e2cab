"""Number words are learnt, looked up where they stand, and a killed training is none lost."""

from __future__ import annotations

import csv
import functools
import io
import os
import pty
import re
import signal
import subprocess
import sys

import pytest
import torch
from num2words import num2words
from rich.console import Console

from examples.scripts import EXAMPLES, call, load

translate, training_loop = load("translate"), load("training_loop")

SMALL = ("--numbers", "100", "--held-out", "20", "--width", "16", "--d-k", "4")


@pytest.fixture(scope="module")
def trained():
    """A course of numbers below a thousand, and a model that went through it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translate, "LARGEST", 999)
        course = translate.Course("de", numbers=800, held_out=100, seed=0)
    torch.manual_seed(0)
    model = course.make_model(48, 12)
    plan = training_loop.Plan(200, every=200, rate=5e-3)
    losses = functools.partial(course.losses, model)
    readings = training_loop.train(model, losses, plan, Console(file=io.StringIO()))
    assert readings[0].loss > 3
    return course, model


def test_held_out_numbers_are_translated(trained):
    course, model = trained
    assert not set(course.held_out) & set(course.learnt_from)
    wrong = course.mistakes(model, course.held_out)
    assert len(wrong) <= 5
    words = zip(course.held_out, course.translate(model, course.held_out), strict=True)
    assert dict(wrong) == {n: text for n, text in words if text != num2words(n, lang="de")}


def test_the_alignment_crosses_and_is_needed(trained):
    course, model = trained
    head = translate.find_head(course, model)
    assert head.found > 0.95
    numbers = [n for n in course.held_out if translate.shows_order(n, "de")][:30]
    for number in numbers[:10]:
        shown = translate.make_map(course, model, number, head)
        looks = [shown.keys[n] for n in shown.weights.argmax(-1)]
        tens, units = shown.keys[-3:-1]  # English says the ten first
        assert shown.rows[-3] == "und"
        assert (looks[-4], looks[-2]) == (units, tens)  # German the unit
    assert max(translate.blindfolded(course, model, numbers)) < 0.5


def test_french_is_shown_in_one_order(tmp_path):
    picture, table = tmp_path / "a.png", tmp_path / "a.csv"
    status, out = call(
        translate, *SMALL, "--language", "fr", "--steps", "3", "--every", "2", "--say", "234",
        "--plot", str(picture), "--measure", str(table), "--no-scale",
    )  # fmt: skip
    assert status == 0, out
    assert "two hundred and thirty-four → " in out and "scale: weight, linear" in out
    assert re.search(r"Exact match on 20 held-out numbers: \d", out)
    assert picture.read_bytes().startswith(b"\x89PNG")
    lines = list(csv.DictReader(table.open(encoding="utf-8")))
    assert [(line["step"], line["scaled"]) for line in lines] == [
        ("0", "no"), ("2", "no"), ("3", "no")
    ]  # fmt: skip


# ── killed ───────────────────────────────────────────────────────────────────────────────────

LONG = (*SMALL, "--steps", "60", "--every", "10")


def _killed_after(step, checkpoint):
    """A training on a terminal of its own, killed without warning once its bar shows this step; the
    last step it showed."""
    ours, theirs = pty.openpty()
    command = [sys.executable, str(EXAMPLES / "translate.py"), *LONG, "--checkpoint", checkpoint]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(command, env=environment, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = ""
    while not (steps := [int(n) for n in re.findall(r"(\d+)/60", seen)]) or steps[-1] < step:
        seen += os.read(ours, 65536).decode(errors="replace")
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    os.close(ours)
    return steps[-1]


def test_a_killed_training_goes_on_as_if_nothing_had_happened(tmp_path):
    killed, whole = tmp_path / "killed.pt", tmp_path / "whole.pt"
    shown = _killed_after(25, killed)
    kept = torch.load(killed, weights_only=True)["step"]
    assert kept >= shown - 10  # at most the last interval is lost
    status, out = call(translate, *LONG, "--checkpoint", str(killed))
    assert status == 0, out
    assert f"going on after step {kept} of 60" in out
    assert call(translate, *LONG, "--checkpoint", str(whole))[0] == 0
    left, right = (_leaves(torch.load(path, weights_only=True)) for path in (killed, whole))
    assert left == right  # to the last bit


def _leaves(checkpoint):
    """What a checkpoint holds, at any depth."""
    leaves = torch.utils._pytree.tree_leaves(checkpoint)
    return [leaf.tolist() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
