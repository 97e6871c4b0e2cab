"""`regard report` as a shell sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from support.recordings import HOSTILE, on_disk
from support.recordings.planted import KINDS, mixed, record_planted, targets, text


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A recording of one head of each kind, and of the same with half of their mass on a sink."""
    ids = text(160, seed=4)
    aims = targets(ids, seed=4)
    layers = [[mixed(aims[kind], sink, 0.9, 0.2, n) for n, kind in enumerate(KINDS)]
              for sink in (0.0, 0.5)]  # fmt: skip
    path = tmp_path_factory.mktemp("report") / "run.regard"
    record_planted(np.array(layers), ids, path)
    return path


@pytest.fixture
def report(shell):
    """The verb: status, stdout, stderr."""
    return partial(shell, "report")


@pytest.fixture
def fails(report):
    """The one line a wrong command ends with."""

    def run(*words: object, status: int = 2) -> str:
        found, out, err = report(*words)
        assert (found, out) == (status, "")
        assert err.startswith("regard: ") and err.count("\n") == 1
        return err.strip()

    return run


def test_labels_with_numbers_and_rows(report, file):
    status, out, err = report(file, "--top", 30)
    assert (status, err) == (0, "")
    flat = " ".join(out.split())
    assert "160 tokens, 18 heads" in flat
    assert (
        "L0H0 looks at the token before (0.90 of its mass; chance 0.029); best seen at row" in flat
    )
    assert "of what is not on sinks" in flat and "deviations from its layer" in flat
    assert flat.index("not why the model answers") < flat.index("best seen at")  # where people look
    assert "knock the head out" in flat and "not looked for: retrieval" in flat


def test_as_many_as_asked_for(report, file):
    for top, shown in ((0, 0), (3, 3)):
        out = report(file, "--top", top)[1]
        assert out.count("deviations from its layer") == shown
        assert f"({shown} of " in out


def test_json_is_whole_and_plain(report, file):
    status, out, _ = report(file, "--json", "--top", 2)
    assert status == 0 and out.isascii()
    value = json.loads(out)
    assert len(value["findings"]) == 2 and len(value["heads"]) == 18
    assert value["heads"][0]["labels"] == ["previous"]
    assert value["caveat"] and value["findings"][0]["rows"]


def test_markdown(report, file):
    status, out, _ = report(file, "--markdown")
    assert status == 0 and out.startswith("# What the heads do") and "| label | heads |" in out


@pytest.mark.parametrize(
    ("name", "start"), [("a.md", "# What"), ("a.json", "{"), ("a.txt", "Planted"), ("a", "Planted")]
)
def test_written_to_a_file(report, file, tmp_path, name, start):
    status, out, err = report(file, "-o", tmp_path / name)
    assert (status, out) == (0, "") and err == f"written: {tmp_path / name}\n"
    written = (tmp_path / name).read_text()
    assert written.startswith(start) and written.endswith("\n")
    if start == "Planted":
        assert max(map(len, written.splitlines())) <= 100


def test_a_form_that_was_asked_for_wins_over_the_name(report, file, tmp_path):
    report(file, "--json", "-o", tmp_path / "a.md")
    json.loads((tmp_path / "a.md").read_text())


def test_a_needle(report, file, fails):
    out = report(file, "--needle", "10:20", "--json")[1]
    assert json.loads(out)["unknown"]["retrieval"] == "the recording has no generated tokens"
    assert "--needle 10:999: not a part" in fails(file, "--needle", "10:999")
    assert "give a range such as 10:20" in fails(file, "--needle", "x")


def test_what_is_wrong(fails, file, tmp_path):
    assert "two forms" in fails(file, "--json", "--markdown")
    assert "--top -1" in fails(file, "--top", "-1")
    assert "prompt 7 does not exist; this recording has 0" in fails(file, "--prompt", "7")
    assert "no such file" in fails(tmp_path / "none.regard", status=3)
    assert "cannot be written there" in fails(file, "-o", tmp_path / "no" / "a.md")
    assert "give .md, .json, .html or .txt" in fails(file, "-o", tmp_path / "page.xyz")
    assert not (tmp_path / "page.xyz").exists()


def test_no_token_steers_a_terminal(report, tmp_path):
    path = on_disk(tmp_path / "hostile.regard", HOSTILE)
    for form in ([], ["--json"], ["--markdown"]):
        status, out, _ = report(path, "--top", 50, *form)
        assert status == 0
        assert all(letter == "\n" or letter.isprintable() for letter in out)


def test_on_a_terminal_that_knows_no_more_than_ascii(file):
    command = [sys.executable, "-m", "regard", "report", str(file)]
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(command, capture_output=True, env=environment, check=True)
    assert done.stdout.isascii() and b"looks at" in done.stdout


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_no_line_is_wider_than_the_terminal(report, file, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    out = report(file, "--top", 40)[1]
    assert max(map(len, out.splitlines())) <= int(columns)
    assert "best seen at" in " ".join(out.split())


def test_a_recording_that_was_not_finished_says_so(report, tmp_path):
    import regard
    from regard.recording import Writer
    from support.recordings import Chunk, write_recording

    with Writer(tmp_path / "open.regard") as writer:
        chunk = Chunk((0, 60), (0, 60), regard.Causal())
        write_recording(writer, chunks=[chunk], note=False)
    status, out, _ = report(tmp_path / "open.regard")
    assert status == 0 and "was not finished" in out


def test_a_recording_of_nothing_is_one_line(fails, tmp_path):
    from regard.recording import Writer
    from regard.recording.schema import CONTENTS

    with Writer(tmp_path / "empty.regard") as writer:
        writer.note({"contents": CONTENTS})
    assert "nothing was recorded yet" in fails(tmp_path / "empty.regard")


# ── what an eviction would drop ──────────────────────────────────────────────────────────────


def test_an_eviction_says_which_keys_go_and_what_is_lost(report, file):
    status, out, err = report(file, "--top", 0, "--evict", "observed", "--budget", 0.5)
    assert (status, err) == (0, "")
    assert "eviction by observed, budget 0.5" in out and "80 of 160" in out
    assert "L0" in out and "dropped by every head" in out
    status, out, err = report(file, "--json", "--evict", "snapkv", "--budget", 90, "--recent", 20)
    told = json.loads(out)["eviction"]
    assert (told["by"], told["budget"], told["recent"]) == ("snapkv", 90, 20)
    for layer in told["layers"]:
        assert (layer["keys"], layer["kept"], len(layer["lost"])) == (160, 90, len(KINDS))
        assert all(sum(b - a for a, b in ranges) == 70 for ranges in layer["gone"])
        assert all(0 <= share <= 1 for share in layer["lost"] + layer["lost_last"])
    status, out, _ = report(file, "--markdown", "--evict", "tova")
    assert status == 0 and "```text\neviction by tova" in out


def test_evictions_that_cannot_be_are_refused(fails, file, tmp_path):
    assert "give one of h2o, kvzip, observed, snapkv, tova" in fails(file, "--evict", "lru")
    assert "a number of keys, or a share" in fails(file, "--evict", "h2o", "--budget", "half")
    assert "which always stay" in fails(file, "--evict", "h2o", "--budget", 0.1)
    assert "as text, Markdown or JSON" in fails(file, "--evict", "h2o", "-o", tmp_path / "a.html")
