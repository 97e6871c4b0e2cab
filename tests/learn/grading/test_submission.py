"""Hand calculations are read as people write them, with their printed precision."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.learn.grading.submission import parse_submission, read_submission

NAN = np.nan


def values(text, step, **kwargs):
    return parse_submission(text, **kwargs).steps[step].values.tolist()


def units(text, step):
    return parse_submission(text).steps[step].units.tolist()


def test_json_keeps_the_literal_precision():
    text = '{"weights": [[0.50, 0.5, 5e-1, 0.125, "1/2"]]}'
    assert values(text, "weights") == [[0.5, 0.5, 0.5, 0.125, 0.5]]
    assert units(text, "weights") == [[0.01, 0.1, 0.1, 0.001, 0.0]]


def test_whole_numbers_are_exact_among_themselves():
    assert units('{"scores": [[2, 0], [1, 5]]}', "scores") == [[0, 0], [0, 0]]


def test_a_whole_number_among_decimals_is_as_fine_as_they_are():
    text = '{"weights": [[1, 0.25], [1, 0], [0.123, 0]]}'
    assert units(text, "weights") == [[0.01, 0.01], [0.001, 0.001], [0.001, 0.001]]


def test_null_and_question_marks_are_cells_not_given():
    expected = [[NAN, 1.0], [NAN, NAN]]
    np.testing.assert_equal(values('{"K": [[null, 1], null]}', "K"), expected)
    np.testing.assert_equal(values('{"K": [["?", "1"], ["", "…"]]}', "K"), expected)
    np.testing.assert_equal(values("## K\n[? 1]\n[__ -]\n", "K"), expected)
    np.testing.assert_equal(values("## K\n| | a | b |\n|-|-|-|\n|x| |1|\n|y|?| |", "K"), expected)


def test_rows_are_found_by_token_in_any_order():
    text = '{"tokens": ["The", "cat", "sat"], "K": {"sat": [3], "The": [1]}}'
    np.testing.assert_equal(values(text, "K"), [[1.0], [NAN], [3.0]])
    text = "Tokens: The, cat, sat\n## K\n- sat = [3]\n- $$E_{The}$$ = \\[1]\n"
    np.testing.assert_equal(values(text, "K"), [[1.0], [NAN], [3.0]])


def test_columns_of_scores_are_found_by_token_too():
    text = "tokens: a, b\n## scores\n|   | b | a |\n|---|---|---|\n| a | 2 | 1 |\n"
    np.testing.assert_equal(values(text, "scores"), [[1.0, 2.0], [NAN, NAN]])


def test_a_word_that_comes_twice_is_found_twice():
    text = '{"tokens": ["the", "cat", "the"], "K": {"the": [1], "cat": [2], "the": [3]}}'
    assert values(text, "K") == [[1], [2], [3]]


def test_tokens_may_come_from_the_labels_of_the_fullest_step():
    submission = parse_submission("## K\na = [1]\nb = [2]\n## Q\nb = [5]\n")
    assert submission.tokens == ("a", "b")
    np.testing.assert_equal(submission.steps["Q"].values, [[NAN], [5]])


@pytest.mark.parametrize(
    "text",
    [
        "## V\n[1 -0.5]\n[0 2]\n",
        "## V\n[1, -0.5], [0, 2]\n",
        "V = [[1, −0.5], [0, 2]]\n",
        "**V** = [1 -0.5; 0 2]\n",
        "**Values:**\n\n```\n[1 -0.5]\n[0 2]\n```\n",
        "1. Values:\n   * [1 -1/2]\n   * [0 2]\n",
        "### Step 3: V (the values)\n\n| 1 | -0.5 |\n|---|---|\n| 0 | 2 |\n",
        "## V\n\n| v1 | v2 |\n|----|----|\n| **1** | `-0.5` |\n| 0 | 2 |\n",
        '{"values": [[1, -0.5], [0, 2]]}',
    ],
)
def test_the_many_ways_to_write_a_matrix(text):
    assert values(text, "V") == [[1, -0.5], [0, 2]]


def test_a_sum_may_be_spelt_out_before_its_result():
    text = "tokens: The\n## output\nThe = 0.5·[1 0] + 0.5·[0 1] = [0.5 0.5]\n"
    assert values(text, "output") == [[0.5, 0.5]]


def test_prose_and_links_are_not_numbers():
    text = "# Homework\nsee [the note](x.md) and [ ] this\n\n## K\nas in [1]: so\n[1 2]\n"
    assert values(text, "K") == [[1, 2]]


def test_a_single_row_needs_no_second_bracket_in_json():
    assert values('{"output": [1.5, 2.5]}', "output") == [[1.5, 2.5]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no steps in it"),
        ("just prose\n", "no steps in it"),
        ("tokens: a, b\n", "no steps in it"),
        ("{}", "no steps in it"),
        ("[1 2]\n", "before any step is named"),
        ("## Atention\n[1 2]\n", "unknown step 'Atention'; known are tokens, embeddings"),
        ("## Atention\n|1|2|\n|-|-|\n|3|4|\n", "unknown step 'Atention'"),
        ('{"foo": [[1]]}', "unknown step 'foo'"),
        ('{"K": [["two"]]}', "K, row 1: 'two' is not a number"),
        ('{"K": [[1e999]]}', "not a number"),
        ('{"K": [[NaN]]}', "NaN is not a number"),
        ('{"K": [[-Infinity]]}', "-Infinity is not a number"),
        ('{"K": [[true]]}', "must be a number or null"),
        ('{"K": [[[1]]]}', "must be a number or null"),
        ('{"K": [1, [2]]}', "must be a list of numbers"),
        ('{"K": 5}', "must be a list of rows"),
        ('{"K": [[1]', "is not JSON"),
        ("{" * 100000, "is not JSON"),
        ('{"K":' + "[" * 100000, "nested too deeply"),
        ('{"K": [[1]], "keys": [[1]]}', "K is given twice"),
        ('{"tokens": "ab", "K": [[1]]}', "tokens must be a list of words"),
        ("## K\n[1 2]\n[1]\n", "K is ragged: its rows have 2, 1 cells"),
        ("tokens: a, b\n## K\nc = [1]\n", "row 'c', which is not a token; they are a, b"),
        ("tokens: a, b\n## K\na = [1]\na = [2]\n", "the row of a twice"),
        ("tokens: a\n## K\n[1]\n[2]\n", "K has 2 rows for 1 tokens"),
        ("d_k = 0\n## K\n[1]\n", "d_k must be a whole number"),
        ('{"d_k": 2.5, "K": [[1]]}', "d_k must be a whole number"),
    ],
)
def test_what_cannot_be_read_is_said(text, words):
    with pytest.raises(InputError) as error:
        parse_submission(text)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_unreadable_files_are_input_errors_that_name_the_file(tmp_path):
    binary, missing, huge = (tmp_path / name for name in ("b.md", "no.md", "huge.md"))
    binary.write_bytes(b"\xff\xfe\x00")
    huge.write_text("x" * (2**20 + 1))
    for path in (binary, missing, huge, tmp_path):
        with pytest.raises(InputError, match=path.name):
            read_submission(path)


def test_a_byte_order_mark_is_no_obstacle(tmp_path):
    path = tmp_path / "windows.json"
    path.write_text('\ufeff{"K": [[1]]}', encoding="utf-8")
    assert read_submission(path).steps["K"].values.tolist() == [[1]]


def test_control_characters_never_reach_the_terminal():
    submission = parse_submission(json.dumps({"tokens": ["a\x1b[31m"], "K": [[1]]}))
    assert submission.tokens[0].isprintable()


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=' \n#*[]|=:;,.-?/0123456789eEKVaQ√·{}"\\', max_size=120))
def test_no_text_breaks_the_reader(text):
    try:
        submission = parse_submission(text)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        for printed in submission.steps.values():
            assert printed.values.shape == printed.units.shape
            assert not np.isinf(printed.values).any() and (printed.units >= 0).all()


@pytest.mark.parametrize(
    "line", ["a" * 400_000, "[" * 400_000, "# " + " #" * 200_000, "= [1 " * 90_000]
)
def test_long_lines_take_no_time(line):
    with pytest.raises(InputError):
        parse_submission(line)


def test_a_cell_that_is_no_number_is_listed_and_the_rest_is_kept():
    found = parse_submission("## K\n| a | e^2 |\n|---|---|\n| 1 | two |\n\n## V\n[1 nan]\n")
    assert [(one.line, one.step, one.text) for one in found.unread] == [
        (4, "K", "two"), (7, "V", "nan"),
    ]  # fmt: skip
    assert found.steps["K"].values[0, 0] == 1 and found.steps["K"].unread == 1


MATRIX = """## Q
$Q = \\begin{pmatrix} 1 & 2 \\\\ 3 & 0.5 \\\\ 5 & 6 \\end{pmatrix}$

