"""What the command line no longer does, and what to do instead."""

from __future__ import annotations

from typing import Final

_CODE: Final = (
    "{} belonged to grading code, which was retired; regard grade takes hand calculations"
)

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
    "learn --lab": (
        "--lab was retired with lab sheets; --web has the labs, --step an exercise on one step"
    ),
    **{f"grade {option}": _CODE.format(option) for option in ("--entry", "--timeout", "--for")},
}
