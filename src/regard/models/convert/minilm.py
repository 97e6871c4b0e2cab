"""all-MiniLM-L6-v2: transformers' own files, byte for byte except for the tokenizer's length."""

from __future__ import annotations

import json
import shutil
from pathlib import Path


def convert(parts: Path, made: Path) -> None:
    """The tokenizer as published pads and cuts every text to 128 tokens; here callers decide."""
    for name in ("config.json", "model.safetensors", "tokenizer_config.json"):
        shutil.copyfile(parts / name, made / name)
    tokenizer = json.loads((parts / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer |= {"truncation": None, "padding": None}
    text = json.dumps(tokenizer, ensure_ascii=False)
    (made / "tokenizer.json").write_text(text, encoding="utf-8")
