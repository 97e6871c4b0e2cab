"""The training example learns, shows what it learnt, and leaves the terminal whole."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys

import pytest
import torch
from rich.console import Console

from examples.scripts import EXAMPLES, load, run

follow = load("follow")


@pytest.fixture(scope="module")
def trained():
    """A model that learnt, and sequences it has never seen."""
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(1)
    model, unseen = follow.Model(64), follow.make_batch(500, generator)
    assert follow.accuracy(model, unseen) < 0.2
    follow.train(model, 250, generator, Console(file=io.StringIO()))
    return model, unseen


def test_it_runs_end_to_end_and_learns(capsys):
    status, out, err = run("follow", "--seed", "0")
    assert (status, err) == (0, "")  # the bar is for terminals
    before, after = (float(n) for n in re.findall(r"(\d\.\d{3}) (?:before|after)", out))
    assert before < 0.2 and after > 0.99
    assert "\x1b" not in out and max(map(len, out.splitlines())) <= 80
    assert out.count("[█]") >= 12  # of 16 marks, those that hold nearly all of their row
    assert "Weight: ' ' from 0.0" in out
    assert out.splitlines()[-2].startswith("Learnt: ")
    follow.main(seed=0, steps=1, width=8)  # what was not learnt is not claimed
    out = capsys.readouterr().out
    assert "Not learnt yet" in out and "Learnt:" not in out


def test_layers_look_where_it_says_and_need_what_they_see(trained):
    model, unseen = trained
    with torch.no_grad():
        first, last = model.look(unseen.ids)
        asked = last.rows(range(follow.TOLD, follow.TOLD + follow.FACTS))[:, 0]
        on_answer = asked.gather(-1, unseen.places.unsqueeze(-1)).mean().item()
        weights = first.dense()[:, 0]
    on_left = [weights[:, d, d - 1].mean().item() for d in range(1, follow.TOLD, 2)]
    assert on_answer > 0.9 and min(on_left) > 0.5
    assert follow.mass(model, unseen) == pytest.approx([sum(on_left) / len(on_left), on_answer])
    assert follow.accuracy(model, unseen) > 0.99
    assert follow.accuracy(model, unseen, follow.blindfold(unseen)) < 0.3


def test_an_interrupt_leaves_the_terminal_whole():
    ours, theirs = pty.openpty()
    command = [sys.executable, str(EXAMPLES / "follow.py"), "--steps", "1000000"]
    environment = os.environ | {"TERM": "xterm"}
    with subprocess.Popen(command, env=environment, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        seen = b""
        while b"loss" not in seen:
            seen += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        while True:
            try:
                seen += os.read(ours, 65536)
            except OSError:  # Linux reports the closed other side so
                break
        os.close(ours)
    assert process.returncode == 130
    assert seen.rfind(b"\x1b[?25h") > seen.rfind(b"\x1b[?25l") >= 0  # hidden, then shown again
    assert b"Traceback" not in seen
