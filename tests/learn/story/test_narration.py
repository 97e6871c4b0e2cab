"""The story of a lesson: its order, its openings, its arithmetic."""

from __future__ import annotations

import json
import math
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.learn import Options, make_lesson
from regard.learn.story.document import Document, Grids, Lines, Prose, Section
from regard.learn.story.lines import LINE_WIDTH, line_width
from regard.learn.story.narration import narrate
from regard.learn.text import cells

NUMBER = r"\(?(-?\d+(?:\.\d+)?)\)?"


def story(text: str = "The cat sat", **options) -> Document:
    return narrate(make_lesson(Options(text, **options)))


def lines_of(section: Section) -> list[str]:
    return [
        "".join(span.text for span in one)
        for part in section.parts
        if isinstance(part, Lines)
        for one in part.lines
    ]


def prose_of(document: Document) -> str:
    parts = [part for section in document.sections for part in section.parts]
    return "\n".join(part.text for part in parts if isinstance(part, Prose))


def test_the_steps_come_in_the_order_they_are_computed():
    titles = [s.title for s in story().sections if s.number]
    assert titles == [
        "Embedding",
        "Query, key, value",
        "Scores: q·k = ‖q‖ ‖k‖ cos(angle)",
        "Scale: divide by √d_k = √4 = 2",
        "Softmax, over the tokens",
        "Weighted sum of values",
    ]


def test_more_is_shown_where_more_is_asked():
    sections = story(heads=2, block=True).sections
    assert [s.number for s in sections if s.number] == list(range(1, 11))
    titles = [s.title for s in sections]
    assert "Heads, concatenated, through w_o" in titles
    assert "MLP" in titles
    assert "Head 2: every row at once" in titles
    assert "The block: every row at once" in titles


@pytest.mark.parametrize(
    "options",
    [{}, {"heads": 4}, {"block": True}, {"causal": True}, {"scaled": False}, {"positions": True}],
)
def test_every_section_says_why_in_one_line_or_two(options):
    for section in story(**options).sections:
        assert 10 < len(section.why) <= 160


def test_the_walk_through_fits_a_screen_and_a_half():
    rows = sum(3 + len(lines_of(s)) for s in story().sections if s.number)
    assert rows <= 60


def test_the_notes_row_is_spelt_out():
    sections = story().sections
    assert lines_of(sections[0]) == ["The = [1 0 1 0]    cat = [0 1 0 1]    sat = [1 1 1 1]"]
    assert "  q1 = 1×1 + 0×0 + 1×0 + 0×0 = 1" in lines_of(sections[1])
    assert "k(The) = [1 0 1 0]   (w_k = w_q)" in lines_of(sections[1])
    assert lines_of(sections[2]) == [
        "q(The)·k(The) = 1×1 + 0×0 + 1×1 + 0×0 = 2  = 1.4142 × 1.4142 × cos 0°",
        "q(The)·k(cat) = 1×0 + 0×1 + 1×0 + 0×1 = 0  = 1.4142 × 1.4142 × cos 90°",
        "q(The)·k(sat) = 1×1 + 0×1 + 1×1 + 0×1 = 2  = 1.4142 × 2 × cos 45°",
    ]
    assert lines_of(sections[3]) == ["The: 2 / 2 = 1    cat: 0 / 2 = 0    sat: 2 / 2 = 1"]
    assert lines_of(sections[4]) == [
        "The  e^1 = 2.7183    2.7183 / 6.4366 = 0.4223  ▇▇▇▇▇▇▇▇▇▇",
        "cat  e^0 = 1.0000    1.0000 / 6.4366 = 0.1554  ▇▇▇▇",
        "sat  e^1 = 2.7183    2.7183 / 6.4366 = 0.4223  ▇▇▇▇▇▇▇▇▇▇",
        "     sum = 6.4366                      1.0000",
    ]
    assert lines_of(sections[5]) == [
        "0.4223 × v(The) [1 0 1 0] = [0.4223 0.0000 0.4223 0.0000]",
        "0.1554 × v(cat) [0 1 0 1] = [0.0000 0.1554 0.0000 0.1554]",
        "0.4223 × v(sat) [1 1 1 1] = [0.4223 0.4223 0.4223 0.4223]",
        "  sum, the output for The = [0.8446 0.5777 0.8446 0.5777]",
    ]


