"""Recordings, monitors and knock-outs share a model, in any order, and leave nothing on it."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import regard
from fuzz.hooks import PLAIN, averaged, copied, pickled, saved, shape_of
from recorder.models import Stack, tiny, tokens
from regard.errors import InputError, RegardWarning, UnavailableError

IDS = tokens(9)


@pytest.fixture(params=["sdpa", "eager", "layers"])
def model(request: pytest.FixtureRequest) -> nn.Module:
    """One of transformers, and one of regard's layers."""
    if request.param == "layers":
        return Stack().eval()
    return tiny("llama", attn_implementation=request.param)


def run(model: nn.Module) -> Tensor:
    """What it gives."""
    with torch.no_grad():
        if isinstance(model, Stack):
            x = torch.randn(1, 9, 32, generator=torch.Generator().manual_seed(0))
            made: Tensor = model(x)
            return made
        logits: Tensor = model(IDS).logits
        return logits


KINDS: dict[str, Callable[[nn.Module], Any]] = {
    "record": regard.record,
    "monitor": lambda model: regard.Monitor(model, evaluation=True),
    "knock out": lambda model: regard.knock_out(model, "L0H1"),
}


def in_thread(call: Callable[[], Any]) -> Any:
    """What it returns or raises in a thread of its own."""
    made: list[Any] = []

    def kept() -> None:
        try:
            made.append(call())
        except Exception as error:  # noqa: BLE001 - handed to the test
            made.append(error)

    thread = threading.Thread(target=kept)
    thread.start()
    thread.join()
    return made[0]


# ── order ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
def test_the_first_may_leave_before_the_second(first: str, second: str, model: nn.Module) -> None:
    before, bytes_, shape = run(model), pickle.dumps(model), shape_of(model)
    with regard.knock_out(model, "L0H1"):
        knocked = run(model)
    outer, inner = KINDS[first](model), KINDS[second](model)
    outer.__enter__()
    inner.__enter__()
    answers = [run(model)]
    samples = [one.step() for one in (outer, inner) if isinstance(one, regard.Monitor)]
    outer.__exit__(None, None, None)
    answers.append(run(model))
    samples += [inner.step()] if isinstance(inner, regard.Monitor) else []
    inner.__exit__(None, None, None)
    for answer, kinds in zip(answers, [{first, second}, {second}], strict=True):
        torch.testing.assert_close(answer, knocked if "knock out" in kinds else before)
    assert all(sample is not None for sample in samples)
    for context, runs in ((outer, 1), (inner, 2)):
        if not isinstance(context, regard.Monitor) and hasattr(context, "recording"):
            assert len(context.recording.prompts) == runs
    assert torch.equal(run(model), before)
    assert pickle.dumps(model) == bytes_ and shape_of(model) == shape
    assert (nn.Module._call_impl, nn.Module.__call__) == PLAIN


def test_two_monitors_measure_the_same_of_torchs_function() -> None:
    model = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True)
    with regard.Monitor(model) as outer, regard.Monitor(model) as inner:
        model(torch.randn(2, 7, 32)).sum().backward()
        samples = outer.step(), inner.step()
    for sample in samples:
        assert sample is not None and sample.places == ("L0",)
    for name in ("peak", "normalized_entropy", "max_score"):
        torch.testing.assert_close(*(torch.from_numpy(sample[name]) for sample in samples))


def test_knock_outs_of_gates_inside_a_recording(model: nn.Module) -> None:
    if isinstance(model, Stack):
        return
    effects = regard.intervene.estimated_effects(model, IDS)
    with regard.record(model) as rec, regard.knock_out(model, "L1"):
        run(model)
        assert regard.intervene.estimated_effects(copy.deepcopy(model), IDS) == effects
    assert rec.stacks == {"": (2, 4)}


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
def test_after_an_error_it_goes_on(model: nn.Module, error: type[BaseException]) -> None:
    def stop(*_: Any) -> None:
        raise error

    last = list(model.modules())[-1]
    with regard.record(model) as rec, KINDS["monitor"](model), KINDS["knock out"](model):
        handle = last.register_forward_hook(stop)
        with pytest.raises(error):
            run(model)
        handle.remove()
        run(model)
    assert [prompt.finished for prompt in rec.recording.prompts] == [False, True]
    assert rec.stacks == {"": rec.stacks[""]}


