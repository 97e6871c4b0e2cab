"""Writes src/regard/viewer/next_words.json: what a trained model puts after a handful of prompts.

python tools/next_words.py    fetches SmolLM2-135M once (as `regard models` does) and runs it
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import torch

from regard.models import load

FILE = Path(__file__).resolve().parents[1] / "src" / "regard" / "viewer" / "next_words.json"
MODEL: Final = "smollm2"
TITLE: Final = "SmolLM2-135M"
KEPT: Final = 50  # the likeliest tokens of each prompt
DECIMALS: Final = 4
PROMPTS: Final = (
    "She put the money in the",
    "She sat on the bank of the",
    "The animal did not cross the street because it was too",
    "The capital of France is",
    "The cat sat on the",
)


def made() -> dict[str, Any]:
    """The prompts as the page reads them (NextWords in web/src/learner/data.ts)."""
    loaded = load(MODEL)
    config = loaded.model.config
    return {
        "model": TITLE,
        "vocabulary": int(config.vocab_size),
        "kept": KEPT,
        "cache": {
            "layers": int(config.num_hidden_layers),
            "heads": int(config.num_attention_heads),
            "key_heads": int(config.num_key_value_heads),
            "d": int(config.hidden_size // config.num_attention_heads),
            "tokens": int(config.max_position_embeddings),
            "bytes": 2,  # bfloat16, as the model is published
        },
        "prompts": [after(prompt, loaded) for prompt in PROMPTS],
    }


def after(prompt: str, loaded: Any) -> dict[str, Any]:
    """The likeliest tokens after the prompt: their texts and logits; log Σ e^logit over all."""
    ids = loaded.tokenizer(prompt, return_tensors="pt").input_ids
    with torch.no_grad():
        logits = loaded.model(ids).logits[0, -1].double()
    top = logits.topk(KEPT)
    return {
        "text": prompt,
        "words": [loaded.tokenizer.decode([one]) for one in top.indices.tolist()],
        "logits": [round(one, DECIMALS) for one in top.values.tolist()],
        # of the whole vocabulary: what the kept ones hold is Σ e^logit / e^this
        "log_sum": round(float(torch.logsumexp(logits, 0)), DECIMALS),
    }


def main() -> None:
    """Write the file."""
    FILE.write_text(json.dumps(made(), ensure_ascii=False, separators=(",", ":")) + "\n", "utf-8")


if __name__ == "__main__":
    main()
