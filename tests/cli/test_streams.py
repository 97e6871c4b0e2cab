"""Where the command writes: any encoding, any terminal, pipes and disks that end early; Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.recordings import on_disk

PYTHON = shlex.quote(sys.executable)
LONG = " ".join(f"w{n}" for n in range(300))  # its JSON is larger than any pipe's buffer


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
@pytest.mark.parametrize(
    "words",
    ["--help", "learn --help", "learn 'The 猫 sat' --causal --block", "learn 'The 猫' --json",
     "learn --exercise 7", "learn --exercise -1", "learn a --token 猫", "doctor --help",
     "show H", "show H L0H1", "show H L0H1 --row 5", "show H L0H1 --rows 2:9", "show H L0H1 --json",
     "report H", "report H --json", "report H --markdown", "diff H H", "diff H H --json",
     "grade note.md"],
)  # fmt: skip
def test_no_encoding_and_no_token_spoils_what_is_written(
    shell, hostile, tmp_path, monkeypatch, words, encoding
):
    monkeypatch.chdir(tmp_path)
    note = (Path(__file__).parents[2] / "examples/first_note.md").read_text(encoding="utf-8")
    (tmp_path / "note.md").write_text(note, encoding="utf-8")
    words = [str(hostile) if word == "H" else word for word in shlex.split(words)]
    status, out, err = shell(*words, encoding=encoding)
    assert status == (1 if words[0] == "grade" else 2 if {"-1", "--token"} & {*words} else 0)
    assert all(line.isprintable() for line in (out + err).splitlines())
    assert (out + err).isascii() or encoding != "ascii"
    if "--json" in words:
        assert json.loads(out) == json.loads(shell(*words)[1])


@pytest.mark.parametrize("words", ["", "L0H1", "L1H1", "L0H1 --row 5", "L0H1 --rows 2:9"])
def test_no_token_steers_a_terminal_with_colours(shell, hostile, monkeypatch, words):
    monkeypatch.setenv("TERM", "xterm-256color")
    status, out, _ = shell("show", hostile, *words.split(), terminal=True)
    assert status == 0
    left = re.sub(r"\x1b\[[0-9;]*m", "", out)
    assert all(line.isprintable() for line in left.splitlines())


@pytest.mark.parametrize(
    ("encoding", "term"), [("ascii", ""), ("latin-1", ""), ("cp1252", ""), ("utf-8", "dumb")]
)
def test_signs_are_spelt_where_they_cannot_be_shown(shell, monkeypatch, encoding, term):
    assert "Scale: divide by √d_k" in shell("learn", "The cat sat")[1]
    monkeypatch.setenv("TERM", term)
    status, out, _ = shell("learn", "The cat é", "--causal", encoding=encoding)
    assert status == 0 and out.isascii() and max(map(len, out.splitlines())) <= 80
    rows = out.splitlines()
    assert any("Scale: divide by sqrt d_k" in row for row in rows) and "q(The)*k(The)" in out
    # matrices still stand in columns
    head = next(n for n, row in enumerate(rows) if row.startswith("   scores = Q @ K^T"))
    second = rows[head].index("scaled = scores / sqrt d_k")
    assert [row[second : second + 3] for row in rows[head + 2 : head + 4]] == ["The", "cat"]


def test_a_terminal_without_the_letters_is_told_so(shell):
    status, out, err = shell("learn", "The cat sat", "--language", "zh", encoding="ascii")
    assert (status, out) == (2, "") and "--language zh: this terminal shows ASCII alone" in err
    assert "得分" in shell("learn", "The cat sat", "--language", "zh")[1]


@pytest.mark.parametrize(
    ("environment", "colours"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, r"\x1b\[38;2;"),
        ({"TERM": "xterm-256color"}, r"\x1b\[[34]8;5;"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, ""),
        ({"TERM": "dumb"}, ""),
        ({"TERM": "linux"}, ""),
    ],
)
def test_a_terminal_gets_the_colours_it_has(shell, recorded, monkeypatch, environment, colours):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    out = shell("show", recorded, "L0H1", "--cell", 2, terminal=True)[1]
    assert bool(re.search(colours or r"[34]8;[25];", out)) == bool(colours)
    assert ("▀" in out) == bool(colours) and "tokens a cell" in out
    if environment["TERM"] == "dumb":
        assert out.isascii()
    assert "\x1b" not in shell("show", recorded, "L0H1", "--cell", 2)[1]


def bash(script: str, folder: Path | None = None, **environment: str):
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, cwd=folder,
        env=os.environ | environment, check=False,
    )  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("grade WRONG", 1),  # findings, shown line by line
        ("grade WRONG --json", 1),
        ("grade WRONG --csv -", 1),
        ("grade NO_FILE 2>&1", 2),  # the refusal has no reader either
        ("verify DAMAGED", 3),
        ("nosuchverb 2>&1", 2),
        ("learn a", 0),
        (f"learn '{LONG}' --json", 0),  # written at once
        (f"learn '{LONG}' --heads 4 --projections random:1", 0),  # line by line
    ],
)
def test_a_closed_pipe_changes_no_status(words, status, unbuffered, tmp_path):
    (tmp_path / "DAMAGED").write_bytes(b"no recording")
    (tmp_path / "WRONG").write_text('{"d_k": 4, "scores": [[2, 0]], "scaled": [[2, 0]]}')
    command = f"(sleep 0.1; {PYTHON} -m regard {words}; echo $? > status) | true"
    done = bash(command, tmp_path, PYTHONUNBUFFERED=unbuffered)
    assert int((tmp_path / "status").read_text()) == status
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr


@pytest.mark.sampled(6)
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-", "1</dev/null"])
@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("--help", 0),
        ("", 2),
        ("show NO_FILE", 3),
        ("show run.regard", 0),
        ("learn a --json", 0),
        ("export run.regard --to csv --overwrite", 0),
        ("view run.regard --port 99999", 2),
    ],
)
def test_a_stream_that_is_closed_changes_no_status(words, status, closed, tmp_path):
    before = on_disk(tmp_path / "run.regard").read_bytes()
    done = bash(f"{PYTHON} -m regard {words} {closed}", tmp_path)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr and "Error" not in done.stderr
    assert (tmp_path / "run.regard").read_bytes() == before  # no file took the number of a stream
    made = tmp_path / "run.statistics.csv"
    assert not made.exists() or made.read_text().splitlines()[0].startswith("prompt,")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("words", "full", "status"),
    [
        ("--help", ">", 3),
        ("learn a --json", ">", 3),
        ("learn a", ">", 3),
        ("nosuchverb", ">", 2),
        ("learn a", "2>", 0),
        ("show NO_FILE", "2>", 3),
    ],
)
def test_a_full_disk_is_an_error_of_standard_output(words, full, status, tmp_path):
    """A limit of no bytes stands for it, which every system has."""
    done = bash(f"ulimit -f 0; {PYTHON} -m regard {words} {full} full", tmp_path)
    assert done.returncode == status
    if full == ">" and status == 3:
        assert re.fullmatch("regard: standard output: [^\n]+\n", done.stderr)
    assert "Traceback" not in done.stderr and "ignored" not in done.stderr


INTERRUPTED = """
import os, signal, sys
import regard.learn
regard.learn.make_lesson = lambda *_, **__: os.kill(os.getpid(), signal.SIGINT)
sys.argv = ["regard", "learn", "a"]
from regard.cli import main
main()
"""


def test_ctrl_c_ends_without_a_word():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, "", "")


def test_a_locale_is_enough_to_ask_for_ascii():
    plain = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = bash(f"{PYTHON} -m regard learn 'The cat sat'", **plain)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii() and "sqrt d_k" in done.stdout


WITHOUT = """
import sys
for name in sys.argv.pop().split(","):
    sys.modules[name] = None
from regard.cli import main
main()
"""


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        ("learn a --block --heads 2", "torch"),
        ("show run.regard L0H1", "torch"),
        ("plot --help", "numpy,torch,matplotlib"),
    ],
)
def test_what_a_verb_does_not_use_need_not_be_installed(words, missing, recorded):
    command = [sys.executable, "-c", WITHOUT, *words.split(), missing]
    done = subprocess.run(command, capture_output=True, text=True, cwd=recorded.parent, check=False)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout
