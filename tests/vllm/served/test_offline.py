"""`regard.vllm.record` around a real engine, against transformers' eager weights."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.vllm import record

# a module of the package's own: the folder of these tests would be found as an empty package
pytest.importorskip("vllm.version")

BUDGET = 1e-4  # the largest difference of a weight
Worst = Callable[[Any, list[int]], float]

STORY = "there was a cat that lived in a tree near the river and was very old and wise. "


def texts(count: int) -> list[str]:
    """Prompts of different lengths that begin differently."""
    return [f"Number {n}: once upon a time " + STORY * (n % 5) for n in range(count)]


def params(**given: Any) -> Any:
    from vllm import SamplingParams

    return SamplingParams(**{"temperature": 0, "max_tokens": 12, "ignore_eos": True} | given)


def read(output: Any, sample: int = 0) -> list[int]:
    """The tokens that the model was given: all but the last that it wrote."""
    return [*output.prompt_token_ids, *output.outputs[sample].token_ids][:-1]


def by_request(recording: Any) -> dict[str, Any]:
    """Prompts by what vLLM called their requests."""
    return {one.note.facts["served"]["request"]: one for one in recording.prompts}


def prompt_of(recording: Any, output: Any, sample: int | None = None) -> Any:
    front = output.request_id if sample is None else f"{sample}_{output.request_id}"
    (found,) = [one for id, one in by_request(recording).items() if id.startswith(f"{front}-")]
    return found


def test_requests_that_join_and_leave(llm: Any, worst_error: Worst, tmp_path: Path) -> None:
    """Ten in eight places, prompts in chunks, some finished while others begin."""
    lengths = [params(max_tokens=3 + 9 * (n % 4)) for n in range(10)]
    with record(llm, tmp_path / "run.regard") as rec:
        outputs = llm.generate(texts(10), lengths, use_tqdm=False)
    assert len(rec.prompts) == 10
    for output, wanted in zip(outputs, lengths, strict=True):
        prompt = prompt_of(rec, output)
        assert prompt.generated == wanted.max_tokens - 1
        assert prompt.title.startswith("Number ")
        assert worst_error(prompt, read(output)) <= BUDGET


def test_samples_are_prompts(llm: Any, worst_error: Worst, tmp_path: Path) -> None:
    sampled = params(temperature=0.9, n=3)  # a seed and chunks end this engine on a CPU
    with record(llm, tmp_path / "run.regard") as rec:
        (output,) = llm.generate(texts(3)[2:], sampled, use_tqdm=False)
    assert len(rec.prompts) == 3
    for sample in range(3):
        assert worst_error(prompt_of(rec, output, sample), read(output, sample)) <= BUDGET


def test_rows_are_replaced_after_preemption(llm: Any, worst_error: Worst, tmp_path: Path) -> None:
    """Eight of 250 tokens each, where 1,056 fit."""
    with record(llm, tmp_path / "run.regard") as rec:
        outputs = llm.generate([STORY * 8 + str(n) for n in range(8)], params(max_tokens=100))
    restarted = [one for one in rec.prompts if one.note.facts["served"]["restarts"]]
    assert restarted
    for output in outputs:
        prompt = prompt_of(rec, output)
        assert prompt["L0H0"].place.rows[0] == 0
        assert worst_error(prompt, read(output)) <= BUDGET


def test_rows_of_a_cached_prefix(llm: Any, worst_error: Worst, tmp_path: Path) -> None:
    """By default they are computed; with the prefix cache they are missing, and said to be."""
    shared = "It is said that " + STORY * 6
    with record(llm, tmp_path / "all.regard") as every:
        (output,) = llm.generate([shared], params(), use_tqdm=False)
        llm.generate([shared], params(), use_tqdm=False)
    assert [one["L0H0"].place.rows[0] for one in every.prompts] == [0, 0]
    with record(llm, tmp_path / "some.regard", prefix_cache=True) as some:
        llm.generate([shared], params(), use_tqdm=False)
    prompt = some.prompt(0)
    first = prompt["L7H2"].place.rows[0]
    assert first == prompt.note.facts["served"]["cached"] >= 64
    assert first % 32 == 0
    assert worst_error(prompt, read(output)) <= BUDGET  # of the rows that there are


def test_an_aborted_request_leaves_what_it_had(
    llm: Any, worst_error: Worst, tmp_path: Path
) -> None:
    engine = llm.llm_engine
    with record(llm, tmp_path / "run.regard") as rec:
        engine.add_request("short", texts(2)[1], params(max_tokens=30))
        engine.add_request("aborted", texts(3)[2], params(max_tokens=300))
        ids: dict[str, list[int]] = {}
        while engine.has_unfinished_requests():
            for output in engine.step():
                ids[output.request_id] = read(output)
                if output.finished:
                    engine.abort_request(["aborted"])
    found = {id.rpartition("-")[0]: one for id, one in by_request(rec).items()}
    assert worst_error(found["short"], ids["short"]) <= BUDGET
    own = found["aborted"].ids.tolist()
    assert len(own) >= 20
    assert worst_error(found["aborted"], own) <= BUDGET


def test_a_worker_that_dies(llm: Any, tmp_path: Path) -> None:
    """The engine is of no use afterwards: this test stands last."""
    import psutil

    path = tmp_path / "run.regard"
    with pytest.raises(Exception, match=r"(?i)engine|worker|died|dead"), record(llm, path):
        llm.generate(texts(2), params(), use_tqdm=False)
        llm.collective_rpc("check_health")  # behind the step that says who has finished
        children = psutil.Process().children(recursive=True)
        (worker,) = [one for one in children if "Worker" in one.name() or "VLLM::W" in one.name()]
        os.kill(worker.pid, signal.SIGKILL)
        llm.generate(texts(2), params(max_tokens=100), use_tqdm=False)
    with regard.open(path) as found:
        assert len(found.prompts) == 2
        assert len(found.prompt(1)) == 270
