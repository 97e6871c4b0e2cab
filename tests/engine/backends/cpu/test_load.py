"""Where the kernels come from: beside the package, from a cache that nobody else can write to, or
compiled now; and what happens where there are none."""

from __future__ import annotations

import _ctypes
import ctypes
import errno
import os
import platform
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from engine.backends.cpu.conftest import attend, kernels, random, threads
from regard.engine.backends.cpu import compile as compiling
from regard.engine.backends.cpu import load as loading
from regard.engine.backends.cpu.cache import cached, folders, stem
from regard.engine.backends.cpu.compile import (
    BuildError,
    compile_library,
    find_compiler,
    packaged,
    source_key,
)
from regard.engine.backends.cpu.load import Kernels, _find, load, openmp, parallel_of, why_not
from regard.engine.plan import remarks, survey
from regard.errors import UnavailableError

REASON = "no C compiler found: none of $CC, cc, gcc, clang is on the path"
HALF = 'while [ "$1" != -o ]; do shift; done; printf half > "$2"; '


def compiler(folder: Path, script: str, name: str = "mycc") -> str:
    """A program that stands in for a compiler."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def library() -> Path:
    """The library this machine has."""
    return kernels().path


Places = tuple[Path, Path]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: Path) -> Iterator[Places]:
    """The cache and the folder instead of it, both empty, no library built with the package;
    compiling copies the one that exists."""
    cache, instead = tmp_path / "home" / "regard" / "kernels", tmp_path / "instead"
    monkeypatch.setattr(loading, "packaged", lambda: None)
    monkeypatch.setattr(loading, "folders", lambda: (cache, instead))
    monkeypatch.setattr(loading, "compile_library", lambda folder, _: put(library, folder))
    _find.cache_clear()
    yield cache, instead
    _find.cache_clear()


def put(library: Path, folder: Path) -> Path:
    """As the compiler does it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest = sha256(library.read_bytes()).hexdigest()[:32]
    shutil.copy(library, made := folder / "new.so")
    made.chmod(0o755)
    return made.replace(folder / f"{stem()}-{digest}.so")


