"""What `regard.check` costs: a tiny model in a fresh process, imports included, and a real one.

The ratio is to the budget: below 1 is within it. The note of the real model says how many forwards
the rules of the whole model take, and how many times the batch the largest of them holds.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any, Final

import torch
from torch import Tensor

import regard
from regard.bench.results import Result, WrongResultError, timed
from regard.bench.timing import Samples, wall_clock

# what is measured → its budget in seconds
BUDGETS: Final = {"tiny": 3.0, "tiny of transformers": 3.0, "model": 30.0}
_ROUNDS: Final = 5  # fresh processes
_LARGE: Final = 3  # checks of the real model
_LAYERS, _HEADS, _DIM = 2, 4, 8  # of the tiny ones

_LAYER: Final = f"""
import torch, regard
from torch import nn

layer = nn.TransformerEncoderLayer({_HEADS * _DIM}, {_HEADS}, 64, batch_first=True)
model = nn.TransformerEncoder(layer, {_LAYERS}, enable_nested_tensor=False)
mask = nn.Transformer.generate_square_subsequent_mask(24)
batch = {{"src": torch.randn(2, 24, {_HEADS * _DIM}), "mask": mask}}
report = regard.check(model, batch, causal=True)
"""
_LLAMA: Final = f"""
import torch, regard
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=64, hidden_size={_HEADS * _DIM}, intermediate_size=64,
    num_hidden_layers={_LAYERS}, num_attention_heads={_HEADS},
)
report = regard.check(LlamaForCausalLM(config), torch.randint(64, (2, 24)))
"""
SCRIPTS: Final = {"tiny": _LAYER, "tiny of transformers": _LLAMA}


def measure(tokens: int, model: str = "smollm2", rounds: int | None = None) -> list[Result]:
    """The tiny models on 24 tokens, and `model` on so many."""
    rows = [_fresh(what, rounds or _ROUNDS) for what in SCRIPTS]
    return [*rows, _real(model, tokens, rounds or _LARGE)]


def _fresh(what: str, rounds: int) -> Result:
    """From the start of a process to its end. One that finds something is not timed."""
    source = f"{SCRIPTS[what]}\nassert report.ok, report\nprint(report.about.split()[-2])"
    own = []  # seconds of the check itself

    def run() -> None:
        done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
        if done.returncode:
            raise WrongResultError(f"{what}: {done.stderr.strip()}; no time is reported")
        own.append(float(done.stdout))

    run()  # files are read from the disk once
    taken = Samples([wall_clock(run) for _ in range(rounds)])
    note = f"imports included; the check itself {min(own)} s"
    return _result(what, 24, taken, 2, _DIM, _LAYERS * _HEADS, note)


def _real(name: str, tokens: int, rounds: int) -> Result:
    """A loaded model. The first check is not timed, but watched."""
    model = regard.models.load(name).model
    config, dice = model.config, torch.Generator().manual_seed(0)
    ids = torch.randint(100, config.vocab_size, (1, tokens), generator=dice)
    sizes: list[int] = []

    def watch(module: Any, args: Any, kwargs: dict[str, Tensor]) -> None:
        sizes.append(kwargs["input_ids"].numel())

    with model.register_forward_pre_hook(watch, with_kwargs=True):
        report = regard.check(model, ids)
    if not report.ok:
        raise WrongResultError(f"{report}\nno time is reported")
    taken = Samples([wall_clock(lambda: regard.check(model, ids)) for _ in range(rounds)])
    heads = config.num_hidden_layers * config.num_attention_heads
    note = f"{report.forwards} forwards of at most {max(sizes) / tokens:.2g} × the batch"
    dim = config.hidden_size // config.num_attention_heads
    return _result("model", tokens, taken, 1, dim, heads, note, name)


def _result(
    what: str, tokens: int, taken: Samples, batch: int, dim: int, heads: int, note: str,
    implementation: str = "torch",
) -> Result:  # fmt: skip
    budget = BUDGETS[what]
    return timed(
        taken, 1, taken.median / budget, suite="check", what=what, implementation=implementation,
        tokens=tokens, dim=dim, heads=heads, causal=True, dtype="float32", batch=batch,
        peer=f"budget of {budget:.0f} s", note=note,
    )  # fmt: skip
