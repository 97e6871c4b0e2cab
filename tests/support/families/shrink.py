"""Which model types the installed transformers knows, the class that stands for each, and a small
configuration of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any

import transformers
from transformers import PreTrainedConfig
from transformers.models.auto import configuration_auto, modeling_auto

from regard.errors import UnavailableError
from support.families.exceptions import CHANGES, CLASSES
from support.families.sizes import NEEDED, is_token, shrunk

# The auto classes in the order in which they are asked: those that write text first, so that
# `generate` is looked at wherever there is one.
_GENERATIVE = (
    "SEQ_TO_SEQ_CAUSAL_LM",
    "IMAGE_TEXT_TO_TEXT",
    "MULTIMODAL_LM",
    "SPEECH_SEQ_2_SEQ",
    "CAUSAL_LM",
)
_ENCODERS = "MASKED_LM"  # among those that "write" text are encoders that could be made to


@cache
def _tables() -> dict[str, dict[str, Any]]:
    """Every table of transformers: task → (model type → name of a class, or several)."""
    ends = "_MAPPING_NAMES"
    return {
        name.removeprefix("MODEL_FOR_").removesuffix(ends): table
        for name, table in vars(modeling_auto).items()
        if name.startswith("MODEL_") and name.endswith(ends)
    }


def names() -> list[str]:
    """The model types that some auto class builds, in alphabetical order."""
    known = {name for table in _tables().values() for name in table}
    return sorted(known & set(configuration_auto.CONFIG_MAPPING_NAMES))


def config_class(name: str) -> Any:
    """The configuration class of a model type."""
    return configuration_auto.CONFIG_MAPPING[name]


def model_class(name: str) -> Any:
    """The class that stands for a model type: the one that generates, or the bare model."""
    if name in CLASSES:
        return _class(CLASSES[name])
    tables = _tables()
    writes = [task for task in _GENERATIVE if name in tables[task]]
    if writes and not (writes == ["CAUSAL_LM"] and name in tables[_ENCODERS]):
        return _class(tables[writes[0]][name])
    order = ("MODEL", *(task for task in tables if task != "MODEL"))
    return _class(next(tables[task][name] for task in order if name in tables[task]))


def _class(entry: Any) -> Any:
    """An entry names a class, or several of which the first is the whole model."""
    return getattr(transformers, entry if isinstance(entry, str) else entry[0])


if not hasattr(PreTrainedConfig, "sub_configs_defaults"):
    raise UnavailableError(
        "support.families makes configurations small by what they say of their parts, "
        f"which needs transformers 5.20 or newer; {transformers.__version__} is installed"
    )

_COMMON = {field.name for field in dataclasses.fields(PreTrainedConfig)}
_FIRST = {"pad": 0, "bos": 1, "eos": 2}  # the rest are counted from here on

_SENSES = ("vision_config", "audio_config")  # wanted even where a model can do without
_STANDS_FOR = ("image_token", "audio_token", "video_token")  # always needed


class _Tokens:
    """Numbers for special tokens, the same for the same name anywhere in a configuration."""

    def __init__(self) -> None:
        self._given = dict(_FIRST)

    def number(self, name: str) -> int:
        word = name.removesuffix("_id").removesuffix("_index").removesuffix("_token")
        return self._given.setdefault(word, len(self._given))


def tiny_config(name: str) -> Any:
    """A small configuration of a model type."""
    cls = config_class(name)
    return cls(**_fields(cls, {}, _Tokens()))


def _fields(cls: Any, given: Mapping[str, Any], tokens: _Tokens) -> dict[str, Any]:
    """What to pass to a configuration class: fields that become smaller, and its parts."""
    whole = _defaults(cls) | dict(given)
    parts = getattr(cls, "sub_configs_defaults", {})
    small: dict[str, Any] = dict(given)
    for name, value in whole.items():
        if name in parts:
            small |= _part(name, parts[name], value, tokens)
        elif is_token(name):
            small |= _token(name, value, tokens)
        elif (less := shrunk(name, value, whole)) != value:
            small[name] = less
    usual = cls(**given)
    small |= _layers(usual, whole) | _stages(given, small) | _left_open(usual, whole)
    return _merged(small, CHANGES.get(cls.model_type, {}))


def _layers(usual: Any, whole: Mapping[str, Any]) -> dict[str, Any]:
    """One layer of each kind, where a family has several."""
    found: dict[str, Any] = {}
    for name in ("layer_types", "mlp_layer_types", "layers_block_type", "block_types"):
        kinds = vars(usual).get(name)
        if name in whole and isinstance(kinds, list) and len(set(kinds)) > 1:
            found[name] = list(dict.fromkeys(kinds))
    most = max(map(len, found.values()), default=0)
    found = {name: (kinds * most)[:most] for name, kinds in found.items()}
    return found | ({"num_hidden_layers": most} if most else {})


def _stages(given: Mapping[str, Any], small: Mapping[str, Any]) -> dict[str, Any]:
    """A backbone of which stages are asked for by number has as many layers as are asked for."""
    asked = given.get("out_indices") or given.get("out_features") or ()
    if "num_hidden_layers" not in small or len(asked) == 0:
        return {}
    numbers = list(range(1, len(asked) + 1))
    named = {"out_features": [f"stage{n}" for n in numbers]}
    found = {"out_indices": numbers} if "out_indices" in given else named
    return found | {"num_hidden_layers": len(asked)}


def _left_open(usual: Any, whole: Mapping[str, Any]) -> dict[str, Any]:
    """Fields without a default that no model can be built without."""
    return {
        name: value
        for name, value in NEEDED.items()
        if name in whole and vars(usual).get(name) is None
    }


def _defaults(cls: Any) -> dict[str, Any]:
    """The fields a family has of its own, with their defaults."""
    found = {}
    for field in dataclasses.fields(cls):
        if field.name in _COMMON:
            continue
        if field.default is not dataclasses.MISSING:
            found[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = field.default_factory()
    return found


def _token(name: str, value: Any, tokens: _Tokens) -> dict[str, Any]:
    if value is None and not name.startswith(_STANDS_FOR):
        return {}
    if isinstance(value, int) and value < 0:
        return {}
    if value is None:
        return {name: tokens.number(name)}
    if isinstance(value, int):
        return {name: tokens.number(name)}
    return {name: type(value)(tokens.number(f"{name}{n}") for n, _ in enumerate(value))}


def _part(name: str, spec: Any, value: Any, tokens: _Tokens) -> dict[str, Any]:
    """A part's own small fields, by its name."""
    if value is None and spec.optional and name not in _SENSES:
        return {}
    given = dict(value) if isinstance(value, dict) else dict(spec.init_kwargs)
    kind = given.pop("model_type", spec.model_type)
    cls = spec.config_class
    if not issubclass(cls, PreTrainedConfig):
        cls = config_class(kind)
    return {name: {"model_type": kind} | _fields(cls, given, tokens)}


def _merged(found: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes laid over fields, part by part."""
    merged = dict(found)
    for name, change in changes.items():
        inside = merged.get(name)
        if isinstance(inside, dict) and isinstance(change, dict):
            change = _merged(inside, change)
        merged[name] = change
    return merged
