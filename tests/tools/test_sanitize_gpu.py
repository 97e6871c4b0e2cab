"""Every file of GPU kernels has a step that runs it; the steps run, interpreted, here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import warm

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "src" / "regard" / "engine" / "backends" / "gpu"
TOOL = ROOT / "tools" / "sanitize_gpu.py"
# kernels that run with another file's
WITH = {
    "wanted": "prune", "few": "decode", "replay": "columns", "counts": "columns",
    "hopper": "forward",
}  # fmt: skip


@pytest.fixture
def sanitize(monkeypatch):
    monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")  # and the tool's own goes with it
    from tools import sanitize_gpu

    return sanitize_gpu


def test_every_file_of_kernels_has_a_step(sanitize):
    launched = {
        path.relative_to(KERNELS).parts[0].removesuffix(".py")
        for path in KERNELS.rglob("*.py")
        if re.search(r"\.program_id\(", path.read_text(encoding="utf-8"))
    } - {"tile"}
    assert {"forward", "columns", "backward"} <= launched
    assert {WITH.get(name, name) for name in launched} <= set(sanitize.STEPS)


def test_steps_run():
    words = ("columns", "backward", "decode")
    done = warm.run(TOOL, *words, interpret=True)
    assert done.returncode == 0, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [[w, "triton"] for w in words]


def test_mistakes(sanitize, capsys):
    done = warm.run(TOOL, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2 and not done.stdout
    assert "need a CUDA GPU" in done.stderr and "Traceback" not in done.stderr
    assert sanitize.main(["sideways"]) == 2
    assert "there is no step 'sideways'; there are: forward, contents" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "refuses", "expected"),
    [
        (["top"], "", "top hopper, triton"),
        (["--by", "hopper", "top"], "", "top hopper"),
        (["top"], "hopper", "top triton"),  # kernels for one kind of GPU may refuse a problem
        (["top"], "triton", ""),  # those for all may not
    ],
)
def test_an_implementation_that_must_serve_is_not_passed_over(
    sanitize, monkeypatch, capsys, words, refuses, expected
):
    def step(name: str) -> None:
        if name == refuses:
            raise sanitize.UnavailableError("not here", {name: ["no room"]})

    monkeypatch.setattr(sanitize, "device", lambda: "cpu")
    monkeypatch.setitem(sanitize.STEPS, "top", step)
    assert sanitize.main(words) == (0 if expected else 2)
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith(expected) and bool(printed) == bool(expected)
