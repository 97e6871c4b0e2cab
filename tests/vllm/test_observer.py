"""Steps of a stand-in for vLLM's worker: what is recorded of them is what attention is."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.errors import InputError, RegardWarning
from regard.recording import Recording
from serving import HEADS, PAGE, Engine, Rule, recording

SECRET = "a secret of this test"
EXACT = 2e-5

BACKENDS = [
    "CPU_ATTN/vec", "FLASH_ATTN", "FLASH_ATTN/NHD", "FLASHINFER", "FLASHINFER/NHD", "TRITON_ATTN",
    "TRITON_ATTN/NHD", "FLEX_ATTENTION/NHD", "FLASH_ATTN/small",
]  # fmt: skip


def asked(**more: Any) -> str:
    return json.dumps({"secret": SECRET} | more)


def fetched(engine: Engine, id: str, tmp_path: Path) -> Recording:
    told = engine.wrapper.regard_fetch(id, SECRET)
    assert told["state"] == "ready", told
    path = tmp_path / f"{id}.regard"
    path.write_bytes(told["file"])
    return regard.open(path)


def check(engine: Engine, prompt: Any, ids: list[int], tolerance: float = EXACT) -> None:
    """Every recorded row of every layer, and what is summed over them."""
    assert prompt.ids.tolist() == ids
    for layer in engine.rules:
        truth = engine.truth(layer, ids).numpy()
        for head in range(HEADS):
            one, right = prompt[layer, head], truth[head]
            first, stop = one.place.rows
            assert stop == one.place.keys == len(ids)
            rows = range(first, stop)
            np.testing.assert_allclose(one.rows(rows), right[first:], atol=tolerance)
            received = right[first:].sum(0)
            np.testing.assert_allclose(one.received(), received, atol=tolerance * len(ids))
            peak = right[first:].max(1)
            np.testing.assert_allclose(one.stored["peak"].values, peak, atol=tolerance)


def serve(engine: Engine, chunk: int = 7) -> None:
    """Until all are finished: prompts in chunks, then token by token."""
    while engine.live:
        counts = {}
        for id, one in engine.live.items():
            ahead = len(one.prompt) - one.computed
            counts[id] = min(chunk, ahead) if ahead > 0 else 1
        engine.step(**counts)
        for id in [id for id, one in engine.live.items() if one.computed == one.total]:
            engine.end(id)
    engine.step()  # the worker is told who has finished


@pytest.mark.parametrize("runner", ["first", "second"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_keys_are_read_where_each_backend_keeps_them(
    backend: str, runner: str, tmp_path: Path
) -> None:
    engine = Engine(backend, runner=runner)
    engine.add("other", list(range(20)), 25)
    engine.add("mine", list(range(50, 73)), 31, asked())
    serve(engine)
    check(engine, fetched(engine, "mine", tmp_path).prompt(0), [*range(50, 73), *range(1000, 1008)])


def test_chunks_longer_than_what_gathers_and_many_rows_of_decoding(tmp_path: Path) -> None:
    engine = Engine()
    engine.add("mine", list(range(200)), 350, asked())
    serve(engine, chunk=130)
    prompt = fetched(engine, "mine", tmp_path).prompt(0)
    assert (prompt.generated, prompt.finished) == (150, True)
    check(engine, prompt, [*range(200), *range(1000, 1150)])


@pytest.mark.parametrize(
    "rule",
    [
        Rule(window=5),
        Rule(slopes=[0.5, 0.25, 0.125, 0.0625]),
        Rule(softcap=2.0),
        Rule(sinks=torch.tensor([0.5, -1.0, 2.0, 0.0])),
    ],
    ids=["window", "slopes", "softcap", "sinks"],
)
def test_scores_are_made_as_the_layer_makes_them(rule: Rule, tmp_path: Path) -> None:
    engine = Engine("FLASH_ATTN", rules={1: rule})
    engine.add("mine", list(range(30)), 45, asked())
    serve(engine)
    check(engine, fetched(engine, "mine", tmp_path).prompt(0), [*range(30), *range(1000, 1015)])


def test_pages_behind_a_window_may_go_while_rows_gather(tmp_path: Path) -> None:
    """They are measured before somebody else writes there."""
    engine = Engine("FLASH_ATTN", layers=1, rules={0: Rule(window=4)})
    engine.add("mine", list(range(20)), 50, asked(exact=False))
    engine.step(mine=20)
    for count in range(30):
        engine.step(mine=1)
        gone = (20 + count) // PAGE - 1  # the page before the last: no window reaches it
        for module in engine.modules.values():
            module.kv_cache[engine.live["mine"].pages[: max(gone, 0)]] = torch.nan
    engine.end("mine")
    engine.step()
    one = fetched(engine, "mine", tmp_path)["L0H1"]
    truth = engine.truth(0, [*range(20), *range(1000, 1030)])[1]
    np.testing.assert_allclose(one.stored["peak"].values, truth.max(-1).values, atol=EXACT)


def test_half_precision(tmp_path: Path) -> None:
    engine = Engine("FLASH_ATTN", dtype=torch.bfloat16)
    engine.add("mine", list(range(30)), 40, asked())
    serve(engine)
    prompt = fetched(engine, "mine", tmp_path).prompt(0)
    check(engine, prompt, [*range(30), *range(1000, 1010)], tolerance=1e-4)


@pytest.mark.parametrize("runner", ["first", "second"])
def test_rows_are_computed_again_after_preemption(runner: str, tmp_path: Path) -> None:
    """Another request takes the pages at once, in the step that takes them away."""
    engine = Engine(runner=runner)
    engine.free = engine.free[:5]
    engine.add("mine", list(range(20)), 34, asked())
    engine.step(mine=20)
    for _ in range(6):
        engine.step(mine=1)
    engine.preempt("mine")
    engine.add("other", list(range(200, 230)), 30)
    engine.step(other=30)
    engine.end("other")
    engine.step(mine=24)  # its prompt, and what it has written
    for _ in range(10):
        engine.step(mine=1)
    engine.end("mine")
    engine.step()
    prompt = fetched(engine, "mine", tmp_path).prompt(0)
    assert prompt.note.facts["served"]["restarts"] == 1
    check(engine, prompt, [*range(20), *range(1000, 1014)])


def test_what_was_preempted_and_never_resumed_is_kept(tmp_path: Path) -> None:
    engine = Engine()
    engine.free = engine.free[:4]
    engine.add("mine", list(range(20)), 90, asked())
    engine.step(mine=20)
    engine.step(mine=1)
    engine.preempt("mine")
    engine.add("other", list(range(200, 230)), 30)
    engine.step(other=30)  # over the pages it had
    engine.end("mine")
    engine.step()
    check(engine, fetched(engine, "mine", tmp_path).prompt(0), [*range(20), 1000])


def test_rows_of_a_cached_prefix_are_missing(tmp_path: Path) -> None:
    engine = Engine()
    engine.add("first", list(range(20)), 20)
    engine.step(first=20)
    engine.add("mine", list(range(20)), 30, asked(prefix_cache=True))
    mine = engine.live["mine"]
    mine.pages, mine.computed = engine.live["first"].pages[:2], 2 * PAGE
    engine.step(mine=4)
    for _ in range(10):
        engine.step(mine=1)
    engine.end("mine")
    engine.step()
    prompt = fetched(engine, "mine", tmp_path).prompt(0)
    assert prompt["L0H0"].place.rows == (16, 30)
    assert prompt.note.facts["served"]["cached"] == 16
    check(engine, prompt, [*range(20), *range(1000, 1010)])


def test_layers_heads_and_top_as_asked(tmp_path: Path) -> None:
    engine = Engine(layers=4)
    engine.add("mine", list(range(20)), 24, asked(layers="1,3", heads=[2], top=3, exact=False))
    serve(engine)
    found = fetched(engine, "mine", tmp_path)
    assert found.labels() == ["L1H2", "L3H2"]
    assert found["L3H2"].stored["top_keys"].values.shape == (24, 3)
    assert not found["L3H2"].exact


def test_nothing_is_hooked_for_those_who_do_not_ask() -> None:
    engine = Engine()
    engine.add("other", list(range(20)), 22)
    serve(engine)
    hooked = [vars(module.impl).get("forward") for module in engine.modules.values()]
    assert hooked == [None, None]
    engine.add("mine", list(range(20)), 22, asked())
    engine.step(mine=20)
    assert all("forward" in vars(module.impl) for module in engine.modules.values())
    serve(engine)
    assert not any("forward" in vars(module.impl) for module in engine.modules.values())


class MLAAttention(torch.nn.Module):
    kv_lora_rank, impl, kv_cache = 512, None, torch.zeros(0)

    def get_kv_cache_spec(self) -> None: ...


class MambaMixer(torch.nn.Module):
    mamba_type, kv_cache = "mamba2", ()

    def get_kv_cache_spec(self) -> None: ...


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (MLAAttention(), "MLAAttention.*compressed key"),
        (MambaMixer(), "MambaMixer is linear attention"),
    ],
)
def test_attention_that_cannot_be_replayed_is_refused_by_name(
    module: Any, reason: str, tmp_path: Path
) -> None:
    """Alone it is an error; beside other layers these are recorded, and the file names it."""
    engine = Engine(layers=2)
    engine.modules["model.layers.2.mixer"] = module
    with recording(engine, tmp_path / "run.regard") as (llm, rec):
        llm.generate([list(range(10))])
    assert rec.not_recorded == ("model.layers.2.mixer",)
    assert {one.layer for one in rec.prompt(0)} == {0, 1}
    alone = Engine(layers=1)
    alone.modules.clear()
    alone.modules["model.layers.0.mixer"] = module
    with pytest.raises(InputError, match=reason), recording(alone, tmp_path / "none.regard"):
        pass
    assert not (tmp_path / "none.regard").exists()


@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        ("CPU_ATTN/amx", "kernels 'amx' keep keys in a layout"),
        ("ROCM_ATTN", "ROCM_ATTN is not known"),
    ],
)
def test_unknown_layouts_are_refused(backend: str, reason: str, tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=reason),
        recording(Engine(backend), tmp_path / "run.regard"),
    ):
        pass


def test_a_cache_that_does_not_hold_what_was_written_is_refused(tmp_path: Path) -> None:
    """Plain rows where columns are expected: a layout that changed in another version."""
    engine = Engine("FLASH_ATTN")
    for module in engine.modules.values():
        module.attn_backend = SimpleNamespace(get_name=lambda: "CPU_ATTN")
        write_plainly(module)
    engine.add("mine", list(range(20)), 24, asked())
    serve(engine)
    told = engine.wrapper.regard_fetch("mine", SECRET)
    assert told["state"] == "refused"
    assert "not what was put there" in told["reason"]


def write_plainly(module: Any) -> None:
    """It says `vec`, and writes as others do."""
    forward = type(module.impl).forward

    def run(layer: Any, *args: Any, **kwargs: Any) -> Any:
        del layer.isa
        result = forward(module.impl, layer, *args, **kwargs)
        layer.isa = "vec"
        return result

    module.isa, module.impl.forward = "vec", run


def test_a_fault_in_one_recording_ends_that_alone(tmp_path: Path) -> None:
    engine = Engine()
    engine.add("mine", list(range(20)), 24, asked())
    engine.add("broken", list(range(20)), 24, asked())
    engine.step(mine=20, broken=20)
    observer = vars(engine.wrapper)["_regard_observer"]
    observer._following["broken"].sequence.pages[0].clear()  # nobody knows where its keys are
    serve(engine)
    told = engine.wrapper.regard_fetch("broken", SECRET)
    assert told["state"] == "refused"
    check(engine, fetched(engine, "mine", tmp_path).prompt(0), [*range(20), *range(1000, 1004)])


def test_a_split_model_and_speculation_are_refused(tmp_path: Path) -> None:
    for change, reason in (
        ({"parallel_config": SimpleNamespace(world_size=2)}, "split over 2 workers"),
        ({"speculative_config": object()}, "speculative decoding"),
    ):
        engine = Engine()
        vars(engine.config).update(change)
        with pytest.raises(InputError, match=reason), recording(engine, tmp_path / "run.regard"):
            pass
        engine.add("mine", list(range(20)), 24, asked())
        serve(engine)
        assert reason in engine.wrapper.regard_fetch("mine", SECRET)["reason"]


def test_whole_graphs_on_a_gpu_are_refused() -> None:
    from regard.vllm.worker import why_not

    config = Engine().config
    config.device_config.device_type = "cuda"
    config.compilation_config.cudagraph_mode = SimpleNamespace(has_full_cudagraphs=lambda: True)
    assert "PIECEWISE" in why_not(config)
    config.compilation_config.cudagraph_mode = SimpleNamespace(has_full_cudagraphs=lambda: False)
    assert why_not(config) == ""


def test_requests_beyond_the_budget_are_named(tmp_path: Path) -> None:
    with (
        pytest.warns(RegardWarning, match="not recorded: 1 of 2 requests.*budget"),
        recording(Engine(), tmp_path / "run.regard", budget="70kB") as (llm, rec),
    ):
        llm.generate([list(range(40)), list(range(40, 80))])
    assert len(rec.prompts) == 1
