"""What a request asks for: everything is checked, and nothing names a file."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from regard.errors import InputError
from regard.vllm.ask import Ask, asked_in, secret_in

SECRET = "sixteen letters!"


def test_an_ask_survives_its_text() -> None:
    ask = Ask.of(json.dumps({"secret": SECRET, "layers": "0,5-7", "heads": [1], "top": 3}))
    assert Ask.of(ask.to_text()) == ask
    assert ask.choice.layers == frozenset({0, 5, 6, 7})
    assert ask.choice.heads == (1,)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (17, "give a JSON text"),
        ("x" * 20_000, "at most 16384 characters"),
        ("{", "is no JSON"),
        ("[1]", "give a JSON object"),
        ("[" * 9000, "is no JSON"),
        ({}, "regard.secret"),
        ({"secret": "short"}, "regard.secret"),
        ({"secret": 12345678901234567890}, "regard.secret"),
        ({"secret": "é" * 16}, "regard.secret"),
        ({"secret": "\ud800" * 16}, "regard.secret"),
        ({"secret": " " + "x" * 16}, "as a header carries it"),
        ({"secret": "x" * 16 + "\n"}, "as a header carries it"),
        ({"secret": "x" * 257}, "regard.secret"),
        ({"path": "/etc/passwd"}, "regard.path is unknown; there are secret, layers"),
        ({"layers": [-1]}, "layers"),
        ({"layers": {"a": 1}}, "regard.layers"),
        ({"layers": "zero"}, "layers 'zero'"),
        ({"heads": [True]}, "heads"),
        ({"top": 0}, "regard.top=0"),
        ({"top": True}, "regard.top=True"),
        ({"exact": "yes"}, "regard.exact='yes'; give true or false"),
        ({"statistics": ["entropy", "passwords"]}, "regard.statistics"),
        ({"statistics": "entropy"}, "regard.statistics"),
        ({"statistics": [[1]]}, "regard.statistics"),
    ],
)
def test_what_has_no_meaning_is_an_error(given: Any, reason: str) -> None:
    text = given
    if isinstance(given, dict):
        text = json.dumps(given if given == {} or "secret" in given else {"secret": SECRET} | given)
    with pytest.raises(InputError, match=reason.replace("[", r"\[")):
        Ask.of(text)


def test_a_reason_can_be_told_to_whoever_gave_a_secret() -> None:
    assert secret_in(json.dumps({"secret": SECRET, "layers": "?"})) == SECRET
    for given in (None, 3, "{", "[]", "[" * 9000, '{"secret": 3}', '{"secret": "short"}'):
        assert secret_in(given) == ""


def test_where_an_ask_stands() -> None:
    assert asked_in(None) is None
    assert asked_in(SimpleNamespace(extra_args=None)) is None
    assert asked_in(SimpleNamespace(extra_args={"other": 1})) is None
    assert asked_in(SimpleNamespace(extra_args={"regard": "{}"})) == "{}"
