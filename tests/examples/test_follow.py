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


def test_it_runs_end_to_end_and_learns():
    status, out, err = run("follow", "--seed", "0")
    assert status == 0, err
    before, after = (float(n) for n in re.findall(r"(\d\.\d{3}) (?:before|after)", out))
    assert before < 0.2
    assert after > 0.99
    assert err == ""  # the bar is for terminals
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80
    assert out.count("[█]") >= 12  # of 16 marks, those that hold nearly all of their row
    assert "Weight: ' ' from 0.0" in out
    assert out.splitlines()[-2].startswith("Learnt: ")


def test_what_was_not_learnt_is_not_claimed(capsys):
    follow.main(seed=0, steps=1, width=8)
    out = capsys.readouterr().out
    assert "Not learnt yet" in out
    assert "Learnt:" not in out


def test_the_last_layer_looks_at_the_answer(trained):
    model, unseen = trained
    with torch.no_grad():
        weights = model.look(unseen.ids)[1].rows(range(follow.TOLD, follow.TOLD + follow.FACTS))
    on_answer = weights[:, 0].gather(-1, unseen.places.unsqueeze(-1))
    assert on_answer.mean() > 0.9
    assert follow.mass(model, unseen)[1] == pytest.approx(on_answer.mean().item())


def test_the_first_layer_looks_one_to_the_left(trained):
    model, unseen = trained
    with torch.no_grad():
        weights = model.look(unseen.ids)[0].dense()[:, 0]
    on_left = [weights[:, d, d - 1].mean().item() for d in range(1, follow.TOLD, 2)]
    assert min(on_left) > 0.5
    assert follow.mass(model, unseen)[0] == pytest.approx(sum(on_left) / len(on_left))


def test_hiding_the_answer_takes_the_answer_away(trained):
    model, unseen = trained
    assert follow.accuracy(model, unseen) > 0.99
    assert follow.accuracy(model, unseen, follow.blindfold(unseen)) < 0.3


def test_a_batch_is_what_it_says():
    ids, answers, places = follow.make_batch(50, torch.Generator().manual_seed(2))
    for sequence, wanted, where in zip(
        ids.tolist(), answers.tolist(), places.tolist(), strict=True
    ):
        text = "".join(follow.TOKENS[n] for n in sequence)
        told, asked = text[: follow.TOLD], text[follow.TOLD :]
        assert sorted(told[::2]) == sorted(asked)
        for letter, answer, place in zip(asked, wanted, where, strict=True):
            assert place == told.index(letter) + 1
            assert follow.TOKENS[answer] == told[place] in follow.DIGITS


def test_other_encodings_get_other_shades(trained):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    follow.show(*trained, Console(file=stream, markup=False, width=100))
    stream.seek(0)
    text = stream.read()
    assert "[#]" in text
    assert "'.' from 0.2" in text


@pytest.mark.parametrize("no_color", [False, True])
def test_colour_is_for_terminals_that_want_it(trained, no_color):
    stream = io.StringIO()
    colours = {"color_system": "standard", "force_terminal": True, "no_color": no_color}
    follow.show(*trained, Console(file=stream, markup=False, width=100, **colours))
    assert ("32m" in stream.getvalue()) is not no_color  # green


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
        seen += read_all(ours)
    assert process.returncode == 130
    assert seen.rfind(b"\x1b[?25h") > seen.rfind(b"\x1b[?25l") >= 0  # hidden, then shown again
    assert b"Traceback" not in seen


def read_all(terminal: int) -> bytes:
    """Everything up to the end; Linux reports the closed other side as an error."""
    parts = []
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:
            part = b""
        if not part:
            os.close(terminal)
            return b"".join(parts)
        parts.append(part)


def test_wrong_options_are_usage_errors():
    status, out, err = run("follow", "--steps", "0")
    assert (status, out) == (2, "")
    assert "--steps" in err