def test_roles_colour_the_factors():
    scores = story().sections[2].parts[0]
    assert isinstance(scores, Lines)
    roles = [span.role for span in scores.lines[0]]
    assert roles[:5] == ["plain", "q", "plain", "k", "plain"]
    assert "score" in roles


def _check_sums(lines: list[str]) -> int:
    """Recompute every 'a×b + c×d = e' from the text itself."""
    joined, count = re.sub(r"\n\s+(?=[+=])", " ", "\n".join(lines)), 0
    for one in joined.splitlines():
        products = re.findall(rf"{NUMBER}×{NUMBER}", one)
        found = re.search(rf"×\S+\s+= {NUMBER}", one)
        if products and found and "…" not in one:
            total = sum(float(a) * float(b) for a, b in products)
            slack = sum(1e-4 * (abs(float(a)) + abs(float(b)) + 1) for a, b in products)
            assert total == pytest.approx(float(found[1]), abs=slack + 1e-3), one
            count += 1
    return count


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"projections": "random:3", "token": "cat"},
        {"heads": 2, "projections": "random:7", "block": True},
        {"positions": True, "causal": True, "token": "sat", "projections": "random:1"},
        {"d_k": 7, "d_v": 2, "projections": "random:5"},
    ],
)
def test_the_arithmetic_on_the_screen_adds_up(options):
    lines = [one for s in story(**options).sections if s.number for one in lines_of(s)]
    assert _check_sums(lines) >= 7


def test_the_checker_of_sums_finds_a_wrong_one():
    assert _check_sums(["q1 = 1×2 + 3×4", "   = 14"]) == 1
    with pytest.raises(AssertionError):
        _check_sums(["q1 = 1×2 + 3×4 = 15"])


def test_lengths_and_angle_give_the_score_again():
    for one in lines_of(story(token="sat").sections[2]):
        score, a, b, angle = re.findall(rf"= {NUMBER}  = {NUMBER} × {NUMBER} × cos {NUMBER}°", one)[
            0
        ]
        again = float(a) * float(b) * math.cos(math.radians(float(angle)))
        assert again == pytest.approx(float(score), abs=0.02)


def test_a_zero_vector_has_no_angle(tmp_path):
    path = tmp_path / "e.json"
    path.write_text('{"a": [0, 0], "b": [1, 0]}')
    lines = lines_of(story("a b", embeddings=path).sections[2])
    assert lines[0].endswith("(a zero vector has no direction)")


def test_positions_are_added_in_front_of_the_eyes():
    section = story(positions=True, token="cat").sections[0]
    assert lines_of(section)[0] == "x(cat) = [0 1 0 1] + [0.8415 0.5403 0.0100 1.0000]"
    assert "position 2 (sines and cosines of 1, counted from 0)" in lines_of(section)[-1]


def test_no_scale_shows_both_ways():
    section = story(scaled=False).sections[3]
    assert section.title == "Scale: left out (--no-scale)"
    assert lines_of(section) == [
        "undivided     [2 0 2] → [0.4683 0.0634 0.4683]",
        "divided by 2  [1 0 1] → [0.4223 0.1554 0.4223]",
    ]


def test_causal_names_what_is_hidden_and_spells_only_what_is_seen():
    document = story(causal=True, token="cat")
    assert "Hidden from cat by the causal mask, as coming later: sat." in prose_of(document)
    assert len(lines_of(document.sections[4])) == 3


def test_large_scores_are_shifted_and_it_says_so(tmp_path):
    path = tmp_path / "e.json"
    path.write_text('{"a": [40, 0], "b": [0, 40]}')
    section = story("a b", embeddings=path).sections[4]
    assert "e^0.0000 " in lines_of(section)[0]
    assert any(isinstance(p, Prose) and "subtracted first" in p.text for p in section.parts)


