"""A character model learns from texts, goes on where it ended, and writes."""

from __future__ import annotations

import re

from examples.scripts import call, load, run

language_model = load("language_model")
SMALL = ("--steps", "40", "--every", "20", "--width", "16", "--d-k", "4", "--samples", "2")


def test_it_learns_goes_on_and_writes(tmp_path):
    path = tmp_path / "run.pt"
    status, out = call(language_model, *SMALL, "--checkpoint", str(path))
    assert status == 0, out
    learnt, knows_nothing = (float(n) for n in re.findall(r"(\d\.\d\d) (?:where|for)", out))
    assert learnt < knows_nothing and "\n2. " in out
    status, again, err = run("language_model", *SMALL, "--checkpoint", str(path))
    assert status == 0, err
    assert "going on after step 40 of 40" in err
    assert again.splitlines()[1:] == out.splitlines()[-len(again.splitlines()) + 1 :]


def test_other_texts_and_no_scale(tmp_path):
    text, table = tmp_path / "mine.txt", tmp_path / "mine.csv"
    text.write_text("abc " * 500, encoding="utf-8")
    words = ("--no-scale", "--measure", str(table), "--steps", "2")
    status, out = call(language_model, str(text), *SMALL, *words)
    assert status == 0, out
    assert table.read_text(encoding="utf-8").splitlines()[1].startswith("language_model,no,0,")
