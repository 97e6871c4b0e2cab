"""Compiling the kernels: which compiler, what it says when it fails, what is left behind."""

from __future__ import annotations

import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from regard.engine.backends.cpu import compile as compiling
from regard.engine.backends.cpu.compile import (
    BuildError,
    compile_library,
    find_compiler,
    packaged,
    source_key,
)

HALF = 'while [ "$1" != -o ]; do shift; done; printf half > "$2"; '


def compiler(folder: Path, script: str, name: str = "mycc") -> str:
    """A program that stands in for a compiler."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the kernel's sources, to be changed."""
    copy = tmp_path / "kernel"
    shutil.copytree(compiling._SOURCES, copy)
    monkeypatch.setattr(compiling, "_SOURCES", copy)
    return copy


# ── the key ──────────────────────────────────────────────────────────────────────────────────


def test_the_key_is_the_sources(sources: Path) -> None:
    key = source_key()
    assert key == source_key() and len(key) == 16
    header = sources / "rows.h"
    text = header.read_text()
    header.write_text(text + "\n")
    assert source_key() != key
    header.write_text(text)
    assert source_key() == key


def test_new_and_renamed_sources_change_the_key(sources: Path) -> None:
    key = source_key()
    (sources / "more.h").write_text("")
    assert source_key() != key
    (sources / "more.h").unlink()
    (sources / "rows.h").rename(sources / "sows.h")
    assert source_key() != key


def test_other_files_do_not(sources: Path) -> None:
    key = source_key()
    (sources / "notes.txt").write_text("read me")
    assert source_key() == key


def test_flags_and_machine_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    key = source_key()
    monkeypatch.setattr(compiling, "_FLAGS", ("-O0",))
    other = source_key()
    monkeypatch.setattr("platform.machine", lambda: "abacus")
    assert len({key, other, source_key()}) == 3
    assert source_key("abacus") == source_key() != source_key("slide rule")


def test_a_library_beside_the_package_carries_key_and_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "__file__", str(tmp_path / "compile.py"))
    assert packaged() is None
    monkeypatch.setenv("CC", compiler(tmp_path, HALF))
    made = compile_library(tmp_path, f"regard_cpu-{source_key()}")
    assert packaged() == made and made.name.startswith(f"regard_cpu-{source_key()}-")
    made.write_text("other")
    assert packaged() is None


# ── the compiler ─────────────────────────────────────────────────────────────────────────────


def test_cc_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", compiler(tmp_path, "exit 0") + " -m64")
    assert find_compiler() == f"{tmp_path}/mycc -m64"


def test_cc_may_be_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my tools").mkdir()
    mine = compiler(tmp_path / "my tools", HALF)
    monkeypatch.setenv("CC", f"'{mine}' -m64")
    assert find_compiler() == f"'{mine}' -m64"
    assert compile_library(tmp_path / "out", "out").read_text() == "half"


def test_then_the_first_of_three_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", "not-there")
    assert find_compiler() is None
    for name in ("clang", "gcc", "cc"):
        compiler(tmp_path, "exit 0", name)
        assert find_compiler() == name


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(BuildError, match=r"none of \$CC, cc, gcc, clang is .* a wheel of"):
        compile_library(tmp_path, "out")


def test_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(BuildError, match="POSIX threads, which Windows does not have"):
        compile_library(tmp_path, "out")


# ── compiling ────────────────────────────────────────────────────────────────────────────────


def test_the_library_appears_where_it_should(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = tmp_path / "arguments"
    monkeypatch.setenv("CC", compiler(tmp_path, f'echo "$@" > {arguments}; {HALF}') + " -march=x")
    made = compile_library(tmp_path / "new" / "folder", "out")
    assert made.read_text() == "half"
    assert made.name == f"out-{sha256(b'half').hexdigest()[:32]}.so"
    assert list((tmp_path / "new" / "folder").iterdir()) == [made]
    assert made.stat().st_mode & 0o022 == 0
    said = arguments.read_text().split()
    assert said[0] == "-march=x" and "-shared" in said and "-fPIC" in said
    assert "-ffast-math" not in said  # NaN and −∞ mean something
    assert str(compiling._SOURCES / "regard_cpu.c") in said


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = 'echo "In file included" >&2; echo "rows.h:7: error: no such thing" >&2; exit 1'
    monkeypatch.setenv("CC", compiler(tmp_path, HALF + said))
    with pytest.raises(BuildError, match=r"mycc failed: rows\.h:7: error: no such thing"):
        compile_library(tmp_path / "out", "out")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("said", "message"), [("echo boo >&2;", "boo"), ("", "no message")], ids=["a word", "nothing"]
)
def test_a_compiler_of_few_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, message: str
) -> None:
    monkeypatch.setenv("CC", compiler(tmp_path, f"{said} exit 3"))
    with pytest.raises(BuildError, match=f"mycc failed: {message}"):
        compile_library(tmp_path, "out")


def test_a_compiler_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "mycc"
    broken.write_bytes(b"\x7fELF rubbish")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    with pytest.raises(BuildError, match=r"cannot run .*mycc: "):
        compile_library(tmp_path, "out")


def test_a_compiler_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forever(command: list[str], **options: Any) -> None:
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setenv("CC", compiler(tmp_path, "exit 0"))
    monkeypatch.setattr("subprocess.run", forever)
    with pytest.raises(BuildError, match=r"mycc took longer than 300 s"):
        compile_library(tmp_path, "out")


def test_a_place_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", compiler(tmp_path, HALF))
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BuildError, match=r"cannot write to .*file: (Not a directory|File exists)"):
        compile_library(tmp_path / "file", "out")
