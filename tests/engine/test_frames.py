"""The way of a call is short: few files and few frames between the caller and the kernel."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import regard

HOME = str(Path(regard.__file__).parent)
MOST_FILES, MOST_FRAMES = 14, 100


def test_a_call_and_a_question_pass_few_frames() -> None:
    q = torch.randn(1, 4, 32, 64)

    def ask() -> None:
        a = regard.attend(q, q, q, mask=regard.Causal(), summaries=(regard.Entropy(),))
        a.received()

    seen: list[tuple[str, str]] = []

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(HOME):
            seen.append((frame.f_code.co_filename[len(HOME) :], frame.f_code.co_name))

    with torch.no_grad():
        ask()
        sys.setprofile(watch)
        try:
            ask()
        finally:
            sys.setprofile(None)
    files = {file for file, _ in seen}
    assert len(files) <= MOST_FILES, sorted(files)
    assert len(seen) <= MOST_FRAMES, sorted(seen)