@pytest.fixture
def no_compiling(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Path:
        raise BuildError("nothing is to be compiled")

    monkeypatch.setattr(loading, "compile_library", never)


# ── finding ──────────────────────────────────────────────────────────────────────────────────


def test_beside_the_package_then_in_the_cache_then_compiled(
    places: Places, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(loading, "packaged", lambda: library)
        assert load().path == library
        assert load().remark.endswith("kernels, built with the package")
    for _ in range(2):  # compiled, then found
        _find.cache_clear()
        assert load().path.parent == places[0] and why_not() is None
        assert load().remark.endswith("kernels, compiled on first use")
        assert load() is load()  # looked for once
        assert places[0].stat().st_mode & 0o777 == 0o700
        monkeypatch.setattr(loading, "compile_library", lambda *_: pytest.fail("compiled again"))


@pytest.mark.parametrize("damage", ["empty", "cut late", "a bit"])
def test_a_library_with_another_digest_is_not_loaded(
    places: Places, library: Path, damage: str
) -> None:
    """Even of the right length, under the right name."""
    whole = library.read_bytes()
    flipped = whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:]
    contents = {"empty": b"", "cut late": whole[:-100], "a bit": flipped}
    put(library, places[0]).write_bytes(contents[damage])
    assert load().path.read_bytes() == whole


@pytest.mark.parametrize("who", ["folder", "file"])
@pytest.mark.parametrize("how", ["group", "world", "owner"])
def test_what_others_could_have_written_is_not_loaded(
    places: Places, library: Path, monkeypatch: pytest.MonkeyPatch, who: str, how: str
) -> None:
    placed = put(library, places[0])
    suspect = places[0] if who == "folder" else placed
    if how == "owner":
        real = Path.lstat

        def lstat(path: Path) -> os.stat_result:
            facts = list(real(path))
            facts[stat.ST_UID] += path == suspect
            return os.stat_result(facts)

        monkeypatch.setattr(Path, "lstat", lstat)
    else:
        suspect.chmod(0o770 if how == "group" else 0o707)
    compiled: list[Path] = []

    def compile_again(folder: Path, _: str) -> Path:
        compiled.append(folder)
        return put(library, folder)

    monkeypatch.setattr(loading, "compile_library", compile_again)
    assert why_not() is None
    assert compiled == [places[who == "folder"]]  # nothing is written to a suspect folder either
    if who == "folder":
        words = "belongs to another user" if how == "owner" else "can be written to by other users"
        assert f"compiled on first use in {places[1]} ({places[0]} {words})" in load().remark


def test_a_folder_that_cannot_be_used_is_passed_by(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link, which is not followed; a home that cannot be written."""
    (tmp_path / "planted").mkdir(mode=0o700)
    places[0].parent.mkdir(parents=True)
    places[0].symlink_to(tmp_path / "planted")
    assert load().path.parent == places[1] and not any((tmp_path / "planted").iterdir())
    real = Path.mkdir

    def mkdir(path: Path, *given: Any, **options: Any) -> None:
        if path == places[0]:
            raise OSError(errno.EROFS, "Read-only file system")
        real(path, *given, **options)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    _find.cache_clear()
    assert f"in {places[1]} ({places[0]} cannot be made (Read-only file" in load().remark


@pytest.mark.usefixtures("no_compiling")
def test_a_cache_that_can_only_be_read_is_used(
    places: Places, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    placed = put(library, places[0])
    assert load().path == placed
    placed.unlink()
    _find.cache_clear()
    assert why_not() is not None and "cannot be written to" in str(why_not())


def test_a_cache_is_of_one_compiler_and_one_processor(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a compiler any library of the processor will do."""
    put(library, tmp_path)
    assert cached(tmp_path) is not None
    with monkeypatch.context() as patch:
        patch.setattr(compiling, "find_compiler", lambda: None)
        assert cached(tmp_path) is not None
        patch.setattr(compiling, "_processor", lambda: b"abacus")
        assert cached(tmp_path) is None
    monkeypatch.setenv("CC", compiler(tmp_path, "exit 0"))
    assert cached(tmp_path) is None


def test_where_libraries_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folders()[0] == tmp_path / "regard" / "kernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folders()[0] == tmp_path / ".cache" / "regard" / "kernels"
    assert folders()[1].name == f"regard-kernels-{os.getuid()}"


def test_a_library_without_our_functions_is_compiled_anew(places: Places) -> None:
    wrong = put(Path(_ctypes.__file__), places[0])
    assert load().path != wrong


@pytest.mark.usefixtures("no_compiling")
def test_why_not_says_what_became_of_every_library(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the wheel for another machine, say, and nothing here to compile with."""
    assert why_not() == "nothing is to be compiled"
    with pytest.raises(RuntimeError, match="nothing is to be compiled"):
        load()
    rubbish = tmp_path / "rubbish.so"
    rubbish.write_bytes(b"rubbish")
    monkeypatch.setattr(loading, "packaged", lambda: rubbish)
    _find.cache_clear()
    reason = str(why_not())
    assert "rubbish.so" in reason and reason.endswith("; nothing is to be compiled")
    monkeypatch.setattr(loading, "packaged", lambda: None)
    monkeypatch.setattr(loading, "compile_library", lambda *_: rubbish)
    _find.cache_clear()
    assert "rubbish.so" in str(why_not())


# ── compiling ────────────────────────────────────────────────────────────────────────────────


def test_the_key_is_sources_flags_and_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, keys = tmp_path / "kernel", [source_key()]
    shutil.copytree(compiling._SOURCES, sources)
    monkeypatch.setattr(compiling, "_SOURCES", sources)
    (sources / "notes.txt").write_text("read me")
    assert source_key() == keys[0] and len(keys[0]) == 16
    changes: tuple[Callable[[], Any], ...] = (
        lambda: (sources / "more.h").write_text(""),
        lambda: (sources / "more.h").rename(sources / "less.h"),
        lambda: (sources / "rows.h").write_text((sources / "rows.h").read_text() + "\n"),
        lambda: monkeypatch.setattr(compiling, "_FLAGS", ("-O0",)),
        lambda: monkeypatch.setattr("platform.machine", lambda: "abacus"),
    )
    for change in changes:
        change()
        keys.append(source_key())
    assert len(set(keys)) == 6 and source_key("abacus") == keys[-1] != source_key("slide rule")


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


def test_cc_comes_first_then_the_first_of_three_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my tools").mkdir()
    mine = compiler(tmp_path / "my tools", HALF)
    monkeypatch.setenv("CC", f"'{mine}' -m64")
    assert find_compiler() == f"'{mine}' -m64"
    assert compile_library(tmp_path / "out", "out").read_text() == "half"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", "not-there")
    assert find_compiler() is None
    with pytest.raises(BuildError, match=r"none of \$CC, cc, gcc, clang is .* a wheel of"):
        compile_library(tmp_path, "out")
    for name in ("clang", "gcc", "cc"):
        compiler(tmp_path, "exit 0", name)
        assert find_compiler() == name


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
    words = arguments.read_text().split()
    assert words[0] == "-march=x" and "-shared" in words and "-fPIC" in words
    assert "-ffast-math" not in words  # NaN and −∞ mean something
    assert str(compiling._SOURCES / "regard_cpu.c") in words


ERROR = 'echo "In file included" >&2; echo "rows.h:7: error: no such thing" >&2; exit 1'


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (HALF + ERROR, r"mycc failed: rows\.h:7: error: no such thing"),
        ("echo boo >&2; exit 3", "mycc failed: boo"), ("exit 3", "mycc failed: no message"),
    ],
)  # fmt: skip
def test_a_failure_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    monkeypatch.setenv("CC", compiler(tmp_path, script))
    with pytest.raises(BuildError, match=message):
        compile_library(tmp_path / "out", "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_what_cannot_run_or_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forever(command: list[str], **options: Any) -> None:
        raise subprocess.TimeoutExpired(command, options["timeout"])

    mine = compiler(tmp_path, HALF)
    monkeypatch.setenv("CC", mine)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BuildError, match=r"cannot write to .*file: (Not a directory|File exists)"):
        compile_library(tmp_path / "file", "out")
    with monkeypatch.context() as patch:
        patch.setattr("subprocess.run", forever)
        with pytest.raises(BuildError, match=r"mycc took longer than 300 s"):
            compile_library(tmp_path, "out")
    Path(mine).write_bytes(b"\x7fELF rubbish")
    with pytest.raises(BuildError, match=r"cannot run .*mycc: "):
        compile_library(tmp_path, "out")
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(BuildError, match="POSIX threads, which Windows does not have"):
        compile_library(tmp_path, "out")


def test_processes_that_compile_at_once_all_get_a_library(tmp_path: Path) -> None:
    """With a compiler that is as quick as it is useless: the names and moves are the point."""
    quick = compiler(tmp_path, 'while [ "$1" != -o ]; do shift; done; echo $$ > "$2"')
    script = (
        "import runpy, sys; from pathlib import Path\n"
        "page = runpy.run_path(sys.argv[1])\n"
        "path = page['compile_library'](Path(sys.argv[2]), 'regard_cpu-x')\n"
        "assert path.exists() and page['intact'](path.parent, 'regard_cpu-x')\n"
    )
    command = [sys.executable, "-c", script, compiling.__file__, str(tmp_path / "cache")]
    started = [subprocess.Popen(command, env=os.environ | {"CC": quick}) for _ in range(4)]
    assert [one.wait() for one in started] == [0] * 4
    assert all(path.suffix == ".so" for path in (tmp_path / "cache").iterdir())


# ── instruction sets ─────────────────────────────────────────────────────────────────────────


def test_instruction_sets_from_slow_to_fast(library: Path) -> None:
    names = Kernels(library).instruction_sets()
    assert names in (["neon"], ["generic", "avx2", "avx512"][: len(names)])
    assert Kernels(library).isa == names[-1]
    for name in names:
        assert Kernels(library, name).isa == name
        assert Kernels(library, name).remark.startswith(f"{name} kernels, ")
    with pytest.raises(ValueError, match="abacus"):
        Kernels(library, "abacus")


def test_the_best_instruction_set_is_the_one_the_system_lists(library: Path) -> None:
    """The kernels ask the processor; Linux lists what it has and the system saves."""
    described = Path("/proc/cpuinfo")
    if platform.machine() != "x86_64" or not described.exists():
        pytest.skip("neither x86-64 nor a list of what it can do")
    line = next(x for x in described.read_text().splitlines() if x.startswith("flags"))
    flags = set(line.split())
    best = "avx2" if {"avx2", "fma"} <= flags else "generic"
    if best == "avx2" and {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= flags:
        best = "avx512"
    assert Kernels(library).isa == best


# ── without kernels ──────────────────────────────────────────────────────────────────────────


def test_without_kernels_others_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever insists on them is told why not."""
    monkeypatch.setattr(loading, "_find", lambda: REASON)
    x = torch.randn(1, 2, 5, 4)
    a = regard.attend(x, x, x, mask=regard.Window(2), summaries=(regard.Entropy(),))
    b = regard.attend(x, x, x, mask=regard.Window(2), implementation="dense")
    assert a.implementation != "cpu"
    torch.testing.assert_close(a.output, b.output)
    torch.testing.assert_close(a.entropy(), b.entropy())
    a = regard.attend(x, x, x, implementation="library")
    torch.testing.assert_close(a.dense().sum(-1), torch.ones(1, 2, 5))
    with pytest.raises(UnavailableError, match=r"'cpu' cannot serve this call:\n  cpu: no C comp"):
        regard.attend(x, x, x, implementation="cpu")
    assert survey()["cpu"] == [REASON] and "cpu" not in remarks()


# ── threads ──────────────────────────────────────────────────────────────────────────────────


def test_the_openmp_is_torchs_whoever_else_has_one(tmp_path: Path) -> None:
    """Another package's copy comes first by name, and torch does not run on it."""
    assert openmp() is None or openmp() > 0
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    loaded = {line.split(maxsplit=5)[-1] for line in lines if "/" in line}
    own = [one for one in loaded if "omp" in Path(one).name and "torch" in one]
    if own:
        copy = tmp_path / "another" / Path(own[0]).name
        copy.parent.mkdir()
        shutil.copy(own[0], copy)
        theirs = ctypes.cast(ctypes.CDLL(str(copy)).GOMP_parallel, ctypes.c_void_p).value
        assert parallel_of({*loaded, str(copy)}) == openmp() != theirs


def everything(x: Tensor) -> list[Tensor]:
    """Answers of all four sweeps."""
    q, k, v = (x[n].clone().requires_grad_() for n in range(3))
    a = attend(
        q, k[:, :2], v[:, :2], mask=regard.Causal(),
        summaries=(regard.Entropy(), regard.Pooled(24), regard.Top(3)),
    )  # fmt: skip
    loss = a.output.sum() + a.entropy().square().sum()
    grads = torch.autograd.grad(loss, [q, k, v])
    rows = [a.output, a.lse, a.entropy(), *a.top(3), a.received(), a.rows([0, 77, 200])]
    return [t.detach() for t in (*rows, a.pooled(24), *grads)]


def test_threads_of_our_own_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    x = random(3, 2, 4, 300, 16)
    with threads(1):
        alone = everything(x)
    with threads(2):
        shared = everything(x)
        monkeypatch.setattr("regard.engine.backends.cpu.bind.openmp", lambda: None)
        apart = everything(x)
    for one, two, three in zip(alone, shared, apart, strict=True):
        assert torch.equal(one, two) and torch.equal(one, three)
