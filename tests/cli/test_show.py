"""`regard show` as a shell sees it: every view, on every kind of terminal, and what goes wrong."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from regard.recording import Writer, open
from regard.recording.schema import Prompt
from support.recordings import (
    HOSTILE,
    WORDS,
    Chunk,
    causal,
    on_disk,
    write,
    write_prompt,
    write_recording,
)

VIEWS = {
    "overview": [],
    "head": ["L0H1"],
    "kept head": ["L1H1"],
    "row": ["L0H1", "--row", "-1"],
    "token": ["L0H1", "--token", "cat"],
    "region": ["L0H1", "--rows", "2:9", "--keys", ":5"],
}
EVERY_VIEW = pytest.mark.parametrize("words", VIEWS.values(), ids=VIEWS)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A recording of two layers; of the second only summaries were kept."""
    return on_disk(tmp_path_factory.mktemp("show") / "run.regard", prompts=2)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """One whose tokens are commands to a terminal."""
    return on_disk(tmp_path_factory.mktemp("show") / "hostile.regard", HOSTILE)


@pytest.fixture
def show(shell):
    """The verb: status, stdout, stderr."""
    return partial(shell, "show")


@pytest.fixture
def fails(show):
    """The one line a wrong command ends with."""

    def run(*words: object, status: int = 2) -> str:
        found, out, err = show(*words)
        assert (found, out) == (status, "")
        assert err.startswith("regard: ") and err.count("\n") == 1
        return err.strip()

    return run


def on_terminal(*words: object, **environment: str) -> str:
    """What the command writes to a terminal of its own."""
    plain = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLORTERM", "COLUMNS")}
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "regard", "show", *map(str, words)]
    kind = {"TERM": "xterm-256color", "COLUMNS": "90", "LINES": "40"}
    with subprocess.Popen(
        command, stdout=follower, stderr=follower, env=plain | kind | environment
    ) as running:
        os.close(follower)
        pieces = []
        while piece := _read(leader):
            pieces.append(piece)
    os.close(leader)
    assert running.returncode == 0, b"".join(pieces)
    return b"".join(pieces).decode()


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 1 << 16)
    except OSError:  # the other end is closed
        return b""


# ── views ────────────────────────────────────────────────────────────────────────────────────


@EVERY_VIEW
def test_every_view_prints(show, file, words):
    status, out, err = show(file, *words)
    assert (status, err) == (0, "")
    assert out.isprintable() or "\n" in out
    assert "\x1b" not in out  # not a terminal, so no colours


def test_the_overview(show, file):
    out = show(file)[1]
    assert out.startswith("tiny · 2 × 4 heads")
    assert (
        "off sinks (non_sink): " in out
        and "prompt 1, 12 tokens, 2 of them generated: text 1" in out
    )
    assert "on the token before (previous): " in show(file, "--stat", "previous")[1]


def test_a_head_has_its_map_and_the_caveat(show, file):
    out = show(file, "L0H1")[1]
    assert "scale: × even share (at most 12 keys), log, 0.1–12" in out
    assert out.endswith("weights show where a head looks, not why the model answers\n")
    assert "scale: weight, linear" in show(file, "L0H1", "--raw")[1]
    assert "max of 4×4 tokens a cell" in show(file, "L0H1", "--cell", 4, "--max")[1]


def test_rows_by_number_and_by_token(show, file):
    assert "row 11 ␣the" in show(file, "L0H1", "--row", -1)[1]
    assert show(file, "L0H1", "--token", "the") == show(file, "L0H1", "--row", 11)
    assert len(show(file, "L0H1", "--row", 11, "--top", 2)[1].splitlines()) < len(
        show(file, "L0H1", "--row", 11)[1].splitlines()
    )


def test_another_prompt(show, file):
    assert json.loads(show(file, "L0H1", "--prompt", 1, "--json")[1])["prompt"] == 1
    assert "prompt 1" in show(file, "L0H1", "--prompt", -1)[1]


def test_a_folder_of_ranks(show, tmp_path):
    on_disk(tmp_path / "rank-0000.regard")
    status, out, err = show(tmp_path, "L0H1")
    assert (status, err) == (0, "") and out.startswith("L0H1 ")


@pytest.fixture
def stacks(tmp_path):
    """A model with an encoder and attention across."""
    with Writer(tmp_path / "stacks.regard") as writer:
        write_recording(writer, chunks=causal(12), stack="encoder")
        write_prompt(
            writer, [Chunk((0, 7), (0, 12))], stack="cross", kind="cross", tokens=False, note=False
        )
    return tmp_path / "stacks.regard"


def test_stacks_by_name(show, fails, stacks):
    out = show(stacks)[1]
    assert "\nencoder, " in out and "\ncross, " in out
    assert show(stacks, "cross.L0H1")[1].startswith("cross.L0H1 · 7 × 12 tokens")
    assert "row 6" in show(stacks, "cross.L0H1", "--row", -1)[1]
    assert "there is no stack 'middle'" in fails(stacks, "middle.L0H0")


