"""Finding the kernels, and what happens where there are none."""

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
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.engine.backends.cpu import load as loading
from regard.engine.backends.cpu.cache import cached, folders, stem
from regard.engine.backends.cpu.compile import BuildError
from regard.engine.backends.cpu.load import Kernels, _find, load, openmp, parallel_of, why_not
from regard.engine.plan import remarks, survey
from regard.errors import UnavailableError

REASON = "no C compiler found: none of $CC, cc, gcc, clang is on the path"


@pytest.fixture
def library() -> Path:
    """The library this machine has."""
    found = _find()
    assert isinstance(found, Kernels), found
    return found.path


@pytest.fixture
def places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: Path
) -> Iterator[tuple[Path, Path]]:
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


def never(*_: Any) -> Path:
    raise BuildError("nothing is to be compiled")


@pytest.fixture
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_find", lambda: REASON)


# ── finding ──────────────────────────────────────────────────────────────────────────────────


def test_the_one_beside_the_package_comes_first(
    places: tuple[Path, Path], library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "packaged", lambda: library)
    assert load().path == library
    assert load().remark.endswith("kernels, built with the package")


def test_then_the_one_in_the_cache(
    places: tuple[Path, Path], library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "compile_library", never)
    put(library, places[0])
    assert load().path.parent == places[0]
    assert load().remark.endswith("kernels, compiled on first use")
    assert why_not() is None


def test_then_it_is_compiled(places: tuple[Path, Path]) -> None:
    assert load().path.parent == places[0]
    assert load() is load()  # looked for once
    assert places[0].stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", ["empty", "cut late", "a bit"])
