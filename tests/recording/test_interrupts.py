"""Ctrl-C at every step of writing: the file stays whole, and writing can go on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from regard.errors import InputError
from regard.recording import Reader, Writer, check
from regard.recording.format import log, write

FILES = (log.__file__, write.__file__)


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    """No disk is waited for."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def writer_of(path: Path, **options: Any) -> Writer:
    """Without its lock: Python handles no signal between taking one and the block around it, where
    this file would press as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("threading.Lock", nullcontext)
        return Writer(path, **options)


@contextmanager
def pressed_at(step: int) -> Iterator[list[str]]:
    """KeyboardInterrupt before the step-th instruction of the writer, once."""
    left, pressed = [step], []

    def trace(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        if frame.f_code.co_filename not in FILES:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and not pressed:
            left[0] -= 1
            if left[0] < 0:
                pressed.append(f"{frame.f_code.co_name}:{frame.f_lineno}")
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield pressed
    finally:
        sys.settrace(before)


def interrupted(path: Path, step: int) -> bool:
    """Frames, one of which is stopped at a step, then others. Whether there is such a step."""
    writer = writer_of(path)
    writer.add("before", np.ones(3))
    with pressed_at(step) as pressed, suppress(KeyboardInterrupt):
        writer.add("x", np.arange(40))
        writer.note({"n": "1"})
    with suppress(InputError):  # in the recording already
        writer.add("x", np.arange(9))  # another length: what was written before may not show
    writer.add("behind", np.ones(3))
    writer.close()
    report = check(path)
    assert report.is_whole and report.is_closed, (pressed, report.damage)
    with Reader(path) as reader:
        assert list(reader) == ["before", "x", "behind"], pressed
        assert reader.array("x").size in (9, 40)
    path.unlink()
    return bool(pressed)


def test_an_interrupt_at_any_step_leaves_index_and_frames_in_agreement(tmp_path, monkeypatch):
    monkeypatch.setattr(write, "_INDEX_EVERY", 300)  # an index comes on the way
    monkeypatch.setattr(write, "_INDEX_SHARE", 0)
    steps = 0
    while interrupted(tmp_path / "a.regard", steps):
        steps += 1
    assert steps > 200


def test_an_interrupt_while_closing_leaves_what_can_be_repaired(tmp_path):
    """And the older file, where one was to be replaced, is as it was or wholly replaced."""
    path, step, states = tmp_path / "a.regard", 0, set()
    while True:
        path.write_bytes(b"mine")
        writer = writer_of(path, overwrite=True)
        writer.add("x", np.arange(40))
        with pressed_at(step) as pressed, suppress(KeyboardInterrupt):
            writer.close()
        states.add(path.read_bytes() == b"mine")
        where = writer.path if writer.path.exists() else path
        assert list(Reader(where)) == ["x"] and not check(where).damage, pressed
        for file in tmp_path.iterdir():
            file.unlink()
        if not pressed:
            break
        step += 1
    assert states == {True, False} and step > 100
