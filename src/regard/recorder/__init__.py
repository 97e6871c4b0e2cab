"""From a model that runs to a recording.

hooks        which module is at work, with which tokens (inputs: what it was called with)
sequences    how many sequences a call holds
layer_names  module paths as stacks and layers
choice       which layers, heads and queries somebody asked for
plan         what is kept and how many bytes it takes, before anything runs
measure      one attention in numbers
call_slice   one call laid out: whose rows and keys it holds
padding      which tokens of a padded batch are real (marks: which are copies of each other)
rules        masks and score rules as a recording writes them
layer_writer the book of one place in one prompt (bins, distances: its sums)
prompt       the sequences being read (tokens: their texts)
sdpa         modules that call torch's own function (missed: those that attend otherwise)
weights      where a model's numbers are (offloaded ones)
session      `regard.record`

encode       a text as the model's tokens
drive        a prompt through the model (estimate: what will be kept; compare: against eager)
corpus       many documents, by where they stand
shards       some documents → one file
jobs         processes that do that
documents    a folder of such files: begun, resumed, finished
batches      the same as an actor of Ray Data
"""

from __future__ import annotations

from regard.recorder.batches import BatchRecorder
from regard.recorder.session import Recorder, record

__all__ = ["BatchRecorder", "Recorder", "record"]