def test_while_it_is_written(show, tmp_path):
    with Writer(tmp_path / "live.regard") as writer:
        write(writer)
        status, out, _ = show(tmp_path / "live.regard")
        assert status == 0 and "still being written" in out
        assert json.loads(show(tmp_path / "live.regard", "--json")[1])["live"] is True


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────


@EVERY_VIEW
def test_every_view_has_its_numbers(show, file, words):
    status, out, err = show(file, *words, "--json")
    assert (status, err) == (0, "") and json.loads(out)


def test_json_equals_the_answers(show, file):
    with open(file) as rec:
        head = rec["L0H1"]
        row = json.loads(show(file, "L0H1", "--row", 7, "--top", 3, "--json")[1])
        best = head.top(3)
        assert [one["key"] for one in row["top"]] == best.keys[7].tolist()
        np.testing.assert_allclose([one["weight"] for one in row["top"]], best.weights[7], 1e-6)
        region = json.loads(show(file, "L0H1", "--rows", "2:9", "--json")[1])
        found = np.nan_to_num(np.array(region["weights"], float))
        np.testing.assert_array_equal(found, head[2:9].astype(float))
        grid = json.loads(show(file, "--stat", "entropy", "--json")[1])["stacks"][0]["grids"][
            "entropy"
        ]
        np.testing.assert_array_equal(grid, rec.grid("entropy"))
        cells = json.loads(show(file, "L0H1", "--cell", 6, "--json")[1])["map"]["weights"]
        np.testing.assert_allclose(np.array(cells, float)[1], head.pooled(6)[1])


def test_json_has_no_matrix_unless_asked(show, file):
    assert "map" not in json.loads(show(file, "L0H1", "--json")[1])


@EVERY_VIEW
def test_json_of_hostile_tokens_is_safe_and_whole(show, hostile, words):
    if "--token" in words:
        words = ["L0H1", "--row", "5"]
    out = show(hostile, *words, "--json")[1]
    assert all(line.isprintable() for line in out.splitlines())
    if "--rows" in words:
        assert json.loads(out)["query_tokens"] == HOSTILE[2:9]


# ── terminals ────────────────────────────────────────────────────────────────────────────────


def test_true_colour(file):
    out = on_terminal(file, "L0H1", "--cell", 2, COLORTERM="truecolor")
    assert "\x1b[38;2;" in out and "▀" in out


def test_no_cell_is_lost_at_the_end_of_a_line(file):
    out = on_terminal(file, "L0H1", COLORTERM="truecolor")
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out).splitlines()
    last = next(n for n, line in enumerate(lines) if line.startswith("scale: ")) - 1
    assert lines[last].endswith("██" * len(WORDS))
    assert lines[last + 1].endswith("█" * 16)


def test_256_colours(file):
    out = on_terminal(file, "L0H1", "--row", "-1")
    assert "48;5;" in out and "48;2;" not in out


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": "linux"}])
def test_no_colour_where_none_is_wanted(file, environment):
    out = on_terminal(file, "L0H1", "--cell", 2, COLORTERM="", **environment)
    assert "▀" not in out and not re.search(r"[34]8;[25]", out)
    assert "tokens a cell" in out


def test_ascii_where_nothing_else_is_safe(file):
    for words in VIEWS.values():
        assert on_terminal(file, *words, TERM="dumb").isascii()
    command = [sys.executable, "-m", "regard", "show", str(file), "L0H1", "--row", "8"]
    plain = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, env=plain, check=True)
    assert done.stdout.isascii() and b"\\n" in done.stdout


@pytest.mark.parametrize("columns", ["24", "50", "80", "200"])
@EVERY_VIEW
def test_no_line_is_wider_than_the_terminal(show, file, monkeypatch, columns, words):
    monkeypatch.setenv("COLUMNS", columns)
    for line in show(file, *words)[1].splitlines():
        assert len(line) <= int(columns)


@EVERY_VIEW
def test_tokens_cannot_steer_the_terminal(show, hostile, words):
    if "--token" in words:
        words = ["L0H1", "--row", "5"]
    status, out, _ = show(hostile, *words)
    assert status == 0 and all(line.isprintable() for line in out.splitlines())
    coloured = on_terminal(hostile, *words, COLORTERM="truecolor")
    left = re.sub(r"\x1b\[[0-9;]*m", "", coloured).replace("\r\n", "\n")
    assert all(line.isprintable() for line in left.splitlines())


@EVERY_VIEW
def test_json_loses_nothing_in_ascii(show, hostile, words):
    if "--token" in words:
        words = ["L0H1", "--row", "5"]
    command = [sys.executable, "-m", "regard", "show", str(hostile), *words, "--json"]
    plain = os.environ | {"PYTHONIOENCODING": "ascii"}
    written = subprocess.run(command, capture_output=True, env=plain, check=True).stdout
    assert written.isascii()
    assert json.loads(written) == json.loads(show(hostile, *words, "--json")[1])


