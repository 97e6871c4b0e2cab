"""What was retired, as it is typed → the sentence that answers it for a release."""

from __future__ import annotations

from typing import Final

_CODE: Final = (
    "it belonged to grading code, which was retired; regard grade takes hand calculations"
)

RETIRED: Final = {
    "learn --lab": "lab sheets were retired; --web has the labs, --step an exercise on one step",
    "grade --entry": _CODE,
    "grade --timeout": _CODE,
    "grade --for": _CODE,
}
