"""The health of attention while a model trains.

session    `regard.Monitor`: which steps are sampled
listen     hooks on the model during a sampled step
sample     its statistics, from one attention to all ranks
gradients  where a module keeps w_q and w_k; gradient norms by head
outputs    alarms, and logs: CSV, a recording, TensorBoard, any function
clip       QK-clip
trainer    a callback for the Trainer of transformers
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regard.monitor.clip import qk_clip_
from regard.monitor.listen import Snapshots
from regard.monitor.outputs import CSV, Calls, Limits, Log, RecordingFile, TensorBoard
from regard.monitor.sample import STATISTICS, Sample
from regard.monitor.session import Monitor

if TYPE_CHECKING:
    from regard.monitor.trainer import TrainerCallback

__all__ = [
    "CSV",
    "Calls",
    "Limits",
    "Log",
    "Monitor",
    "RecordingFile",
    "STATISTICS",
    "Sample",
    "Snapshots",
    "TensorBoard",
    "TrainerCallback",
    "qk_clip_",
]


def __getattr__(name: str) -> Any:
    if name != "TrainerCallback":
        raise AttributeError(f"module 'regard.monitor' has no attribute {name!r}")
    from regard.monitor.trainer import TrainerCallback

    return TrainerCallback
