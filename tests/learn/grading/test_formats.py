"""However it is written: read right, or listed; a number is never passed over.

One calculation is rendered in many formats. Where it is right it is graded right; with one wrong
number, or a mangled line, it never is, unless the numbers that were read are still the same.
"""

from __future__ import annotations

import string

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.learn.grading.exercise import draw_exercise
from regard.learn.grading.marking import mark
from regard.learn.grading.report import Graded, full
from regard.learn.grading.submission import parse_submission

STEPS = ("Q", "K", "V", "scores", "scaled", "weights", "output")
TASK = ("embeddings", "w_q", "w_k", "w_v")
NAN = np.nan


def matrices(seed):
    tokens, x, head = draw_exercise(seed)
    named = {
        "embeddings": x, "w_q": head.w_q, "w_k": head.w_k, "w_v": head.w_v, "Q": head.queries,
        "K": head.keys, "V": head.values, "scores": head.scores, "scaled": head.scaled,
        "weights": head.weights, "output": head.context,
    }  # fmt: skip
    return tokens, named


def texts_of(matrix):
    places = 0 if (matrix == matrix.round()).all() else 4
    return [[f"{v + 0.0:.{places}f}" for v in row] for row in matrix]


# ── how rows are written: (tokens, texts) → lines ────────────────────────────────────────────


def rows(before, join, after, label=""):
    def write(tokens, texts):
        return [
            f"{label.format(token)}{before}{join.join(row)}{after}"
            for token, row in zip(tokens, texts, strict=True)
        ]

    return write


def latex(kind, join=" & "):
    def write(tokens, texts):
        body = " \\\\\n  ".join(join.join(row) for row in texts)
        return ["$$", f"\\begin{{{kind}}}", f"  {body}", f"\\end{{{kind}}}", "$$"]

    return write


def one_line_latex(tokens, texts):
    body = r" \\ ".join(" & ".join(row) for row in texts)
    return [rf"\[ \left[ \begin{{matrix}} {body} \end{{matrix}} \right] \]"]


def python_list(tokens, texts):
    inner = ",\n    ".join("[" + ", ".join(row) + "]" for row in texts)
    return ["```python", "np.array([", f"    {inner}", "])", "```"]


def numpy_print(tokens, texts):
    return ["[[" + " ".join(texts[0]) + "]", *(" [" + " ".join(r) + "]" for r in texts[1:-1]),
            " [" + " ".join(texts[-1]) + "]]"]  # fmt: skip


def nested(tokens, texts):
    return ["[" + ", ".join("[" + ", ".join(row) + "]" for row in texts) + "]"]


def matlab(tokens, texts):
    return ["[" + "; ".join(" ".join(row) for row in texts) + "]"]


def table(tokens, texts):
    head = "|   |" + " | ".join(str(i + 1) for i in range(len(texts[0]))) + " |"
    rule = "|---" * (len(texts[0]) + 1) + "|"
    return [
        head,
        rule,
        *(f"| {t} | " + " | ".join(r) + " |" for t, r in zip(tokens, texts, strict=True)),
    ]


def open_table(tokens, texts):
    return [f"{t} | " + " | ".join(r) for t, r in zip(tokens, texts, strict=True)]


def columns(tokens, texts):
    """Each row as a column vector under its token's name."""
    bodies = [r" \\ ".join(row) for row in texts]
    return [
        rf"$x_{{\text{{{token}}}}} = \begin{{pmatrix}} {body} \end{{pmatrix}}$"
        for token, body in zip(tokens, bodies, strict=True)
    ]


FORMATS = {
    "brackets": rows("[", " ", "]"),
    "brackets with commas": rows("[", ", ", "]"),
    "named brackets": rows("[", " ", "]", "{} = "),
    "named with a colon": rows("[", ", ", "]", "- {}: "),
    "bold names": rows("[", " ", "]", "**{}** = "),
    "arrows": rows("[", " ", "]", "{} → "),
    "a name and no sign": rows("[", " ", "]", "{} "),
    "tuples": rows("(", ", ", ")"),
    "named tuples": rows("(", ", ", ")", "{} = "),
    "a token, a colon, bare numbers": rows("", ", ", "", "{}: "),
    "bare numbers": rows("", ", ", ""),
    "bare numbers between blanks": rows("", "   ", ""),
    "bare numbers behind a name": rows("", " ", "", "{} "),
    "words behind": rows("[", " ", "] are the numbers of this row", ""),
    "a remark behind": rows("[", " ", "] (rounded)", "{} = "),
    "a sum behind": rows("[", " ", "], sum 1.00", "{} = "),
    "semicolons": rows("", "; ", "", "{}: "),
    "inline mathematics": rows("[", ", ", "]$", "${} = "),
    "stretched brackets": rows(r"\left[ ", r" \;\; ", r" \right]$", r"$\text{{{}}} = "),
    "stretched parentheses": rows(r"\left( ", ", ", r" \right)$", r"$x_{{{}}} = "),
    "inline parentheses": rows("(", ", ", r")\)", r"\({} = "),
    "one matrix in brackets": latex("bmatrix"),
    "one matrix in parentheses": latex("pmatrix"),
    "an array": latex("array"),
    "a matrix on one line": one_line_latex,
    "Python": python_list,
    "numpy": numpy_print,
    "nested lists": nested,
    "Matlab": matlab,
    "a table": table,
    "a table without bars at its ends": open_table,
    "column vectors": columns,
}


