"""Which heads are meant, and which part of each."""

from __future__ import annotations

import pytest

from draw.recorded import in_memory
from recording.synthetic import Chunk, write_prompt, write_recording
from regard.errors import InputError, UnavailableError
from regard.export.chosen import Chosen, by_place, check_exact, matching
from regard.mask import Causal
from regard.recording import Recording

LAYER = [f"L0H{n}" for n in range(4)]


@pytest.mark.parametrize(
    ("patterns", "labels"),
    [
        (None, [*LAYER, *(f"L1H{n}" for n in range(4))]),
        ("L0H2", ["L0H2"]),
        ("l0h2", ["L0H2"]),
        ("L0", LAYER),
        ("L0H*", LAYER),
        ("L*H3", ["L0H3", "L1H3"]),
        ("L1H0,L0H1", ["L0H1", "L1H0"]),  # in the order of the model
        ("L0H1, L0H1", ["L0H1"]),
        ("L[01]H0", ["L0H0", "L1H0"]),
    ],
)
def test_patterns(patterns, labels):
    prompt = in_memory()[0].prompts[0]
    assert [head.label for head in matching(prompt, patterns)] == labels


@pytest.mark.parametrize("patterns", ["L9", "L0H1,L0H9", "", "nonsense"])
def test_a_pattern_that_means_nothing(patterns):
    prompt = in_memory()[0].prompts[0]
    with pytest.raises(InputError, match=r"means no recorded head; there are 'L0H0' … 'L1H3'"):
        matching(prompt, patterns)


def test_stacks_have_names():
    store, _ = write_recording(chunks=[Chunk((0, 9), (0, 9), Causal())], stack="encoder")
    write_prompt(
        store, [Chunk((0, 9), (0, 9))], stack="cross", kind="cross", tokens=False, note=False
    )
    prompt = Recording(store).prompts[0]
    assert len(matching(prompt, "cross.L0")) == 4
    assert [head.label for head in matching(prompt, "*.L0H1")] == ["cross.L0H1", "encoder.L0H1"]


def test_a_part_of_the_recorded_rows():
    rec, _ = in_memory(rows=(4, 12))
    one = Chosen(rec.prompts[0], rec["L0H1"], range(6, 9), range(2, 5))
    assert one.name == "P0/L0H1"
    assert (one.own_rows, one.own_keys) == (slice(2, 5), slice(2, 5))


def test_heads_of_one_module_stand_together():
    rec, _ = in_memory(prompts=2)
    every = [
        Chosen(prompt, prompt[label], range(2), range(2))
        for label in ("L0H0", "L1H0", "L0H1")
        for prompt in rec.prompts
    ]
    found = by_place(every)
    assert list(found) == [(0, "L0"), (1, "L0"), (0, "L1"), (1, "L1")]
    assert [one.head.head for one in found[1, "L0"]] == [0, 1]


def test_single_cells_are_needed():
    rec, _ = in_memory()
    check_exact(Chosen(rec.prompts[0], rec["L0H0"], range(2), range(2)))
    with pytest.raises(UnavailableError, match=r"L1H0: it did not fit .* with --heads"):
        check_exact(Chosen(rec.prompts[0], rec["L1H0"], range(2), range(2)))
