"""What a model is checked on: texts, padded or packed, a file, or ids drawn at random."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from regard.errors import FileError, InputError
from regard.files import check_regular, reason, shown

if TYPE_CHECKING:
    from torch import Tensor

    from regard.models import Loaded

_TEXT = (
    "The tide comes in twice a day. It lifts the boats that lay on their sides in the mud, fills "
    "the channels one after the other, and by noon the harbour is a mirror. Six hours later all of "
    "it has gone again, and the gulls walk where the ferry was."
)
_LENGTH = 64  # of ids drawn at random
_SIDES = ("left", "right")


@dataclass(frozen=True)
class Texts:
    """The options that are about texts, as they were given."""

    given: tuple[str, ...] = ()
    pad: str | None = None
    pack: bool = False

    def __post_init__(self) -> None:
        if self.pad is not None and self.pad not in _SIDES:
            raise InputError(f"--pad {self.pad!r:.40}: give left or right")
        if self.pad and self.pack:
            raise InputError("--pad and --pack: a pack has no padding; give one of them")
        if any(not text.strip() for text in self.given):
            raise InputError("a text is empty; give some words with --text")

    @property
    def are_asked(self) -> bool:
        """Whether any of the options was given."""
        return bool(self.given or self.pad or self.pack)

    def batch(self, ids: list[list[int]], pad_id: int, side: str, takes: Sequence[str]) -> Any:
        """The ids of every text as a model's arguments; of one text that is to be padded or packed,
        its first half is another."""
        import torch

        if len(ids) == 1 and (self.pad or self.pack):
            ids = [ids[0], ids[0][: max(len(ids[0]) // 2, 1)]]
        if self.pack:
            if "position_ids" not in takes:
                raise InputError("--pack: the model takes no position_ids, by which packs are told")
            positions = [n for own in ids for n in range(len(own))]
            whole = [x for own in ids for x in own]
            return {"input_ids": torch.tensor([whole]), "position_ids": torch.tensor([positions])}
        longest = max(map(len, ids))
        if all(len(own) == longest for own in ids):
            if self.pad and len(ids) > 1:
                raise InputError("--pad: the texts are equally long; give some of different length")
            return {"input_ids": torch.tensor(ids)}
        if "attention_mask" not in takes:
            raise InputError("--pad: the model takes no attention_mask, which hides padding")
        rows, masks = [], []
        for own in ids:
            more, is_left = longest - len(own), (self.pad or side) == "left"
            rows.append([pad_id] * more + own if is_left else own + [pad_id] * more)
            masks.append([0] * more + [1] * len(own) if is_left else [1] * len(own) + [0] * more)
        return {"input_ids": torch.tensor(rows), "attention_mask": torch.tensor(masks)}


def of_loaded(loaded: Loaded, texts: Texts) -> Any:
    """Of a model of transformers: its tokenizer's ids, with a picture or sound of noise where the
    model reads one."""
    from regard.check.runs import arguments

    model, tokenizer = loaded.model, loaded.tokenizer
    device = next(model.parameters()).device
    main = str(getattr(model, "main_input_name", "input_ids"))
    batch: dict[str, Tensor] = {}
    if main != "input_ids":
        if texts.pad or texts.pack:
            raise InputError(f"--pad and --pack are about texts, and {loaded.name} reads {main}")
        batch[main] = _noise(loaded, main)
    names = [name for name in ("input_ids", "decoder_input_ids") if name in arguments(model)]
    if tokenizer is None and texts.given:
        raise InputError(f"{loaded.name} has no tokenizer for --text; give --batch FILE")
    if tokenizer is not None and names:
        ids = [list(tokenizer(text)["input_ids"]) for text in texts.given or (_TEXT,)]
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        words = texts.batch(ids, pad, tokenizer.padding_side, arguments(model))
        batch |= words if main == "input_ids" else {names[-1]: words["input_ids"]}
        batch = {name: _of_count(x, len(words["input_ids"])) for name, x in batch.items()}
    return {name: x.to(device) for name, x in batch.items()}


def _noise(loaded: Loaded, main: str) -> Tensor:
    """A picture, or a second of sound, as the model's processor prepares it."""
    import numpy as np

    dice, reader = np.random.default_rng(0), loaded.processor
    if main == "pixel_values" and reader is not None:
        picture = dice.integers(0, 256, (64, 64, 3), dtype=np.uint8)
        made = reader(images=picture, return_tensors="pt")
    elif main in ("input_features", "input_values") and reader is not None:
        rate = getattr(reader, "feature_extractor", reader).sampling_rate
        sound = dice.standard_normal(rate).astype(np.float32)
        made = reader(sound, sampling_rate=rate, return_tensors="pt")
    else:
        raise InputError(f"{loaded.name} reads {main}; give it with --batch FILE")
    noise: Tensor = made[main]
    return noise


