"""Two small models that see, made of transformers' parts, and how they learn.

    namer      a ViT that names both digits of a canvas: 10 scores, the two highest are its answer
    captioner  a LLaVA whose eyes are the namer's: 64 patches, then "the picture shows", then it
               writes "three left of seven"

Both are saved with what reads their pictures and words, so that `regard record FOLDER` runs them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import (
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
    ViTConfig,
    ViTForImageClassification,
)
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from digit_scenes import CANVAS, PATCH, WORDS, Scene, Scenes

__all__ = [
    "PROMPT",
    "captioner",
    "captions",
    "named",
    "namer",
    "pixels",
    "reader",
    "save",
    "teach_captioner",
    "teach_namer",
    "token_ids",
]

PROMPT = "the picture shows"
SPECIAL = ("<pad>", "<unknown>", "<end>", "<image>")
PAD, UNKNOWN, END, IMAGE = range(4)
VOCABULARY = (*SPECIAL, *PROMPT.split(), *WORDS, "left", "of", "above")
PATCHES = (CANVAS // PATCH) ** 2
BATCH = 64
RATE = 2e-3
WARM_UP = 100  # steps until the learning rate is at its highest
MOST = 6  # words of a caption, its end among them


def namer(width: int = 64, layers: int = 3) -> Any:
    """A ViT of 8 × 8 patches and a class token, whose labels are the digits' names."""
    return ViTForImageClassification(
        ViTConfig(
            hidden_size=width, num_hidden_layers=layers, num_attention_heads=4,
            intermediate_size=2 * width, image_size=CANVAS, patch_size=PATCH,
            id2label=dict(enumerate(WORDS)), label2id={word: n for n, word in enumerate(WORDS)},
        )
    )  # fmt: skip


def captioner(eyes: Any, layers: int = 2) -> Any:
    """A LLaVA: the patches as the namer's last layer gets them, and a Llama that writes of them."""
    width = eyes.config.hidden_size
    text = LlamaConfig(
        vocab_size=len(VOCABULARY), hidden_size=width, intermediate_size=2 * width,
        num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=4,
        max_position_embeddings=128, pad_token_id=PAD, bos_token_id=None, eos_token_id=END,
    )  # fmt: skip
    config = LlavaConfig(
        vision_config=eyes.config, text_config=text, image_token_index=IMAGE,
        image_seq_length=PATCHES, vision_feature_layer=-2, projector_hidden_act="gelu",
    )  # fmt: skip
    model = LlavaForConditionalGeneration(config)
    model.model.vision_tower.load_state_dict(eyes.vit.state_dict(), strict=False)
    model.generation_config.eos_token_id = END
    model.generation_config.pad_token_id = PAD
    return model


# ── what they read ───────────────────────────────────────────────────────────────────────────


def image_processor() -> Any:
    """Bytes 0 … 255 → −1 … 1, at 64 × 64 pixels."""
    half = [0.5, 0.5, 0.5]
    size = {"height": CANVAS, "width": CANVAS}
    return ViTImageProcessorPil(size=size, image_mean=half, image_std=half)


def tokenizer() -> Any:
    """One token a word."""
    words = Tokenizer(WordLevel({w: n for n, w in enumerate(VOCABULARY)}, unk_token=SPECIAL[1]))
    words.pre_tokenizer = WhitespaceSplit()
    pad, unknown, end, image = SPECIAL
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token=pad, unk_token=unknown, eos_token=end,
        additional_special_tokens=[image],
    )  # fmt: skip


def reader(model: Any) -> Any:
    """What reads for it: an image processor, and for the captioner words too."""
    if isinstance(model, ViTForImageClassification):
        return image_processor()
    return LlavaProcessor(
        image_processor=image_processor(), tokenizer=tokenizer(), patch_size=PATCH,
        vision_feature_select_strategy="default", num_additional_image_tokens=1,
    )  # fmt: skip


def save(model: Any, folder: Path) -> None:
    """The model and its reader, as a folder that `regard record` takes."""
    model.save_pretrained(folder)
    reader(model).save_pretrained(folder)


def pixels(scenes: Sequence[Scene], model: nn.Module) -> Tensor:
    """(n, 3, 64, 64) in −1 … 1, as the image processor makes them."""
    shades = torch.from_numpy(np.stack([one.canvas for one in scenes])).to(_place(model))
    return (shades.float() / 127.5 - 1)[:, None].expand(-1, 3, -1, -1)


