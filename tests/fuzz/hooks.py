"""Recordings, monitors and knock-outs opened and closed in any order over a tiny model.

A random program opens and closes contexts, runs the model (here, in another thread, in a copied
context), runs copies, raises in the middle and interrupts. What must be true is kept beside it: how
often each recording and monitor was to see the model run, which heads are knocked out, and that the
model, its copies and other threads are as if nothing was open.
"""

from __future__ import annotations

import contextvars
import copy
import gc
import io
import pickle
import random
import threading
import warnings
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.checkpoint import checkpoint

import regard

HEADS, SIZE = 2, 8


class Block(nn.Module):
    """Attention by regard, and what may end it."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = regard.nn.MultiHeadAttention(SIZE, HEADS)
        self.inner = nn.Linear(SIZE, SIZE)

    def forward(self, x: Tensor, ends: type[BaseException] | None = None) -> Tensor:
        """(B, L, SIZE) the same."""
        x = x + self.attention(x, mask=regard.Causal())
        if ends is not None:
            raise ends
        return x + self.inner(x)


class Tiny(nn.Module):
    """Two blocks; the second may be checkpointed."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x: Tensor, ends: Any = None, reentrant: bool | None = None) -> Tensor:
        """(B, L, SIZE) the same."""
        x = self.blocks[0](x)
        if reentrant is None:
            y: Tensor = self.blocks[1](x, ends)
            return y
        z: Tensor = checkpoint(self.blocks[1], x, ends, use_reentrant=reentrant)
        return z


