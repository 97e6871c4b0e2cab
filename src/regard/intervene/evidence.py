"""Causal evidence for heads: what attends is one order, what matters when removed another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
from torch import Tensor, nn

from regard.errors import InputError
from regard.intervene.copying import copying_probe, told_twice
from regard.intervene.effects import Effect, Probe
from regard.intervene.names import HeadNames, read_heads
from regard.intervene.survey import Survey

_COMMON = 8192  # tokens that most vocabularies put first: those that texts are full of


@dataclass(frozen=True)
class Compared:
    """What a head's knock-out changes, beside the median of heads drawn by lot: means over rows
    that a token follows, so that the last row of a sequence is left out."""

    delta_logit: float
    delta_logprob: float
    kl: float
    typical_delta_logit: float
    typical_delta_logprob: float
    typical_kl: float


@dataclass(frozen=True)
class Evidence:
    """What a head is good for: on a text (the tokens that did come next) and for copying (the
    tokens of a random sequence that is told a second time)."""

    label: str
    text: Compared
    copying: Compared

    @property
    def lowers_copied(self) -> float:
        """By how much the knock-out lowers the log-probability of the copied token: what a report
        calls induction by. The raw logit moves with all the others, and often the other way."""
        return -self.copying.delta_logprob

    @property
    def copies(self) -> bool:
        """Whether the copied token loses more than a tenth of a nat, and more than it does by
        three typical heads."""
        lost, usual = -self.copying.delta_logprob, -self.copying.typical_delta_logprob
        return lost > 0.1 and lost > 3 * usual

    def to_dict(self) -> dict[str, Any]:
        """For JSON: label, copies, and all numbers of `text` and `copying` by name."""
        return asdict(self) | {"copies": self.copies}


def causal_evidence(
    model: nn.Module,
    text: str | Tensor | Sequence[int],
    labels: Iterable[HeadNames],
    *,
    tokenizer: Any = None,
    rows: int = 64,
    others: int = 5,
    seed: int = 0,
    go_on: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Evidence]:
    """What each of these heads of a causal language model does for it, by label.

    text    a prompt, as ids or as words that `tokenizer` reads; of the tokens that another one
            follows the last `rows` count
    others  how many heads are drawn by lot to compare with
    go_on   called before each knock-out with how many are done and how many there are

    Takes 2 × (labels + others + 1) forward passes.
    """
    heads = [one.label for one in read_heads(labels)]
    probes = (_text_probe(model, text, tokenizer, rows), _copying_probe(model, seed))
    drawn = _by_lot(model, heads, others, seed)
    effects: dict[str, list[Effect]] = {}
    for done, label in enumerate([*drawn, *heads]):
        go_on(done, len(drawn) + len(heads))
        effects[label] = [probe.effect([label]) for probe in probes]
    usual = [[effects[label][n] for label in drawn] for n in range(len(probes))]
    return {
        label: Evidence(
            label, *(_compared(own, u) for own, u in zip(effects[label], usual, strict=True))
        )
        for label in heads
    }


def _text_probe(model: nn.Module, text: Any, tokenizer: Any, rows: int) -> Probe:
    if isinstance(text, str):
        if tokenizer is None:
            raise InputError("causal_evidence was given words; give ids, or a tokenizer= as well")
        text = tokenizer(text, return_tensors="pt")["input_ids"]
    tokens = np.shape(text)[-1]
    if tokens < 2:
        raise InputError(f"a text of {tokens} tokens has none that comes next; give at least 2")
    return Probe(model, text, rows=range(max(tokens - 1 - rows, 0), tokens - 1))


def _copying_probe(model: nn.Module, seed: int) -> Probe:
    config: Any = getattr(model, "config", None)
    size = getattr(config, "vocab_size", None)
    if size is None:
        raise InputError(
            f"{type(model).__name__} does not say its vocab_size; give a model of transformers"
        )
    most = min(size, _COMMON)
    first = getattr(config, "bos_token_id", None)
    # special tokens stand at the beginning of most vocabularies
    ids = told_twice(range(most // 32, most), min(24, most // 4), (seed, seed + 1), first)
    return copying_probe(model, ids)


def _by_lot(model: nn.Module, heads: Sequence[str], count: int, seed: int) -> list[str]:
    """Labels of heads that are not among these."""
    rest = [label for label in Survey.of(model).labels() if label not in heads]
    chosen = np.random.default_rng(seed).permutation(len(rest))[:count]
    return [rest[n] for n in chosen]


def _compared(own: Effect, usual: Sequence[Effect]) -> Compared:
    names = ("delta_logit", "delta_logprob", "kl")
    typical = [median([getattr(e, n) for e in usual]) if usual else 0.0 for n in names]
    return Compared(*(getattr(own, n) for n in names), *typical)
