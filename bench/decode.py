"""Writing text token by token: regard's own stack against transformers, with the same weights.

transformers   `model.generate` with sdpa attention, greedily, as people call it
bare loop      the same model without `generate`: forward, argmax, forward …
regard         `regard.nn`'s generate on a static cache

Times are of one token, the prompt's share included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import regard
from regard.bench.results import Result, WrongResultError, timed
from regard.bench.timing import Samples, take_turns

_PROMPT = 32  # tokens
_PEER = "transformers"


def measure(name: str, tokens: int, seconds: float = 2.0) -> list[Result]:
    """All write the same tokens, or nothing is timed."""
    theirs = regard.models.load(name, attn_implementation="sdpa").model
    loaded = regard.nn.load(name)
    ours = loaded.model
    dice = torch.Generator().manual_seed(0)
    prompt = torch.randint(100, ours.config.vocabulary, (1, _PROMPT), generator=dice)
    with torch.inference_mode():
        contenders = _contenders(theirs, ours, prompt, tokens)
        _check(contenders)
        taken = take_turns(contenders, seconds=seconds)
    return [_result(ours.config, loaded.name, tokens, what, taken) for what in taken]


def _contenders(
    theirs: Any, ours: Any, prompt: Tensor, tokens: int
) -> dict[str, Callable[[], Tensor]]:
    exactly = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False}
    # nothing may end a text early: all write as many tokens
    theirs.generation_config.eos_token_id = None
    padding = {"attention_mask": torch.ones_like(prompt), "pad_token_id": 0}

    def generate() -> Tensor:
        written: Tensor = theirs.generate(prompt, **padding, **exactly)
        return written[:, prompt.shape[1] :]

    def loop() -> Tensor:
        cache, new, written = None, prompt, []
        for _ in range(tokens):
            found = theirs(new, past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache, new = found.past_key_values, found.logits[:, -1:].argmax(-1)
            written.append(new)
        return torch.cat(written, dim=-1)

    def regard_nn() -> Tensor:
        written: Tensor = ours.generate(prompt, tokens=tokens)
        return written[:, prompt.shape[1] :]

    return {_PEER: generate, "bare loop": loop, "regard": regard_nn}


def _check(contenders: dict[str, Callable[[], Tensor]]) -> None:
    right = contenders[_PEER]()
    for what, run in contenders.items():
        written = run()
        if not torch.equal(written, right):
            same = int((written == right).cumprod(-1).sum())
            raise WrongResultError(
                f"{what} writes other tokens than {_PEER} from token {same + 1} on; no time is "
                "reported"
            )


def _result(config: Any, name: str, tokens: int, what: str, taken: dict[str, Samples]) -> Result:
    each = Samples([seconds / tokens for seconds in taken[what].seconds])
    return timed(
        each, 2, taken[what].ratio_to(taken[_PEER]), suite=f"decode {name}", what=what,
        implementation="nn" if what == "regard" else "sdpa", tokens=tokens, dim=config.width,
        heads=config.heads, causal=True, dtype="float32", peer=_PEER,
    )  # fmt: skip
