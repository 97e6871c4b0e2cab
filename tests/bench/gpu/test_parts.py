"""Which jobs make up the suite, and that there is one line where there is no GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bench.gpu import PARTS, jobs, parts
from bench.gpu.stage import cuda
from host_stage import Host
from regard.errors import InputError, UnavailableError

LENGTHS = [64, 128]


def test_all_parts_in_their_order() -> None:
    every = jobs(Host(), [], LENGTHS, 0.0)
    assert list(dict.fromkeys(job.part for job in every)) == list(PARTS)
    counts = {part: sum(job.part == part for job in every) for part in PARTS}
    assert counts == {
        "forward": 8, "length": 2, "short": 8, "columns": 3, "evict": 3, "decode": 3, "backward": 8,
        "distance": 3, "llama": 2, "generate": 1, "monitor": 1,
    }  # fmt: skip


def test_some_parts() -> None:
    assert {job.part for job in jobs(Host(), ["decode", "length"], LENGTHS, 0.0)} == {
        "decode", "length"
    }  # fmt: skip
    with pytest.raises(InputError, match=r"there is no part 'sideways'; there are: forward, len"):
        jobs(Host(), ["sideways"], LENGTHS, 0.0)


def test_a_job_runs_on_its_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    (first, second) = jobs(Host(), ["length"], LENGTHS, 0.0)
    assert first.label == "d128 1×8×64 causal" and second.label == "d128 1×8×128 causal"
    rows = first.run()
    assert {row.suite for row in rows} == {"gpu length"}
    assert [row.what for row in rows] == ["cudnn", "bare", "everything", "eager with weights"]


def test_flex_takes_part_on_one_shape_only(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []
    monkeypatch.setattr(parts, "race_forward", lambda stage, size, **how: heard.append((size, how)))
    for job in jobs(Host(), ["forward"], LENGTHS, 0.0):
        job.run()
    with_flex = [size for size, how in heard if how["with_flex"]]
    assert [(s.dim, s.tokens, s.causal) for s in with_flex] == [
        (128, 16384, False), (128, 16384, True),
    ]  # fmt: skip


def test_without_a_gpu_one_line_says_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UnavailableError, match="needs an NVIDIA GPU"):
        cuda()