def test_several_heads_show_each_and_their_concatenation():
    lines = lines_of(story(heads=2).sections[6])
    assert [one.split(" = ")[0] for one in lines[:3]] == ["head 1", "head 2", "concat"]
    assert "w_o is the identity" in lines[-1]
    random = lines_of(story(heads=2, projections="random:1").sections[6])
    assert any(one.startswith("  o4 = ") for one in random)


def test_many_heads_are_cut_and_it_says_so(tmp_path):
    path = tmp_path / "e.json"
    path.write_text(str({"a": list(range(12)), "b": [1] * 12}).replace("'", '"'))
    document = story("a b", embeddings=path, heads=12)
    assert "6 heads are left out above; --json has them all." in prose_of(document)
    assert "… and 6 more heads" in lines_of(document.sections[6])


def test_long_sentences_keep_the_strongest_keys_and_sum_the_rest():
    document = story(" ".join(f"w{n}" for n in range(60)), token="30")
    assert any("others are in --json" in one for one in lines_of(document.sections[2]))
    softmax = lines_of(document.sections[4])
    assert "others = " in softmax[-2]
    weights = [float(re.findall(NUMBER, one.rstrip("▇ "))[-1]) for one in softmax]
    assert sum(weights[:-1]) == pytest.approx(1.0, abs=1e-3)
    assert re.match(r" *5[34] others = \[", lines_of(document.sections[5])[-2])


def test_wide_vectors_are_cut_and_it_says_so(tmp_path):
    path = tmp_path / "e.json"
    path.write_text(str({"a": list(range(30)), "b": [1] * 30}).replace("'", '"'))
    lines = lines_of(story("a b", embeddings=path).sections[1])
    assert "  … 26 more in the same way" in lines
    assert any("…" in one and "×" in one for one in lines)


def test_the_opening_says_what_is_made_up():
    opening = "\n".join(story("The dog sat", projections="random:4", heads=2).opening)
    assert "dog made up" in opening
    assert "random numbers (seed 4), not learned" in opening
    assert "3 tokens, width 4; 2 heads, d_k = 2, d_v = 2." in opening
    assert "1 token, width 4; one head" in story("The").opening[0]
    assert "causal" in story(causal=True).opening[0]


def test_what_the_notes_leave_to_the_reader_is_said():
    prose = prose_of(story())
    for words in (
        "Rows are tokens here: Q = X @ w_q",
        "the transpose of the same product",
        "Keys are of all tokens, oneself included",
        "Softmax runs over the tokens, never over the dimensions",
        "The width of w_v decides",
        "word plus position",
        '"Contextual embedding" is the attention layer\'s output in the notes',
        "hidden state (--block)",
        "not why a model answered",
    ):
        assert words in prose
    assert "hidden state (above)" in prose_of(story(block=True))


def test_the_first_notes_number_is_explained():
    note = story().sections[-2]
    assert note.title.startswith("The first note prints [1.2669, 0.9999, 1.2669, 0.9999]; here is")
    lines = lines_of(note)
    assert "1.2669 = 0.4223 + 0.4223 + 0.4223   that is 3 × 0.4223" in lines
    assert "0.9999 = 0.1553 + 0.4223 + 0.4223   0.1553 is 0.15536… cut off" in lines
    assert round(3 * 0.4223, 4) == 1.2669
    assert round(0.1553 + 2 * 0.4223, 4) == 0.9999
    assert "Which slip it was cannot be told" in prose_of(story())


@pytest.mark.parametrize("options", [{"text": "The dog"}, {"text": "Sat the cat", "heads": 2}])
def test_other_lessons_only_point_to_it(options):
    pointer = story(**options).sections[-2]
    assert "1.2669" not in pointer.title
    assert lines_of(pointer) == ['regard learn "The cat sat"']


def test_the_title_is_the_sentence_made_harmless():
    assert story("The cat sat").title == "The cat sat"
    assert story("\x1b[31mred").title == "\ufffd[31mred"
    assert len(story("word " * 100).title) == 70


