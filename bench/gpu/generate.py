"""A Llama of a billion random weights writing, with transformers' sdpa and with regard.

prefill     one forward of the prompt, the cache filled
generate    greedy tokens after it, the prompt included

Nobody listens: both should take the same time and write the same tokens. Where a token is another
one, its logit and the right one's must lie within rounding of each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bench.gpu.llama import new_model
from bench.gpu.reference import expect
from bench.gpu.stage import Stage
from regard.bench.results import Result, WrongResultError, timed
from regard.bench.timing import Samples, take_turns

SHAPE: dict[str, Any] = {
    "num_hidden_layers": 16, "hidden_size": 2048, "num_attention_heads": 16,
    "num_key_value_heads": 16, "intermediate_size": 8192, "vocab_size": 32000,
    "max_position_embeddings": 8192,
}  # fmt: skip
_ALLOWED = 0.1  # 16 layers of half precision lie between an output and the logits
_NAMES = ("sdpa", "regard")
_PEER = _NAMES[0]
_ROUNDS = {"prefill": 20, "generate": 3}


def measure(
    stage: Stage, prompt: int, written: int, shape: dict[str, Any] | None = None
) -> list[Result]:
    """Logits and tokens are compared before anything is timed."""
    model = new_model(stage.device, tuple((shape or SHAPE).items()))
    dice = torch.Generator(device=stage.device).manual_seed(0)
    ids = torch.randint(
        100, model.config.vocab_size, (1, prompt), generator=dice, device=stage.device
    )
    runs = {
        "prefill": {name: partial(_prefilled, model, ids, name) for name in _NAMES},
        "generate": {name: partial(_written, model, ids, written, name) for name in _NAMES},
    }
    try:
        with torch.no_grad():
            right, ours = (runs["prefill"][name]() for name in _NAMES)
            expect(ours, right.double(), _ALLOWED, f"logits at {prompt} tokens")
            equal = check_tokens(*(_with_logits(model, ids, written, name) for name in _NAMES))
            taken = {what: _timed(each, _ROUNDS[what]) for what, each in runs.items()}
    finally:
        model.set_attn_implementation(_PEER)
    notes = {"prefill": "", "generate": f"{equal} of {written} tokens as sdpa writes them"}
    return [
        _row(stage, model.config, prompt, what, name, taken[what], notes[what])
        for what in runs
        for name in _NAMES
    ]


def check_tokens(right: tuple[Tensor, Tensor], ours: tuple[Tensor, Tensor]) -> int:
    """How many tokens (n,) are equal; WrongResultError where the first that is not lies further
    from the right one than rounding, by its logits (n, words)."""
    (tokens, logits), (other, _) = right, ours
    differ = (tokens != other).nonzero().flatten()
    if not len(differ):
        return len(tokens)
    at = int(differ[0])
    gap = float(logits[at, tokens[at]] - logits[at, other[at]])
    if gap > _ALLOWED:
        raise WrongResultError(
            f"token {at} is {int(other[at])} instead of {int(tokens[at])}, whose logit is larger "
            f"by {gap:.3g}; no time is reported"
        )
    return int((tokens == other).sum())


def _prefilled(model: Any, ids: Tensor, name: str) -> Tensor:
    model.set_attn_implementation(name)
    found: Tensor = model(ids, use_cache=True, logits_to_keep=1).logits
    return found


def _written(model: Any, ids: Tensor, count: int, name: str, **options: Any) -> Any:
    model.set_attn_implementation(name)
    return model.generate(
        ids, max_new_tokens=count, min_new_tokens=count, do_sample=False, pad_token_id=0, **options
    )


def _with_logits(model: Any, ids: Tensor, count: int, name: str) -> tuple[Tensor, Tensor]:
    """The tokens (count,) and the logits (count, words) that each was chosen by."""
    found = _written(model, ids, count, name, return_dict_in_generate=True, output_logits=True)
    logits = torch.cat([one.float() for one in found.logits])
    return found.sequences[0, ids.shape[1] :], logits


def _timed(runs: Mapping[str, Callable[[], Tensor]], rounds: int) -> dict[str, Samples]:
    """Until the result is with the host, by the clock on the wall: it is the host that counts."""

    def fetched(run: Callable[[], Tensor]) -> Tensor:
        return run().cpu()

    each = {name: partial(fetched, run) for name, run in runs.items()}
    return take_turns(each, seconds=0, rounds=rounds)


def _row(
    stage: Stage,
    config: Any,
    tokens: int,
    what: str,
    name: str,
    taken: dict[str, Samples],
    note: str,
) -> Result:
    return timed(
        taken[name], 2, taken[name].ratio_to(taken[_PEER]), suite=f"gpu {what}", what=name,
        implementation="torch" if name == _PEER else "regard", tokens=tokens,
        dim=config.hidden_size // config.num_attention_heads, heads=config.num_attention_heads,
        causal=True, dtype="bfloat16", peer=_PEER, machine=stage.name,
        note="" if name == _PEER else note,
    )  # fmt: skip
