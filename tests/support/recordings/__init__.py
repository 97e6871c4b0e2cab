"""Recordings for tests, with the dense truth about what they hold.

    write_prompt    one place of one prompt from random q, k, v, in segments (`Chunk`)
    write_recording the same as a whole recording of one place
    write           layers and prompts over tokens of one's choice
    in_memory       … as a Recording without a file
    on_disk         … as a file
    write_rank      one file of several ranks that recorded one prompt
    write_training  a training run: steps, statistics, alarms, maps
    make_state      a file in one of STATES: empty, exact, damaged, stored only, …
    growing         a file that is being written
    tear            cuts a file off in the middle of a frame
    write_sighted   layers over patches and words, with pictures (`sighted`: without a file)
    record_planted  heads that do one thing by construction (`planted`), through `regard.record`

Every writer takes a store: `recording.Memory()` or a `recording.Writer`.
"""

from __future__ import annotations

from support.recordings.planted import record_planted
from support.recordings.sighted import png, scene, sighted, write_sighted
from support.recordings.small import (
    HOSTILE,
    STATES,
    WORDS,
    causal,
    growing,
    in_memory,
    make_state,
    on_disk,
    tear,
    write,
    write_rank,
    write_training,
)
from support.recordings.synthetic import (
    Chunk,
    DenseTruth,
    WrittenPlace,
    numpy_rule,
    write_prompt,
    write_recording,
)

__all__ = [
    "HOSTILE", "STATES", "WORDS", "Chunk", "DenseTruth", "WrittenPlace", "causal", "growing",
    "in_memory", "make_state", "numpy_rule", "on_disk", "png", "record_planted", "scene", "sighted",
    "tear", "write", "write_prompt", "write_rank", "write_recording", "write_sighted",
    "write_training",
]  # fmt: skip