def test_a_library_with_another_digest_is_not_loaded(
    places: tuple[Path, Path], library: Path, damage: str
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
    places: tuple[Path, Path], library: Path, monkeypatch: pytest.MonkeyPatch, who: str, how: str
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
    real_compile = loading.compile_library

    def compile_library(folder: Path, name: str) -> Path:
        compiled.append(folder)
        return real_compile(folder, name)

    monkeypatch.setattr(loading, "compile_library", compile_library)
    if who == "folder":  # nothing is written there either
        assert load().path.parent == places[1] and compiled == [places[1]]
        words = "belongs to another user" if how == "owner" else "can be written to by other users"
        assert f"compiled on first use in {places[1]} ({places[0]} {words})" in load().remark
    else:
        loaded = why_not() is None
        assert compiled == [places[0]] and loaded


def test_a_link_to_a_folder_is_not_followed(places: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "planted").mkdir(mode=0o700)
    places[0].parent.mkdir(parents=True)
    places[0].symlink_to(tmp_path / "planted")
    assert load().path.parent == places[1] and not any((tmp_path / "planted").iterdir())


def test_a_home_that_cannot_be_written(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.mkdir

    def mkdir(path: Path, *given: Any, **options: Any) -> None:
        if path == places[0]:
            raise OSError(errno.EROFS, "Read-only file system")
        real(path, *given, **options)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    assert load().path.parent == places[1]
    assert f"in {places[1]} ({places[0]} cannot be made (Read-only file" in load().remark


def test_a_cache_that_can_only_be_read_is_used(
    places: tuple[Path, Path], library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    monkeypatch.setattr(loading, "compile_library", never)
    placed = put(library, places[0])
    assert load().path == placed
    placed.unlink()
    _find.cache_clear()
    assert why_not() is not None and "cannot be written to" in str(why_not())


def test_without_a_compiler_any_library_of_the_processor_will_do(
    places: tuple[Path, Path], library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed = put(library, places[0])
    monkeypatch.setattr("regard.engine.backends.cpu.compile.find_compiler", lambda: None)
    assert load().path == placed


def test_another_compiler_or_processor_compiles_its_own(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(library, tmp_path)
    assert cached(tmp_path) is not None
    with monkeypatch.context() as patch:
        patch.setattr("regard.engine.backends.cpu.compile._processor", lambda: b"abacus")
        assert cached(tmp_path) is None
    other = tmp_path / "mycc"
    other.write_text("#!/bin/sh")
    other.chmod(0o755)
    monkeypatch.setenv("CC", str(other))
    assert cached(tmp_path) is None


def test_where_libraries_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folders()[0] == tmp_path / "regard" / "kernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folders()[0] == tmp_path / ".cache" / "regard" / "kernels"
    assert folders()[1].name == f"regard-kernels-{os.getuid()}"


def test_a_library_without_our_functions_is_compiled_anew(
    places: tuple[Path, Path], library: Path
) -> None:
    wrong = put(Path(_ctypes.__file__), places[0])
    assert load().path != wrong


def test_why_not_says_why(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Path:
        raise BuildError(REASON)

    monkeypatch.setattr(loading, "compile_library", fail)
    assert why_not() == REASON
    with pytest.raises(RuntimeError, match="no C compiler found"):
        load()


def test_why_not_says_what_became_of_the_wheel_s_library_too(
    places: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for another machine, say, and nothing here to compile with."""
    (tmp_path / "foreign.so").write_bytes(b"foreign")
    monkeypatch.setattr(loading, "packaged", lambda: tmp_path / "foreign.so")
    monkeypatch.setattr(loading, "compile_library", never)
    reason = str(why_not())
    assert "foreign.so" in reason and reason.endswith("; nothing is to be compiled")


def test_a_compiler_that_makes_rubbish_is_a_reason_too(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def rubbish(folder: Path, _: str) -> Path:
        (folder / "rubbish.so").write_bytes(b"rubbish")
        return folder / "rubbish.so"

    monkeypatch.setattr(loading, "compile_library", rubbish)
    reason = why_not()
    assert reason is not None and "rubbish.so" in reason


def test_processes_that_compile_at_once_all_get_a_library(tmp_path: Path) -> None:
    """With a compiler that is as quick as it is useless: the names and moves are the point."""
    compiler = tmp_path / "mycc"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done; echo $$ > "$2"\n')
    compiler.chmod(0o755)
    script = (
        "import sys; from pathlib import Path\n"
        "from regard.engine.backends.cpu.compile import compile_library, intact\n"
        "path = compile_library(Path(sys.argv[1]), 'regard_cpu-x')\n"
        "assert path.exists() and intact(path.parent, 'regard_cpu-x')\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "cache")]
    place = os.environ | {"CC": str(compiler)}
    started = [subprocess.Popen(command, env=place) for _ in range(4)]
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


def test_an_instruction_set_this_machine_has_not(library: Path) -> None:
    with pytest.raises(ValueError, match="abacus"):
        Kernels(library, "abacus")


# ── without kernels ──────────────────────────────────────────────────────────────────────────


def test_another_implementation_serves(without_kernels: None) -> None:
    x = torch.randn(1, 2, 5, 4)
    a = regard.attend(x, x, x, mask=regard.Window(2), summaries=(regard.Entropy(),))
    assert a.implementation != "cpu"
    b = regard.attend(x, x, x, mask=regard.Window(2), implementation="dense")
    torch.testing.assert_close(a.output, b.output)
    torch.testing.assert_close(a.entropy(), b.entropy())


def test_questions_behind_the_library_operator_still_work(without_kernels: None) -> None:
    x = torch.randn(1, 2, 5, 4)
    a = regard.attend(x, x, x, implementation="library")
    torch.testing.assert_close(a.dense().sum(-1), torch.ones(1, 2, 5))


def test_insisting_on_the_kernels_says_why_not(without_kernels: None) -> None:
    x = torch.randn(1, 2, 5, 4)
    with pytest.raises(UnavailableError, match=r"'cpu' cannot serve this call:\n  cpu: no C comp"):
        regard.attend(x, x, x, implementation="cpu")
    assert survey()["cpu"] == [REASON]
    assert "cpu" not in remarks()


# ── threads ──────────────────────────────────────────────────────────────────────────────────


def test_the_openmp_is_torchs_whoever_else_has_one(tmp_path: Path) -> None:
    """Another package's copy comes first by name, and torch does not run on it."""
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


def test_openmp_is_an_address_or_nothing() -> None:
    found = openmp()
    assert found is None or (isinstance(found, int) and found > 0)


def everything(x: Tensor) -> list[Tensor]:
    """Results of all four sweeps."""
    q, k, v = (x[n].clone().requires_grad_() for n in range(3))
    a = regard.attend(
        q, k[:, :2], v[:, :2], mask=regard.Causal(), implementation="cpu",
        summaries=(regard.Entropy(), regard.Pooled(24), regard.Top(3)),
    )  # fmt: skip
    (a.output.sum() + a.entropy().square().sum()).backward()
    assert q.grad is not None and k.grad is not None and v.grad is not None
    found = [a.output, a.lse, a.entropy(), *a.top(3), a.received(), a.rows([0, 77, 200])]
    return [t.detach() for t in (*found, a.pooled(24), q.grad, k.grad, v.grad)]


def test_threads_of_our_own_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(3, 2, 4, 300, 16, generator=torch.Generator().manual_seed(0))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = everything(x)
        torch.set_num_threads(2)
        shared = everything(x)
        monkeypatch.setattr("regard.engine.backends.cpu.bind.openmp", lambda: None)
        apart = everything(x)
    finally:
        torch.set_num_threads(before)
    for one, two, three in zip(alone, shared, apart, strict=True):
        assert torch.equal(one, two) and torch.equal(one, three)