def test_a_block_that_is_left_inside_a_forward(model: Any) -> None:
    plain, context = run(model), regard.knock_out(model, "L0H1")
    context.__enter__()
    first = model.layers[0] if isinstance(model, Stack) else model.model.layers[0]
    handle = first.register_forward_hook(lambda *_: leave())
    leave = lambda: context.__exit__(None, None, None) if context._inside else None  # noqa: E731
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
    assert (nn.Module._call_impl, nn.Module.__call__) == PLAIN


@pytest.mark.parametrize("kind", ["record", "monitor", "knock out"])
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


# ── copies ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [copied, pickled, saved, averaged])
def test_copies_are_plain(kind: str, make: Callable[[nn.Module], nn.Module], model: Any) -> None:
    before, bytes_, shape = run(model), pickle.dumps(model), shape_of(model)
    with KINDS[kind](model) as context:
        assert pickle.dumps(model) == bytes_
        other = make(model)
        inner = other.module if make is averaged else other
        assert torch.equal(run(inner), before) and shape_of(inner) == shape
        if kind == "monitor":
            with pytest.warns(RegardWarning, match="was not run since"):
                assert context.step() is None
        run(model)
    if kind == "record":
        assert len(context.recording.prompts) == 1
    with regard.knock_out(inner, "L0H1"):  # as any model
        assert not torch.equal(run(inner), before)


def test_replicas_are_plain(model: nn.Module) -> None:
    before = run(model)
    with regard.knock_out(model, "L0H1"):
        replica = model._replicate_for_data_parallel()
        assert not torch.equal(run(model), before)
        assert replica._forward_hooks is model._forward_hooks  # and they are the model's own
    assert not model._forward_hooks


def test_a_saved_configuration_does_not_speak_of_regard(tmp_path: Any) -> None:
    model = tiny("llama", attn_implementation="sdpa")
    with regard.record(model):
        model.save_pretrained(tmp_path)
        run(model)
    assert "regard" not in (tmp_path / "config.json").read_text()


def test_a_model_made_of_a_configuration_inside_leaves_it_alone() -> None:
    model = tiny("llama", attn_implementation="sdpa")
    with regard.record(model):
        other = type(model)(model.config)
        run(model)
    assert model.config._attn_implementation == other.config._attn_implementation == "sdpa"


def test_an_implementation_that_is_chosen_inside_stays() -> None:
    model = tiny("llama", attn_implementation="sdpa")
    with regard.record(model) as rec:
        model.set_attn_implementation("eager")
        run(model)
    assert rec.stacks == {"": (2, 4)}
    assert model.config._attn_implementation == "eager"


# ── threads ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
def test_another_thread_runs_the_plain_model(kind: str, model: nn.Module) -> None:
    before = run(model)
    with KINDS[kind](model) as context:
        answer = in_thread(lambda: run(model))
        torch.testing.assert_close(answer, before)
        assert kind == "monitor" or torch.equal(answer, before)
        if kind == "monitor":  # which measures training wherever it happens
            assert context.step() is not None
        run(model)
    if kind == "record":
        assert len(context.recording.prompts) == 1


