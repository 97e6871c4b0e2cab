"""The resolver check: what is asked of pip, and what is made of its answers."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import resolve

ROOT = Path(resolve.ROOT)


def ours() -> list[str]:
    return resolve.requirements(tomllib.loads((ROOT / "pyproject.toml").read_text()))


def test_all_is_every_extra_that_computes_reads_or_shows() -> None:
    names = {Requirement(one).name for one in ours()}
    assert {"numpy", "typer", "rich", "torch", "triton", "transformers", "pyarrow"} <= names
    assert {"matplotlib", "tensorboard", "starlette", "lightning"} <= names
    assert not {"pytest", "ruff", "regard"} & names


@pytest.mark.parametrize("version", ["5.0.0", "5.2.0", "5.17.0"])
def test_versions_that_others_pin_are_allowed(version: str) -> None:
    (mine,) = (Requirement(one) for one in ours() if Requirement(one).name == "transformers")
    assert version in mine.specifier


def test_an_answer_is_a_row_and_a_refusal_its_reason() -> None:
    yes = resolve.Answer("peft", {"peft": "1.0", "torch": "2.13", "transformers": "5.2"})
    said = "ERROR: Cannot install\\n    old 1.0 depends on torch<2\\nsomething else"
    no = resolve.Answer("old", {}, resolve.reason(said.replace("\\n", "\n")))
    made = resolve.table([yes, no], "2026-01-01")
    assert "| peft | 1.0 | 2.13 | 5.2 | yes |" in made
    assert "| old | – | – | – | **no**: ERROR: Cannot install; old 1.0 depends on torch<2 |" in made
    page = f"before\n{resolve.MARKS[0]}\nold\n{resolve.MARKS[1]}\nafter\n"
    once = resolve.written(page, resolve.MARKS, made)
    assert once.startswith("before\n") and once.endswith("\nafter\n") and "\nold\n" not in once
    assert resolve.written(once, resolve.MARKS, made) == once
