"""Who takes part, and what each one says.

cudnn, flash          torch's scaled_dot_product_attention by that backend
flex                  FlexAttention, compiled; where compiling it is worth the wait
eager with weights    softmax(QKᵀ)V with the weights kept, where they fit
bare                  regard.attend
statistics            … with lse, entropy and max score
everything            … and received mass, a pooled map, each query's top 8 keys
top 8                 regard.attend with each query's top 8 keys alone
received 64           a bare call, then the mass that keys received from the last 64 queries
…, graph              the same captured as a CUDA graph: what the GPU takes without the host
flash-colreduce       column sums by that package, where it is installed
column sums           regard.replay(q, k).received()
column sums from lse  … with the lse of somebody's forward
snapkv                a bare call, then the scores of its keys: the last 64 queries, pooled
sums of columns       the mass that each key received, from a known lse
largest of columns    … and the largest weight instead
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Literal

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import regard
from bench.gpu.size import Size
from bench.gpu.stage import Stage
from regard.summary import Summary

Said = Tensor | regard.Attention  # an output, or one that answers questions

SUMMARIES: dict[str, tuple[Summary, ...]] = {
    "bare": (),
    "statistics": (regard.Entropy(), regard.MaxScore()),
    "everything": (
        regard.Entropy(), regard.MaxScore(), regard.Received(), regard.Pooled(), regard.Top(8),
    ),
}  # fmt: skip
GRAPH = ", graph"
LAST = 64  # queries whose mass is asked for afterwards
_REFUSALS = ("No available kernel", "No viable backend")  # torch's words, on a GPU and on a CPU
_EAGER_TABLES = 5  # of the size of the weights: scores, scaled, masked, softmax in single precision


def forwards(stage: Stage, size: Size, given: list[Tensor]) -> dict[str, Callable[[], Said]]:
    """Everybody who computes the output."""
    q, k, v = given
    made: dict[str, Callable[[], Said]] = dict(peers(stage, size, given))
    for name, summaries in SUMMARIES.items():
        made[name] = _asking(size, given, summaries)
    if eager_fits(stage, size):
        made["eager with weights"] = lambda: _eager(size, q, k, v)[0]
    return made


def _asking(
    size: Size, given: list[Tensor], summaries: tuple[Summary, ...]
) -> Callable[[], regard.Attention]:
    return lambda: regard.attend(*given, mask=size.mask, summaries=summaries)


def shorts(stage: Stage, size: Size, given: list[Tensor]) -> dict[str, Callable[[], Said]]:
    """What short calls cost, with and without their host's part; cuDNN is the peer."""
    every = forwards(stage, size, given)
    named = ("cudnn", *SUMMARIES)
    made = {name: run for name, run in every.items() if name in named}
    made["top 8"] = _asking(size, given, (regard.Top(8),))
    if size.queries > LAST:
        made["received 64"] = lambda: _asked_after(size, given)
    return made


def graphs(stage: Stage, runs: dict[str, Callable[[], Said]]) -> dict[str, Callable[[], object]]:
    """The same as graphs; each has run before."""
    return {name + GRAPH: stage.captured(run) for name, run in runs.items()}


def _asked_after(size: Size, given: list[Tensor]) -> regard.Attention:
    said = regard.attend(*given, mask=size.mask)
    said.received(queries=LAST)
    return said


def columns(size: Size, given: list[Tensor]) -> dict[str, Callable[[], Tensor]]:
    """Column sums alone; the peer first, where it is there."""
    q, k, v = given
    with torch.no_grad():
        lse = regard.attend(q, k, v, mask=size.mask).lse
    made: dict[str, Callable[[], Tensor]] = {}
    if find_spec("flash_colreduce") is not None:
        summed = import_module("flash_colreduce").flash_colreduce
        made["flash-colreduce"] = lambda: summed(q, k, "sum", is_causal=size.causal)
    made["column sums"] = lambda: regard.replay(q, k, mask=size.mask).received()
    made["column sums from lse"] = lambda: regard.replay(q, k, lse, mask=size.mask).received()
    return made


def scores(size: Size, given: list[Tensor]) -> dict[str, Callable[[], Said]]:
    """A bare call, and what the scores for an eviction take beyond it."""

    def snapkv() -> regard.Attention:
        said = regard.attend(*given, mask=size.mask)
        regard.kv.snapkv(said, LAST)
        return said

    return {
        "bare": _asking(size, given, ()), "received 64": lambda: _asked_after(size, given),
        "snapkv": snapkv,
    }  # fmt: skip


