"""The statistics of a client's own tokens, as JSON, out of its recording.

    {"requests": [{"request": "cmpl-…", "tokens": […], "ids": […], "generated": 11, "cached": 0,
                   "layers": [{"layer": 5, "heads": [0, 1, …], "rows": [0, 16], "row_bin": 1,
                               "entropy": [[…], …], "top_keys": …, "top_weights": …, …}]}]}

Arrays are heads × rows, `top_…` heads × rows × top, `received` heads × keys.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from regard import recording
from regard.errors import TooLargeError
from regard.recording import Recording
from regard.vllm.shelf import client_id

_MOST = 4_000_000  # numbers of one answer
_TENSORS = {"top": ("top_keys", "top_weights")}


def statistics_of(file: bytes) -> dict[str, Any]:
    """From a whole recording file; TooLargeError where JSON is no way to hand it over."""
    with TemporaryDirectory(prefix="regard-") as folder:
        path = Path(folder) / "request.regard"
        path.write_bytes(file)
        with recording.open(path) as found:
            return {"requests": [_of_prompt(found, number) for number in range(len(found.prompts))]}


def _of_prompt(found: Recording, number: int) -> dict[str, Any]:
    prompt = found.prompts[number]
    served = prompt.note.facts["served"]
    names = [one for name in served["statistics"] for one in _TENSORS.get(name, (name,))]
    layers = [_of_place(prompt, label, names) for label in prompt.places]
    count = sum(np.size(one[name]) for one in layers for name in names if name in one)
    if count > _MOST:
        raise TooLargeError(
            f"{count:,} numbers are too many for JSON; ask for fewer layers or statistics, or "
            "fetch the recording with ?as=recording"
        )
    return {
        "request": client_id(served["request"]),
        "tokens": prompt.tokens,
        "ids": prompt.ids.tolist(),
        "generated": prompt.generated,
        "cached": served["cached"],
        "layers": [
            {
                name: one.tolist() if isinstance(one, np.ndarray) else one
                for name, one in own.items()
            }
            for own in layers
        ],
    }


def _of_place(prompt: Any, label: str, names: list[str]) -> dict[str, Any]:
    place = prompt.places[label]
    heads = [prompt[place.layer, head].stored for head in place.heads]
    facts = {
        "layer": place.layer, "heads": list(place.heads), "rows": list(place.rows),
        "row_bin": place.row_bin, "key_bin": place.key_bin,
    }  # fmt: skip
    arrays = {
        name: np.stack([np.round(one[name].values, 7) for one in heads])
        for name in names
        if name in heads[0]
    }
    return facts | arrays
