"""`regard doctor`: what it says of this machine and of others, and when it asks for action."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

import regard
from regard.cli import probe


@pytest.fixture
def doctor(shell, monkeypatch):
    """Status and stdout for a made-up machine, or for this one whose bf16 works at once."""
    monkeypatch.setattr(probe, "COMMAND", (sys.executable, "-c", "pass"))
    monkeypatch.delenv(probe.VARIABLE, raising=False)

    def run(*words: str, **changes):
        with monkeypatch.context() as patch:
            if changes:
                patch.setattr(probe, "probe", lambda: machine(**changes))
            status, out, err = shell("doctor", *words)
        assert err == "" and "\x1b" not in out
        return status, out

    return run


def machine(**changes) -> probe.Machine:
    """A machine without faults, and with what a test wants different."""
    whole = probe.Machine(
        regard="1.0", python="3.12.1", platform="Linux", cpu=probe.Cpu("Fast", 8, ["avx2"]),
        numpy="2.0", torch=probe.Torch("2.12.0", True, 4, ["cuda:0 H200"]),
        implementations={"dense": [], "gpu": ["no GPU", "no triton"]}, remarks={"dense": "slowly"},
        extras={"torch": probe.Extra({"torch": "2.12.0"}, [])}, compiler="/usr/bin/cc",
        bf16=probe.Bf16(probe.WORKS, probe.LIMIT, is_set=False),
    )  # fmt: skip
    return replace(whole, **changes)


def test_it_tells_of_this_machine_in_words_and_as_json(doctor):
    import numpy

    status, out = doctor()
    assert status == 0 and f"numpy         {numpy.__version__}" in out
    status, out = doctor("--json")
    facts = json.loads(out)
    assert status == 0 and list(facts) == [
        "regard", "python", "platform", "cpu", "numpy", "torch", "implementations", "remarks",
        "extras", "compiler", "bf16", "findings",
    ]  # fmt: skip
    assert (
        facts["regard"] == regard.__version__
        and facts["torch"]["new_enough"] is True
        and facts["bf16"]["plain"] == "works"
    )
    assert facts["findings"] == [] and {"torch", "plot", "view"} <= facts["extras"].keys()
    assert facts["cpu"]["count"] >= 1 and facts["cpu"]["name"]


def test_the_page(doctor):
    status, out = doctor(regard="1.0")
    assert (status, out.splitlines()) == (0, [
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
    ])  # fmt: skip


def extra(*present, missing=(), too_old=()):
    return probe.Extra(dict(present), list(missing), dict(too_old))


@pytest.mark.parametrize(
    ("changes", "status", "shown"),
    [
        ({"implementations": {"gpu": ["a long reason " * 20]}}, 0, f"gpu: {'a long reason ' * 20}"),
        ({"implementations": {"gpu": ["regard[gpu]", "[bold]x"]}}, 0, "gpu: regard[gpu]; [bold]x"),
        ({"torch": probe.Torch(problem="none"), "bf16": None}, 0,
         "not installed; attention needs it: pip install 'regard[torch]'"),
        ({"extras": {"torch": extra(missing=["torch"])}}, 0,
         "torch: missing torch (pip install 'regard[torch]')"),
        ({"extras": {"all": extra()}, "compiler": None}, 0, "all: nothing to install"),
        ({"compiler": None}, 0, "none found"),
        ({"extras": {"dev": extra(("ruff", "1"), missing=["mypy", "pytest"])}}, 0,
         "dev: ruff 1; missing mypy, pytest (pip install 'regard[dev]')"),
        ({"torch": probe.Torch("2.6.1", False, 1)}, 1,
         "needs you: torch 2.6.1 is too old; regard needs 2.7 or newer"),
        ({"torch": probe.Torch("2.6.1", False, 1)}, 1, "devices       no GPU"),
        ({"torch": probe.Torch("2.12.0", True, problem="libfoo.so is gone"), "bf16": None}, 1,
         "torch 2.12.0 cannot be imported: libfoo.so is gone"),
        ({"extras": {"plot": extra(("m", "1.0"), too_old=[("m", "5.0")])}}, 1,
         "needs you: m 1.0 is too old; regard needs 5.0 or newer: pip install -U 'regard[plot]'"),
        ({"extras": {"dev": extra(("m", "1.0"), too_old=[("m", "5.0")])}}, 0,
         "dev: m 1.0 (too old, needs 5.0)"),
    ],
)  # fmt: skip
def test_what_needs_action_and_what_does_not(doctor, changes, status, shown):
    stopped, out = doctor(**changes)
    assert stopped == status and shown in out
    assert ("needs you: " in out) == bool(status) and ("bf16" in out) == ("bf16" not in changes)


@pytest.mark.parametrize(
    ("described", "name", "features"),
    [
        ("model name\t: Fast One\nflags\t\t: fpu avx2 avx512f avx512_bf16\n", "Fast One",
         ["avx2", "avx512"]),
        ("flags\t: avx2 avx512f amx_bf16 amx_tile", "", ["avx2", "avx512", "amx"]),
        ("Features\t: fp asimd evtstrm", "", ["neon"]),
        ("Intel(R) Core\nFPU SSE AVX1.0\nAVX2 BMI1", "Intel(R) Core", ["avx2"]),
        ("", "", []),
    ],
)  # fmt: skip
def test_cpus_as_every_system_describes_them(described, name, features):
    assert probe.cpu_features(described, "x86_64") == features
    assert probe.cpu_name(described) == name or not name
    assert "neon" in probe.cpu_features(described, "arm64")


@pytest.mark.parametrize(
    ("installed", "too_old"),
    [("4.57.1", True), ("5.0", False), ("5.0.0rc1", False), ("5.23.0+cpu", False), ("10.1", False)],
)
def test_extras_come_from_the_installed_metadata(monkeypatch, installed, too_old):
    class Metadata:
        def get_all(self, key):
            return {"Provides-Extra": ["all", "gpu", "page"]}[key]

    needs = [
        "numpy>=1.26", "torch>=5.0 ; extra == 'gpu'", "no-such-package; extra == 'page'",
        'triton>=3 ; (sys_platform == "linux") and extra == "gpu"', "fake[gpu]; extra == 'all'",
    ]  # fmt: skip
    versions = {"torch": installed, "triton": "3.6"}

    def version(name):
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(importlib.metadata, "metadata", lambda _: Metadata())
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: needs)
    monkeypatch.setattr(importlib.metadata, "version", version)
    assert probe.probe_extras("fake") == {
        "all": probe.Extra({}, []),
        "gpu": probe.Extra(versions, [], {"torch": "5.0"} if too_old else {}),
        "page": probe.Extra({}, ["no-such-package"]),
    }


def test_what_was_never_installed_has_no_extras():
    assert probe.probe_extras("no-such-package-anywhere") == {}


@pytest.mark.parametrize(
    ("version", "enough"),
    [("2.7.0", True), ("2.13.0+cpu", True), ("3.0", True), ("2.6.1", False), ("1.13", False)],
)
def test_torch_is_new_enough_from_2_7_on_and_every_device_is_named(monkeypatch, version, enough):
    import torch

    monkeypatch.setattr(torch, "__version__", version)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda n: f"H{n}")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    devices = ["cuda:0 H0", "cuda:1 H1", "mps"]
    threads = torch.get_num_threads()
    assert probe.probe_torch() == probe.Torch(version, enough, threads, devices)


def test_what_does_not_load_keeps_its_version_and_is_a_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "regard.engine.plan", None)
    (reason,) = probe.survey_engine()["engine"]
    assert reason.startswith("does not load") and probe.engine_remarks() == {}
    monkeypatch.setitem(sys.modules, "torch", None)
    assert probe.probe_torch().version is not None and probe.probe_torch().problem is not None


def dying(death: str = "SIGILL", unless: str = "os.environ.get('ONEDNN_MAX_CPU_ISA')"):
    """A child that kills itself the way a CPU would."""
    program = f"import os, signal\n{unless} or os.kill(os.getpid(), signal.{death})"
    return (sys.executable, "-c", program)


def test_the_hazard_needs_action_unless_the_variable_is_set(doctor, monkeypatch):
    monkeypatch.setattr(probe, "COMMAND", dying())
    status, out = doctor("--json")
    assert status == 1 and json.loads(out)["findings"] == [
        "bf16 matmul on this CPU dies with SIGILL; set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 "
        "before torch is imported; with it: works"
    ]
    monkeypatch.setenv(probe.VARIABLE, "AVX2")
    status, out = doctor("--json")
    tried = {"plain": "dies with SIGILL", "value": "AVX2", "is_set": True, "limited": "works"}
    assert (status, json.loads(out)["bf16"]) == (0, tried)
    assert "with ONEDNN_MAX_CPU_ISA=AVX2, as it is set here: works" in doctor()[1]


@pytest.mark.parametrize("given", [{}, {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_AMX"}])
def test_a_variable_that_does_not_help_needs_action(given):
    tried = probe.try_bf16(dying("SIGSEGV", unless="False"), given)
    assert tried.limited == "dies with SIGSEGV" and tried.needs_action


def test_no_answer_is_no_alarm():
    tried = probe.try_bf16((sys.executable, "-c", "import time; time.sleep(9)"), {}, patience=0.2)
    assert tried.plain == "gives no answer within 0.2 s" and not tried.needs_action


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ((sys.executable, "-c", "raise ValueError('no bf16')"), "fails: ValueError: no bf16"),
        ((sys.executable, "-c", "raise SystemExit(7)"), "fails: exit status 7"),
        (("no-such-program-anywhere",), "fails: "),
    ],
)
def test_other_failures_are_told_in_their_own_words(command, words):
    tried = probe.try_bf16(command, {})
    assert tried.plain.startswith(words) and tried.limited is None and tried.needs_action


def test_the_program_itself_works_where_the_variable_is_set():
    environment = os.environ | {probe.VARIABLE: probe.LIMIT}
    assert probe.try_command(probe.COMMAND, environment, 60) == "works"


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
    assert "pip install 'regard[torch]'" in done.stdout and "attention  " not in done.stdout