def reduced(size: Size, given: list[Tensor]) -> dict[str, Callable[[], Tensor]]:
    """Whole columns by their sum and by their largest weight."""
    q, k, v = given
    with torch.no_grad():
        lse = regard.attend(q, k, v, mask=size.mask).lse

    def asked(how: Literal["sum", "max"]) -> Tensor:
        return regard.replay(q, k, lse, mask=size.mask).received(how=how)

    return {"sums of columns": partial(asked, "sum"), "largest of columns": partial(asked, "max")}


@dataclass(frozen=True)
class Peer:
    """torch's attention by one backend. Naming the backend takes as long as a small call, so
    whoever takes the time names it once and then computes."""

    compute: Callable[[], Tensor]
    backend: SDPBackend

    def __call__(self) -> Tensor:
        with self.named():
            return self.compute()

    def named(self) -> AbstractContextManager[None]:
        """Within the block, torch has this backend alone."""
        return sdpa_kernel(self.backend)


def peers(stage: Stage, size: Size, given: list[Tensor]) -> dict[str, Peer]:
    """torch's own kernels, as far as they serve this problem."""
    q, k, v = given
    compute = partial(
        scaled_dot_product_attention, q, k, v, is_causal=size.causal, enable_gqa=size.groups > 1
    )
    made: dict[str, Peer] = {}
    for name, backend in stage.backends.items():
        peer = Peer(compute, backend)
        try:
            peer()
        except RuntimeError as error:
            if not any(words in str(error) for words in _REFUSALS):
                raise
            continue
        made[name] = peer
    return made


def flex(size: Size, given: list[Tensor]) -> Callable[[], Tensor]:
    """FlexAttention of this size, compiled for it."""
    from torch.nn.attention.flex_attention import create_block_mask

    q, k, v = given
    shape = (None, None, size.queries, size.tokens)
    blocks = create_block_mask(_below, *shape, device=q.device.type) if size.causal else None
    compiled = _compiled_flex()
    return lambda: compiled(q, k, v, block_mask=blocks)


def _below(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return j <= i


@cache
def _compiled_flex() -> Callable[..., Tensor]:
    from torch.nn.attention.flex_attention import flex_attention

    made: Callable[..., Tensor] = torch.compile(flex_attention, dynamic=False)
    return made


def eager_fits(stage: Stage, size: Size) -> bool:
    """Whether the tables that eager makes fit into what is free."""
    return _EAGER_TABLES * size.weights < stage.free()


def _eager(size: Size, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """As transformers' eager attention computes it: softmax in single precision, the rest not."""
    key, value = (t.repeat_interleave(size.groups, 1) if size.groups > 1 else t for t in (k, v))
    scores = (q @ key.mT) * size.dim**-0.5
    if size.causal:
        hidden = torch.ones(size.tokens, size.tokens, dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, -torch.inf)
    weights = scores.softmax(-1, dtype=torch.float32).to(q.dtype)
    return weights @ value, weights


Backward = Callable[[], tuple[Tensor, ...]]


def backwards(
    stage: Stage, size: Size, leaves: list[Tensor], outer: Tensor
) -> tuple[dict[str, Backward], dict[str, str]]:
    """Gradients of q, k and v for the gradient `outer` of the output; with "entropy" in the name
    for a gradient of 1 of the entropy as well. Each graph is made once and walked often. And who
    made it, by contender."""

    def walk(results: list[Tensor], grads: list[Tensor]) -> Backward:
        return lambda: torch.autograd.grad(results, leaves, grads, retain_graph=True)

    made = {name: walk([run()], [outer]) for name, run in peers(stage, size, leaves).items()}
    made_by = dict.fromkeys(made, "torch")
    bare = regard.attend(*leaves, mask=size.mask)
    asked = regard.attend(*leaves, mask=size.mask, summaries=(regard.Entropy(),))
    entropy = asked.entropy()
    made["backward"] = walk([bare.output], [outer])
    made["backward + entropy"] = walk([asked.output, entropy], [outer, torch.ones_like(entropy)])
    made_by |= {"backward": bare.implementation, "backward + entropy": asked.implementation}
    return made, made_by