WORDS = st.text(alphabet=st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(WORDS, min_size=1, max_size=50).map(" ".join).filter(lambda text: text.split()),
    st.sampled_from([{}, {"heads": 2, "block": True}, {"d_k": 9, "d_v": 1}, {"scaled": False}]),
    st.booleans(),
    st.sampled_from(["identity", "random:11"]),
)
def test_lines_never_outgrow_the_screen(text, options, causal, projections):
    document = story(text, causal=causal, projections=projections, **options)
    for section in document.sections:
        for part in section.parts:
            if isinstance(part, Lines):
                assert max(map(line_width, part.lines)) <= LINE_WIDTH
            elif isinstance(part, Grids):
                assert all(grid.rows and grid.columns for grid in part.grids)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(1, 12),
    st.sampled_from([1e-6, 0.1, 30.0, 1e3, 1e4, 1e6, 1e12]),
    st.integers(0, 2**32),
    st.sampled_from([{}, {"block": True}, {"positions": True, "scaled": False}]),
)
@example(4, 1, 0.1, 35038200, {"positions": True, "scaled": False})
@example(3, 2, 1e6, 0, {"scaled": False})
def test_lines_never_outgrow_the_screen_whatever_the_numbers(count, width, size, seed, options):
    numbers = np.random.default_rng(seed).uniform(-size, size, (count, width)).tolist()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "e.json"
        path.write_text(json.dumps(numbers))
        words = " ".join(["extraordinarily", "語語"] * count).split()[:count]
        document = story(" ".join(words), embeddings=path, projections="random:2", **options)
    for section in document.sections:
        assert all(len(one) <= LINE_WIDTH for one in lines_of(section))


LONG = " ".join(f"w{n}" for n in range(50))
TOLD = {
    "notes": {},
    "block": {"heads": 2, "block": True},
    "causal": {"causal": True, "positions": True, "projections": "random:7"},
    "unscaled": {"scaled": False, "d_k": 3},
}


@pytest.mark.parametrize("code", ["de", "zh"])
@pytest.mark.parametrize("name", TOLD)
def test_other_languages_tell_the_same_numbers(code, name):
    english, other = story(**TOLD[name]), story(**TOLD[name], language=code)
    assert len(other.sections) == len(english.sections)
    for one, same in zip(other.sections, english.sections, strict=True):
        assert one.number == same.number
        assert numbers_of(one) == numbers_of(same)
        assert max(map(cells, lines_of(one)), default=0) <= LINE_WIDTH
    assert " the " not in prose_of(other)
    assert not set(map(why_of, other.sections)) & set(map(why_of, english.sections))


@pytest.mark.parametrize("code", ["de", "zh"])
def test_long_lessons_are_told_in_other_languages(code):
    other = story(LONG, language=code, projections="random:3", heads=12, d_k=2, d_v=2)
    assert max(cells(one) for section in other.sections for one in lines_of(section)) <= LINE_WIDTH
    remarks = [
        one.remark
        for section in other.sections
        for part in section.parts
        if isinstance(part, Grids)
        for one in part.grids
    ]
    assert any(remarks)
    assert not any("shown" in remark for remark in remarks)


def why_of(section: Section) -> str:
    return section.why


def numbers_of(section: Section) -> list[str]:
    """Every number of its arithmetic and of its grids."""
    grids = [one for part in section.parts if isinstance(part, Grids) for one in part.grids]
    spelt = re.findall(r"\d+\.\d+", "\n".join(lines_of(section)))
    return sorted([*spelt, *(cell for one in grids for row in one.cells for cell in row)])


def test_heads_stand_below_each_other_decimal_under_decimal():
    options = Options("The cat sat on", heads=2, projections="random:3")
    text = [line for section in narrate(make_lesson(options)).sections for part in section.parts
            for line in getattr(part, "lines", ())]  # fmt: skip
    said = ["".join(span.text for span in line) for line in text]
    rows = [line for line in said if line.startswith(("head 1 =", "head 2 =", "concat ="))]
    points = [[i for i, letter in enumerate(row) if letter == "."] for row in rows]
    assert len(rows) == 3 and points[0] == points[1] == points[2][: len(points[0])]


def test_the_notes_sentence_does_not_point_to_itself():
    def ends(sentence, **more):
        return " ".join(why_of(s) for s in story(sentence, **more).sections[-2:])

    assert "notes' own numbers" in ends("Bees make honey")
    assert "notes' own numbers" not in ends("The cat sat", heads=2)
