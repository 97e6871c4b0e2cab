"""The command as a shell sees it: help, mistakes, interruptions, closed pipes, odd locales."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys

import pytest
import typer

import regard
from regard.cli import app, main
from regard.cli.examples import EXAMPLES, START
from regard.cli.main import _VERBS
from support.recordings import on_disk

LONG = " ".join(f"w{n}" for n in range(300))  # its JSON is larger than any pipe's buffer


def spawn(*words: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own, its output in pipes."""
    command = [sys.executable, "-m", "regard", *words]
    return subprocess.run(command, capture_output=True, env=os.environ | environment, check=False)


def test_version(shell):
    assert shell("--version") == (0, f"regard {regard.__version__}\n", "")


def test_help_lists_the_verbs_in_the_order_of_a_course(shell):
    status, out, err = shell("--help")
    assert (status, err) == (0, "")
    verbs = re.findall(r"^  ([a-z]+)  ", out.partition("Commands:")[2], re.MULTILINE)
    assert verbs[:3] == ["learn", "grade", "models"] and verbs[-1] == "doctor"


def test_help_names_values_and_not_types_of_python(shell):
    _, out, _ = shell("record", "--help")
    assert re.search(r"^  --text TEXT  +A prompt", out, re.MULTILINE)
    assert re.search(r"^  MODEL  +A name", out, re.MULTILINE)
    shown = [shell(verb.__name__, "--help")[1] for verb in _VERBS]
    assert not [text for text in shown if re.search(r"<(str|int|float|path|list)", text)]


@pytest.mark.parametrize("columns", ["80", "100"])
def test_every_summary_is_a_whole_sentence_on_one_line(columns):
    shown = spawn("--help", COLUMNS=columns).stdout.decode()
    summaries = shown.partition("Commands:\n")[2].splitlines()
    assert len(summaries) >= 4
    for summary in summaries:
        assert summary.endswith(".") and not summary.endswith("...")


def test_without_a_verb_it_says_what_to_try_and_it_is_a_mistake(shell):
    status, out, err = shell()
    assert (status, out) == (2, "")
    for command, what in START:
        assert command in err and what in err
    assert [command.split()[1] for command, _ in START] == [
        "play", "learn", "record", "view", "doctor",
    ]  # fmt: skip
    assert all(verb.__name__ in err for verb in _VERBS)
    assert max(map(len, err.splitlines())) <= 80


def test_off_the_path_it_says_what_can_be_typed_there(tmp_path):
    program = tmp_path / "bin" / "regard"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom regard.cli import main\nmain()\n")
    program.chmod(0o755)
    for path, shown in (("/usr/bin", "bin/regard play"), (str(program.parent), "regard play")):
        done = subprocess.run(
            ["bin/regard"], capture_output=True, text=True, cwd=tmp_path,
            env=os.environ | {"PATH": path},
        )  # fmt: skip
        assert done.returncode == 2 and f"  {shown}\n" in done.stderr


def test_every_help_ends_in_examples(shell):
    assert list(EXAMPLES) == [verb.__name__ for verb in _VERBS]
    for verb, examples in EXAMPLES.items():
        assert shell(verb, "--help")[1].endswith("".join(f"  {one}\n" for one in examples))


@pytest.mark.parametrize(
    "command", [one for some in EXAMPLES.values() for one in some] + [one for one, _ in START]
)
def test_examples_are_understood(command):
    program, verb, *words = shlex.split(command)
    assert program == "regard"
    parsed = typer.main.get_command(app).commands[verb].make_context(verb, words)
    assert not parsed.args


def test_a_shell_completes_verbs_and_models():
    asked = {"_REGARD_COMPLETE": "complete_bash", "COMP_WORDS": "regard re", "COMP_CWORD": "1"}
    assert spawn(**asked).stdout.decode().split() == ["record", "report"]
    asked |= {"COMP_WORDS": "regard record sm", "COMP_CWORD": "2"}
    assert spawn(**asked).stdout.decode().split() == ["smollm2"]


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["nosuchverb"], "no such command 'nosuchverb'", "regard"),
        (["lern"], "did you mean 'learn'", "regard"),
        (["--nope"], "no such option: --nope", "regard"),
        (["learn", "--heads"], "'--heads' requires", "regard learn"),
        (["learn", "a", "b"], "unexpected extra argument", "regard learn"),
        (["learn", "--nope"], "no such option: --nope", "regard learn"),
        (["grade"], "missing argument 'FILE'", "regard grade"),
        (["doctor", "x"], "unexpected extra argument", "regard doctor"),
    ],
)
def test_wrong_words_are_one_line_and_a_hint(shell, words, message, hint):
    status, out, err = shell(*words)
    said, tried = err.splitlines()
    assert (status, out) == (2, "")
    assert said.startswith("regard: ") and not said.endswith(".")
    assert message in said.lower() or message in said
    assert tried == f"try: {hint} --help"


