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
from regard.mask.kinds import Table
from regard.recorder.drive import drive
from regard.recorder.tokens import Encoded
from regard.recording import Memory, Recording
from regard.recording.schema import CONTENTS
from regard.score import ScoreRule
from support.recordings import Chunk, write_recording

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_one_study_for_each_head_in_order(planted: Any) -> None:
    found = study.patterns(planted)
    assert [head.label for head in found] == planted.labels()
    assert len({tuple(one.pattern for one in head) for head in found}) == 1
    assert (found[-1].layer, found[-1].head, found[-1].stack) == (1, len(found) // 2 - 1, "")


def test_causal_evidence_makes_it_induction(planted: Any) -> None:
    found = study.patterns(planted, causal={"L0H5": 2.5, "L1H5": 0.0, "L0H0": 9.0})
    by_label = {head.label: head for head in found}
    assert by_label["L0H5"].labels == ("induction",)
    assert by_label["L1H5"].labels == ("sink", "prefix-matching")
    assert by_label["L0H0"].labels == ("previous",)
    assert by_label["L0H0"]["previous"].causal == 9.0
    words = study.sentence(by_label["L0H5"], by_label["L0H5"]["induction"])
    assert "its knock-out lowers the copied token's log-probability by 2.5" in words


def test_what_cannot_be_asked(planted: Any) -> None:
    with pytest.raises(InputError, match="prompt 3 does not exist; this recording has 0"):
        study.patterns(planted, prompt=3)
    with pytest.raises(InputError, match="give 'labels', 'all' or 'none'"):
        study.patterns(planted, evidence="some")  # type: ignore[arg-type]
    empty = Memory()
    empty.note({"contents": CONTENTS})
    with pytest.raises(InputError, match="nothing was recorded yet"):
        study.patterns(Recording(empty))


def test_an_unfinished_recording_is_studied_as_far_as_it_goes() -> None:
    store = Memory()
    chunk = Chunk((0, 60), (0, 60), regard.Causal())
    write_recording(store, chunks=[chunk], note=False)
    for name in [name for name in store.entries if name.endswith(("totals", "received"))]:
        del store.entries[name]
    for head in study.patterns(Recording(store), evidence="all"):
        assert head.labels == () and np.isnan(head.non_sink)


def test_stacks_of_an_encoder_decoder() -> None:
    model = tiny("t5", d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
    with torch.no_grad(), regard.record(model) as recording:
        model(input_ids=tokens(40), decoder_input_ids=tokens(12, seed=1))
    found = {head.label: head for head in study.patterns(recording, evidence="all")}
    assert list(found) == recording.labels()
    assert {head.stack for head in found.values()} == set(recording.stacks)
    cross = [head for head in found.values() if "cross" in head.stack]
    assert cross and not any(head["previous"].known for head in cross)
    assert all(head["sink"].known for head in found.values())
    for one in (seen for head in cross for finding in head for seen in finding.rows):
        assert one.row < 12 and (one.key is None or one.key < 40)


def test_an_encoder_may_look_ahead() -> None:
    """Both sides of the profile of distances count."""
    n = 90
    ahead = torch.full((4, n, n), -30.0)
    for row in range(n - 3):
        ahead[:, row, row + 3] = 0
    store, _ = write_recording(
        chunks=[Chunk((0, n), (0, n), None, ScoreRule(1.0))],
        query=ahead, key=torch.eye(n).expand(2, n, n), dim=n,
    )  # fmt: skip
    head = study.patterns(Recording(store))[0]
    assert "offset" in head.labels and head["offset"].detail == {"offset": -3}
    assert head["offset"].chance == pytest.approx(1 / n)
    assert "looks 3 tokens ahead" in study.sentence(head, head["offset"])
    assert head["offset"].rows[0].key == head["offset"].rows[0].row + 3


def test_heads_with_masks_of_their_own() -> None:
    sees = torch.rand(4, 70, 70, generator=torch.Generator().manual_seed(1)) < 0.5
    sees[..., 0] = True
    store, made = write_recording(chunks=[Chunk((0, 70), (0, 70), Table(sees))])
    for n, head in enumerate(study.patterns(Recording(store), evidence="all")):
        p = made.truth.weights()[n]
        assert head["self"].score == pytest.approx(np.diagonal(p).mean(), abs=1e-5)
        assert head["sink"].known and np.isnan(head["self"].chance)


def test_one_recording_per_rank_is_one_recording(tmp_path: Any) -> None:
    whole = Recording(write_recording(chunks=[Chunk((0, 80), (0, 80), regard.Causal())])[0])
    for rank, rows in enumerate(((0, 48), (48, 80))):
        write_recording(
            tmp_path / f"rank-{rank:04d}.regard",
            chunks=[Chunk((0, 80), (0, 80), regard.Causal())],
            rows=rows,
        )
    with regard.open(tmp_path) as folder:
        found = study.patterns(folder)
        assert [one.label for one in found] == whole.labels()
        for one, other in zip(found, study.patterns(whole), strict=True):
            assert one.non_sink == pytest.approx(other.non_sink, abs=1e-5)
            assert one["previous"].score == pytest.approx(other["previous"].score, abs=1e-5)


def test_tokens_that_the_model_wrote_are_known_to_the_recording() -> None:
    model = tiny("llama", num_key_value_heads=2)
    encoded = Encoded(tokens(30), "", "")
    with regard.record(model) as recorder:
        drive(recorder, encoded, generate=6)
    found = study.patterns(recorder, needle=range(5, 15))
    written = {head["retrieval"].detail["rows"] for head in found}
    assert written == {recorder.prompts[0].generated} and 0 not in written


def repeated(tokenizer: Any, seed: int, count: int) -> torch.Tensor:
    """BOS + r + r of distinct random tokens."""
    dice = torch.Generator().manual_seed(seed)
    r = torch.randperm(40_000, generator=dice)[:count] + 1000
    return torch.cat([torch.tensor([tokenizer.bos_token_id]), r, r])[None]


def test_the_same_real_heads_match_prefixes_whatever_the_tokens() -> None:
    model, tokenizer = smollm2().model, smollm2().tokenizer
    with torch.no_grad(), regard.record(model, tokenizer=tokenizer) as recording:
        for seed in range(3):
            model(repeated(tokenizer, seed, 60))
    ranked, labelled = [], []
    for prompt in range(3):
        found = study.patterns(recording, prompt, evidence="none")
        scores = {head.label: head["prefix-matching"].score for head in found}
        ranked.append(sorted(scores, key=scores.__getitem__, reverse=True))
        labelled.append({head.label for head in found if "prefix-matching" in head.labels})
        assert np.median(list(scores.values())) < 0.02  # most heads do nothing of the kind
        assert scores[ranked[-1][0]] > 0.7
    assert len({tuple(one[:3]) for one in ranked}) == 1  # in the same order
    assert len({frozenset(one[:8]) for one in ranked}) == 1
    both = set.intersection(*labelled)
    assert len(both) >= 5 and all(len(one - both) <= 3 for one in labelled)
    assert not any("induction" in head.labels for head in found)
