"""One small calculation in the spellings of many students: read right, and never passed over."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import InputError
from regard.learn.grading.marking import mark
from regard.learn.grading.submission import parse_submission

SCORES = (
    "tokens: I, love, cats\nd_k = 4\n## scores\nI = [2 0 4]\nlove = [1 2 0]\ncats = [0 2 2]\n\n"
    "## scaled\n"
)
SCALED = [[1, 0, 2], [0.5, 1, 0], [0, 1, 1]]
MATRIX = r"\begin{bmatrix} 1 & 0 & 2 \\ \tfrac12 & 1 & 0 \\ 0 & 1 & 1 \end{bmatrix}"
RAW = r"\begin{bmatrix} 2 & 0 & 4 \\ 1 & 2 & 0 \\ 0 & 2 & 2 \end{bmatrix}"
SPELLINGS = {
    "a formula names the matrix": rf"$S/\sqrt{{4}} = {MATRIX}$",
    "a fraction in front": rf"$$\frac{{1}}{{2}}{RAW} = {MATRIX}$$",
    "a root in front": rf"$$\frac{{1}}{{\sqrt{{4}}}}{RAW} = {MATRIX}$$",
    "the rule in front": rf"$$\frac{{QK^T}}{{\sqrt{{d_k}}}} = {MATRIX}$$",
    "a rule between rows": r"\begin{array}{c|cc} 1 & 0 & 2 \\ \hline 1/2 & 1 & 0 \\ 0 & 1 & 1 "
    r"\end{array}",
    "roots in cells": "I = [2/√4, 0/√4, 4/√4]\n"
    r"love = [\frac{1}{\sqrt{4}}, \frac{2}{\sqrt 4}, 0]"
    "\n"
    r"cats = (0, \dfrac{2}{2}, \frac{\sqrt{4}}{2})",
    "transposed vectors": r"$s_{\text{I}} = (1, 0, 2)^\top$"
    "\n"
    r"$s_{love} = (0.5, 1, 0)^{T}$"
    "\n"
    r"s_cats = [0, 1, 1]ᵀ",
    "bare rows of LaTeX": r"1 & 0 & 2 \\"
    "\n"
    r"0.5 & 1 & 0 \\"
    "\n0 & 1 & 1",
    "tokens in the matrix": r"\begin{bmatrix} \text{I} & 1 & 0 & 2 \\ \text{love} & 0.5 & 1 & 0 \\"
    r" \text{cats} & 0 & 1 & 1 \end{bmatrix}",
    "numbered rows": "s_1 = (1, 0, 2)\ns_2 = (0.5, 1, 0)\ns_3 = (0, 1, 1)",
    "subscripts": "s₁ = (1, 0, 2)\ns₂ = (½, 1, 0)\ns₃ = (0, 1, 1)",
    "German decimals": "I: 1,0; 0,0; 2,0\nlove = (0,5; 1,0; 0,0)\ncats | 0 | 1,0 | 1,0",
    "Chinese signs": "I：(1，0，2)\nlove：［0.5，1，0］\ncats ＝ [0、1、1]",
    "angle brackets": "⟨1, 0, 2⟩\n⟨0.5, 1, 0⟩\n⟨0, 1, 1⟩",
    "all in one sentence": "I = (1, 0, 2), love = (0.5, 1, 0) and cats = (0, 1, 1)",
    "a product": "I = 0.5·[2 0 4] = [1 0 2]\n1/2·[1 2 0] = [0.5 1 0]\n"
    "cats = 0.5 × [0 2 2] = [0 1 1]",
    "percentages": "I: 100 %, 0 %, 200 %\n"
    r"love: 50\%, 100\%, 0\%"
    "\ncats: 0,0 %, 100,0 %, 100,0 %",
    "a table of mathematics": "| | I | love | cats |\n|--|--|--|--|\n| I | $1$ | $0$ | $2$ |\n"
    "| love | $\\frac{1}{2}$ | 1 | 0 |\n| cats | 0 | 1 | 1 |",
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_each_spelling_is_read(name):
    submission = parse_submission(SCORES + SPELLINGS[name])
    assert submission.unread == ()
    np.testing.assert_allclose(submission.steps["scaled"].values, SCALED)
    assert mark(submission).verdict == "right"


@pytest.mark.parametrize("name", SPELLINGS)
def test_no_wrong_number_passes(name):
    """The last number of each spelling is replaced."""
    text = SPELLINGS[name]
    last = max(at for at, letter in enumerate(text) if letter == "1")
    judged = mark(parse_submission(SCORES + text[:last] + "7" + text[last + 1 :]))
    assert judged.verdict == "wrong" and judged.first_wrong.step == "scaled"


QUERIES = (
    "tokens: I, love, cats\n## embeddings\nI = [1 0]\nlove = [0 1]\ncats = [1 1]\n"
    "## w_q\n[1 2]\n[0 1]\n"
)


@pytest.mark.parametrize(
    "rows",
    [
        "q_I = (1, 2)\nq_love = (0, 1)\nq_cats = (1, 3)",
        r"$q_{\text{I}} = (1, 2)^T$" "\n" r"$q_{love} = [0 \; 1]$" "\nq_3 = (1, 3)",
        "## Q\n" r"$q_I = x_I W_Q = (1, 2)$" "\nq_love = 0 1\n"
        r"$q_{cats} = \begin{pmatrix} 1 & 1 \end{pmatrix} W_Q = \begin{pmatrix}1 & 3\end{pmatrix}$",
    ],
)  # fmt: skip
def test_queries_need_no_heading(rows):
    judged = mark(parse_submission(QUERIES + rows))
    assert (judged.verdict, judged.checked) == ("right", 6)
    wrong = mark(parse_submission(QUERIES + rows.replace("2)", "5)", 1)))
    assert wrong.verdict == "wrong" and wrong.first_wrong.step == "Q"


def test_a_query_under_scores_is_a_row_of_scores():
    text = "tokens: a, b\n## Q\n[1]\n[2]\n## K\n[1]\n[3]\n## scores\nq_a = [1 3]\nq_b = [2 6]\n"
    assert mark(parse_submission(text)).checked == 4


@pytest.mark.parametrize(
    "line",
    [
        "I: I=1, love=0, cats=2",
        "s_11 = 1, s_12 = 0",
        "<td>1</td>",
        "I: 1·2 + 0 = 1, 0, 2",
        "x^2 = 1",
    ],
)
def test_what_is_not_understood_is_listed(line):
    try:
        judged = mark(parse_submission(SCORES + line))
    except InputError:
        return
    assert judged.verdict == "not all read"
    assert [unread.text for unread in judged.submission.unread] == [line]
