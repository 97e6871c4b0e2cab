"""Writes src/regard/viewer/real_head.json: one head of a real model, for the lesson's last step.

python tools/real_head.py    fetches SmolLM2-135M once (as `regard models` does) and runs it
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

import regard
from regard.engine.attention import Attention
from regard.engine.call import Call
from regard.engine.observers import Request, listening
from regard.learn.languages import Phrase
from regard.models import load

FILE = Path(__file__).resolve().parents[1] / "src" / "regard" / "viewer" / "real_head.json"
MODEL: Final = "smollm2"
TITLE: Final = "SmolLM2-135M"
LAYER, HEAD = 17, 5
DECIMALS = 4
# All but the last full stop have one earlier copy at most: there is one place to look at.
TEXT: Final = (
    "A copper kettle sang on the old stove. Rain fell outside. "
    "Later, a copper kettle sang on the old stove again."
)


class Ear:
    """Keeps q, k and v of every attention, in the order of the layers."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def wants(self, call: Call) -> Request[None]:
        """Nothing needs to be measured."""
        return Request()

    def heard(self, attention: Attention, request: Request[None]) -> None:
        """The tensors are enough."""
        self.calls.append(attention._call)


def made() -> dict[str, Any]:
    """The head as the page reads it (RealHead in web/src/learner/data.ts)."""
    loaded, ear = load(MODEL), Ear()
    ids = loaded.tokenizer(TEXT, return_tensors="pt").input_ids
    memory = regard.record(loaded.model, tokenizer=loaded.tokenizer, layers=[LAYER])
    with memory as record, listening(ear), torch.no_grad():
        loaded.model(ids)
    head, call = record[f"L{LAYER}H{HEAD}"], ear.calls[LAYER]
    group = HEAD // (call.query.shape[1] // call.key.shape[1])
    followed, rows = followers(ids[0].tolist(), head.dense())
    words = {"label": head.label, "share": f"{followed:.2f}", "rows": rows}
    return {
        "model": TITLE,
        "label": head.label,
        "words": Phrase("real_head.induction", words).as_dict(),
        "tokens": list(head.key_tokens or ()),
        "queries": rounded(call.query[0, HEAD]),
        "keys": rounded(call.key[0, group]),
        "values": rounded(call.value[0, group]),
        "scale": float(call.score.scale),
        "causal": True,
    }


def followers(ids: list[int], weights: Any) -> tuple[float, int]:
    """Mean weight on the keys right after earlier copies of a row's token; how many rows."""
    masses = []
    for i, token in enumerate(ids):
        after = [j for j in range(1, i) if ids[j - 1] == token]
        if after:
            masses.append(float(weights[i, after].sum()))
    return float(np.mean(masses)), len(masses)


def rounded(matrix: torch.Tensor) -> list[list[float]]:
    """As lists; what the page computes from them differs from the model by about 1e-4."""
    found: list[list[float]] = np.round(matrix.double().numpy(), DECIMALS).tolist()
    return found


def main() -> None:
    """Write the file."""
    FILE.write_text(json.dumps(made(), ensure_ascii=False, separators=(",", ":")) + "\n", "utf-8")


if __name__ == "__main__":
    main()
