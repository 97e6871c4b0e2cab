"""The facts that `regard doctor` gathers, on systems other than this one too."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from regard.cli import probe


@pytest.mark.parametrize(
    ("described", "machine", "features"),
    [
        ("flags\t\t: fpu avx2 avx512f avx512_bf16\n", "x86_64", ["avx2", "avx512"]),
        ("flags\t: avx2 avx512f amx_bf16 amx_tile", "x86_64", ["avx2", "avx512", "amx"]),
        ("Features\t: fp asimd evtstrm", "aarch64", ["neon"]),
        ("Apple M4\n", "arm64", ["neon"]),
        ("Intel(R) Core\nFPU SSE AVX1.0\nAVX2 BMI1", "x86_64", ["avx2"]),
        ("", "x86_64", []),
    ],
)
def test_cpu_features_are_read_from_every_system(described, machine, features):
    assert probe.cpu_features(described, machine) == features


def test_cpu_names():
    assert probe.cpu_name("processor\t: 0\nmodel name\t: Fast One\n") == "Fast One"
    assert probe.cpu_name("Apple M4\n") == "Apple M4"
    assert probe.cpu_name("processor\t: 0\nFeatures\t: fp\n")
    assert probe.cpu_name("")


class Metadata(dict):
    def get_all(self, key):
        return self.get(key)


def test_extras_come_from_the_installed_metadata(monkeypatch):
    given = Metadata({"Provides-Extra": ["all", "gpu", "page"]})
    needs = [
        "numpy>=1.26",
        "torch>=2.11 ; extra == 'gpu'",
        'triton>=3 ; (sys_platform == "linux") and extra == "gpu"',
        "no-such-package; extra == 'page'",
        "fake[gpu]; extra == 'all'",
    ]
    monkeypatch.setattr(probe.importlib.metadata, "metadata", lambda _: given)
    monkeypatch.setattr(probe.importlib.metadata, "requires", lambda _: needs)
    versions = {"torch": "2.12", "triton": "3.6"}
    monkeypatch.setattr(probe, "_version", versions.get)
    assert probe.probe_extras("fake") == {
        "all": probe.Extra({}, []),
        "gpu": probe.Extra({"torch": "2.12", "triton": "3.6"}, []),
        "page": probe.Extra({}, ["no-such-package"]),
    }


def test_a_source_folder_that_was_never_installed_has_no_extras():
    assert probe.probe_extras("no-such-package-anywhere") == {}


def test_the_compiler_that_cc_names_comes_first(monkeypatch):
    monkeypatch.setenv("CC", sys.executable)
    assert probe.find_compiler() == sys.executable
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setenv("PATH", "")
    assert probe.find_compiler() is None


def test_an_engine_that_does_not_load_is_a_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "regard.engine.plan", None)
    (reason,) = probe.survey_engine()["engine"]
    assert reason.startswith("does not load")


@pytest.mark.parametrize(
    ("version", "enough"),
    [("2.7.0", True), ("2.13.0+cpu", True), ("3.0", True), ("2.6.1", False), ("1.13", False)],
)
def test_torch_is_new_enough_from_2_11_on(monkeypatch, version, enough):
    import torch

    monkeypatch.setattr(torch, "__version__", version)
    found = probe.probe_torch()
    assert (found.version, found.new_enough, found.problem) == (version, enough, None)
    assert found.threads == torch.get_num_threads()


def test_every_gpu_is_named(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda n: f"H{n}")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert probe.probe_torch().devices == ["cuda:0 H0", "cuda:1 H1", "mps"]


def test_a_torch_that_does_not_load_keeps_its_version(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    found = probe.probe_torch()
    assert found.version is not None and found.problem is not None


def test_without_proc_the_system_is_asked_by_command(monkeypatch, tmp_path):
    command = tmp_path / "sysctl"
    command.write_text('#!/bin/sh\necho "Fast $1 $2"\necho AVX2\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(probe.Path, "exists", lambda _: False)
    cpu = probe.probe_cpu()
    assert cpu.name == "Fast -n machdep.cpu.brand_string"
    assert "avx2" in cpu.features and cpu.count >= 1
    monkeypatch.setenv("PATH", "")
    assert probe.probe_cpu().name


@pytest.mark.parametrize(
    ("installed", "old"),
    [("4.57.1", True), ("5.0", False), ("5.0.0rc1", False), ("5.23.0+cpu", False), ("10.1", False)],
)
def test_a_package_older_than_its_extra_asks_for_needs_action(monkeypatch, installed, old):
    monkeypatch.setattr(probe.importlib.metadata, "metadata", lambda _: _Metadata(["huggingface"]))
    monkeypatch.setattr(
        probe.importlib.metadata,
        "requires",
        lambda _: ["transformers>=5.0; extra == 'huggingface'", "gguf>=0.17; extra == 'dev'"],
    )
    versions = {"transformers": installed, "gguf": "0.1"}
    monkeypatch.setattr(probe, "_version", versions.get)
    extras = probe.probe_extras()
    assert extras["huggingface"].too_old == ({"transformers": "5.0"} if old else {})
    machine = replace(probe.probe(), extras=extras, bf16=None)
    said = [line for line in machine.findings if "transformers" in line]
    assert bool(said) == old and not any("gguf" in line for line in machine.findings)
    assert all(f"transformers {installed} is too old" in line for line in said)


class _Metadata:
    """The names of extras."""

    def __init__(self, extras: list[str]) -> None:
        self._extras = extras

    def get_all(self, _: str) -> list[str]:
        return self._extras
