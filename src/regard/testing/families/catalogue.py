"""Which model types the installed transformers knows, and the class that stands for each."""

from __future__ import annotations

from functools import cache
from typing import Any

import transformers
from transformers.models.auto import configuration_auto, modeling_auto

from regard.testing.families.exceptions import CLASSES

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
