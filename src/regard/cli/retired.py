"""What the command line no longer does, and what to do instead."""

from __future__ import annotations

from typing import Final

# By a verb, or by a verb and its option, as they were typed.
RETIRED: Final = {
    "scaling": (
        "scaling was retired; the lab of step 4 in the page measures the same: "
        'regard learn "The cat sat" --web'
    ),
    "record --video": (
        "--video was retired; in Python, give a model of video its frames inside "
        "regard.record(model) (docs/recording.md), or record single frames with --image"
    ),
}
