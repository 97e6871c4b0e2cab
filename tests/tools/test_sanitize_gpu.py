"""Every file of GPU kernels has a step that runs it; the steps run, interpreted, here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import warm

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "src" / "regard" / "engine" / "backends" / "gpu"
TOOL = ROOT / "tools" / "sanitize_gpu.py"
# kernels that run with another file's
WITH = {
    "wanted": "prune",
    "few": "decode",
    "replay": "columns",
    "counts": "columns",
    "hopper": "forward",
}


@pytest.fixture
def sanitize(tool, monkeypatch):
    monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")  # and the tool's own goes with it
    return tool("sanitize_gpu")


def launched() -> set[str]:
    """Files (or folders) that hold a kernel of a grid."""
    found = {
        path.relative_to(KERNELS).parts[0].removesuffix(".py")
        for path in KERNELS.rglob("*.py")
        if re.search(r"\.program_id\(", path.read_text(encoding="utf-8"))
    }
    return found - {"tile"}


def test_every_file_of_kernels_has_a_step(sanitize):
    missing = {WITH.get(name, name) for name in launched()} - set(sanitize.STEPS)
    assert not missing
    assert {"forward", "columns", "backward"} <= launched()


def test_steps_run():
    words = ("columns", "backward", "decode")
    done = warm.run(TOOL, *words, interpret=True)
    assert done.returncode == 0, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [[w, "triton"] for w in words]


def test_without_a_gpu_it_says_what_is_needed():
    done = warm.run(TOOL, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2 and not done.stdout
    assert "need a CUDA GPU" in done.stderr and "Traceback" not in done.stderr


def test_steps_that_do_not_exist(sanitize, capsys):
    assert sanitize.main(["sideways"]) == 2
    assert "there is no step 'sideways'; there are: forward, contents" in capsys.readouterr().err


def test_one_implementation_alone(sanitize, monkeypatch, capsys):
    heard = []
    monkeypatch.setattr(sanitize, "device", lambda: "cpu")
    monkeypatch.setattr(sanitize, "STEPS", {"top": heard.append})
    assert sanitize.main(["--by", "hopper", "top"]) == 0
    assert heard == ["hopper"] and capsys.readouterr().out.split()[:2] == ["top", "hopper"]


def test_an_implementation_that_must_serve_is_not_passed_over(sanitize, monkeypatch):
    """Kernels for one kind of GPU may refuse a problem; those for all may not."""

    def refuse(name: str) -> None:
        if name in wrong:
            raise sanitize.UnavailableError("not here", {name: ["no room"]})

    both = ("triton", "hopper")
    monkeypatch.setattr(sanitize, "device", lambda: "cpu")
    monkeypatch.setitem(sanitize.STEPS, "top", refuse)
    wrong = {"hopper"}
    assert sanitize.run("top", both).split()[:2] == ["top", "triton"]
    wrong = {"triton"}
    with pytest.raises(sanitize.UnavailableError):
        sanitize.run("top", both)
