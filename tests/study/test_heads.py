"""`study.patterns`: what it takes, and real heads that do the same whatever the tokens are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import regard
from real_models import smollm2
from recorder.models import tiny, tokens
from regard import study
from regard.errors import InputError
from regard.recorder.drive import drive
from regard.recorder.tokens import Encoded
from regard.recording import Memory, Recording
from regard.recording.schema import CONTENTS
from support.recordings import Chunk, write_recording

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
CHUNKS = [Chunk((0, 80), (0, 80), regard.Causal())]


def test_one_study_for_each_head_in_order(planted):
    heads = study.patterns(planted)
    assert [head.label for head in heads] == planted.labels()
    assert len({tuple(finding.pattern for finding in head) for head in heads}) == 1
    assert (heads[-1].layer, heads[-1].head, heads[-1].stack) == (1, len(heads) // 2 - 1, "")


def test_causal_evidence_makes_it_induction(planted):
    heads = {
        head.label: head
        for head in study.patterns(planted, causal={"L0H5": 2.5, "L1H5": 0.0, "L0H0": 9.0})
    }
    assert heads["L0H5"].labels == ("induction",)
    assert heads["L1H5"].labels == ("sink", "prefix-matching")
    assert heads["L0H0"].labels == ("previous",) and heads["L0H0"]["previous"].causal == 9.0
    words = study.sentence(heads["L0H5"], heads["L0H5"]["induction"])
    assert "its knock-out lowers the copied token's log-probability by 2.5" in words


def test_what_cannot_be_asked(planted):
    with pytest.raises(InputError, match="prompt 3 does not exist; this recording has 0"):
        study.patterns(planted, prompt=3)
    with pytest.raises(InputError, match="give 'labels', 'all' or 'none'"):
        study.patterns(planted, evidence="some")  # type: ignore[arg-type]
    empty = Memory()
    empty.note({"contents": CONTENTS})
    with pytest.raises(InputError, match="nothing was recorded yet"):
        study.patterns(Recording(empty))


def test_an_unfinished_recording_is_studied_as_far_as_it_goes():
    full, _ = write_recording(chunks=CHUNKS)
    store = Memory()
    store.note(full.metadata)
    for name, entry in full.entries.items():
        if not name.endswith(("totals", "received")):
            store.add(name, full.words(name), entry.metadata)
    for head in study.patterns(Recording(store), evidence="all"):
        assert head.labels == () and np.isnan(head.non_sink)


def test_stacks_of_an_encoder_decoder():
    model = tiny("t5", d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
    with torch.no_grad(), regard.record(model) as recording:
        model(input_ids=tokens(40), decoder_input_ids=tokens(12, seed=1))
    heads = {head.label: head for head in study.patterns(recording, evidence="all")}
    assert list(heads) == recording.labels()
    assert {head.stack for head in heads.values()} == set(recording.stacks)
    cross = [head for head in heads.values() if "cross" in head.stack]
    assert cross and not any(head["previous"].known for head in cross)
    assert all(head["sink"].known for head in heads.values())
    for seen in (seen for head in cross for finding in head for seen in finding.rows):
        assert seen.row < 12 and (seen.key is None or seen.key < 40)


def test_ranks_are_one_recording(tmp_path):
    whole = Recording(write_recording(chunks=CHUNKS)[0])
    for rank, rows in enumerate(((0, 48), (48, 80))):
        write_recording(tmp_path / f"rank-{rank:04d}.regard", chunks=CHUNKS, rows=rows)
    with regard.open(tmp_path) as folder:
        for head, other in zip(study.patterns(folder), study.patterns(whole), strict=True):
            assert head.label == other.label
            assert head.non_sink == pytest.approx(other.non_sink, abs=1e-5)
            assert head["previous"].score == pytest.approx(other["previous"].score, abs=1e-5)


def test_tokens_that_the_model_wrote_are_known_to_the_recording():
    model = tiny("llama", num_key_value_heads=2)
    with regard.record(model) as recorder:
        drive(recorder, Encoded(tokens(30), "", ""), generate=6)
    heads = study.patterns(recorder, needle=range(5, 15))
    written = {head["retrieval"].detail["rows"] for head in heads}
    assert written == {recorder.prompts[0].generated} and 0 not in written


def repeated(tokenizer: Any, seed: int, count: int) -> torch.Tensor:
    """BOS + r + r of distinct random tokens."""
    dice = torch.Generator().manual_seed(seed)
    r = torch.randperm(40_000, generator=dice)[:count] + 1000
    return torch.cat([torch.tensor([tokenizer.bos_token_id]), r, r])[None]


def test_the_same_real_heads_match_prefixes_whatever_the_tokens():
    model, tokenizer = smollm2().model, smollm2().tokenizer
    with torch.no_grad(), regard.record(model, tokenizer=tokenizer) as recording:
        for seed in range(3):
            model(repeated(tokenizer, seed, 60))
    ranked, labelled = [], []
    for prompt in range(3):
        heads = study.patterns(recording, prompt, evidence="none")
        scores = {head.label: head["prefix-matching"].score for head in heads}
        ranked.append(sorted(scores, key=scores.__getitem__, reverse=True))
        labelled.append({head.label for head in heads if "prefix-matching" in head.labels})
        assert np.median(list(scores.values())) < 0.02  # most heads do nothing of the kind
        assert scores[ranked[-1][0]] > 0.7
    assert len({tuple(labels[:3]) for labels in ranked}) == 1  # in the same order
    assert len({frozenset(labels[:8]) for labels in ranked}) == 1
    both = set.intersection(*labelled)
    assert len(both) >= 5 and all(len(labels - both) <= 3 for labels in labelled)
    assert not any("induction" in head.labels for head in heads)