def _of_count(x: Tensor, count: int) -> Tensor:
    """One picture for every text."""
    return x if len(x) == count else x.expand(count, *x.shape[1:])


def drawn(model: Any, texts: Texts) -> Any:
    """Ids at random for a model without a tokenizer."""
    import torch
    from torch import nn

    from regard.check.runs import arguments, plain

    inner = plain(model)
    modules = inner.modules() if isinstance(inner, nn.Module) else ()
    embeds = [module for module in modules if isinstance(module, nn.Embedding)]
    if callable(own := getattr(inner, "get_input_embeddings", None)) and own() is not None:
        embeds = [own()]
    if not embeds:
        raise InputError(
            "the function returns a model alone, and what that reads is not known; return a model "
            "and a batch, or give --batch FILE"
        )
    config = getattr(inner, "config", None)
    room = getattr(config, "max_position_embeddings", None)
    length = min(_LENGTH, room) if isinstance(room, int) else _LENGTH
    dice = torch.Generator().manual_seed(0)
    ids = torch.randint(len(embeds[0].weight), (length,), generator=dice).tolist()
    pad = getattr(config, "pad_token_id", None)
    batch = texts.batch([ids], pad if isinstance(pad, int) else 0, "right", arguments(model))
    batch = {name: moved(x, model) for name, x in batch.items()}
    return batch if "input_ids" in arguments(model) or len(batch) > 1 else batch["input_ids"]


def moved(batch: Any, model: Any) -> Any:
    """Where the model is."""
    from torch import Tensor, nn

    from regard.check.runs import plain

    inner = plain(model)
    first = next(inner.parameters(), None) if isinstance(inner, nn.Module) else None
    if first is None:
        return batch
    if isinstance(batch, dict):
        return {name: moved(x, model) for name, x in batch.items()}
    return batch.to(first.device) if isinstance(batch, Tensor) else batch


# ── files ────────────────────────────────────────────────────────────────────────────────────


def batch_in(path: Path) -> Any:
    """Token ids, or a mapping of tensors."""
    from torch import Tensor

    reader = _READERS.get(path.suffix)
    if reader is None:
        raise InputError(f"--batch {shown(path)}: give a file in {', '.join(_READERS)}")
    try:
        check_regular(path)
        held = reader(path)
    except (OSError, ValueError, RuntimeError, TypeError, EOFError, BadZipFile) as error:
        raise FileError(f"{shown(path)}: cannot be read ({_first_line(error)})") from None
    if isinstance(held, Mapping):
        return dict(held)
    if not isinstance(held, Tensor):
        raise FileError(
            f"{shown(path)}: holds a {type(held).__name__}; give ids, or arrays by name"
        )
    return held


def _of_torch(path: Path) -> Any:
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError:
        raise ValueError("not a file of torch.save with tensors alone") from None


def _of_numpy(path: Path) -> Any:
    import numpy as np
    import torch

    with np.load(path, allow_pickle=False) as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}


def _of_safetensors(path: Path) -> Any:
    from regard.models.extra import require

    require("reading a .safetensors file", "safetensors")
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(str(error)) from error


def _of_json(path: Path) -> Any:
    held = json.loads(path.read_text(encoding="utf-8"))
    return {k: _array(x) for k, x in held.items()} if isinstance(held, dict) else _array(held)


def _array(x: Any) -> Any:
    """Lists as tensors; a text or a number as it is."""
    import torch

    return torch.tensor(x) if isinstance(x, list) else x


def _first_line(error: Exception) -> str:
    return (reason(error).strip().splitlines() or [type(error).__name__])[0][:200]


_READERS: dict[str, Callable[[Path], Any]] = {
    ".pt": _of_torch, ".npz": _of_numpy, ".safetensors": _of_safetensors, ".json": _of_json,
}  # fmt: skip