def percent(text):
    return f"{float(text) * 100:.2f} %" if "." in text else text


def superscript(text):
    return f"{float(text) * 1e3:.1f}·10⁻³" if "." in text else text


NUMBERS = {
    "as they are": str,
    "a true minus": lambda text: text.replace("-", "−"),
    "percentages": percent,
    "powers of ten": superscript,
    "scientific": lambda text: f"{round(float(text) * 10**4)}e-4" if "." in text else text,
    "fractions": lambda text: f"{round(float(text) * 10**4)}/10000" if "." in text else text,
    "LaTeX fractions": lambda text: (
        rf"\frac{{{round(float(text) * 10**4)}}}{{10000}}" if "." in text else text
    ),
}


def rendered_with_roots(text):
    return rf"\frac{{{text}}}{{\sqrt{{1}}}}"


NUMBERS["LaTeX roots"] = rendered_with_roots
NUMBERS["roots"] = lambda text: f"{text}/sqrt(1)"


def rendered(seed, form, number, wrong=None):
    """The whole calculation in one format; `wrong` is (step, row, column) of a number to spoil."""
    tokens, named = matrices(seed)
    lines = ["# By hand", "", f"tokens: {', '.join(tokens)}", ""]
    for name, matrix in named.items():
        texts = texts_of(matrix)
        if wrong and wrong[0] == name:
            _, row, column = wrong
            row, column = row % len(texts), column % len(texts[0])
            places = len(texts[row][column].partition(".")[2])
            texts[row][column] = f"{float(texts[row][column]) + 3:.{places}f}"
        labels = tokens if len(texts) == len(tokens) and name not in TASK[1:] else None
        write = FORMATS[form]
        if labels is None:  # rows of a projection have no token
            labels, write = [str(i + 1) for i in range(len(texts))], rows("[", " ", "]")
        lines += [
            f"## {name}",
            "",
            *write(labels, [[NUMBERS[number](t) for t in r] for r in texts]),
            "",
        ]
    return "\n".join(lines)


def verdict(text):
    try:
        return mark(parse_submission(text)).verdict
    except InputError:
        return "unreadable"


def said(text):
    return "".join(
        piece for line in full(Graded("f", mark(parse_submission(text)))) for piece, _ in line
    )


@pytest.mark.sampled(30)
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("form", FORMATS)
def test_a_right_calculation_is_right_in_every_format(form, number):
    for seed in (1, 8):
        text = rendered(seed, form, number)
        judged = mark(parse_submission(text))
        assert (judged.verdict, judged.blank, judged.submission.unread) == ("right", 0, ()), text
        assert "All right" in said(text)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 60), st.sampled_from(sorted(FORMATS)), st.sampled_from(sorted(NUMBERS)),
    st.sampled_from(STEPS), st.integers(0, 9), st.integers(0, 9),
)  # fmt: skip
def test_one_wrong_number_is_never_right_in_any_format(seed, form, number, step, row, column):
    text = rendered(seed, form, number, wrong=(step, row, column))
    judged = mark(parse_submission(text))
    assert judged.verdict == "wrong" and judged.first_wrong.step == step


JUNK = string.ascii_letters + string.digits + " .,;:=()[]{}|&\\/$*_#-+?%'\"<>~^√·−–∞½→\t"


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 20), st.sampled_from(sorted(FORMATS)), st.data(),
    st.text(alphabet=JUNK, min_size=1, max_size=12),
)  # fmt: skip
def test_a_mangled_line_is_right_only_if_its_numbers_are_the_same(seed, form, data, junk):
    text = rendered(seed, form, "as they are")
    whole = parse_submission(text)
    lines = text.split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith("## Q"))
    at = data.draw(st.integers(first + 1, len(lines) - 1))
    start = data.draw(st.integers(0, len(lines[at])))
    end = data.draw(st.integers(start, len(lines[at])))
    lines[at] = lines[at][:start] + junk + lines[at][end:]
    try:
        judged = mark(parse_submission("\n".join(lines)))
    except InputError:
        return
    if judged.verdict == "right" and not judged.blank:
        # "All right" is printed: every number must have been read again, to the places it has.
        for name, printed in whole.steps.items():
            again = judged.submission.steps[name]
            slack = 1.5 * (again.units + printed.units) + 1e-9
            assert (np.abs(again.values - printed.values) <= slack).all(), lines[at]


