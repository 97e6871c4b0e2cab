"""Finding the kernels, and what happens where there are none."""

from __future__ import annotations

import _ctypes
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

import regard
from regard.engine.choose import remarks, survey
from regard.engine.cpu import load as loading
from regard.engine.cpu.compile import BuildError
from regard.engine.cpu.load import Kernels, _find, load, openmp, why_not
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
    """Two empty places to look in; compiling copies the library that exists."""
    beside, cache = tmp_path / "beside.so", tmp_path / "cache" / "cached.so"
    cache.parent.mkdir()
    monkeypatch.setattr(loading, "packaged", lambda: beside)
    monkeypatch.setattr(loading, "cached", lambda: cache)
    monkeypatch.setattr(loading, "compile_library", lambda to: put(library, to))
    _find.cache_clear()
    yield beside, cache
    _find.cache_clear()


def put(library: Path, target: Path) -> None:
    """As the compiler does it: what is loaded already keeps its own file."""
    shutil.copy(library, made := target.with_suffix(".new"))
    made.replace(target)


@pytest.fixture
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_find", lambda: REASON)


# ── finding ──────────────────────────────────────────────────────────────────────────────────


def test_the_one_beside_the_package_comes_first(places: tuple[Path, Path], library: Path) -> None:
    for path in places:
        shutil.copy(library, path)
    assert load().path == places[0]
    assert load().remark.endswith("kernels, built with the package")


def test_then_the_one_in_the_cache(places: tuple[Path, Path], library: Path) -> None:
    shutil.copy(library, places[1])
    assert load().path == places[1]
    assert load().remark.endswith("kernels, compiled on first use")
    assert why_not() is None


def test_then_it_is_compiled(places: tuple[Path, Path]) -> None:
    assert load().path == places[1] and places[1].exists()
    assert load() is load()  # looked for once


@pytest.mark.parametrize("damage", ["empty", "rubbish", "cut", "cut late"])
def test_a_damaged_library_is_compiled_anew(
    places: tuple[Path, Path], library: Path, damage: str
) -> None:
    contents = {
        "empty": b"",
        "rubbish": b"\x7fELF and nothing else",
        "cut": library.read_bytes()[:4000],
        "cut late": library.read_bytes()[:-100],
    }
    for path in places:
        path.write_bytes(contents[damage])
    assert load().path == places[1]
    assert places[1].read_bytes() == library.read_bytes()


def test_a_library_without_our_functions_is_passed_over(
    places: tuple[Path, Path], library: Path
) -> None:
    shutil.copy(_ctypes.__file__, places[0])
    shutil.copy(library, places[1])
    assert load().path == places[1]


def test_why_not_says_why(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(target: Path) -> None:
        raise BuildError(REASON)

    monkeypatch.setattr(loading, "compile_library", fail)
    assert why_not() == REASON
    with pytest.raises(RuntimeError, match="no C compiler found"):
        load()


def test_a_compiler_that_makes_rubbish_is_a_reason_too(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "compile_library", lambda to: to.write_bytes(b"rubbish"))
    reason = why_not()
    assert reason is not None and "cached.so" in reason


# ── instruction sets ─────────────────────────────────────────────────────────────────────────


def test_instruction_sets_from_slow_to_fast(library: Path) -> None:
    names = Kernels(library).instruction_sets()
    assert names in (["neon"], ["generic", "avx2", "avx512"][: len(names)])
    assert Kernels(library).isa == names[-1]
    for name in names:
        assert Kernels(library, name).isa == name
        assert Kernels(library, name).remark.startswith(f"{name} kernels, ")


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
        monkeypatch.setattr("regard.engine.cpu.bind.openmp", lambda: None)
        apart = everything(x)
    finally:
        torch.set_num_threads(before)
    for one, two, three in zip(alone, shared, apart, strict=True):
        assert torch.equal(one, two) and torch.equal(one, three)
