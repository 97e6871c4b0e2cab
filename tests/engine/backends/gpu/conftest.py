"""Where tests of the kernels run, which is what Triton decides when it is imported.

    @pytest.mark.kernels               interpreted, in a process of its own; on a GPU
                                       (REGARD_TEST_DEVICE=cuda) as they are, in this process
    @pytest.mark.kernels("interpret")  interpreted there too
    @pytest.mark.kernels("compile")    compiled for some GPU, which needs none, in a process of its
                                       own in which nothing is interpreted

The arguments of such a test are names and numbers: they travel to the process.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import warm
from each.conftest import DEVICE

TESTS = Path(__file__).resolve().parents[3]
CALL = """
import importlib, json, sys
module, name, given = sys.argv[1:]
getattr(importlib.import_module(module), name)(**json.loads(given))
"""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "kernels(how): calls GPU kernels, interpreted or compiled")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """In the process that the mark asks for."""
    mark = pyfuncitem.get_closest_marker("kernels")
    if mark is None or (not mark.args and DEVICE == "cuda"):
        return None
    module = ".".join(pyfuncitem.path.relative_to(TESTS).with_suffix("").parts)
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    words = module, pyfuncitem.originalname, json.dumps(given)
    run = warm.run(CALL, *words, interpret=mark.args != ("compile",))
    if run.returncode:
        pytest.fail(f"{run.stdout}\n{run.stderr[-4000:]}", pytrace=False)
    return True
