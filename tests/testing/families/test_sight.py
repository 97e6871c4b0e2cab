"""What `regard.check` finds of a model type is new, or its cause is listed; the page shows both."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from regard.check.rules import RULES
from support.families import Outcome, known, names, sight_page
from support.families.build import build
from support.families.inputs import accepted
from support.families.known import KNOWN
from support.families.sight import packed, seen
from support.families.subject import Subject

PAGE = Path(__file__).parents[3] / "docs" / "check-families.md"


def subject(name: str) -> Subject:
    model = build(name)
    return Subject(name, model, accepted(model))


def test_a_right_type_is_asked_everything_and_nothing_is_found():
    llama = subject("llama")
    assert seen(llama) == []
    asked = {rule for rule, verdict in llama.verdicts.items() if verdict == "ok"}
    assert asked == {"future", "padding", "documents", "batch", "cache", "training"}
    assert llama.findings == {}


def test_a_finding_is_new_unless_its_cause_is_listed(monkeypatch):
    assert seen(subject("jamba")) == []
    monkeypatch.setattr(known, "KNOWN", ())
    jamba = subject("jamba")
    new = seen(jamba)
    assert len(new) == 2
    assert new[0].startswith("cache: five tokens at a time")
    assert new[1].startswith("documents: ") and new[1].endswith(", packed")
    assert jamba.verdicts["cache"] == "found"


def test_a_type_whose_later_tokens_are_seen_is_found():
    """A mask that is not causal, planted."""
    llama = subject("llama")
    llama.model.config.is_causal = False
    for layer in llama.model.model.layers:
        layer.self_attn.is_causal = False
    new = seen(llama)
    assert any(text.startswith("future: ") for text in new)


def test_packs_are_of_text_whose_positions_can_be_given():
    pack = packed(subject("llama"))
    assert pack["input_ids"].shape == pack["position_ids"].shape == (1, 22)
    assert pack["position_ids"][0, 10:13].tolist() == [10, 0, 1]
    assert packed(subject("t5")) is None
    assert packed(subject("vit")) is None


def test_what_cannot_be_checked_is_a_note(monkeypatch):
    clip = subject("vit")
    monkeypatch.setattr("support.families.sight._batches", lambda _: [("", {}, None)])
    assert seen(clip) == []
    assert clip.notes[-1].startswith("not checked: ")
    assert clip.verdicts == {}


def test_each_listed_finding_is_of_one_cause_and_of_a_type_that_there_is():
    listed = [(cause.rule, name) for cause in KNOWN for name in cause.names.split()]
    assert len(set(listed)) == len(listed)
    assert {name for _, name in listed} <= set(names())
    assert {rule for rule, _ in listed} <= set(RULES)


def test_the_page_has_causes_open_questions_and_every_type():
    ok = dict.fromkeys(RULES, "ok")
    page = sight_page([
        Outcome("llama", "right", verdicts=ok),
        Outcome("moshi", "right", verdicts=ok | {"window": "found"},
                findings={"window": "window: sees 11 | declared 4"}),
        Outcome("mra", "right", verdicts=ok | {"future": "not decided: no row moves"}),
        Outcome("sam", "right", notes=("not checked: it returns no rows",)),
        Outcome("unbuilt", "not built"),
    ])  # fmt: skip
    assert "| window | 2 | 1 | 0 | 0 |" in page
    assert "| `moshi` | sees 11 · declared 4 |" in page
    assert "## A window that no mask has: 1" in page
    assert "| future: no row moves | `mra` |" in page
    assert "| `llama` | ok | ok | ok | ok | ok | ok | ok |" in page
    assert "| `sam` | it returns no rows |" in page
    assert "unbuilt" not in page


def test_the_page_of_all_types_lists_every_known_finding_and_no_other():
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+)` \|((?: [^|]+ \|){7})$", text, re.MULTILINE)
    assert len(rows) > 500
    found = {(rule, name) for name, cells in rows
             for rule, cell in zip(RULES, cells.split("|"), strict=False)
             if "found" in cell and rule != "training"}  # fmt: skip
    assert found == {(cause.rule, name) for cause in KNOWN for name in cause.names.split()}


@pytest.mark.parametrize("rule", ["future", "cache"])
def test_most_types_are_decided(rule):
    text = PAGE.read_text(encoding="utf-8")
    ok, found, undecided, _ = map(int, re.search(
        rf"^\| {rule} \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE
    ).groups())  # fmt: skip
    assert undecided < ok + found
