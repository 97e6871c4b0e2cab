from __future__ import annotations

import json

import pytest

from regard.play.requests import CutEdge, PromptState, ReadRequest
from regard.viewer.questions import UnreadableError


def test_what_the_page_sends():
    body = {
        "text": "a", "pair": "b", "sound": "", "more": [1, 2], "heads": ["L1H0", "L0H1", "L1H0"],
        "edges": [[3, 1, ""], [2, 0, "L0H1"], [3, 1]],
    }  # fmt: skip
    made = ReadRequest.of(json.dumps(body).encode())
    assert (made.text, made.pair, made.more) == ("a", "b", (1, 2))
    assert made.heads == ("L0H1", "L1H0")
    assert made.edges == (CutEdge(2, 0, "L0H1"), CutEdge(3, 1))


@pytest.mark.parametrize(
    "body",
    [
        b"", b"x", b"[]", b'{"path":"/etc/passwd"}', b'{"text":3}', b'{"more":[-1]}',
        b'{"more":[true]}', b'{"more":["1"]}', b'{"heads":"L0H0"}', b'{"heads":[""]}',
        b'{"edges":[[1]]}', b'{"edges":[[1,2,3]]}', b'{"edges":[[1,-2]]}',
        b'{"heads":["' + b"L" * 65 + b'"]}', b'{"more":[' + b"1," * 4096 + b"1]}",
    ],
)  # fmt: skip
def test_anything_else_is_refused(body):
    with pytest.raises(UnreadableError):
        ReadRequest.of(body)


def test_a_state_is_named_by_what_it_is():
    one = PromptState((1, 2, 3), ("L0H0", "L1H0"))
    assert one.key == PromptState((1, 2, 3), ("L1H0", "L0H0")).key
    others = [
        PromptState((1, 2)),
        one.whole(),
        one.before(),
        PromptState((1, 2, 3), (), (CutEdge(1, 0),)),
    ]
    assert len({one.key, *(other.key for other in others)}) == 5
