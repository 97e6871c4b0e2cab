"""Statistics of every head while a model trains.

session    `regard.Monitor`: which steps are sampled
listen     hooks on the model during a sampled step
sample     its statistics, from one attention to all ranks
first_batch  the first training batch, checked by `regard.check` before its step
loss       of a step, beside its heads
gradients  where a module keeps w_q and w_k; gradient norms by head
outputs    alarms, and logs: CSV, a recording, TensorBoard, any function
clip       QK-clip
trainer    a callback for the Trainer of transformers
lightning  one for Lightning's
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.monitor.clip import qk_clip_
from regard.monitor.listen import Snapshots
from regard.monitor.outputs import CSV, Calls, Limits, Log, RecordingFile, TensorBoard
from regard.monitor.sample import STATISTICS, Sample
from regard.monitor.session import Monitor

if TYPE_CHECKING:
    from regard.monitor.lightning import LightningCallback
    from regard.monitor.trainer import TrainerCallback

__all__ = [
    "CSV",
    "Calls",
    "LightningCallback",
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


_HOMES = {"TrainerCallback": "trainer", "LightningCallback": "lightning"}


def __getattr__(name: str) -> Any:
    """The callbacks, each of which needs a package that others do not."""
    if name not in _HOMES:
        raise AttributeError(f"module 'regard.monitor' has no attribute {name!r}")
    return getattr(import_module(f"regard.monitor.{_HOMES[name]}"), name)
