from __future__ import annotations

import pytest

from regard.errors import FileError, InputError
from regard.play.script import parse_script, read_script


def test_a_scenario():
    text = "# a talk\nprompt The cat  sat\n\nhover sat\noff L1H2\ncut 3 cat\nnext\nwait 1.5\n"
    assert parse_script(text) == [
        {"do": "prompt", "words": ["The cat  sat"]},
        {"do": "hover", "words": ["sat"]},
        {"do": "off", "words": ["L1H2"]},
        {"do": "cut", "words": ["3", "cat"]},
        {"do": "next", "words": []},
        {"do": "wait", "words": ["1.5"]},
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no step"), ("# only\n", "no step"), ("jump 3", "script:1: 'jump' is no step"),
        ("prompt", "some text"), ("\ncut 3", "script:2: cut takes 2 words"),
        ("next 3", "nothing"), ("wait soon", "between 0 and 600"), ("wait 1e9", "between"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_step_is_named(text, words):
    with pytest.raises(InputError, match=words):
        parse_script(text)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(FileError, match="cannot be read"):
        read_script(tmp_path / "none.txt")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="not UTF-8"):
        read_script(tmp_path / "bytes")
