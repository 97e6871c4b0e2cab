"""Notes about axes and pictures that lie: one FileError, or an answer as if they were not there;
never another exception, never a huge allocation."""

from __future__ import annotations

import contextlib
import json
import random
import tracemalloc
from typing import Any

import numpy as np
import pytest

from regard.axes import Axis, Grid, Tokens
from regard.errors import FileError
from regard.recording import Memory, Recording
from regard.recording.pictures import read_pictures
from regard.recording.positions import Positions
from regard.recording.schema import CONTENTS
from support.recordings import write_sighted

GRID = {"kind": "grid", "height": 6, "width": 8, "prefix": 1, "names": ["class"]}
PICTURE = {"width": 64, "height": 48, "type": "image/png", "title": "", "seconds": None}
BYTES = "P0/picture/bytes/0"


def base() -> Memory:
    store = Memory()
    write_sighted(store, Axis((Grid(6, 8, prefix=1, names=("class",)),)), layers=1)
    return store


BASE = base()


def copied(notes: dict[str, str | None] | None = None, tensors: Any = None) -> Memory:
    """The recording with other notes and tensors (None: gone)."""
    store = Memory()
    every = BASE.metadata | (notes or {})
    store.note({key: text for key, text in every.items() if text is not None})
    for name, array in ({one: BASE.words(one) for one in BASE.entries} | (tensors or {})).items():
        if array is not None:
            store.add(name, array, BASE.entries[name].metadata if name in BASE.entries else {})
    return store


def axes(*parts: Any, places: Any = None) -> str:
    return json.dumps({"axes": [list(parts)], "places": places or {"L0": [0, 0]}})


def everything(store: Memory) -> list[Any]:
    """What is asked of a recording with a picture."""
    prompt = Recording(store).prompts[0]
    head = prompt["L0H0"]
    pictures = [prompt.picture(n) for n in range(len(prompt.pictures))]
    return [head.query_names, head.key_names, head.entropy(), head[3], pictures]


def test_the_recording_itself_answers():
    names, _, entropy, row, (picture,) = everything(copied())
    assert names[:3] == ["class", "(0, 0)", "(0, 1)"]
    assert len(entropy) == len(row) == 49
    assert picture.startswith(b"\x89PNG")


NO_AXES = {
    "no JSON": "[",
    "a list": "[]",
    "a number": "1",
    "a text": '"a"',
    "empty": "",
    "deep": "[" * 10**5,
    "no places": '{"axes": []}',
    "no axes": '{"places": {}}',
    "axes of text": '{"axes": "a", "places": {}}',
    "an axis of numbers": '{"axes": [[1]], "places": {}}',
    "an axis that is none": '{"axes": [1], "places": {}}',
    "places of a list": '{"axes": [], "places": []}',
    "a place of one": axes(GRID, places={"L0": [0]}),
    "a place beyond": axes(GRID, places={"L0": [0, 9]}),
    "a negative axis": axes(GRID, places={"L0": [-1, 0]}),
    "an axis of true": axes(GRID, places={"L0": [True, 0]}),
    "an axis of 0.5": axes(GRID, places={"L0": [0.5, 0]}),
    "negative sides": axes(GRID | {"height": -6}),
    "no side": axes(GRID | {"width": 0}),
    "half a side": axes(GRID | {"width": 1.5}),
    "a side of text": axes(GRID | {"width": "8"}),
    "a huge grid": axes(GRID | {"height": 2**30, "width": 2**30}),
    "a huge prefix": axes(GRID | {"prefix": 2**40}),
    "a huge side": axes(GRID | {"height": 10**300}),
    "no height": axes({"kind": "grid", "width": 2}),
    "uneven blocks": axes(GRID | {"merge": 4}),
    "no blocks": axes(GRID | {"merge": 0}),
    "names that are no text": axes(GRID | {"names": [3]}),
    "nested names": axes(GRID | {"names": [["a"]]}),
    "more names than prefix": axes(GRID | {"names": ["a", "b"]}),
    "names of a number": axes(GRID | {"names": 7}),
    "windows of text": axes(GRID | {"windows": "ab"}),
    "three windows": axes(GRID | {"windows": [1, 2, 3]}),
    "no windows": axes(GRID | {"windows": [0, 0]}),
    "windows of lists": axes(GRID | {"windows": [[1], [2]]}),
    "a negative shift": axes(GRID | {"shift": -1}),
    "a picture of text": axes(GRID | {"picture": "a"}),
    "a picture below": axes(GRID | {"picture": -7}),
    "a side in a side": axes(GRID | {"height": [[[1]]]}),
    "moments of no length": axes({"kind": "frames", "count": 49, "seconds": 0}),
    "moments of NaN": axes({"kind": "frames", "count": 49, "seconds": float("nan")}),
    "endless moments": axes({"kind": "frames", "count": 49, "seconds": 10**400}),
    "moments of text": axes({"kind": "frames", "count": 49, "seconds": "a"}),
    "others of numbers": axes({"kind": "other", "count": 49, "what": 5}),
    "negative tokens": axes({"kind": "text", "count": -1}),
}


@pytest.mark.parametrize("name", list(NO_AXES))
def test_axes_that_cannot_be_are_told_when_the_recording_is_opened(name):
    with pytest.raises(FileError) as told:
        Recording(copied({"axes/0": NO_AXES[name]}))
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 200


DEEP = "[" * 900 + "]" * 900


