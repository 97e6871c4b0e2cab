"""vLLM itself, serving SmolLM2 on the CPU, where it is installed: `make test-vllm`.

One engine for all tests: 2 × 512 tokens fit its cache, so that requests lose their pages to others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}


@pytest.fixture(scope="session")
def folder() -> str:
    from regard.models.fetch import folder

    return str(folder("smollm2"))


@pytest.fixture(scope="session")
def llm(folder: str) -> Iterator[Any]:
    """Chunks of 64 tokens, 8 requests at once, pages of 32 tokens."""
    from vllm import LLM

    yield LLM(
        model=folder, dtype="float32", enforce_eager=True, max_model_len=512, block_size=32,
        max_num_batched_tokens=64, max_num_seqs=8, num_gpu_blocks_override=34,
        enable_prefix_caching=True,
    )  # fmt: skip


@pytest.fixture(scope="session")
def eager(folder: str) -> Callable[[tuple[int, ...]], NDArray[np.float32]]:
    """(layers, heads, n, n): transformers' own weights of these tokens."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()

    @cache
    def weights(ids: tuple[int, ...]) -> NDArray[np.float32]:
        with torch.no_grad():
            found = model(torch.tensor([ids]), output_attentions=True).attentions
        return torch.cat(found).numpy()

    return weights


@pytest.fixture(scope="session")
def worst_error(
    eager: Callable[[tuple[int, ...]], NDArray[np.float32]],
) -> Callable[[Any, list[int]], float]:
    """Of a recorded prompt that has these tokens: the largest error of weights, top keys, entropy
    and received mass."""
    return lambda prompt, ids: compared(prompt, ids, eager(tuple(ids)))


def compared(prompt: Any, ids: list[int], truth: NDArray[np.float32]) -> float:
    assert prompt.ids.tolist() == ids
    place = prompt["L0H0"].place
    first, stop = place.rows
    assert (stop, place.queries, place.keys) == (len(ids),) * 3
    worst = 0.0
    for layer, heads in enumerate(truth):
        for number, right in enumerate(heads):
            head, below = prompt[layer, number], right[first:]
            assert head.exact
            top = head.top(8)
            at_top = np.take_along_axis(below, np.maximum(top.keys, 0), 1) * (top.keys >= 0)
            entropy = -(below * np.log(np.maximum(below, 1e-30))).sum(1)
            errors = (
                np.abs(head.rows(range(first, stop)) - below).max(),
                np.abs(top.weights - at_top).max(),
                np.abs(np.sort(below, 1)[:, ::-1][:, :1] - top.weights[:, :1]).max(),
                np.abs(head.received() - below.sum(0)).max() / len(ids),
                np.abs(head.entropy()[-len(below) :] - entropy).max() / np.log(len(ids) + 1),
            )
            worst = max(worst, *map(float, errors))
    return worst