def test_a_closed_pipe_is_no_mistake(file):
    words = shlex.join([sys.executable, "-m", "regard", "show", str(file), "L0H1"])
    command = ["bash", "-c", f"set -o pipefail; {words} | head -n 1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("L0H1 ") and done.stdout.count("\n") == 1


# ── mistakes ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["L40H0"], "layer 40 does not exist; this recording has 0–1"),
        (["L0H9"], "head 9 does not exist; L0 has 0–3"),
        (["nonsense"], "'nonsense' names no head; give one such as"),
        (["--row", "3"], "--row is about one head; name it, as in: regard show FILE L5H1"),
        (["--cell", "3"], "--cell is about one head"),
        (["L0H1", "--stat", "sink"], "--stat is about the overview; leave out 'L0H1', or --stat"),
        (["--stat", "nonsense"], "no statistic 'nonsense'; there are on sinks (sink), off sinks"),
        (["L0H1", "--row", "12"], "row 12 does not exist; L0H1 has 0–11"),
        (["L0H1", "--row", "-13"], "row -13 does not exist; L0H1 has 0–11"),
        (["L0H1", "--token", "zebra"], "--token 'zebra': no recorded row has this token"),
        (["L0H1", "--row", "1", "--token", "x"], "--row and --token each name rows"),
        (["L0H1", "--row", "1", "--rows", "1:2"], "--row and --rows each name rows"),
        (["L0H1", "--rows", "a"], "--rows 'a': give a range such as 10:20"),
        (["L0H1", "--keys", "5:99"], "--keys 5:99: not a part of what there is; that is 0:12"),
        (["L0H1", "--top", "0"], "--top 0: give a number of keys ≥ 1"),
        (["L0H1", "--cell", "0"], "--cell 0: give a number of tokens ≥ 1"),
        (["L0H1", "--cell", "2", "--row", "1"], "--cell is about the map of a whole head"),
        (["--prompt", "2"], "prompt 2 does not exist; this recording has 0–1"),
        (["L1H0", "--rows", "0:3"], "it did not fit the budget of 1 kB"),
    ],
)
def test_mistakes_name_the_fix(fails, file, words, message):
    assert message in fails(file, *words)


def test_maps_that_do_not_fit_name_what_does(fails, tmp_path):
    path = on_disk(tmp_path / "a.regard", [f" t{n}" for n in range(300)], layers=1, exact=())
    assert "give --cell 5 or more, or a region" in fails(path, "L0H1", "--cell", 1)


def test_a_map_that_takes_long_is_announced(show, file, monkeypatch):
    monkeypatch.setattr("regard.cli.terminal._SLOW", 0)
    status, out, err = show(file, "L0H1", "--max", "--cell", 4)
    assert (status, err) == (0, "computing the map of L0H1; a while for so long a text\n")
    assert "max of 4×4" in out
    assert show(file, "L0H1", "--cell", 16)[2] == ""  # it was kept


@pytest.mark.parametrize("name", ["none.regard", "text.regard"])
def test_files_that_are_no_recordings(fails, tmp_path, name):
    (tmp_path / "text.regard").write_text("text")
    fails(tmp_path / name, status=3)


def test_nothing_recorded_yet(show, fails, tmp_path):
    path = tmp_path / "empty.regard"
    with Writer(path) as writer:
        writer.note({"contents": "attention/1"})
    assert "nothing was recorded yet" in show(path)[1]
    assert "nothing was recorded yet" in fails(path, "L0H1")


def test_a_prompt_that_was_stopped_before_its_heads(show, fails, tmp_path):
    path = tmp_path / "stopped.regard"
    with Writer(path) as writer:
        write(writer)
        writer.note({"prompt/1": Prompt(7).to_json()})
    words = "no head of prompt 1 was recorded: the recording was stopped before the first"
    assert f"{words}; those of prompt 0 were" in fails(path, "L1H2", "--prompt", 1)
    status, out, _ = show(path, "--prompt", 1)
    assert status == 0 and f"{words}; those of prompt 0 were" in " ".join(out.split())
    assert json.loads(show(path, "--prompt", 1, "--json")[1])["stacks"] == []
    assert "no head" not in show(path)[1]


def test_damage_is_shown_and_the_rest_too(show, tmp_path):
    path = on_disk(tmp_path / "a.regard")
    os.truncate(path, path.stat().st_size - 1)
    status, out, _ = show(path)
    assert status == 0 and "damaged at byte" in out and "scale: off sinks" in out


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
sys.argv = ["regard", "show", *sys.argv[1:]]
from regard.cli import main
main()
"""


def test_torch_is_not_needed(file):
    command = [sys.executable, "-c", WITHOUT_TORCH, file, "L0H1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_words_are_those_of_the_recording(show, file):
    assert WORDS[2].strip() in show(file, "L0H1", "--row", 3)[1]