@pytest.mark.parametrize(
    "text",
    [
        f'{{"axes": [[{{"kind": {DEEP}, "count": 49}}]], "places": {{}}}}',
        f'{{"axes": [[{{"kind": "grid", "height": {DEEP}, "width": 2}}]], "places": {{}}}}',
        f'{{"axes": [], "places": {{"L0": {DEEP}}}}}', f'{{"axes": {DEEP}, "places": {{}}}}',
        f'{{"axes": [], "places": {{"L0": [{DEEP}, 0]}}}}',
    ],
)  # fmt: skip
def test_axes_nested_beyond_reason(text):
    with contextlib.suppress(FileError):
        everything(copied({"axes/0": text}))


@pytest.mark.parametrize(
    "part",
    [
        GRID | {"height": 7}, GRID | {"prefix": 0, "names": []}, {"kind": "text", "count": 3},
        {"kind": "grid", "height": 2**15, "width": 2**15}, {"kind": "other", "count": 2**31 - 1},
    ],
)  # fmt: skip
def test_an_axis_that_does_not_fit_its_place_is_passed_over(part):
    """It may be of a recording that is still growing; nothing of its size is made."""
    tracemalloc.start()
    names, *rest = everything(copied({"axes/0": axes(part)}))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert names is None
    assert len(rest[-2]) == 49
    assert peak < 20e6


def test_a_part_of_a_kind_from_the_future_has_positions_alone():
    names, *_ = everything(copied({"axes/0": axes({"kind": "sphere", "count": 49, "rings": 7})}))
    assert names[:2] == ["position 0", "position 1"]
    more = axes(GRID | {"polish": 3, "sheen": [1]})
    assert everything(copied({"axes/0": more}))[0][0] == "class"


NO_PICTURES = {
    "no JSON": "{", "an object": "{}", "a number": "3", "empty": "", "deep": "[" * 10**5,
    "a picture of text": '["a"]', "nothing": "[null]", "a million": json.dumps([PICTURE] * 5000),
    **{
        name: json.dumps([PICTURE | change])
        for name, change in {
            "negative": {"width": -1}, "of no size": {"height": 0}, "huge": {"width": 10**9},
            "half": {"width": 1.5}, "sides of text": {"width": "64"}, "true": {"width": True},
            "a script": {"type": "text/html"}, "svg": {"type": "image/svg+xml"},
            "a type that is none": {"type": ["image/png"]}, "no type": {"type": None},
            "a title that is none": {"title": 3}, "NaN": {"seconds": float("nan")},
            "before": {"seconds": -1}, "endless": {"seconds": 10**400}, "when": {"seconds": "a"},
        }.items()
    },
}  # fmt: skip


@pytest.mark.parametrize("name", list(NO_PICTURES))
def test_pictures_that_cannot_be_are_told_when_the_recording_is_opened(name):
    with pytest.raises(FileError) as told:
        Recording(copied({"pictures/0": NO_PICTURES[name]}))
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 200


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (None, "picture 0 of prompt 0 is not in the recording"),
        (np.zeros(9, np.float32), "no picture"), (np.zeros((3, 3), np.uint8), "no picture"),
        (np.zeros(2**24 + 1, np.uint8), "no picture of at most 16 MiB"),
        (np.zeros(0, np.uint8), "does not begin as image/png"),
        (np.frombuffer(b"<svg onload=alert(1)>", np.uint8), "does not begin as image/png"),
        (np.frombuffer(b"\xff\xd8\xff\xe0 JPEG", np.uint8), "does not begin as image/png"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_picture(array, says):
    """The recording opens and answers; the picture alone is refused."""
    prompt = Recording(copied(tensors={BYTES: array})).prompts[0]
    assert prompt["L0H0"].key_names[0] == "class"
    with pytest.raises(FileError, match=says):
        prompt.picture()


@pytest.mark.parametrize("key", ["axes/", "axes/x", "axes/0/1", "pictures/", "pictures/-1", "axes"])
def test_notes_of_other_names_are_passed_over(key):
    everything(copied({key: "["}))


def test_notes_of_another_prompt_do_no_harm():
    everything(copied({"axes/7": axes(GRID), "pictures/7": json.dumps([PICTURE])}))


def test_a_thousand_scrambled_notes():
    """One letter changed, or a piece cut out."""
    chance = random.Random(5)
    opened = 0
    for key in ("axes/0", "pictures/0"):
        text = BASE.metadata[key]
        for _ in range(500):
            at = chance.randrange(len(text))
            cut = text[:at] + chance.choice('0-9"[]{},:.ae ') + text[at + chance.randint(0, 3) :]
            try:
                everything(copied({key: cut}))
                opened += 1
            except FileError:
                pass
    assert opened > 20


# ── who has not heard of them ────────────────────────────────────────────────────────────────


def test_the_contents_are_what_they_were():
    """Readers pass over notes and tensors that they do not know, so no version is needed."""
    assert CONTENTS == BASE.metadata["contents"] == "attention/3"


def test_without_the_notes_all_numbers_are_the_same():
    """As a reader of before sees it: bytes that nobody asks for, positions by their numbers."""
    old = everything(copied({"axes/0": None, "pictures/0": None}))
    new = everything(copied())
    assert old[0] is None
    assert old[-1] == []
    for before, now in zip(old[2:4], new[2:4], strict=True):
        assert np.array_equal(before, now)


def test_unknown_notes_and_tensors_are_passed_over():
    future = copied({"smells/0": "{"}, {"P0/smell/bytes/0": np.zeros(4, np.uint8)})
    assert everything(future)[0][0] == "class"


def test_there_and_back():
    grid = Grid(6, 4, 3, 2, 2, 1, (2, 2), 1, True, -1, ("class", "register"), (5, 4))
    places = {"L0": (Axis((grid, Tokens(3))), None), "cross.L1": (None, Axis((grid, Tokens(3))))}
    assert Positions.from_json(Positions(places).to_json()) == Positions(places)
    assert read_pictures(BASE.metadata["pictures/0"])[0].title == "scene 0"