def test_threads_with_knock_outs_of_their_own(model: nn.Module) -> None:
    right = [run(model)]
    for head in ("L0H1", "L1H2"):
        with regard.knock_out(model, head):
            right.append(run(model))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    def repeated(number: int) -> bool:
        for _ in range(25):
            if number:
                with regard.knock_out(model, ("L0H1", "L1H2")[number - 1]):
                    answer = run(model)
            else:
                answer = run(model)
            if not torch.equal(answer, right[number]):
                return False
        return True

    made: dict[int, bool] = {}
    threads = [threading.Thread(target=lambda n=n: made.update({n: repeated(n)})) for n in range(3)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert made == {0: True, 1: True, 2: True}
    assert torch.equal(run(model), right[0])


@pytest.mark.parametrize("kind", ["record", "knock out"])
def test_a_model_that_ran_in_another_thread_alone_says_so(kind: str) -> None:
    model = Stack().eval()
    says = r"by another thread .*asyncio\.to_thread"
    with pytest.raises(InputError, match=says), KINDS[kind](model):
        in_thread(lambda: run(model))


def test_tasks_have_blocks_of_their_own() -> None:
    model = Stack().eval()
    plain = run(model)

    async def knocked() -> Tensor:
        with regard.knock_out(model, "L0H1"):
            await asyncio.sleep(0.01)
            return await asyncio.to_thread(run, model)

    async def left_alone() -> Tensor:
        await asyncio.sleep(0.005)
        return run(model)

    async def both() -> list[Tensor]:
        return list(await asyncio.gather(knocked(), left_alone()))

    without, whole = asyncio.run(both())
    assert torch.equal(whole, plain) and not torch.equal(without, plain)


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


def test_torchs_function_in_another_thread_is_not_heard_inside_its_module() -> None:
    layer = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x, real = torch.randn(1, 5, 8), F.scaled_dot_product_attention
    function = torch.nn.functional
    with torch.no_grad(), regard.record(layer) as rec:
        layer.register_forward_pre_hook(lambda *_: check())

        def check() -> None:
            assert function.scaled_dot_product_attention is real

        layer(x, x, x)
    assert rec.stacks == {"": (1, 2)}


# ── with what others do to a model ───────────────────────────────────────────────────────────


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_recording_and_checkpoints(reentrant: bool, model: nn.Module) -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Stack()

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = checkpoint(self.inner, x, use_reentrant=reentrant)
            return y

    outer, x = Checkpointed(), torch.randn(1, 9, 32)

    def gradient() -> Tensor:
        given = x.clone().requires_grad_()
        outer(given).square().sum().backward()
        assert given.grad is not None
        return given.grad

    right = gradient()
    with regard.knock_out(outer.inner, "L0H1"):
        knocked = gradient()
    with regard.record(outer) as rec, regard.Monitor(outer) as monitor:
        torch.testing.assert_close(gradient(), right)
        assert monitor.step() is not None
    assert len(rec.recording.prompts) == 1
    with regard.Monitor(outer), regard.knock_out(outer.inner, "L0H1"):
        torch.testing.assert_close(gradient(), knocked)
    assert not torch.allclose(knocked, right)


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
            merged = adapted.merge_and_unload()
            run(merged)
            assert monitor.step() is not None
    assert rec.stacks == {"": (2, 4)} and len(rec.recording.prompts) == 3


def test_functions_of_packages_are_theirs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from hear.stand_ins import flash_attn_func

    package = ModuleType("flash_attn")
    package.flash_attn_func = flash_attn_func  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flash_attn", package)

    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attend = flash_attn_func

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.attend(x, x, x)
            return y

    model, x = Holder(), torch.randn(1, 5, 2, 8)
    one, two = regard.record(model), regard.record(Holder())
    with one:
        model(x)
        two.__enter__()
        other = copy.deepcopy(model)
        assert vars(other)["attend"] is vars(model)["attend"] is flash_attn_func
        late = ModuleType("late")
        late.attend = package.flash_attn_func  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "late", late)
    two.model(x)
    two.__exit__(None, None, None)
    assert one.stacks == two.stacks == {"": (1, 2)}
    assert package.flash_attn_func is flash_attn_func is late.attend
