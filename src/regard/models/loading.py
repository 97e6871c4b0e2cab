"""A known name, a folder, a GGUF file or a hub's id → a model that is ready to run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import (
    DeviceError,
    DTypeError,
    FileError,
    InputError,
    RegardError,
    UnavailableError,
)
from regard.models.extra import require, without_bars
from regard.models.reader import read_reader
from regard.models.source import Source, find_source, one_line, unknown

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Loaded:
    """A model in evaluation mode with what turns its input into tensors, as far as there is any.

    Text models have a tokenizer; models of speech and pictures have a processor, and those that
    write text a tokenizer as well.
    """

    model: Any
    tokenizer: Any
    processor: Any
    name: str
    source: str


def load(
    name_or_path: str | PathLike[str],
    *,
    dtype: torch.dtype | str | None = None,
    device: torch.device | str | None = None,
    attn_implementation: str | None = None,
) -> Loaded:
    """Load a model by its known name, from a folder or a .gguf file, or by a hub's id.

    The class is the one that the model's configuration names. Without a `dtype` it is float32 on
    the CPU, where half precision is slow, and as stored elsewhere.
    """
    require("loading a model", "torch", "transformers")
    place, numbers = _device(device), _dtype(dtype)
    if numbers is None and (place is None or place.type == "cpu"):
        numbers = _dtype("float32")
    source = find_source(fspath(name_or_path))
    asked = {"dtype": numbers or "auto", "attn_implementation": attn_implementation}
    with without_bars():
        with _in_one_line(source, FileError):
            reader, made = read_reader(source), _class(source)
        with _in_one_line(source, InputError):
            wanted = {key: value for key, value in asked.items() if value is not None}
            model = made.from_pretrained(source.where, **source.options, **wanted)
    is_tokenizer = hasattr(reader, "convert_ids_to_tokens")
    return Loaded(
        model=model.to(place).eval(),
        tokenizer=reader if is_tokenizer else getattr(reader, "tokenizer", None),
        processor=None if is_tokenizer else reader,
        name=source.name,
        source=source.where,
    )


def _class(source: Source) -> Any:
    """The class that the weights were saved from; without its heads where nobody says."""
    import transformers

    if "gguf_file" in source.options:
        return transformers.AutoModelForCausalLM
    config = transformers.AutoConfig.from_pretrained(source.where, **source.options)
    wanted = next(iter(config.architectures or ["AutoModel"]))
    if not hasattr(transformers, wanted):
        raise UnavailableError(
            f"{source.name} is a {wanted}, which transformers {transformers.__version__} has not"
        )
    return getattr(transformers, wanted)


@contextmanager
def _in_one_line(source: Source, mistake: type[RegardError]) -> Iterator[None]:
    """What transformers says against the files, or against the request, in our words."""
    from huggingface_hub.errors import StrictDataclassError
    from safetensors import SafetensorError

    try:
        yield
    except RegardError:
        raise
    # TypeError: up to transformers 5.3 configurations take any value, and layers refuse it
    except (OSError, SafetensorError, StrictDataclassError, RuntimeError, TypeError) as error:
        if not Path(source.where).exists():
            raise unknown(source.name, source.remark or one_line(error)) from error
        raise FileError(f"{source.where}: cannot be loaded ({one_line(error)})") from error
    except (ValueError, ImportError) as error:
        raise mistake(f"{source.where}: cannot be loaded ({one_line(error)})") from error


def _dtype(wanted: torch.dtype | str | None) -> torch.dtype | None:
    import torch

    found = getattr(torch, wanted, None) if isinstance(wanted, str) else wanted
    if wanted is None or (isinstance(found, torch.dtype) and found.is_floating_point):
        return found
    raise DTypeError(f"dtype={wanted!r}: give float32, bfloat16, float16 or float64")


def _device(wanted: torch.device | str | None) -> torch.device | None:
    import torch

    try:
        return None if wanted is None else torch.empty(0, device=wanted).device
    except (RuntimeError, AssertionError) as error:
        raise DeviceError(f"device={str(wanted)!r}: {one_line(error)}") from error
