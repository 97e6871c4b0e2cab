"""Processes that start at once: forked from one that has imported what they need.

    context                 makes processes and pipes, as any context of multiprocessing
    fork_workers(patch)     `Workers` start theirs from it, for tests that are not about the start

A process that starts with nothing takes two seconds to import torch, and five for a model of
transformers. The first backward imports torch._dynamo, which takes as long as torch.
"""

from __future__ import annotations

import multiprocessing

import pytest

__all__ = ["context", "fork_workers"]

_IMPORTED = (
    "pytest", "torch", "torch._dynamo", "torch.distributed.tensor",
    "transformers.models.llama.modeling_llama",
    "regard.testing", "regard.engine.backends.cpu.sweeps", "regard.engine.backends.dense",
    "regard.parallel", "regard.nn", "regard.huggingface", "regard.recorder", "regard.play.app",
)  # fmt: skip

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(list(_IMPORTED))


def fork_workers(patch: pytest.MonkeyPatch) -> None:
    """Until the patch is undone, workers of a recording are forked instead of spawned."""
    patch.setattr("regard.recorder.jobs.multiprocessing.get_context", lambda _: context)
