"""Labels of random heads: those of models that learnt nothing get none, planted ones keep theirs.

Each seed draws either a transformer with random weights (its family, size, scale of weights and
length), or heads of `regard.attend` with random q and k, or a recording of planted heads of every
kind, with sinks, noise and values, over a random text.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

import regard
from regard import study
from regard.study.heads import WITHHELD
from support.recordings.planted import (
    KINDS,
    Words,
    expected,
    mixed,
    record_planted,
    targets,
    text,
)

_KEPT = 0.5  # of a head's mass: more on a sink leaves too little to judge every kind by


def check(seed: int) -> None:
    """One recording, and the labels of its heads."""
    dice = random.Random(seed)
    torch.manual_seed(seed)
    dice.choice((_transformer, _scores, _planted, _parked))(dice)


# ── heads that learnt nothing ──────────────────────────────────────────────────────────────────


def _transformer(dice: random.Random) -> None:
    """Of transformers, as its configuration initialises it or wider."""
    import transformers as hf

    heads, spread = dice.choice((2, 4)), dice.choice((0.02, 0.02, 0.05, 0.1))
    width, layers = heads * dice.choice((8, 16, 32)), dice.randint(1, 3)
    plain: dict[str, Any] = {"vocab_size": 400, "initializer_range": spread}
    llama = plain | {
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": heads,
        "hidden_size": width, "intermediate_size": width, "pad_token_id": None,
    }  # fmt: skip
    bert = {k: v for k, v in llama.items() if k not in ("num_key_value_heads", "pad_token_id")}
    gpt2 = plain | {"n_layer": layers, "n_head": heads, "n_embd": width}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    config = dice.choice((
        lambda: hf.LlamaConfig(**llama),
        lambda: hf.MistralConfig(**llama, sliding_window=dice.choice((16, 70))),
        lambda: hf.Qwen3Config(**llama, head_dim=width // heads),
        lambda: hf.BertConfig(**bert, max_position_embeddings=512),
        lambda: hf.GPTNeoXConfig(**bert),
        lambda: hf.GPT2Config(**gpt2, **ends, n_positions=512),
    ))()  # fmt: skip
    model = hf.AutoModel.from_config(config).eval()
    ids = text(dice.randint(16, 300), dice.randrange(10**6), words=dice.choice((40, 300)))
    with torch.no_grad(), regard.record(model, tokenizer=Words()) as recording:
        model(torch.tensor(ids)[None])
    _assert_unlabelled(recording, (type(config).__name__, spread, ids.size))


class _Random(torch.nn.Module):
    """Heads whose q and k are drawn anew for every row."""

    def __init__(self, heads: int, dim: int, scale: float, mask: Any) -> None:
        super().__init__()
        self.shape, self.scale, self.mask = (heads, dim), scale, mask

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        heads, dim = self.shape
        q, k, v = (torch.randn(1, heads, ids.shape[1], dim) for _ in range(3))
        answer = regard.attend(q * self.scale, k, v, mask=self.mask)
        output: torch.Tensor = answer.output
        return output


def _scores(dice: random.Random) -> None:
    masks = (regard.Causal(), None, regard.Window(left=15), regard.Window(left=80))
    scale, mask = dice.choice((0.01, 0.3, 1.0, 3.0, 8.0)), dice.choice(masks)
    model = _Random(dice.randint(1, 8), dice.choice((8, 32)), scale, mask)
    ids = text(dice.randint(16, 300), dice.randrange(10**6), words=dice.choice((6, 60)))
    with torch.no_grad(), regard.record(model, tokenizer=Words()) as recording:
        model(torch.tensor(ids)[None])
    _assert_unlabelled(recording, (scale, mask, ids.size))


def _assert_unlabelled(recording: Any, what: Any) -> None:
    report = study.make_report(recording)
    given = {head.label: head.labels for head in report.heads if head.labels}
    assert not given and not report.found, (what, given)
    withheld = any(one.why_not == WITHHELD for head in report.heads for one in head)
    assert bool(report.withheld) == withheld
    assert all(np.isfinite(head["previous"].score) for head in report.heads)


# ── planted heads ──────────────────────────────────────────────────────────────────────────────


def _planted(dice: random.Random) -> None:
    """Every kind, beside the others or alone."""
    ids = text(dice.randint(160, 320), dice.randrange(10**6), words=60)
    aims, sink = targets(ids, dice.randrange(10**6)), dice.choice((0.0, 0.0, _KEPT, 0.999))
    kinds = list(KINDS) if dice.random() < 0.6 else [dice.choice(sorted(KINDS))]
    weights = []
    for kind in kinds:
        strength = 1.0 if kind in ("uniform", "sharp") else dice.uniform(0.85, 0.97)
        alone = len(kinds) == 1 and kind in ("uniform", "sharp")
        noise = 0.0 if alone else 0.05 if kind == "sharp" else dice.uniform(0, 0.3)
        weights.append(mixed(aims[kind], sink, strength, noise, dice.randrange(10**6)))
    heads = study.patterns(record_planted(np.array([weights]), ids), evidence="none")
    for kind, head in zip(kinds, heads, strict=True):
        given = (kind, sink, ids.size, head.labels, head[kind].why_not)
        # a full stop that few others follow; where half is left, chance may be the rest of it
        marks = {"delimiter": {"sink"} | ({kind} if sink == _KEPT else set())}.get(kind, set())
        assert set(head.labels) - marks == expected(kind, sink) - marks, given


def _parked(dice: random.Random) -> None:
    """In the very rows that have an earlier copy, so much lies on the sink that too little is left;
    or enough is."""
    ids = text(dice.randint(100, 300), dice.randrange(10**6), words=dice.choice((60, 200)))
    kind, sink = dice.choice(("duplicate-token", "prefix-matching")), dice.uniform(0.91, 0.995)
    is_labelled = dice.random() < 0.5
    sink = dice.uniform(0.3, 0.5) if is_labelled else sink
    weights = mixed(targets(ids)[kind], sink, dice.uniform(0.95, 1))[None, None]
    options = {} if dice.random() < 0.5 else {"budget": "60kB"}
    (head,) = study.patterns(record_planted(weights, ids, **options), evidence="none")
    given = (kind, sink, ids.size, options, head.labels, head[kind].why_not)
    assert (kind in head.labels) == is_labelled, given
