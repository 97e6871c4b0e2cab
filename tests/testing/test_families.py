"""How `make test-families` pads and compares model types, and the pages that it writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
import transformers

from regard.check.rules import RULES
from support.families import Outcome, examine, names, page
from support.families.__main__ import main
from support.families.build import TooManyError, build
from support.families.compare import FLOOR, differences, flat, misfits, tolerances
from support.families.inputs import SHORTER, padded
from support.families.known import KNOWN

INF, NAN = float("inf"), float("nan")


def test_what_stays_large_is_not_built(monkeypatch):
    monkeypatch.setattr("support.families.build.MOST", 1000)
    with pytest.raises(TooManyError, match="million parameters"):
        build("llama")
    outcome = examine("llama")
    assert outcome.kind == "not built" and outcome.said.startswith("TooManyError: ")


def test_padding_stands_on_its_side_and_moves_nothing_else():
    ids = torch.arange(2 * 13).reshape(2, 13) + 1
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    left, right = padded(given, "left", 0), padded(given, "right", 0)
    assert left["attention_mask"].sum(1).tolist() == [13 - SHORTER, 13]
    assert left["input_ids"][0, :SHORTER].tolist() == [0] * SHORTER
    assert right["input_ids"][0, -SHORTER:].tolist() == [0] * SHORTER
    real = left["input_ids"][0][left["attention_mask"][0].bool()]
    assert real.equal(right["input_ids"][0][right["attention_mask"][0].bool()])
    assert real.equal(torch.cat([ids[0, :2], ids[0, 2 + SHORTER :]]))  # places at the front stay
    assert left["input_ids"][1].equal(ids[1])
    assert padded({"pixel_values": torch.ones(2, 3, 4, 4)}, "left", 0) is None


def test_every_floating_tensor_is_compared_by_its_path():
    ones = torch.ones(2)
    outputs = {
        "last_hidden_state": ones, "hidden_states": (ones, ones), "part": {"pooler_output": ones},
        "ids": torch.ones(2, dtype=torch.long), "attentions": (ones,), "past_key_values": (ones,),
    }  # fmt: skip
    assert [*flat(outputs)] == [
        "last_hidden_state", "hidden_states[0]", "hidden_states[1]", "part.pooler_output",
    ]  # fmt: skip
    value = {"x": torch.tensor([10.0, INF])}
    assert tolerances(value, None) == {"x": FLOOR * 10}
    assert tolerances(value, {"x": torch.tensor([9.0, INF]).double()}) == {"x": 8.0}


@pytest.mark.parametrize(
    ("mine", "right", "fault"),
    [
        ([1.0, -INF], [1.0, -INF], None),
        ([1.05, -INF], [1.0, -INF], None),
        (None, [1.0, -INF], "x is missing"),
        ([1.0, 1.0, 1.0], [1.0, -INF], "x is (3,), not (2,)"),
        ([1.0, 1.0], [1.0, -INF], "x is not finite in other places"),
        ([1.0, -INF], [NAN, -INF], None),
        ([NAN, -INF], [1.0, -INF], "x is not finite in other places"),
        ([1.5, -INF], [1.0, -INF], "x is off by 0.5 (allowed 0.1)"),
    ],
)
def test_differences_are_named(mine, right, fault):
    given = {} if mine is None else {"x": torch.tensor(mine)}
    faults = differences(given, {"x": torch.tensor(right)}, {"x": 0.1})
    assert faults == ([] if fault is None else [fault])


def test_attentions_of_another_layer_differ():
    right = {"attentions[0]": torch.eye(3)[None, None]}
    assert misfits(right, right) == [] and misfits({}, right) == ["attentions[0] is missing"]
    assert misfits({"attentions[0]": torch.full((1, 1, 3, 3), 1 / 3)}, right) == [
        "attentions[0] is off by 0.67 (allowed 0.0001)"
    ]


# ── pages ────────────────────────────────────────────────────────────────────────────────────


def test_the_page_lists_every_kind():
    text = page([
        Outcome("b", "right"), Outcome("a", "right"),
        Outcome("half", "right", "half: these modules are not seen: x"),
        Outcome("blind", "refused", "blind does not dispatch; 342 families do"),
        Outcome("stuck", "not built", "ImportError: a\nlibrary | is missing"),
    ])  # fmt: skip
    for part in (
        f"transformers {transformers.__version__}", "| 3 | 1 | 0 | 0 | 1 | 5 |", "`a`, `b`.",
        "| `half` | half: these modules are not seen: x |", "| `blind` | blind does not dispatch |",
        "## Wrong: none", "## Crashed: none", "| `stuck` | ImportError: a library · is missing |",
    ):  # fmt: skip
        assert part in text


def test_the_page_of_all_types_lists_every_known_finding_and_no_other():
    listed = [(cause.rule, name) for cause in KNOWN for name in cause.names.split()]
    assert len(set(listed)) == len(listed)
    assert {name for _, name in listed} <= set(names()) and {rule for rule, _ in listed} <= {*RULES}
    text = (Path(__file__).parents[2] / "docs" / "check-families.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+)` \|((?: [^|]+ \|){7})$", text, re.MULTILINE)
    assert len(rows) > 500
    shown = {(rule, name) for name, cells in rows
             for rule, cell in zip(RULES, cells.split("|"), strict=False)
             if "found" in cell and rule != "training"}  # fmt: skip
    assert shown == set(listed)
    for rule in ("future", "cache"):  # most types are decided
        counts = re.search(rf"^\| {rule} \| (\d+) \| (\d+) \| (\d+) \|", text, re.MULTILINE)
        ok, wrong, undecided = map(int, counts.groups())
        assert undecided < ok + wrong


def test_the_command_examines_what_is_named(monkeypatch, capsys, tmp_path):
    kinds = {"bert": "right", "llama": "wrong"}
    monkeypatch.setattr(
        "support.families.__main__.outcomes",
        lambda names: (Outcome(name, kinds[name], "the reason") for name in names),
    )
    assert main(["bert"]) == 0
    assert "1/1 bert: right" in capsys.readouterr().err
    assert main(["llama", "bert", "--json"]) == 1
    printed = capsys.readouterr()
    assert '"name": "llama"' in printed.out
    assert printed.err.endswith("right 1, refused 0, wrong 1, crashed 0, not built 0\n")
    monkeypatch.setattr("support.families.__main__.names", lambda: ["bert", "llama"])
    assert main(["--pages", str(tmp_path)]) == 1
    assert "`bert`" in (tmp_path / "families.md").read_text()
    assert "## Every type: 0" in (tmp_path / "check-families.md").read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nosuch"], "transformers has no model type nosuch"),
        (["llama", "--pages", "docs"], "--pages writes tables of all model types"),
    ],
)
def test_wrong_words_are_a_usage_error(capsys, words, sentence):
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert sentence in capsys.readouterr().err
