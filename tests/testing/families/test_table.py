"""The table in docs: every kind has its section, every outcome its line."""

from __future__ import annotations

import pytest
import transformers

from support.families import Outcome, page
from support.families.__main__ import main


def test_the_page_lists_every_kind():
    found = page(
        [
            Outcome("b", "right"),
            Outcome("a", "right"),
            Outcome("half", "right", "half: these modules are not seen: x"),
            Outcome("blind", "refused", "blind does not dispatch; 342 families do"),
            Outcome("stuck", "not built", "ImportError: a\nlibrary | is missing"),
        ]
    )
    assert f"transformers {transformers.__version__}" in found
    assert "| 3 | 1 | 0 | 0 | 1 | 5 |" in found
    assert "`a`, `b`." in found
    assert "| `half` | half: these modules are not seen: x |" in found
    assert "| `blind` | blind does not dispatch |" in found
    assert "## Wrong: none" in found and "## Crashed: none" in found
    assert "| `stuck` | ImportError: a library · is missing |" in found


def test_the_command_examines_what_is_named(monkeypatch, capsys, tmp_path):
    kinds = {"bert": "right", "llama": "wrong"}
    monkeypatch.setattr(
        "support.families.__main__.outcomes",
        lambda names: (Outcome(name, kinds[name], "said") for name in names),
    )
    assert main(["bert"]) == 0
    assert "1/1 bert: right" in capsys.readouterr().err
    monkeypatch.setattr("support.families.__main__.names", lambda: ["bert", "llama"])
    assert main(["--pages", str(tmp_path)]) == 1
    assert "`bert`" in (tmp_path / "families.md").read_text()
    assert "## Every type: 0" in (tmp_path / "check-families.md").read_text()
    capsys.readouterr()
    assert main(["llama", "bert", "--json"]) == 1
    printed = capsys.readouterr()
    assert '"name": "llama"' in printed.out
    assert printed.err.endswith("right 1, refused 0, wrong 1, crashed 0, not built 0\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nosuch"], "transformers has no model type nosuch"),
        (["llama", "--pages", "docs"], "--pages writes tables of all model types"),
    ],
)
def test_wrong_words_are_a_usage_error(capsys, words, said):
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert said in capsys.readouterr().err