@pytest.mark.parametrize(
    "line",
    [
        "The weights: see picture 3 (0.42 0.16 0.42)",
        "0.42 0.16 and 0.42",
        r"The = \begin{vmatrix} 0.42 & \heartsuit \\ 3 \end{vmatrix} \cdot 2",
        "The = [0.42 0.16 0.42] · 2",
        "The = [0.42 0.16",
        "zero point ½",
        "The = ٠.٤٢ ٠.١٦ ٠.٤٢",
        "[0,42; 0,16; 0,42] or so 1",
        "1.2.3 0.4 0.5",
        "The: x5",
        "![the weights](photo2.jpg)",
    ],
)
def test_a_line_with_numbers_that_cannot_be_read_is_listed_with_its_number(line):
    text = f"d_k = 4\n## scores\n[2 0 2]\n## scaled\n[1 0 1]\n## weights\n{line}\n"
    try:
        judged = mark(parse_submission(text))
    except InputError:
        return  # refused altogether: status 2
    assert judged.verdict == "not all read"
    assert [unread.line for unread in judged.submission.unread] == [7]
    assert "All right" not in said(text) and "line 7" in said(text)


@pytest.mark.parametrize(
    "line",
    ["Divided by √4 = 2.", "softmax along each row, 4 decimals", "See the note.", "d_k = 4",
     "Each row sums to 1.", "score = q1·k1 + q2·k2", r"\sqrt{4} is the divisor", "---",
     "(rounded)"],
)  # fmt: skip
def test_prose_is_prose(line):
    text = f"d_k = 4\n## scores\n[2 0 2]\n## scaled\n{line}\n\n[1 0 1]\n{line}\n"
    judged = mark(parse_submission(text))
    assert (judged.verdict, judged.submission.unread) == ("right", ())


def test_a_heading_with_nothing_under_it_is_not_right():
    judged = mark(
        parse_submission("d_k = 4\n## scores\n[2 0]\n## scaled\n[1 0]\n## weights\nbelow\n")
    )
    assert judged.verdict == "not all read"
    assert [(u.line, u.text) for u in judged.submission.unread] == [(6, "## weights")]


@pytest.mark.parametrize("row", range(3))
def test_rows_behind_one_that_was_not_read_are_not_called_wrong(row):
    """They have no names, so that nothing tells which tokens they belong to."""
    lines = ["[1 0 1]", "[0 1 1]", "[1 1 2]"]
    lines[row] += " or 5"
    text = "tokens: a, b, c\nd_k = 4\n## scores\n[2 0 2]\n[0 2 2]\n[2 2 4]\n## scaled\n"
    assert verdict(text + "\n".join(lines)) == "not all read"


def test_numbers_in_a_heading_are_read():
    text = "d_k = 4\n## scores: [2 0]\n## scaled = 1, 0\n## weights\n[0.73 0.27]\n"
    assert mark(parse_submission(text)).verdict == "right"
    assert mark(parse_submission(text.replace("= 1, 0", "= 1, 1"))).verdict == "wrong"


@pytest.mark.parametrize(
    ("row", "values"),
    [("[0,42 0,16 0,42]", [0.42, 0.16, 0.42]), ("0,42; 0,16; 0,42", [0.42, 0.16, 0.42]),
     ("(0,42; 0,16; 0,42)", [0.42, 0.16, 0.42]), ("[0,42, 0,16, 0,42]", [0.42, 0.16, 0.42]),
     ("| 0,42 | 0,16 | 0,42 |", [0.42, 0.16, 0.42]), ("[1,0,1]", [1, 0, 1]),
     ("[1, 0, 1]", [1, 0, 1]), ("[½ ¼ ¼]", [0.5, 0.25, 0.25]),
     ("[50% 25 % 25%]", [0.5, 0.25, 0.25]),
     ("[≈0.42 ~0.16 ?]", [0.42, 0.16, NAN]), ("[–0.5 −.5 -5e-1]", [-0.5, -0.5, -0.5])],
)  # fmt: skip
def test_spellings_of_numbers(row, values):
    np.testing.assert_array_equal(
        parse_submission(f"## weights\n{row}").steps["weights"].values, [values]
    )


def test_whole_numbers_as_numpy_prints_them_are_exact():
    text = "d_k = 4\n## scores\n[2. 0. 2.]\n## scaled\n[1. 0. 1.]\n"
    assert verdict(text) == "right"
    assert verdict(text.replace("[1. 0.", "[2. 0.")) == "wrong"


@pytest.mark.parametrize("row", ["[0,42; 0,16]", "| 1,000 | 2,000 |"])
def test_a_comma_that_may_mean_two_things_is_refused(row):
    found = parse_submission(f"## weights\n{row}")
    assert found.unread and np.isnan(found.steps["weights"].values).all()
