"""Mistakes are named, and right code raises no alarm: the core, without child processes."""

from __future__ import annotations

import pytest

from learn.programs.bases import BASES
from learn.programs.mutants import mutants
from learn.programs.variants import VARIANTS
from regard.learn.programs.diagnose import judge
from regard.learn.programs.observe import observe


@pytest.fixture
def judged(tmp_path):
    """The kinds of mistakes found in a source, in order; a problem fails."""

    def judged(source):
        path = tmp_path / "attention.py"
        path.write_text(source)
        seen = observe(path)
        assert not seen.problem, seen.problem
        return judge(seen)

    return judged


@pytest.mark.parametrize("base", BASES)
def test_mistakes_are_named(judged, base):
    missed = []
    for name, source, kinds in mutants(base):
        named = [one.kind for one in judged(source).findings] or ["right"]
        if named[0] not in kinds:
            missed.append((name, kinds, named))
    assert not missed


def test_there_are_mistakes_enough():
    assert sum(1 for base in BASES for _ in mutants(base)) >= 150
    assert len(VARIANTS) + len(BASES) >= 12


@pytest.mark.parametrize("name", [*BASES, *VARIANTS])
def test_right_code_raises_no_alarm(judged, name):
    source = BASES[name][0] if name in BASES else VARIANTS[name]
    assert judged(source).findings == ()


def test_an_overflow_is_a_remark(judged):
    assert "large scores overflow" in judged(VARIANTS["naive_softmax"]).remarks[0]


def test_the_convention_of_a_mask_is_a_remark(judged):
    assert judged(VARIANTS["hide_mask"]).remarks == ("the mask is True where a key is hidden",)


def test_two_mistakes_come_in_order(judged):
    source = BASES["torch_weights"][0]
    source = source.replace(" * d ** -0.5", "").replace("return merged @ W_o", "return merged")
    kinds = [one.kind for one in judged(source).findings]
    assert kinds == ["no scale", "output projection missing"]


def test_a_finding_shows_a_number_that_differs(judged):
    source = BASES["numpy_2d"][0].replace(" / np.sqrt(d_k)", "")
    found = judged(source).findings[0]
    assert found.cell.startswith("output[") and abs(found.given - found.right) > 1e-4


def test_what_has_no_name_is_traced(judged):
    source = BASES["numpy_2d"][0].replace("weights @ V", "np.cumsum(weights @ V, axis=0)")
    found = judged(source).findings[0]
    assert found.kind == "not recognised" and "line 12" in found.text and "right" in found.text


def test_any_other_factor_is_measured(judged):
    source = BASES["numpy_2d"][0].replace("/ np.sqrt(d_k)", "* 0.777")
    assert "0.777" in judged(source).findings[0].text


def test_a_right_part_does_not_stand_for_a_whole_that_fails(judged):
    source = VARIANTS["function_of_functions"].replace("@ W_O", "@ W_O[:1]")
    found = judged(source).findings[0]
    assert found.kind == "raises" and "line 21" in found.text


def test_another_shape_of_the_output_is_said(judged):
    source = BASES["numpy_2d"][0].replace("weights @ V", "(weights @ V).sum(axis=0)[:2]")
    assert "the output has the shape (2,), not (5, " in judged(source).findings[0].text


def test_tokens_before_the_batch_are_a_remark(judged):
    assert judged(VARIANTS["mha_seqfirst"]).remarks == ("the input is (tokens, batch, width)",)


def test_attention_over_what_the_code_calls_a_batch_is_wrong(judged):
    source = BASES["seqfirst"][0].replace("s, b, d = x.shape", "b, s, d = x.shape")
    source = source.replace("(s, b", "(b, s")
    assert judged(source).findings[0].kind == "batch mixed up"
