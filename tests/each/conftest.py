"""Every implementation over one matrix of cases."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest
import torch

import regard
from regard.engine import api
from regard.engine.cpu.load import Kernels, _find
from regard.engine.problem import Call
from regard.testing import Case, Inputs, Yardstick

# "cpu/…" are the kernels on a lesser instruction set
IMPLEMENTATIONS = ("cpu", "cpu/generic", "cpu/avx2", "tiled", "library")


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request: pytest.FixtureRequest, monkeypatch: Any) -> Iterator[str]:
    """A name for attend(implementation=…)."""
    name, _, isa = request.param.partition("/")
    if isa:
        found = _find()
        assert isinstance(found, Kernels), found
        if isa not in found.instruction_sets():
            pytest.skip(f"this processor has no {isa}")
        lesser = Kernels(found.path, isa)
        monkeypatch.setattr("regard.engine.cpu.sweeps.load", lambda: lesser)
    yield name


def call_of(inputs: Inputs) -> Call:
    """The call that attend makes of these inputs, for the oracle."""
    options = {"mask": None, "scale": None, "bias": None, "softcap": None, "sink": None}
    options |= inputs.options
    return api._call(inputs.query, inputs.key, inputs.value, *options.values(), 0.0)


@lru_cache(maxsize=64)
def inputs_and_truth(case: Case, dtype: torch.dtype) -> tuple[Inputs, Yardstick]:
    """The numbers of a case and what is right about them; implementations share both."""
    inputs = case.inputs(dtype)
    return inputs, Yardstick(call_of(inputs))


def attend(inputs: Inputs, implementation: str, **more: Any) -> regard.Attention:
    """attend, or None's exception where the library operator says why it cannot."""
    return regard.attend(
        inputs.query, inputs.key, inputs.value, implementation=implementation,
        **inputs.options, **more,
    )  # fmt: skip


def serves(implementation: str, inputs: Inputs) -> bool:
    """Whether it can: only the library operator may say no, and the GPU kernels to a Rule; then
    they say why."""
    try:
        attend(inputs, implementation)
    except regard.errors.UnavailableError as error:
        assert implementation in ("library", "triton"), error
        assert error.reasons[implementation]
        assert implementation == "library" or "Rule" in str(error), error
        return False
    return True
