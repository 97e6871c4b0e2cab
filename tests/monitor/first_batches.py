"""Models whose first batch is checked, and what one rank of a run does with one; for
test_first_batch.py."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

import regard

__all__ = ["Reader", "leaks_on_a_rank", "state_of"]


class Reader(nn.Module):
    """Ids (B, L) → logits; `hides` says whether later tokens are hidden."""

    def __init__(self, hides: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.out = nn.Embedding(50, 32), nn.Linear(32, 50)
        self.qkv, self.drop = nn.Linear(32, 96), nn.Dropout(0.1)
        self.hides = self.is_causal = hides

    def forward(self, ids: Tensor, targets: Tensor | None = None) -> Any:
        """Logits, and the loss where there are targets."""
        x = self.embed(ids)
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.hides)
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
