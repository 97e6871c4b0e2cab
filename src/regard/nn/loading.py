"""Real weights in our own stack: a known name, a published folder, or one that `save` wrote."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.errors import DTypeError, FileError, UnavailableError
from regard.models import Loaded
from regard.models.extra import require
from regard.models.reader import read_reader
from regard.models.source import Source, find_source
from regard.nn.families import family_of
from regard.nn.saving import assemble, build_saved, is_ours, read_config, read_tensors


def load(
    name_or_path: str | PathLike[str],
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Loaded:
    """A model of `regard.nn` with the real weights, ready to run, and its tokenizer.

    "smollm2" and "minilm" come by name; folders as transformers writes them, of the families Llama
    and BERT; folders that `regard.nn.save` wrote. A `LanguageModel` gives the logits of the
    published model, an `Encoder` its last hidden state. Without a `dtype` it is float32 on the
    CPU, where half precision is slow, and as stored elsewhere.
    """
    place = None if device is None else torch.device(device)
    if dtype is None and (place is None or place.type == "cpu"):
        dtype = torch.float32
    if dtype is not None and not dtype.is_floating_point:
        raise DTypeError(f"dtype={dtype}: give float32, bfloat16, float16 or float64")
    source = find_source(fspath(name_or_path))
    if not source.is_folder:
        raise UnavailableError(
            f"{source.name} is no folder on this machine; regard.nn.load reads folders with a "
            "config.json and safetensors. regard.models.load runs any model of transformers"
        )
    where = Path(source.where)
    model = _build(where, source.name, dtype, place)
    tokenizer = _tokenizer(source)
    return Loaded(
        model=model, tokenizer=tokenizer, processor=None, name=source.name, source=source.where
    )


def _build(
    where: Path, name: str, dtype: torch.dtype | None, device: torch.device | None
) -> nn.Module:
    given = read_config(where)
    if is_ours(given):
        made, config = build_saved(given, where)
        tensors = read_tensors(where, device)
        return assemble(made, config, _cast(tensors, dtype), where)
    family = family_of(given)
    try:
        config = replace(family.configure(given), name=name)
    except (KeyError, TypeError) as error:
        kind = given["model_type"]
        raise FileError(f"{where}: config.json describes no {kind} ({error})") from error
    tensors = family.renamed(read_tensors(where, device))
    return assemble(family.build, config, _cast(tensors, dtype), where)


def _cast(tensors: dict[str, Tensor], dtype: torch.dtype | None) -> dict[str, Tensor]:
    return tensors if dtype is None else {name: t.to(dtype) for name, t in tensors.items()}


def _tokenizer(source: Source) -> object:
    if not any(Path(source.where).glob("tokenizer*")):
        return None
    require("reading a tokenizer", "transformers")
    return read_reader(source)
