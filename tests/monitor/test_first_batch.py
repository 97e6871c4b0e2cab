"""`Monitor(…, check_first_batch=True)`: the first batch is checked before its step."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from parallel.world import run as run_ranks
from recorder.models import tiny, tokens
from regard.errors import InputError, RegardWarning

IDS = tokens(12, batch=3)


class Reader(nn.Module):
    """Ids (B, L) → logits; `hides` says whether later tokens are hidden."""

    def __init__(self, hides: bool | None = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.out = nn.Embedding(50, 32), nn.Linear(32, 50)
        self.qkv, self.drop = nn.Linear(32, 96), nn.Dropout(0.1)
        self.hides = self.is_causal = hides

    def forward(self, ids: Tensor, targets: Tensor | None = None) -> Any:
        """Logits, and the loss where there are targets."""
        x = self.embed(ids)
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=bool(self.hides))
        logits = self.out(self.drop(x + y.transpose(1, 2).flatten(2)))
        return logits if targets is None else (logits, F.cross_entropy(logits.mT, targets))


def state_of(model: nn.Module) -> dict[str, Any]:
    """What a check must leave as it was."""
    return {
        "weights": {name: x.clone() for name, x in model.state_dict().items()},
        "modes": [module.training for module in model.modules()],
        "hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()],
        "dice": torch.random.get_rng_state(),
    }


def step(model: Any, call: Any, **options: Any) -> regard.Monitor:
    """One step of training; the monitor, with alarms and without warnings."""
    alarms: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error", RegardWarning)
        with regard.Monitor(
            model, **{"check_first_batch": True, "on_alarm": alarms.append, **options}
        ) as monitor:
            call().backward()
            monitor.step()
    assert alarms == monitor.alarms
    return monitor


CALLS = {
    "positional": lambda model: model(IDS).sum(),
    "with targets": lambda model: model(IDS, IDS)[1],
    "by name": lambda model: model(targets=IDS, ids=IDS)[1],
}


@pytest.mark.parametrize("how", CALLS)
def test_a_leak_in_the_first_batch_is_an_alarm_before_the_step(how: str) -> None:
    model = Reader(hides=False)
    monitor = step(model, lambda: CALLS[how](model), check_first_batch={"causal": True})
    alarm, *_ = monitor.alarms
    assert alarm.kind == "future" and alarm.step == 0 and alarm.value > 1e-3
    assert str(alarm).startswith("first batch: future: ")
    assert monitor.first_batch.checked["future"] == "found"
    assert monitor.latest is not None  # the step was sampled as ever


@pytest.mark.parametrize("how", CALLS)
def test_a_right_model_is_left_as_it_was(how: str) -> None:
    results = []
    for is_checked in (False, True):
        model = Reader().train()
        torch.manual_seed(1)
        before = state_of(model)
        with regard.Monitor(model, evaluation=True, check_first_batch=is_checked) as monitor:
            loss = CALLS[how](model)
            loss.backward()
            monitor.step()
        after = state_of(model)
        assert before["modes"] == after["modes"] and before["hooks"] == after["hooks"]
        assert all(torch.equal(x, after["weights"][n]) for n, x in before["weights"].items())
        results.append((loss, model.qkv.weight.grad, after["dice"], monitor.latest.values))
    (loss, grad, dice, values), (own_loss, own_grad, own_dice, own_values) = results
    assert monitor.first_batch.checked["future"] == "ok" and not monitor.alarms
    assert torch.equal(loss, own_loss) and torch.equal(grad, own_grad)  # dropout is the same
    assert torch.equal(dice, own_dice)
    for name, value in values.items():
        assert (value == own_values[name]).all(), name  # and rows of the check are not counted


def test_only_the_first_batch_that_is_differentiated_is_checked() -> None:
    model = Reader(hides=False)
    with regard.Monitor(
        model, evaluation=True, on_alarm=lambda _: None, check_first_batch={"causal": True}
    ) as monitor:
        with torch.no_grad():
            model(IDS)
        assert monitor.first_batch is None
        model.embed(IDS)  # a layer called by itself
        assert monitor.first_batch is None
        model(IDS)
        first = monitor.first_batch
        model(IDS)
        assert first is not None and monitor.first_batch is first
        monitor.step()
    assert len(monitor.alarms) == len(first.findings)


def test_a_step_that_is_not_sampled_is_checked_too(tmp_path: Path) -> None:
    model, log = Reader(hides=False), tmp_path / "run.regard"
    options = {"check_first_batch": {"causal": True}, "start": 1, "every": 2, "log": log}
    monitor = step(model, lambda: model(IDS).sum(), **options)
    assert monitor.latest is None and monitor.alarms[0].step == 1
    options = {"check_first_batch": {"causal": True}, "log": log}
    monitor = step(model, lambda: model(IDS).sum(), **options)
    assert monitor.alarms and regard.open(log).training.alarms == ()  # logs: of heads alone


class Numbers(nn.Module):
    """A model whose batch is a number."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, number: Any) -> Any:
        """A scalar."""
        return self.inner.weight.sum() * number


