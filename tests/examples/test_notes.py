"""The notes' page of figures: short, of public names alone, and complete."""

from __future__ import annotations

import ast
import re

import pytest
import torch

from examples.scripts import EXAMPLES, load, run

PRINTED = """
[[1. 0. 1. 0.] [0. 1. 0. 1.] [1. 1. 1. 1.]] Q = X W_Q K = X W_K V = X W_V
[2. 0. 2.] [1. 0. 1.] [0.4223 0.1554 0.4223] [0.8446 0.5777 0.8446 0.5777]
[0.8446 0.5777 0.8446 0.5777] sat counted twice [1.2669 0.9999 1.2669 0.9999] [6. 4.]
[0.88 0.12] 0.105 [0.7311 0.2689] 0.098 temperature
[[0. 1. 0. 1.] [0. 1. 0. 1.]] [0.5777 0.8446 0.5777 0.8446] [0.6667 1. 0.6667 1. ]
(Wᵀ Xᵀ)ᵀ = X W W_O · [head 1, head 2]
"""


def test_it_prints_every_number_in_the_order_of_the_notes():
    status, out, err = run("notes")
    assert (status, err) == (0, "")
    shown, at = re.sub(r"\s+", " ", out), 0
    for part in re.findall(r"\[\[.*?\]\]|\[.*?\]|\S+", PRINTED):
        assert part in shown[at:], part
        at = shown.index(part, at) + len(part)
    show = load("notes").show
    for wrong in ([0.4224, 0.1554], [0.4223, 0.1555]):  # a figure that is wrong is an error
        with pytest.raises(AssertionError, match="not close"):
            show("wrong", torch.tensor([0.42232, 0.15536]), wrong)


def test_it_is_a_page_of_public_names():
    text = (EXAMPLES / "notes.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 80
    imports = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom | ast.Import)]
    modules = {getattr(node, "module", None) or node.names[0].name for node in imports}
    assert modules == {"torch", "regard.attention", "regard.nn"}
    assert not any(alias.name.startswith("_") for node in imports for alias in node.names)
