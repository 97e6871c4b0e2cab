"""Recordings, monitors and knock-outs of one model are open at once and leave nothing on it.

Random programs that open, close, copy, fail and checkpoint are `fuzz/hooks.py`; here is the rest.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from fuzz.hooks import PLAIN
from recorder.models import Stack, tiny, tokens
from regard.errors import InputError, UnavailableError

IDS = tokens(9)
X = torch.randn(1, 9, 32, generator=torch.Generator().manual_seed(0))
KINDS: dict[str, Callable[[nn.Module], Any]] = {
    "record": regard.record,
    "monitor": lambda model: regard.Monitor(model, evaluation=True),
    "knock out": lambda model: regard.knock_out(model, "L0H1"),
}


@pytest.fixture(params=["sdpa", "eager", "layers"])
def model(request: pytest.FixtureRequest) -> nn.Module:
    """One of transformers, and one of regard's layers."""
    if request.param == "layers":
        return Stack().eval()
    return tiny("llama", attn_implementation=request.param)


@torch.no_grad()
def run(model: nn.Module) -> Tensor:
    """What it gives."""
    output: Tensor = model(X) if isinstance(model, Stack) else model(IDS).logits
    return output


def in_thread(call: Callable[[], Any]) -> Any:
    """What it returns or raises in a thread of its own, without this one's context."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def test_a_prompt_that_failed_is_not_finished() -> None:
    model = tiny("llama", num_hidden_layers=3)
    real = model.model.layers[1].mlp.forward
    with torch.no_grad(), regard.record(model) as rec:
        model.model.layers[1].mlp.forward = lambda _: 1 / 0
        with pytest.raises(ZeroDivisionError):
            model(tokens(12))
        model.model.layers[1].mlp.forward = real
        model(tokens(15))
    assert [prompt.finished for prompt in rec.recording.prompts] == [False, True]
    assert rec.recording.prompts[1]["L2H0"].shape == (15, 15)


def test_a_block_that_is_left_inside_a_forward(model: Any) -> None:
    plain, context = run(model), regard.knock_out(model, "L0H1")
    first = model.layers[0] if isinstance(model, Stack) else model.model.layers[0]
    context.__enter__()
    handle = first.register_forward_hook(lambda *_: context.__exit__(None, None, None))
    assert not torch.equal(run(model), plain)
    handle.remove()
    assert torch.equal(run(model), plain)


def test_an_abandoned_generator_leaves(model: nn.Module) -> None:
    plain = run(model)

    def knocked() -> Iterator[Tensor]:
        with regard.knock_out(model, "L0H1"):
            while True:
                yield run(model)

    generator = knocked()
    assert not torch.equal(next(generator), plain)
    in_thread(generator.close)  # by another thread, as the collector may
    assert torch.equal(run(model), plain)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_never_left_is_freed_with_its_owner(kind: str) -> None:
    model = Stack().eval()
    plain, context = run(model), KINDS[kind](model)
    context.__enter__()
    run(model)
    alive = weakref.ref(model)
    del context
    gc.collect()
    assert torch.equal(run(model), plain)
    assert (nn.Module._call_impl, nn.Module.__call__) == PLAIN
    del model
    gc.collect()
    assert alive() is None


def test_the_collector_may_run_at_any_moment() -> None:
    model = Stack().eval()
    plain, threshold = run(model), gc.get_threshold()
    gc.set_threshold(5, 1, 1)
    try:
        for _ in range(40):
            abandoned = regard.knock_out(Stack(), "L0H1")
            abandoned.__enter__()
            abandoned.me = abandoned  # type: ignore[attr-defined]
            del abandoned
            with regard.knock_out(model, "L0H1"):
                assert not torch.equal(run(model), plain)
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert (nn.Module._call_impl, nn.Module.__call__) == PLAIN


def test_the_configuration_keeps_its_implementation(tmp_path: Any) -> None:
    model = tiny("llama", attn_implementation="sdpa")
    with regard.record(model):
        model.save_pretrained(tmp_path)
        other = type(model)(model.config)
        run(model)
    assert model.config._attn_implementation == other.config._attn_implementation == "sdpa"
    assert "regard" not in (tmp_path / "config.json").read_text()
    with regard.record(model) as rec:
        model.set_attn_implementation("eager")
        run(model)
    assert rec.stacks == {"": (2, 4)} and model.config._attn_implementation == "eager"


def test_changes_inside(model: nn.Module) -> None:
    before = run(model)
    with regard.record(model) as rec:
        model.to(torch.float64).to(torch.float32).train().eval()
        calls: list[int] = []
        handle = model.register_forward_hook(lambda *_: calls.append(1))
        run(model)
    run(model)
    handle.remove()
    assert len(calls) == 2 and len(rec.recording.prompts) == 1
    assert torch.equal(run(model), before) and not model._forward_hooks


def test_adapters_added_and_merged_inside() -> None:
    import peft

    model = tiny("llama", attn_implementation="sdpa")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with regard.record(model) as rec, regard.Monitor(model, evaluation=True) as monitor:
            run(model)
            adapted = peft.get_peft_model(model, peft.LoraConfig(target_modules=["q_proj"]))
            run(adapted)
            run(adapted.merge_and_unload())
            assert monitor.step() is not None
    assert rec.stacks == {"": (2, 4)} and len(rec.recording.prompts) == 3


def test_threads_with_knock_outs_of_their_own(model: nn.Module) -> None:
    def without(head: str) -> Tensor:
        with regard.knock_out(model, head) if head else nullcontext():
            return run(model)

    heads = ("", "L0H1", "L1H2")
    right = {head: without(head) for head in heads}
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(3) as pool:
            outputs = list(pool.map(lambda head: [without(head) for _ in range(25)], heads))
    finally:
        sys.setswitchinterval(interval)
    for head, every in zip(heads, outputs, strict=True):
        assert all(torch.equal(output, right[head]) for output in every)


@pytest.mark.parametrize("kind", ["record", "knock out"])
def test_a_model_that_ran_in_another_thread_alone_says_so(kind: str) -> None:
    model = Stack().eval()
    says = r"by another thread .*asyncio\.to_thread"
    with pytest.raises(InputError, match=says), KINDS[kind](model):
        in_thread(lambda: run(model))


def test_one_recording_of_two_threads_at_once_is_an_error() -> None:
    model, inside, over = Stack().eval(), threading.Event(), threading.Event()

    def wait(*_: Any) -> None:
        if not inside.is_set():
            inside.set()
            over.wait(10)

    model.layers[0].register_forward_hook(wait)

    async def both() -> list[Any]:
        async def second() -> Tensor:
            await asyncio.to_thread(inside.wait, 10)
            try:
                return await asyncio.to_thread(run, model)
            finally:
                over.set()

        first = asyncio.to_thread(run, model)
        return list(await asyncio.gather(first, second(), return_exceptions=True))

    with regard.record(model) as rec:
        first, second = asyncio.run(both())
    assert isinstance(second, UnavailableError) and "two threads at once" in str(second)
    assert isinstance(first, Tensor) and len(rec.recording.prompts) == 1


def test_torchs_function_is_every_threads_own_inside_a_recorded_module() -> None:
    layer, real = (
        nn.MultiheadAttention(32, 2, batch_first=True).eval(),
        [F.scaled_dot_product_attention],
    )
    layer.register_forward_pre_hook(lambda *_: real.append(F.scaled_dot_product_attention))
    with torch.no_grad(), regard.record(layer) as rec:
        layer(X, X, X)
    assert real[0] is real[1] and rec.stacks == {"": (1, 2)}
