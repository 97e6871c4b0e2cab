"""The health of attention while a model trains.

sample       one step: places × heads for each statistic
measure      one attention in sums
tally        the sums of a step, over its forwards
ears         hooks and listeners of a step that is sampled
projections  where a module keeps w_q and w_k
shards       the part of a tensor that is held here
gradients    how large their gradients are, by head
ranks        several processes, two reductions
gather       tally, gradients and ranks → a sample
alarms       limits, and who went over them since when
snapshots    pooled maps of a few heads
logs         a table, TensorBoard, anybody's function (record_file: a recording)
session      `regard.Monitor`
clip         QK-clip
trainer      a callback for the Trainer of transformers
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regard.monitor.alarms import Limits
from regard.monitor.clip import qk_clip_
from regard.monitor.logs import CSV, Calls, Log, TensorBoard
from regard.monitor.record_file import RecordingFile
from regard.monitor.sample import STATISTICS, Sample
from regard.monitor.session import Monitor
from regard.monitor.snapshots import Snapshots

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
