"""From a model that runs to a recording.

whereabouts  hooks: which module is at work, with which tokens
atlas        module paths as stacks and layers
choice       which layers, heads and queries somebody asked for
plan         what is kept and how many bytes it takes, before anything runs
measure      one attention in numbers
turn         one call laid out: whose rows and keys it holds
padding      which tokens of a padded batch are real (marks: which are copies of each other)
rules        masks and score rules as a recording writes them
ledger       the book of one place in one prompt (bins, distances: its sums)
prompt       the sequences being read (tokens: their texts)
sdpa         modules that call torch's own function
session      `regard.record`
"""

from __future__ import annotations

from regard.recorder.session import Recorder, record

__all__ = ["Recorder", "record"]