@pytest.mark.parametrize(
    ("make", "given", "options", "said"),
    [
        (lambda: Reader(hides=False), IDS, {"causal": True},
         "first batch: future: position .* moves?"),
        (lambda: Reader(hides=None), IDS, True, "leaves open what the model sees .*causal=True"),
        (Numbers, 2.0, True, "the first batch could not be checked: batch is a float"),
    ],
)  # fmt: skip
def test_without_on_alarm_what_is_noticed_is_a_warning(
    make: Any, given: Any, options: Any, said: str
) -> None:
    model = make()
    with (
        regard.Monitor(model, check_first_batch=options) as monitor,
        pytest.warns(RegardWarning, match=said),
    ):
        model(given)
    assert (monitor.first_batch is None) == (make is Numbers)


def test_options_that_are_none_are_refused() -> None:
    with pytest.raises(InputError, match="check_first_batch has casual; give True, or options"):
        regard.Monitor(Reader(), check_first_batch={"casual": True})


# ── how models are run ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("implementation", ["sdpa", "eager", "regard"])
def test_a_model_of_transformers(implementation: str) -> None:
    model = tiny("llama", attn_implementation=implementation).train()
    mask = torch.ones_like(IDS)
    mask[1, 8:] = 0
    batch = {"input_ids": IDS, "attention_mask": mask, "labels": IDS}
    monitor = step(model, lambda: model(**batch).loss)
    checked = monitor.first_batch.checked
    assert checked["future"] == checked["padding"] == checked["training"] == "ok"
    assert monitor.first_batch.layers[0].sees == "causal" and not monitor.alarms
    assert "2 × 12 positions" in monitor.first_batch.about  # two of three sequences


@pytest.mark.parametrize("how", ["compiled", "in place", "checkpointed", "autocast"])
def test_however_it_is_run(how: str) -> None:
    model: Any = tiny("llama").train()
    run: Any = model
    if how == "compiled":
        run = torch.compile(model, backend="eager")
    elif how == "in place":
        model.compile(backend="eager")
    elif how == "checkpointed":
        model.gradient_checkpointing_enable()

    def loss() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=how == "autocast"):
            return run(input_ids=IDS, labels=IDS, use_cache=False).loss

    monitor = step(run, loss)
    assert monitor.first_batch.checked["future"] == "ok" and not monitor.alarms
    assert monitor.latest is not None
    torch._dynamo.reset()


def leaks_on_a_rank(how: str) -> dict[str, Any]:
    """The second rank's model sees later tokens, or fails; batches have different lengths."""
    rank = dist.get_rank()
    model: Any = Reader(hides=not (how == "leaks" and rank))
    if how == "fails" and rank:
        model.drop.register_forward_pre_hook(_out_of_memory, prepend=True)
    run: Any = nn.parallel.DistributedDataParallel(model) if how != "sharded" else _sharded(model)
    ids = torch.arange(2 * (10 + 3 * rank)).view(2, -1) % 50
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with regard.Monitor(run, check_first_batch={"causal": True}) as monitor:
            run(ids)[0].sum().backward()
            monitor.step()
    report = monitor.first_batch
    return {
        "alarms": [str(alarm) for alarm in monitor.alarms],
        "verdict": None if report is None else str(report.checked["future"]),
        "said": [str(one.message) for one in said],
        "grad": None if how == "sharded" else model.qkv.weight.grad,
    }


def _sharded(model: nn.Module) -> Any:
    from torch.distributed.fsdp import fully_shard

    return fully_shard(model)


def _out_of_memory(module: nn.Module, _: Any) -> None:
    if not torch.is_grad_enabled():
        raise MemoryError("the device is full")


@pytest.mark.parametrize("how", ["leaks", "fails", "sharded"])
def test_ranks_have_one_verdict(how: str) -> None:
    answers = run_ranks(2, leaks_on_a_rank, how, timeout=300.0, patience=120.0)
    assert how == "sharded" or torch.equal(answers[0]["grad"], answers[1]["grad"])
    for answer in answers:
        if how == "leaks":
            assert answer["verdict"] == "found"
            assert any("rank 1: future" in words for words in answer["alarms"])
        else:
            assert answer["verdict"] is None and answer["alarms"] == []
            why = {
                "fails": "MemoryError: the device is full",
                "sharded": "is shared out over ranks",
            }[how]
            assert any(why in words for words in answer["said"])