def llama(implementation: str) -> nn.Module:
    """One of transformers, on its own attention."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=17, hidden_size=SIZE, intermediate_size=8, num_hidden_layers=2,
        num_attention_heads=HEADS, num_key_value_heads=HEADS, attn_implementation=implementation,
    )  # fmt: skip
    return LlamaForCausalLM(config)


class Program:
    """A random program, and what must be true of it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        torch.manual_seed(seed)
        self.foreign = self.random.random() < 0.3
        own = self.random.choice(["sdpa", "eager"])
        self.model = (llama(own) if self.foreign else Tiny()).eval()
        ids = torch.randint(17, (1, 5))
        self.input = ids if self.foreign else torch.randn(1, 5, SIZE)
        self.open: list[tuple[str, Any, Any]] = []  # kind, context, what must be true of it
        self.bytes = pickle.dumps(self.model)
        self.shape = shape_of(self.model)
        self.without = {
            heads: self.output(self.model, heads)
            for heads in [frozenset({"L0H1"}), frozenset({"L1H0"}), frozenset({"L0H1", "L1H0"})]
        } | {frozenset(): self.output(self.model)}

    def output(self, model: nn.Module, heads: frozenset[str] = frozenset()) -> Tensor:
        if heads:
            with regard.knock_out(model, sorted(heads)):
                return self.output(model)
        with torch.no_grad():
            return self.answer(model)

    def answer(self, model: nn.Module, **options: Any) -> Tensor:
        made = model(self.input, **options)
        return made.logits if self.foreign else made

    # ── steps ────────────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        kind = self.random.choice(["record", "monitor", "knock"])
        if kind == "record":
            context: Any = regard.record(self.model)
            counts: Any = [0]
        elif kind == "monitor":
            context, counts = regard.Monitor(self.model, evaluation=True), [0]
        else:
            counts = frozenset(self.random.sample(["L0H1", "L1H0"], self.random.randint(1, 2)))
            context = regard.knock_out(self.model, sorted(counts))
        context.__enter__()
        if kind == "knock":
            counts = [counts, False]
        self.open.append((kind, context, counts))

    def end(self, error: BaseException | None = None) -> None:
        """Leave any of them."""
        if not self.open:
            return
        kind, context, counts = self.open.pop(self.random.randrange(len(self.open)))
        if kind == "monitor":
            sample = context.step()
            assert (sample is None) == (counts[0] == 0), (sample, counts)
            if sample is not None:
                assert sample.places == ("L0", "L1"), sample.places
        try:
            context.__exit__(None, None, None)
        except regard.errors.InputError as why:
            ran = counts[1] if kind == "knock" else counts[0]
            assert kind != "monitor" and not ran, (kind, counts, why)
            return
        assert kind == "monitor" or (counts[1] if kind == "knock" else counts[0])
        if kind == "record":
            assert len(context.recording.prompts) == counts[0], counts
            assert context.stacks == {"": (2, HEADS)}, context.stacks

    def run(self) -> None:
        self.check(self.output(self.model), self.heads())
        self.count()

    def train(self) -> None:
        """With a backward, and checkpoints."""
        options = {} if self.foreign else {"reentrant": self.random.choice([None, True, False])}
        self.input = self.input if self.foreign else self.input.requires_grad_()
        answer = self.answer(self.model, **options)
        answer.square().sum().backward()
        grads = [p.grad.clone() for p in self.model.parameters()]
        self.model.zero_grad()
        self.input = self.input.detach()
        self.count()
        self.check(answer.detach(), self.heads())
        other = copy.deepcopy(self.model)
        with regard.knock_out(other, sorted(self.heads())) if self.heads() else nullcontext():
            self.answer(other).square().sum().backward()
        for mine, right in zip(grads, other.parameters(), strict=True):
            torch.testing.assert_close(mine, right.grad, atol=1e-4, rtol=1e-3)

    def fail(self) -> None:
        """An exception or Ctrl-C in the second block: what ran until then counts as unfinished."""
        if self.foreign:
            return
        ends = self.random.choice([ZeroDivisionError, KeyboardInterrupt, GeneratorExit])
        with pytest.raises(ends), torch.no_grad():
            self.model(self.input, ends)
        self.count()

    def copied(self) -> None:
        """A copy made here is a plain model."""
        made = self.random.choice(COPIES)(self.model)
        self.check(self.output(made), frozenset())
        assert shape_of(made) == self.shape
        assert pickle.dumps(self.model) == self.bytes

    def _threaded(self, run: Callable[[Callable[[], None]], None]) -> Tensor:
        answers: list[Tensor] = []
        thread = threading.Thread(
            target=run, args=[lambda: answers.append(self.output(self.model))]
        )
        thread.start()
        thread.join()
        return answers[0]

    def in_thread(self) -> None:
        """Another thread runs the plain model; a monitor counts it."""
        self.check(self._threaded(lambda ask: ask()), frozenset())
        for kind, _, counts in self.open:
            if kind == "monitor":
                counts[0] += 1

    def in_context(self) -> None:
        """A copied context, as asyncio.to_thread has it, sees what is open."""
        self.check(self._threaded(contextvars.copy_context().run), self.heads())
        self.count()

    # ── what must be true ────────────────────────────────────────────────────────────────────

    def heads(self) -> frozenset[str]:
        knocked = [counts[0] for kind, _, counts in self.open if kind == "knock"]
        return frozenset().union(*knocked)

    def count(self) -> None:
        """The model ran in the context of all that are open."""
        for kind, _, counts in self.open:
            if kind == "knock":
                counts[1] = True
            else:
                counts[0] += 1

    def check(self, answer: Tensor, heads: frozenset[str]) -> None:
        """An answer is that of the model without these heads. Not its bits: of the same product
        they may differ from thread to thread."""
        right = self.without[heads]
        torch.testing.assert_close(answer, right, atol=1e-5, rtol=1e-4)

    def close(self) -> None:
        """Afterwards everything is as it was, and the model is freed with its last owner."""
        while self.open:
            self.end()
        assert pickle.dumps(self.model) == self.bytes
        assert shape_of(self.model) == self.shape
        assert nn.Module._call_impl is PLAIN[0] and nn.Module.__call__ is PLAIN[1]
        self.check(self.output(self.model), frozenset())
        if self.random.random() < 0.1:  # which takes as long as the rest
            alive = weakref.ref(self.model)
            del self.model
            gc.collect()
            assert alive() is None


PLAIN = (nn.Module._call_impl, nn.Module.__call__)


def shape_of(model: nn.Module) -> list[Any]:
    """What hooks, attributes and configurations of a model look like."""
    inner = model.module if isinstance(model, AveragedModel) else model
    hooks = [
        len(held)
        for module in inner.modules()
        for name, held in vars(module).items()
        if name.endswith("_hooks")
    ]
    names = [sorted(vars(module)) for module in inner.modules()]
    config = getattr(inner, "config", None)
    choice = None if config is None else vars(config).get("_attn_implementation_internal")
    return [hooks, names, sorted(inner.state_dict()), choice]


def saved(model: nn.Module) -> nn.Module:
    """By torch.save."""
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    made: nn.Module = torch.load(file, weights_only=False)
    return made


COPIES: tuple[Callable[[nn.Module], nn.Module], ...] = (
    copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model)), saved, AveragedModel,
)  # fmt: skip


def check(seed: int) -> None:
    """One random program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = Program(seed)
        steps: list[Callable[[], None]] = [
            program.begin, program.begin, program.begin, program.end, program.end, program.run,
            program.run, program.train, program.fail, program.copied, program.in_thread,
            program.in_context,
        ]  # fmt: skip
        for _ in range(program.random.randint(3, 14)):
            program.random.choice(steps)()
        program.close()
