"""From a model that runs to a recording. Data flows one way:

    intercept        what was called: in `attend`, and in torch's own function
    call_slice       whose rows and keys the call holds          → CallSlice, CallPlan
    measure          the whole call in numbers, on the device    → Measured
    reduce           each prompt's bins and sums, on the host    → SliceNumbers
    layer_writer     one layer of one prompt, piece by piece     → the file's bytes (bins: its sums)

`session` (`regard.record`) decides about a call in `wants`, gets that back in `heard`, and hands
the numbers to `prompt`, which knows the sequences that are being read. Around them:

    hooks            which module is at work, and what its layer is called
    inputs           what it was called with: tokens, padding, how many sequences
    plan             which layers, heads and rows are kept, and how many bytes that takes
    tokens           texts as tokens, tokens as texts
    facts            what a recording says of its model
    background_writer  copies from a GPU and writing, while the model goes on

    drive            a prompt through the model; an estimate before, a comparison with eager after
    sound            a sound file through a model of speech
    sight            pictures through a model that sees
    shards           documents → files, each whole or not there
    jobs             processes that do that
    documents        a folder of such files: begun, resumed, finished; and an actor of Ray Data
    over_ranks       one long prompt over many ranks
"""

from __future__ import annotations

from regard.recorder.documents import BatchRecorder
from regard.recorder.session import Recorder, record

__all__ = ["BatchRecorder", "Recorder", "record"]
