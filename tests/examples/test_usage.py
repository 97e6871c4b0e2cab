"""Every script explains its options, and refuses wrong ones before it does any work."""

from __future__ import annotations

import pytest

from examples.scripts import call, load


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("ambiguity", "--words"), ("needle", "--depths"), ("summarise", "--sentences"),
        ("translate", "--language"), ("vision", "--canvases"), ("language_model", "--samples"),
        ("eviction", "--budgets"), ("indexer", "--k"), ("distil", "--how"),
        ("scaling_in_training", "--plot"), ("ray_record", "--actors"),
    ],
)  # fmt: skip
def test_help(name: str, option: str) -> None:
    status, out = call(load(name), "--help")
    assert status == 0 and option in out


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("ambiguity", "--words 0", "--words"),
        ("needle", "--depths 0", "--depths"),
        ("summarise", "nowhere.txt", "nowhere.txt"),
        ("summarise", "title.txt", "no sentence in it"),
        ("translate", "--steps 0", "--steps"),
        ("translate", "--language it", "--language"),
        ("translate", "--plot a.txt", "a.png or a.svg"),  # before the training, not after it
        ("vision", "--steps 0", "--steps"),
        ("vision", "--width 12", "width"),
        ("language_model", "title.txt", "too few"),
        ("language_model", "nowhere.txt", "nowhere.txt"),
    ],
)
def test_wrong_options(name: str, words: str, message: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "title.txt").write_text("abc", encoding="utf-8")
    status, out = call(load(name), *words.split())
    assert status == 2 and message in " ".join(out.replace("│", "").split())
