"""`regard doctor`: what it says, as a page and as JSON, and when it asks for action."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from regard.cli import app, probe

FINE = (sys.executable, "-c", "pass")
DYING = (  # the way such a CPU kills: unless the variable is set
    sys.executable,
    "-c",
    "import os, signal\n"
    "os.environ.get('ONEDNN_MAX_CPU_ISA') or os.kill(os.getpid(), signal.SIGILL)",
)


@pytest.fixture
def healthy(monkeypatch):
    """No real torch child: bf16 works at once."""
    monkeypatch.setattr(probe, "COMMAND", FINE)
    monkeypatch.delenv(probe.VARIABLE, raising=False)


def doctor(*arguments: str):
    return CliRunner().invoke(app, ["doctor", *arguments])


def machine(**changes) -> probe.Machine:
    """A machine without faults, and with what a test wants different."""
    whole = probe.Machine(
        regard="1.0",
        python="3.12.1",
        platform="Linux",
        cpu=probe.Cpu("Fast", 8, ["avx2"]),
        numpy="2.0",
        torch=probe.Torch("2.12.0", True, 4, ["cuda:0 H200"]),
        implementations={"dense": [], "gpu": ["no GPU", "no triton"]},
        remarks={"dense": "slowly"},
        extras={"torch": probe.Extra({"torch": "2.12.0"}, [])},
        compiler="/usr/bin/cc",
        bf16=probe.Bf16(probe.WORKS, probe.LIMIT, is_set=False),
    )
    return replace(whole, **changes)


@pytest.fixture
def show(monkeypatch):
    """What the verb prints for a made-up machine."""

    def run(*arguments: str, **changes):
        monkeypatch.setattr(probe, "probe", lambda: machine(**changes))
        return doctor(*arguments)

    return run


def test_it_speaks_of_this_machine(healthy):
    import numpy
    import torch

    import regard

    said = doctor()
    assert said.exit_code == 0, said.output
    for word in (
        f"regard        {regard.__version__}",
        f"numpy         {numpy.__version__}",
        f"{torch.__version__} (new enough)",
        "attention     ",
        "bf16 matmul on this CPU: works",
        "Nothing needs your action.",
    ):
        assert word in said.output
    assert "\x1b" not in said.output


def test_json_says_the_same(healthy):
    said = json.loads(doctor("--json").output)
    assert list(said) == [
        "regard",
        "python",
        "platform",
        "cpu",
        "numpy",
        "torch",
        "implementations",
        "remarks",
        "extras",
        "compiler",
        "bf16",
        "findings",
    ]
    assert said["torch"]["new_enough"] is True
    assert said["bf16"]["plain"] == "works"
    assert "torch" in said["extras"]
    assert said["findings"] == []


def test_the_page(show):
    said = show()
    assert said.exit_code == 0
    assert said.output.splitlines() == [
        "regard        1.0",
        "Python        3.12.1",
        "platform      Linux",
        "CPU           Fast, 8 cores, avx2",
        "numpy         2.0",
        "torch         2.12.0 (new enough), 4 threads",
        "devices       cuda:0 H200",
        "attention     dense: available, slowly",
        "              gpu: no GPU; no triton",
        "extras        torch: torch 2.12.0",
        "compiler      /usr/bin/cc",
        "bf16          bf16 matmul on this CPU: works",
        "",
        "Nothing needs your action.",
    ]


def test_long_lines_are_not_broken_in_a_pipe(show):
    reasons = {"gpu": ["a long reason " * 20]}
    assert f"gpu: {'a long reason ' * 20}" in show(implementations=reasons).output


def test_text_in_brackets_is_text(show):
    said = show(implementations={"gpu": ["pip install 'regard[gpu]'", "[bold]x"]}).output
    assert "regard[gpu]" in said and "[bold]x" in said


def test_without_torch_it_says_how_to_get_it(show):
    missing = probe.Torch(problem="No module named 'torch'")
    extras = {"torch": probe.Extra({}, ["torch"]), "all": probe.Extra({}, [])}
    said = show(torch=missing, bf16=None, implementations={}, extras=extras, compiler=None)
    assert said.exit_code == 0
    assert "not installed; attention needs it: pip install 'regard[torch]'" in said.output
    assert "torch: missing torch (pip install 'regard[torch]')" in said.output
    assert "all: nothing to install" in said.output
    assert "none found" in said.output
    assert "bf16" not in said.output


def test_an_old_torch_needs_action(show):
    said = show(torch=probe.Torch("2.6.1", False, 1))
    assert said.exit_code == 1
    assert "2.6.1 (too old), 1 threads" in said.output
    assert "devices       no GPU" in said.output
    assert "needs you: torch 2.6.1 is too old; regard needs 2.7 or newer" in said.output


def test_a_broken_torch_needs_action(show):
    said = show(torch=probe.Torch("2.12.0", True, problem="libfoo.so is gone"), bf16=None)
    assert said.exit_code == 1
    assert "torch 2.12.0 cannot be imported: libfoo.so is gone" in said.output


def test_a_partly_installed_extra_shows_both_halves(show):
    said = show(extras={"dev": probe.Extra({"ruff": "1"}, ["mypy", "pytest"])})
    assert "dev: ruff 1; missing mypy, pytest (pip install 'regard[dev]')" in said.output


def test_the_hazard_needs_action_unless_the_variable_is_set(monkeypatch):
    monkeypatch.setattr(probe, "COMMAND", DYING)
    monkeypatch.delenv(probe.VARIABLE, raising=False)
    said = doctor("--json")
    assert said.exit_code == 1
    (finding,) = json.loads(said.output)["findings"]
    assert finding == (
        "bf16 matmul on this CPU dies with SIGILL; set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 "
        "before torch is imported; with it: works"
    )
    monkeypatch.setenv(probe.VARIABLE, "AVX2")
    said = doctor("--json")
    assert said.exit_code == 0
    assert json.loads(said.output)["bf16"] == {
        "plain": "dies with SIGILL",
        "value": "AVX2",
        "is_set": True,
        "limited": "works",
    }


WITHOUT = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] == 'torch':
            raise ImportError("No module named 'torch'")
sys.meta_path.insert(0, Blocker())
import importlib.metadata
found = importlib.metadata.version
def version(name):
    if name == 'torch':
        raise importlib.metadata.PackageNotFoundError(name)
    return found(name)
importlib.metadata.version = version
sys.argv = ['regard', 'doctor']
from regard.cli import main
main()
"""


def test_it_runs_where_torch_is_not_installed():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "pip install 'regard[torch]'" in done.stdout
    assert "attention  " not in done.stdout