def test_wrong_values_are_one_line_without_a_hint(shell):
    status, out, err = shell("learn", "a", "--heads", "3")
    assert (status, out) == (2, "")
    assert err.startswith("regard: --heads 3") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        (["record", "smollm2", "--video", "a.gif"], "regard.record(model)"),
        (["record", "--video=a.gif"], "--image"),
        (["scaling"], 'regard learn "The cat sat" --web'),
        (["scaling", "--d-k", "16", "--help"], 'regard learn "The cat sat" --web'),
    ],
)
def test_what_was_retired_is_one_line_that_says_what_to_do_instead(shell, words, instead):
    status, out, err = shell(*words)
    assert (status, out) == (2, "")
    assert re.fullmatch(r"regard: [^\n]+ was retired[^\n]+\n", err) and instead in err
    assert "retired" not in shell("record", "--video-codec")[2]  # which never was


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["learn", "a", "--d-v", "x"], "--d-v x: give a whole number"),
        (["learn", "--heads", "abc"], "--heads abc: give a whole number"),
        (["learn", "a", "--heads=abc"], "--heads: give a whole number"),
        (["learn", "a", "--next", "--temperature", "warm"], "--temperature warm: give a number"),
        (["grade", "a.py", "--timeout", "long"], "--timeout long: give a number"),
    ],
)
def test_a_word_in_place_of_a_number_is_one_plain_line(shell, words, said):
    assert shell(*words) == (2, "", f"regard: {said}\n")


@pytest.mark.parametrize("verb", ["learn", "grade", "doctor"])
def test_every_verb_explains_itself(shell, verb):
    status, out, err = shell(verb, "--help")
    assert (status, err) == (0, "")
    assert out.startswith(f"Usage: regard {verb}") and "-h, --help" in out
    assert shell(verb, "-h") == (status, out, err)


def test_a_mistake_of_ours_keeps_its_traceback(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setattr("regard.learn.make_lesson", broken)
    monkeypatch.setattr(sys, "argv", ["regard", "learn", "a"])
    with pytest.raises(RuntimeError, match="a bug"):
        main()


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
    assert done.returncode == 128 + signal.SIGINT
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize(
    "words",
    [
        f"learn '{LONG}' --json",  # written at once
        f"learn '{LONG}' --heads 4 --projections random:1",  # line by line
        "learn --exercise 3",
        "--help",
    ],
)
def test_a_closed_pipe_is_no_mistake(words):
    command = f"set -o pipefail; {shlex.quote(sys.executable)} -m regard {words} | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("grade WRONG", 1),  # findings, shown line by line
        ("grade WRONG --json", 1),
        ("grade WRONG --csv -", 1),
        ("grade WRONG WRONG2", 1),
        ("grade NO_FILE 2>&1", 2),  # nobody reads the refusal either
        ("verify DAMAGED", 3),
        ("nosuchverb 2>&1", 2),
        ("learn a", 0),
    ],
)
def test_a_closed_pipe_changes_no_status(words, status, unbuffered, tmp_path):
    (tmp_path / "DAMAGED").write_bytes(b"no recording")
    for name in ("WRONG", "WRONG2"):
        (tmp_path / name).write_text('{"d_k": 4, "scores": [[2, 0]], "scaled": [[2, 0]]}')
    python = shlex.quote(sys.executable)
    command = f"(sleep 0.1; {python} -m regard {words}; echo $? > status) | true"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True, text=True, cwd=tmp_path,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
    )  # fmt: skip
    assert int((tmp_path / "status").read_text()) == status
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr


def test_a_reader_that_never_reads_is_no_mistake():
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        command = [sys.executable, "-m", "regard", "--version"]
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-", "1</dev/null"])
@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("--help", 0),
        ("", 2),
        ("nosuchverb", 2),
        ("show NO_FILE", 3),
        ("show run.regard", 0),
        ("learn a --json", 0),
        ("export run.regard --to csv --overwrite", 0),
        ("view run.regard --port 99999", 2),
    ],
)
def test_a_stream_that_is_closed_changes_no_status(words, status, closed, tmp_path):
    before = on_disk(tmp_path / "run.regard").read_bytes()
    command = f"{shlex.quote(sys.executable)} -m regard {words} {closed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr and "Error" not in done.stderr
    assert (tmp_path / "run.regard").read_bytes() == before  # no file took the number of a stream
    made = tmp_path / "run.statistics.csv"
    assert not made.exists() or made.read_text().splitlines()[0].startswith("prompt,")


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
    command = f"ulimit -f 0; {shlex.quote(sys.executable)} -m regard {words} {full} full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == status
    if full == ">" and status == 3:
        assert re.fullmatch("regard: standard output: [^\n]+\n", done.stderr)
    assert "Traceback" not in done.stderr and "ignored" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["learn", "--help"],
        ["learn", "The 猫 sat", "--causal", "--block"],
        ["learn", "The 猫", "--json"],
        ["learn", "--exercise", "7"],
        ["learn", "--exercise", "-1"],
        ["learn", "a", "--token", "猫"],
        ["doctor", "--help"],
    ],
)
def test_every_verb_speaks_ascii_where_it_must(words):
    done = spawn(*words, PYTHONIOENCODING="ascii")
    assert done.returncode in (0, 2)
    assert (done.stdout + done.stderr).isascii()
    assert b"Traceback" not in done.stderr
    assert b"sqrt" in done.stdout or b"\xe2\x88\x9a" not in done.stdout


def test_a_locale_is_enough_to_ask_for_ascii():
    plain = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = spawn("learn", "The cat sat", **plain)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii() and b"sqrt d_k" in done.stdout
