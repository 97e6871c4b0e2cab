"""What a model declares of itself: whether later tokens are seen, windows, special tokens. Nothing
is guessed: what is not declared is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from regard.check.batch import GivenBatch

_LANGUAGE = ("ForCausalLM", "LMHeadModel")
_PICTURES = ("pixel_values", "input_features", "pixel_values_videos")
_TYPES = ("layer_types", "layers_block_type", "attention_layers")  # of the layers, a name each
_SIZES = ("sliding_window", "sliding_window_size", "attention_window_size")
_ASK = "give causal=True, causal=False or, of a prefix, its length"


def prefix_of(
    model: Any, batch: GivenBatch, causal: bool | int | None
) -> tuple[int | None, str, str]:
    """(how many first tokens see one another, what declares it, why it is not known): (None, …)
    where every token may see later ones; none where that is not known, so that it is tried."""
    if causal is not None:
        return (None if causal is False else int(causal is not True and causal), "causal=", "")
    config = _of_text(getattr(model, "config", None))
    name, is_decoder = type(model).__name__, getattr(config, "is_decoder", None)
    shows = any(key in batch.entries for key in _PICTURES)
    is_whole = getattr(config, "use_bidirectional_attention", None)
    if is_whole and (is_whole != "vision" or shows):
        return None, "config.use_bidirectional_attention", ""
    if getattr(config, "attn_type", None) == "bi":
        return None, "config.attn_type='bi'", ""
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        if batch.key.startswith("decoder"):
            return 0, "config.is_encoder_decoder", ""
        return 0, "", f"the batch holds no decoder_input_ids; {_ASK}"
    if name.endswith("ForMaskedLM"):
        return None, f"the class {name}", ""
    if name.endswith(_LANGUAGE) and is_decoder is False:
        return 0, "", f"{name} with config.is_decoder=False; {_ASK}"
    if shows:
        return 0, "", f"a picture or sound may be seen as a whole; {_ASK}"
    if name.endswith(_LANGUAGE):
        return 0, f"the class {name}", ""
    if is_decoder is not None:
        return (0 if is_decoder else None), f"config.is_decoder={is_decoder}", ""
    modules = model.modules() if isinstance(model, nn.Module) else ()
    flags = {getattr(module, "is_causal", None) for module in modules} & {True, False}
    if len(flags) == 1:
        flag = flags.pop()
        return (0 if flag else None), f"is_causal={flag} of its layers", ""
    return 0, "", f"nothing declares whether a token may see later ones; {_ASK}"


def window_of(model: Any, path: str, window: Any) -> tuple[int | None, str]:
    """(window, words) that a module is declared to see."""
    if isinstance(window, Mapping):
        within = [size for name, size in window.items() if f".{path}.".endswith(f".{name}.")]
        return (int(within[0]), f"window {within[0]}") if within else (None, "")
    if window is not None:
        return int(window), f"window {window}"
    config = _of_text(getattr(model, "config", None))
    types = _first(config, _TYPES)
    size = _first(config, (*_SIZES, "window_size") if types else _SIZES)
    module, number = model.get_submodule(path), re.search(r"\.(\d+)\.", f".{path}.")
    if "Attention" not in type(module).__name__:  # a convolution beside it has none
        size = None
    if isinstance(types, list | tuple):
        kind = types[int(number[1])] if number and int(number[1]) < len(types) else ""
        is_plain = kind in ("sliding_attention", "local") or kind.endswith("_sliding")
        if is_plain and isinstance(size, int):
            return size, f"window {size}"
        return None, str(kind).replace("_", " ")
    size = getattr(module, "sliding_window", size)
    return (size, f"window {size}") if isinstance(size, int) else (None, "")


def specials_of(model: Any) -> tuple[frozenset[int], int | None]:
    """Ids that masks may be derived from, as those of padding and pictures; that of padding."""
    config = getattr(model, "config", None)
    ids = frozenset(_ids(config))
    pad = getattr(_of_text(config), "pad_token_id", None)
    return ids, pad if isinstance(pad, int) else None


def _of_text(config: Any) -> Any:
    if not hasattr(config, "get_text_config"):
        return config
    try:
        return config.get_text_config()
    except ValueError:  # there are several
        return config.get_text_config(decoder=True)


def _first(config: Any, names: tuple[str, ...]) -> Any:
    """What a config says by any of these names."""
    for name in names:
        try:
            if known := getattr(config, name, None):
                return known
        except RuntimeError:  # each layer has its own, which its module knows
            return None
    return None


def _ids(config: Any, depth: int = 0) -> Iterator[int]:
    for name, entry in vars(config).items() if hasattr(config, "__dict__") else ():
        if re.search(r"token_(id|index)$", name):
            yield from (x for x in (entry if isinstance(entry, list) else [entry])
                        if isinstance(x, int))  # fmt: skip
        elif name.endswith("config") and depth < 3:
            yield from _ids(entry, depth + 1)


def is_sequence_first(model: Any) -> bool:
    """Whether a layer of torch itself takes (L, B, D)."""
    is_torch = type(model).__module__.startswith("torch.nn.")
    parts = model.modules() if is_torch else ()
    return any(getattr(module, "batch_first", True) is False for module in parts)


def refusal(model: Any) -> str:
    """Why a model cannot be checked here: parameters that other ranks hold, or none does."""
    for name, parameter in model.named_parameters() if isinstance(model, nn.Module) else ():
        if hasattr(parameter, "placements") or type(parameter).__name__ == "FlatParameter":
            return f"{name} is shared out over ranks; check the model before it is sharded"
        if isinstance(parameter, Tensor) and parameter.is_meta:
            return f"{name} has no memory (device meta); load the weights first"
    return ""
