"""What a knock-out changes in a model's next-token distributions."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.errors import InputError, ShapeError
from regard.intervene.edges import Edge, Places
from regard.intervene.knock import KnockOut
from regard.intervene.names import HeadNames, read_heads
from regard.intervene.prompts import as_ids, as_rows


class EffectRows(NamedTuple):
    """Row by row, (B, R) each."""

    delta_logit: Tensor
    delta_logprob: Tensor
    kl: Tensor


@dataclass(frozen=True)
class Effect:
    """What changed, as means over the rows that were looked at: with the knock-out less without.

    delta_logit    of the target token: negative where the knock-out took something away from it
    delta_logprob  of the target token; other than the logit it does not move with all the others
    kl             KL(whole model ‖ knocked out) of the next-token distribution, in nats
    by_row         the same for every row
    """

    delta_logit: float
    delta_logprob: float
    kl: float
    by_row: EffectRows


class Probe:
    """A prompt and what the whole model says to it, to hold knock-outs against.

    ids      (N,) or (B, N): one prompt, or several of one length
    rows     positions whose next-token distributions count; the last one where not given
    targets  (B, R), or one token for all: the tokens whose logits are followed. Where not given,
             those that stand behind the rows, and behind the last the model's own first choice
    """

    def __init__(
        self,
        model: nn.Module,
        ids: Tensor | Sequence[int],
        *,
        rows: Places | None = None,
        targets: Tensor | Sequence[int] | int | None = None,
    ) -> None:
        self.model = model
        self.ids = as_ids(ids, model)  # (B, N)
        tokens = self.ids.shape[1]
        self.rows = [tokens - 1] if rows is None else as_rows(rows, tokens)
        self.logits = self._run((), ())  # (B, R, V)
        self.targets = self._as_targets(targets)  # (B, R)

    def effect(
        self,
        heads: HeadNames | Iterable[HeadNames] = (),
        edges: Edge | Iterable[Edge] = (),
    ) -> Effect:
        """What changes without these heads and edges."""
        whole, without = self.logits, self._run(heads, edges)
        before, after = (logits.double().log_softmax(-1) for logits in (whole, without))
        rows = EffectRows(
            self._of_targets(without) - self._of_targets(whole),
            self._of_targets(after) - self._of_targets(before),
            (before.exp() * (before - after)).sum(-1).clamp(min=0),
        )
        delta_logit, delta_logprob, kl = (float(row.mean()) for row in rows)
        return Effect(delta_logit, delta_logprob, kl, rows)

    def _run(self, heads: Any, edges: Any) -> Tensor:
        """(B, R, V): the logits of the rows. The whole model runs as a knock-out of nothing, so
        that both are computed by the same kernels."""
        asked = inspect.signature(self.model.forward).parameters
        options: dict[str, Any] = {"use_cache": False} if "use_cache" in asked else {}
        wanted = torch.tensor(self.rows, device=self.ids.device)
        if "logits_to_keep" in asked:
            options["logits_to_keep"] = wanted
        with torch.no_grad(), KnockOut(self.model, heads, edges):
            found = self.model(self.ids, **options)
        logits = found if isinstance(found, Tensor) else getattr(found, "logits", None)
        if logits is None or logits.ndim != 3:
            raise InputError(
                f"{type(self.model).__name__} gives no logits (batch, tokens, vocabulary); give a "
                "language model, such as one of AutoModelForCausalLM"
            )
        return logits if logits.shape[1] == len(self.rows) else logits[:, wanted]

    def _as_targets(self, given: Any) -> Tensor:
        if given is None:
            after = torch.cat([self.ids, self.ids.new_full((len(self.ids), 1), -1)], dim=1)
            told = after[:, torch.tensor(self.rows) + 1]
            return torch.where(told < 0, self.logits.argmax(-1), told)
        targets = torch.as_tensor(given, device=self.ids.device)
        shape = (len(self.ids), len(self.rows))
        try:
            return targets.long().expand(shape)
        except RuntimeError as error:
            raise ShapeError(
                f"targets have shape {tuple(targets.shape)}; give one token, or (prompts, rows) = "
                f"{shape}"
            ) from error

    def _of_targets(self, numbers: Tensor) -> Tensor:
        return numbers.gather(-1, self.targets.unsqueeze(-1)).squeeze(-1).double()


def effect(
    model: nn.Module,
    ids: Tensor | Sequence[int],
    *,
    heads: HeadNames | Iterable[HeadNames] = (),
    edges: Edge | Iterable[Edge] = (),
    rows: Places | None = None,
    targets: Tensor | Sequence[int] | int | None = None,
) -> Effect:
    """What one knock-out, of heads and edges together, changes over a prompt (see `Probe`)."""
    return Probe(model, ids, rows=rows, targets=targets).effect(heads, edges)


def effects_of_heads(
    model: nn.Module,
    ids: Tensor | Sequence[int],
    labels: Iterable[HeadNames],
    *,
    rows: Places | None = None,
    targets: Tensor | Sequence[int] | int | None = None,
) -> dict[str, Effect]:
    """What each head's own knock-out changes, by label: one forward pass for every head."""
    heads = read_heads(labels)
    probe = Probe(model, ids, rows=rows, targets=targets)
    return {one.label: probe.effect([one.label]) for one in heads}
