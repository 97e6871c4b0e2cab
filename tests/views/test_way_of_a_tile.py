"""How many files of Python one computed tile passes: a reader has to follow that far."""

from __future__ import annotations

import sys
from pathlib import Path

import regard
from regard.viewer.opened import Opened
from regard.viewer.questions import QUESTIONS, Asked
from support.recordings import in_memory

PACKAGE = Path(regard.__file__).parent
MOST = 15


def test_a_computed_tile_passes_few_files():
    recording, _ = in_memory([f" t{n}" for n in range(300)], layers=1)
    opened = Opened(recording)
    opened.head_map(0, "L0H1").tile(1, 0, 0)  # the recording is open, and the head was met
    asked = Asked({"head": "L0H1", "level": "1", "y": "1", "x": "0"})
    passed: set[str] = set()

    def look(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE) and "<" not in frame.f_code.co_name:
            passed.add(path.relative_to(PACKAGE).as_posix())

    sys.setprofile(look)
    try:
        answer = QUESTIONS["tile"].answer(opened, asked)
    finally:
        sys.setprofile(None)
    assert len(answer.content) == 256 * 256 and any(answer.content)
    assert len(passed) <= MOST, sorted(passed)
