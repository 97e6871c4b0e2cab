"""The suite `vllm` as far as it goes without vLLM; `make test-vllm` has that."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bench import vllm
from bench.__main__ import main
from regard.bench.results import WrongResultError
from regard.bench.timing import Samples


def test_it_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vllm", "--tokens", "4"]) != 0
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert "python -m bench vllm needs the package 'vllm'" in said


def test_nothing_is_timed_that_writes_other_tokens() -> None:
    right = {"vllm": lambda: [[1, 2]], "silent": lambda: [[1, 2]]}
    vllm._check(right)
    with pytest.raises(WrongResultError, match="eight writes other tokens than vllm"):
        vllm._check(right | {"eight": lambda: [[1, 3]]})


def test_rows_are_of_one_step() -> None:
    config = SimpleNamespace(hidden_size=576, num_attention_heads=9)
    taken = {"vllm": Samples([0.4, 0.4]), "eight": Samples([0.8, 0.8])}
    row = vllm._result(config, "smollm2", 8, "eight", taken)
    assert (row.median_ms, row.ratio, row.batch, row.suite) == (100.0, 2.0, 8, "vllm smollm2")
