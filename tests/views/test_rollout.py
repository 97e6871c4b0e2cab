"""Rollout as it is told: the study's own shares, or its own reason in a sentence."""

from __future__ import annotations

import pytest

from regard import study
from regard.axes import Axis, Grid, Tokens
from regard.mask import Causal
from regard.views.rollout import rollout_answer
from support.recordings.sighted import sighted

VIT = Axis((Grid(3, 5, prefix=2, names=("class", "register 1")),))
TOLD = Axis((Tokens(2), Grid(4, 4, merge=2), Tokens(2)))


@pytest.mark.parametrize(("query", "name"), [(0, "class"), (9, "(1, 2)"), (None, "class")])
def test_shares_are_those_of_the_study_and_of_the_matrices(query, name):
    rec, _ = sighted(VIT, layers=3)
    told = rollout_answer(rec, "", query)
    own = study.roll_out_picture(rec, query, stack="")
    assert told["shares"] == pytest.approx(own.shares.tolist(), abs=1e-7)
    assert told["on_patches"] == pytest.approx(sum(told["shares"][2:]), abs=1e-6)
    assert (told["start"], told["layers"], told["why"], told["caution"]) == (name, 3, "", "")
    assert "residual stream" in told["what"]


def test_a_causal_stack_comes_with_its_caution():
    told = rollout_answer(sighted(TOLD, mask=Causal())[0], "", 19)
    assert told["shares"][18] > 0
    assert told["caution"].startswith("Rollout was published for encoders")
    assert told["caution"].endswith("not as importance.")


@pytest.mark.parametrize(
    ("axis", "options", "why"),
    [
        (Axis((Grid(2, 2, windows=(2, 2)),)), {}, "within windows"),
        (Axis((Grid(2, 2, windows=(1, 4), apart=True),)), {},
         "over several pictures, by themselves"),
        (VIT, {"exact": False}, "Rollout needs q and k of every layer: L0H0"),
        (Axis((Tokens(9),)), {}, "The keys of the stack '' are no patches of a picture."),
    ],
)  # fmt: skip
def test_what_cannot_be_rolled_out_is_told_in_a_sentence(axis, options, why):
    told = rollout_answer(sighted(axis, **options)[0], "", 0)
    assert why in told["why"] and told["shares"] == []
    assert told["why"][0].isupper() and told["why"].endswith(".")