AGAIN

## K
[1 0]
"""


@pytest.mark.parametrize("tokens", ["tokens: He, plays, chess\n", ""])
@pytest.mark.parametrize(
    "again",
    ["$q_{He} = (1, 2)$", "$q_{plays} = (3, 1/2)$", "$q_{He} = (1, 2)$\n$q_{chess} = (5, 6)$"],
)
def test_a_row_written_out_again_is_the_row_of_the_matrix(tokens, again):
    found = parse_submission(tokens + MATRIX.replace("AGAIN", again))
    assert found.steps["Q"].values.tolist() == [[1, 2], [3, 0.5], [5, 6]]


@pytest.mark.parametrize("tokens", ["tokens: He, plays, chess\n", ""])
def test_a_row_that_differs_from_its_matrix_names_its_line(tokens):
    text = tokens + MATRIX.replace("AGAIN", "$q_{He} = (1, 3)$")
    with pytest.raises(InputError, match=f"Q, line {4 + bool(tokens)}: .*differs from the matrix"):
        parse_submission(text)


def test_a_row_given_twice_alike_is_given_once():
    found = parse_submission("tokens: a, b\n## K\na = [1]\nb = [3]\na = [1]\n")
    assert found.steps["K"].values.tolist() == [[1], [3]]


def test_a_matrix_given_twice():
    twice = "tokens: a, b\n## K\n[1]\n[3]\n## V\n[1]\n## K\n[1]\n[3]\n"
    assert parse_submission(twice).steps["K"].values.tolist() == [[1], [3]]
    with pytest.raises(InputError, match="line 9: row 2 differs"):
        parse_submission(twice[:-4] + "[4]\n")
