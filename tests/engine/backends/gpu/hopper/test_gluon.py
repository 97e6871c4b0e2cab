"""What the kernel needs of Gluon, against releases that have it, lack it, or call it otherwise."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from regard.engine.backends.gpu.hopper import gluon


def specialize(functions_and_args: Any, worker_num_warps: Any, worker_num_regs: Any = None) -> None:
    """As Triton 3.6 and 3.9 have it."""


def older(args: Any, default: Any, workers: Any, warps: Any, registers: Any) -> None:
    """As Triton 3.5 had it."""


def multiply(a: Any, b: Any, acc: Any, *, use_acc: bool = True, is_async: bool = False) -> None: ...


def wait(num_outstanding: int = 0, deps: Any = None) -> None: ...


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str | None]:
    """The answer for a Gluon made of these words."""

    def asked(**words: Any) -> str | None:
        home = SimpleNamespace(**words)
        monkeypatch.setattr(gluon, "import_module", lambda name: home)
        return gluon.why_not.__wrapped__()

    return asked


def test_the_shape_it_needs_is_enough(release: Callable[..., str | None]) -> None:
    whole = {
        "warp_specialize": specialize, "warpgroup_mma": multiply, "warpgroup_mma_wait": wait,
    }  # fmt: skip
    assert release(**whole) is None
    for name in whole:
        rest = {word: it for word, it in whole.items() if word != name}
        said = release(**rest)
        assert said is not None and f"no {name}(" in said
    said = release(**{**whole, "warp_specialize": older})
    assert said is not None and "functions_and_args, worker_num_warps, worker_num_regs" in said


def test_no_gluon_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(gluon, "import_module", missing)
    said = gluon.why_not.__wrapped__()
    assert said is not None and said.startswith("this Triton has no Gluon for Hopper (No module")


def test_the_installed_triton_has_it() -> None:
    assert gluon.why_not() is None


def test_a_copy_by_its_old_name_and_by_its_new_one() -> None:
    """Newer releases keep the old name as one that only raises."""
    old = SimpleNamespace(async_copy_global_to_shared="copy")
    new = SimpleNamespace(async_copy_global_to_shared="raises", async_load="load")
    assert gluon.copy_in(old) == "copy" and gluon.copy_in(new) == "load"
