"""The command and its verbs: help, examples, completion, and words that are no command."""

from __future__ import annotations

import re
import shlex

import pytest
import typer

import regard
from regard.cli import app
from regard.cli.examples import EXAMPLES, START

VERBS = [*EXAMPLES]


def test_version(shell):
    assert shell("--version") == (0, f"regard {regard.__version__}\n", "")


@pytest.mark.parametrize("columns", ["80", "100"])
def test_help_lists_the_verbs_in_the_order_of_a_course_each_with_a_sentence(
    shell, monkeypatch, columns
):
    monkeypatch.setenv("COLUMNS", columns)
    status, out, err = shell("--help")
    assert (status, err) == (0, "")
    lines = out.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in lines] == VERBS
    assert VERBS[:3] == ["learn", "grade", "models"] and VERBS[-1] == "doctor"
    assert all(line.endswith(".") and not line.endswith("...") for line in lines)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_names_values_and_ends_in_examples(shell, verb):
    status, out, err = shell(verb, "--help")
    assert (status, err) == (0, "") and shell(verb, "-h") == (status, out, err)
    assert out.startswith(f"Usage: regard {verb}") and "-h, --help" in out
    assert not re.search(r"<(str|int|float|path|list)", out)
    assert out.endswith("".join(f"  {command}\n" for command in EXAMPLES[verb]))


@pytest.mark.parametrize(
    "command", [line for lines in EXAMPLES.values() for line in lines] + [line for line, _ in START]
)
def test_examples_are_understood(command):
    program, verb, *words = shlex.split(command)
    assert program == "regard"
    assert not typer.main.get_command(app).commands[verb].make_context(verb, words).args


def test_without_a_verb_it_says_what_to_try_and_it_is_a_mistake(shell):
    status, out, err = shell()
    assert (status, out) == (2, "")
    assert all(f"  {command}\n      {what}\n" in err for command, what in START)
    assert [command.split()[1] for command, _ in START] == [
        "play", "learn", "record", "view", "doctor",
    ]  # fmt: skip
    assert all(verb in err for verb in VERBS) and max(map(len, err.splitlines())) <= 80


def test_off_the_path_it_says_what_can_be_typed_there(shell, tmp_path, monkeypatch):
    program = tmp_path / "bin" / "regard"
    program.parent.mkdir()
    program.touch(0o755)
    for path, shown in (("/usr/bin", program), (program.parent, "regard")):
        monkeypatch.setenv("PATH", str(path))
        assert f"  {shown} play\n" in shell(program=str(program))[2]
        assert shell("nosuchverb", program=str(program))[2].endswith(f"try: {shown} --help\n")


def test_a_shell_completes_verbs_and_models(shell, monkeypatch):
    monkeypatch.setenv("_REGARD_COMPLETE", "complete_bash")
    for words, at, completed in (
        ("regard re", "1", ["record", "report"]),
        ("regard record sm", "2", ["smollm2"]),
    ):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", at)
        assert shell()[1].split() == completed


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("nosuchverb", "no such command 'nosuchverb'", "regard"),
        ("lern", "did you mean 'learn'", "regard"),
        ("--nope", "no such option: --nope", "regard"),
        ("learn --heads", "'--heads' requires", "regard learn"),
        ("learn a b", "unexpected extra argument", "regard learn"),
        ("learn --nope", "no such option: --nope", "regard learn"),
        ("grade", "missing argument 'FILE'", "regard grade"),
        ("doctor x", "unexpected extra argument", "regard doctor"),
    ],
)
def test_wrong_words_are_one_line_and_a_hint(shell, words, message, hint):
    status, out, err = shell(*words.split())
    line, tried = err.splitlines()
    assert (status, out) == (2, "")
    assert line.startswith("regard: ") and not line.endswith(".")
    assert message.lower() in line.lower()
    assert tried == f"try: {hint} --help"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("learn a --d-v x", "--d-v x: give a whole number"),
        ("learn --heads abc", "--heads abc: give a whole number"),
        ("learn a --heads=abc", "--heads: give a whole number"),
        ("learn a --next --temperature warm", "--temperature warm: give a number"),
        ("learn a --heads 3", "--heads 3: a width of 4 does not divide into 3 heads; give 1, 2, 4 "
         "heads, or --d-k"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_one_plain_line_without_a_hint(shell, words, line):
    assert shell(*words.split()) == (2, "", f"regard: {line}\n")


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        ("record smollm2 --video a.gif", "regard.record(model)"),
        ("record --video=a.gif", "--image"),
        ("scaling", 'regard learn "The cat sat" --web'),
        ("scaling --d-k 16 --help", 'regard learn "The cat sat" --web'),
        ("learn --lab list", "--step"),
        ("learn --exercise 7 --lab masking", "--web"),
        ("grade a.py --for otter", "hand calculations"),
        ("grade a.md --entry=f", "hand calculations"),
        ("grade a.py --timeout 3", "hand calculations"),
    ],
)
def test_what_was_retired_is_one_line_that_says_what_to_do_instead(refused, words, instead):
    line = refused(*words.split())
    assert "was retired" in line and instead in line


def test_what_never_was_is_not_called_retired(shell):
    assert "retired" not in shell("record", "--video-codec")[2]


def test_a_mistake_of_ours_keeps_its_traceback(shell, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setattr("regard.learn.make_lesson", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        shell("learn", "a")
