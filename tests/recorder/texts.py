"""A small model that reads words, documents for it, and workers that are this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import regard
from regard.recorder.documents import CorpusRequest, carry_out, claimed, gather, prepare
from regard.recorder.jobs import Task
from regard.recorder.shards import RecordOptions, ShardRecorder

__all__ = ["WORDS", "arrays_of", "documents", "inline", "recorded", "save_model", "write_jsonl"]

WORDS = "the sea rises twice a day and falls again because moon pulls on water .".split()


def save_model(folder: Path, seed: int = 0) -> Path:
    """A tiny Llama of 64 positions with a tokenizer of a few words, as a folder."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    vocabulary = {word: n for n, word in enumerate(["<s>", "<unk>", *WORDS])}
    plain = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=plain, bos_token="<s>", unk_token="<unk>", model_max_length=64
    ).save_pretrained(folder)
    torch.manual_seed(seed)
    config = LlamaConfig(
        hidden_size=32, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=3,
        intermediate_size=48, vocab_size=len(vocabulary), max_position_embeddings=64,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def documents(count: int, seed: int = 0) -> list[str]:
    """Texts of 1 to 40 words."""
    dice = np.random.default_rng(seed)
    return [" ".join(dice.choice(WORDS, size=dice.integers(1, 41))) for _ in range(count)]


def write_jsonl(path: Path, texts: Iterable[str]) -> Path:
    """One a line, in the field `text`."""
    path.write_text("".join(json.dumps({"text": one}) + "\n" for one in texts))
    return path


class Inline:
    """Does what `Workers` do, without processes."""

    def __init__(self, make: Callable[[int], ShardRecorder]) -> None:
        self._tool = make(0)
        self.done: list[str] = []

    def run(
        self, tasks: Iterable[Task[Any, Any]], advanced: Callable[[float], None] = lambda _: None
    ) -> Iterator[tuple[Task[Any, Any], Any]]:
        for task in tasks:
            answer = task.function(self._tool, task.given, advanced)
            self.done.append(task.name)
            yield task, answer


def recorded(model: Path, asked: CorpusRequest) -> list[str]:
    """The files that a run makes, in this process."""
    documents, bad = gather(asked)
    workers = inline(model, asked.options)
    with claimed(asked.folder):
        run = prepare(asked, documents, bad, workers)
        return list(carry_out(run, asked, workers))


def inline(model: Path, options: RecordOptions) -> Any:
    """As `Workers` of a model; each model is loaded once."""
    return Inline(lambda _: ShardRecorder(_loaded(model), options))


@cache
def _loaded(model: Path) -> Any:
    return regard.models.load(str(model))


def arrays_of(folder: Path) -> dict[str, dict[str, bytes]]:
    """Every document of a folder by name: its tensors to the bit. A name that comes twice fails."""
    found: dict[str, dict[str, bytes]] = {}
    with regard.open(folder) as rec:
        for prompt in rec.prompts:
            assert prompt.title not in found and prompt.finished
            store, mine = prompt._store, f"P{prompt.filed}/"
            found[prompt.title] = {
                name.removeprefix(mine): store.words(name).tobytes()
                for name in store.entries
                if name.startswith(mine)
            }
    return found
