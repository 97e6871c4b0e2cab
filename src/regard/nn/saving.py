"""A model as a folder: its weights as safetensors, its configuration as JSON.

config.json         the kind of model and the fields of its configuration
model.safetensors   every parameter under its own name
tokenizer…          as transformers writes it, where one was given
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import FileError, InputError, RegardError
from regard.files import open_file
from regard.models.extra import require
from regard.nn import rotary_scaling
from regard.nn.config import EncoderConfig, LanguageModelConfig, Seq2SeqConfig, StackConfig
from regard.nn.encoder import Encoder
from regard.nn.language_model import LanguageModel
from regard.nn.seq2seq import Seq2Seq

_KINDS: dict[str, tuple[type[Any], type[StackConfig]]] = {
    "Encoder": (Encoder, EncoderConfig),
    "LanguageModel": (LanguageModel, LanguageModelConfig),
    "Seq2Seq": (Seq2Seq, Seq2SeqConfig),
}
_MARK = "regard_model"  # the entry of config.json that says what kind of model this is
_ALIGNMENT = 64  # bytes
_SCALINGS = ("DynamicScaling", "LinearScaling", "Llama3Scaling", "LongScaling", "YarnScaling")


def save(model: nn.Module, folder: str | PathLike[str], *, tokenizer: Any = None) -> Path:
    """Write the model, and its tokenizer where given, into the folder; `regard.nn.load` reads it.

    Weights and configuration are written to files of another name first, so that a broken save
    leaves what was there before.
    """
    kind = type(model).__name__
    if kind not in _KINDS or type(model) is not _KINDS[kind][0]:
        raise InputError(f"cannot save a {kind}; give one of {', '.join(_KINDS)}")
    require("saving a model", "safetensors")
    from safetensors.torch import save_file

    where = Path(folder)
    config: Any = model.config
    files = [where / name for name in ("model.safetensors", "config.json")]
    weights, facts = [file.with_name(f"{file.name}.unfinished") for file in files]
    try:
        where.mkdir(parents=True, exist_ok=True)
        tensors = {name: t.detach().contiguous() for name, t in model.state_dict().items()}
        save_file(tensors, weights)
        text = json.dumps({_MARK: kind, **_to_json(config)}, indent=1, ensure_ascii=False)
        facts.write_text(text + "\n", encoding="utf-8")
        for part, file in zip((weights, facts), files, strict=True):
            part.replace(file)
        if tokenizer is not None:
            tokenizer.save_pretrained(where)
    except OSError as error:
        raise FileError(f"{where}: the model cannot be written ({error})") from error
    return where


def is_ours(config: Mapping[str, Any]) -> bool:
    """Whether `save` wrote this configuration."""
    return _MARK in config


def build_saved(config: Mapping[str, Any], where: Path) -> tuple[type[Any], StackConfig]:
    """The class and the configuration of a saved model."""
    given = dict(config)
    kind = given.pop(_MARK)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise FileError(f"{where}: {_MARK} is {kind!r}; known are {', '.join(_KINDS)}")
    made, shape = _KINDS[kind]
    unknown = sorted(set(given) - {field.name for field in fields(shape)})
    if unknown:
        raise FileError(f"{where}: config.json has {', '.join(unknown)}, which {kind} has not")
    try:
        given["rotary_scaling"] = _scaling(given.get("rotary_scaling"))
        return made, shape(**given)
    except (TypeError, RegardError) as error:
        raise FileError(f"{where}: config.json says no {kind} ({error})") from error


def read_config(where: Path) -> dict[str, Any]:
    """config.json of a folder."""
    try:
        with open_file(where / "config.json") as file:
            found = json.loads(file.read().decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(f"{where}: config.json cannot be read ({error})") from error
    if not isinstance(found, dict):
        raise FileError(f"{where}: config.json holds no JSON object")
    return found


def read_tensors(where: Path, device: torch.device | None = None) -> dict[str, Tensor]:
    """Every tensor of the folder's safetensors files."""
    require("loading a model", "safetensors")
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    files = sorted(where.glob("*.safetensors"))
    if not files:
        raise FileError(f"{where}: no .safetensors file; weights of other formats are not read")
    found: dict[str, Tensor] = {}
    for file in files:
        try:
            read = load_file(file, device=str(device or "cpu"))
        except (OSError, SafetensorError) as error:
            raise FileError(f"{file}: cannot be read ({error})") from error
        found |= {name: _aligned(tensor) for name, tensor in read.items()}
    return found


def _aligned(tensor: Tensor) -> Tensor:
    """Where torch itself would have put it: products of the same numbers differ in their last bits
    when memory begins elsewhere, and a loaded model would not be the saved one to the bit."""
    return tensor if tensor.data_ptr() % _ALIGNMENT == 0 else tensor.clone()


def assemble(
    made: Callable[[Any], nn.Module], config: StackConfig, tensors: dict[str, Tensor], where: Path
) -> nn.Module:
    """The model around these tensors; FileError where one is missing, unknown or of another size.
    Nothing is drawn by lot, and nothing is copied."""
    with torch.device("meta"):
        model = made(config)
    wanted = {name: tuple(t.shape) for name, t in model.state_dict().items()}
    given = {name: tuple(t.shape) for name, t in tensors.items()}
    if getattr(config, "tied", False):
        given.pop("head.weight", None)
    wrong = [f"{n} is missing" for n in wanted if n not in given]
    wrong += [f"{n} is unknown" for n in given if n not in wanted]
    wrong += [
        f"{n} is {given[n]}, not {size}" for n, size in wanted.items() if given.get(n, size) != size
    ]
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise FileError(f"{where}: the weights do not fit: {'; '.join(wrong[:3])}{more}")
    model.load_state_dict({name: tensors[name] for name in wanted}, assign=True)
    return model.eval()


def _to_json(config: StackConfig) -> dict[str, Any]:
    found = asdict(config)
    if config.rotary_scaling is not None:
        kind = type(config.rotary_scaling).__name__
        found["rotary_scaling"] = {"kind": kind, **found["rotary_scaling"]}
    return found


def _scaling(given: Any) -> rotary_scaling.RotaryScaling | None:
    if given is None:
        return None
    if not isinstance(given, dict) or given.get("kind") not in _SCALINGS:
        raise InputError(f"rotary_scaling={given!r}; a kind is one of {', '.join(_SCALINGS)}")
    numbers = {name: value for name, value in given.items() if name != "kind"}
    return getattr(rotary_scaling, given["kind"])(**numbers)
