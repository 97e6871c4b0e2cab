"""Whatever is written can be encoded, and nothing is lost that need not be."""

from __future__ import annotations

import io
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from regard.cli import terminal


@pytest.fixture
def stdout(monkeypatch):
    """Make stdout a stream of some encoding; the function gives back what reached it."""

    def make(encoding: str):
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="\n")
        monkeypatch.setattr(sys, "stdout", stream)
        terminal.guard_streams()

        def written() -> str:
            stream.flush()
            return stream.buffer.getvalue().decode(encoding)

        return written

    return make


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("scores ÷ √d_k − 1", "scores / sqrt d_k - 1"),
        ("Q · Kᵀ → k₁", "Q * K^T -> k1"),
        ("÷√d", "div"),
        ("∂L/∂q ≤ 1", "dL/dq <= 1"),
        ("a…b", "a...b"),
        ("猫 é", "? ?"),
        ("plain", "plain"),
    ],
)
def test_signs_are_spelt_out(text, plain):
    assert terminal.in_ascii(text) == plain


@given(st.text())
def test_any_text_becomes_ascii(text):
    assert terminal.in_ascii(text).isascii()


@pytest.mark.parametrize(
    ("encoding", "written"),
    [("utf-8", "√ · × 猫 ?\n"), ("latin-1", "sqrt  · × ? ?\n"), ("ascii", "sqrt  * x ? ?\n")],
)
def test_only_what_cannot_be_encoded_is_spelt_out(stdout, encoding, written):
    reached = stdout(encoding)
    terminal.write("√ · × 猫 \udcff")
    assert reached() == written


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_json_loses_nothing(stdout, encoding):
    reached = stdout(encoding)
    terminal.write_json({"token": "猫", "sign": "√"})
    assert json.loads(reached()) == {"token": "猫", "sign": "√"}
    assert ("猫" in reached()) == (encoding == "utf-8")


def test_json_refuses_what_is_not_json(stdout):
    stdout("utf-8")
    with pytest.raises(ValueError, match="not JSON compliant"):
        terminal.write_json([float("nan")])


def test_help_is_spelt_by_the_encoding_alone(stdout, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    stdout("utf-8")
    assert terminal.spelt("√") == "√"
    stdout("ascii")
    assert terminal.spelt("√") == "sqrt "


@pytest.mark.parametrize(
    ("encoding", "term", "plain"),
    [("utf-8", "xterm", False), ("utf-8", "dumb", True), ("cp1252", "xterm", True)],
)
def test_pages_are_plain_where_nothing_else_is_safe(monkeypatch, encoding, term, plain):
    monkeypatch.setenv("TERM", term)
    console = Console(file=io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert terminal.ascii_only(console) is plain


def test_lines_are_text_not_markup(stdout):
    reached = stdout("ascii")
    terminal.print_lines(terminal.results(), [[("[red]√", "bold"), (" x  ", "")], []])
    assert reached() == "[red]sqrt  x\n\n"


def test_streams_that_are_not_ours_are_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys, "stderr", None)
    terminal.guard_streams()
    terminal.write("√")
    assert sys.stdout.getvalue() == "√\n"


def test_remarks_go_to_stderr(capsys):
    terminal.write("a remark", error=True)
    terminal.status().print("another")
    assert capsys.readouterr() == ("", "a remark\nanother\n")


def test_what_a_terminal_would_obey_is_spelt_out(capsys):
    from regard.cli.terminal import harmless, write_json

    given = {"text": "a\x1b[2J\u202eb\x9b", "letters": "é √ 日"}
    write_json(given)
    out = capsys.readouterr().out
    assert not {"\x1b", "\u202e", "\x9b"} & set(out)
    assert json.loads(out) == given
    assert harmless("line\nbreak\x07") == "line\\nbreak\\u0007"