def token_ids(scenes: Sequence[Scene], model: nn.Module) -> Tensor:
    """(n, 64 + 3 + 6): the patches, the prompt, the caption, its end, padding."""
    number = {word: n for n, word in enumerate(VOCABULARY)}
    rows = []
    for one in scenes:
        words = [number[word] for word in (*PROMPT.split(), *one.caption.split())]
        rows.append([*words, END, *[PAD] * (MOST - 1 - len(one.caption.split()))])
    text = torch.tensor(rows, device=_place(model))
    return torch.cat([text.new_full((len(text), PATCHES), IMAGE), text], dim=1)


def _place(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


# ── how they learn ───────────────────────────────────────────────────────────────────────────


def teach_namer(model: Any, scenes: Scenes, steps: int, status: Console) -> None:
    """Cross-entropy of the ten scores with one half on each of the two digits."""

    def loss() -> Tensor:
        batch = scenes.draw(BATCH)
        wanted = torch.zeros(BATCH, len(WORDS), device=_place(model))
        digits = torch.tensor([one.digits for one in batch], device=_place(model))
        wanted.scatter_(1, digits, 0.5)
        return cross_entropy(model(pixel_values=pixels(batch, model)).logits, wanted)

    _train(model, loss, steps, status)


def teach_captioner(model: Any, scenes: Scenes, steps: int, status: Console) -> None:
    """Cross-entropy of every word of the caption, its end included."""
    begin = PATCHES + len(PROMPT.split()) - 1  # the position that writes the first word

    def loss() -> Tensor:
        batch = scenes.draw(BATCH)
        ids = token_ids(batch, model)
        seen = model(input_ids=ids, pixel_values=pixels(batch, model)).logits[:, begin:-1]
        return cross_entropy(seen.flatten(0, 1), ids[:, begin + 1 :].flatten(), ignore_index=PAD)

    _train(model, loss, steps, status)


def _train(model: nn.Module, loss: Callable[[], Tensor], steps: int, status: Console) -> None:
    optimizer = torch.optim.AdamW(_groups(model), weight_decay=0.05)
    model.train()
    with _bar(steps, status) as (bar, line):
        for step in range(steps):
            for group in optimizer.param_groups:  # a short rise, then half a cosine down
                falling = (1 + math.cos(math.pi * step / steps)) / 2
                group["lr"] = group["highest"] * min((step + 1) / WARM_UP, 1.0) * falling
            now = loss()
            optimizer.zero_grad()
            now.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            bar.update(line, advance=1, description=f"loss {now.item():.3f}")
    model.eval()


def _groups(model: nn.Module) -> list[dict[str, Any]]:
    """Parameters with their highest learning rates: eyes that see already learn more slowly."""
    eyes = [one for name, one in model.named_parameters() if "vision_tower" in name]
    rest = [one for name, one in model.named_parameters() if "vision_tower" not in name]
    return [{"params": eyes, "highest": RATE / 3}, {"params": rest, "highest": RATE}]


@contextmanager
def _bar(steps: int, status: Console) -> Iterator[tuple[Progress, TaskID]]:
    """A bar where somebody watches it."""
    columns = (
        BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn(),
    )  # fmt: skip
    silent = not status.file.isatty()
    with Progress(*columns, console=status, transient=True, disable=silent) as bar:
        yield bar, bar.add_task("", total=steps)


# ── what they say ────────────────────────────────────────────────────────────────────────────


@torch.inference_mode()
def named(model: Any, scenes: Sequence[Scene]) -> list[set[int]]:
    """The two digits that score highest."""
    logits = model(pixel_values=pixels(scenes, model)).logits
    return [set(row) for row in logits.topk(2).indices.tolist()]


@torch.inference_mode()
def captions(model: Any, scenes: Sequence[Scene]) -> list[str]:
    """What is written about each, word by word, always the likeliest."""
    begin = PATCHES + len(PROMPT.split())
    ids = token_ids(scenes, model)[:, :begin]
    said = model.generate(
        input_ids=ids, pixel_values=pixels(scenes, model), attention_mask=torch.ones_like(ids),
        max_new_tokens=MOST, do_sample=False,
    )  # fmt: skip
    rows = said[:, begin:].tolist()
    return [" ".join(VOCABULARY[n] for n in row if n not in (PAD, END)) for row in rows]
