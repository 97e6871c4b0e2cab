"""Waves and spectra in the shapes that audio models take."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from regard.testing.families.facts import BATCH, Facts, Inputs

_USUAL = 128  # bins of a spectrum, for a model that does not say


def sounds(facts: Facts) -> Iterator[Inputs]:
    """What may be passed as sound, the likeliest first."""
    takes = facts.takes
    if "input_features" in takes:
        yield from _spectra(facts)
    if "input_values" in takes:
        yield from _waves(facts)


def _spectra(facts: Facts) -> Iterator[Inputs]:
    bins = facts.find(
        "num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim", "input_dim",
        "n_mels", "input_feat_size", "input_size", "num_frequency_bins", "hidden_size", default=16,
    )  # fmt: skip
    positions = facts.find("max_source_positions", default=16)
    masks = [n for n in ("input_features_mask", "feature_attention_mask") if n in facts.takes]
    for length in (2 * int(positions), 32, 64, 88, 200):
        marks = {name: torch.ones(BATCH, length, dtype=torch.long) for name in masks}
        yield {"input_features": facts.normal(BATCH, bins, length)} | marks
        yield {"input_features": facts.normal(BATCH, length, bins)} | marks
        yield {"input_features": facts.normal(BATCH, length, _USUAL)} | marks
        yield {"input_features": facts.normal(BATCH, 1, length, bins)} | marks


def _waves(facts: Facts) -> Iterator[Inputs]:
    for length in (1600, 4000, 16000):
        yield {"input_values": facts.normal(BATCH, length)}
        yield {"input_values": facts.normal(BATCH, 1, length)}
    bins = facts.find("num_mel_bins", default=16)
    length = facts.find("max_length", default=64)
    yield {"input_values": facts.normal(BATCH, int(length), bins)}
