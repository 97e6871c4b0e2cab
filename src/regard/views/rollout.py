"""Attention rollout over a picture, through all layers of a stack, as it is answered."""

from __future__ import annotations

from typing import Final

import numpy as np

from regard.errors import InputError, UnavailableError
from regard.recording import Recording
from regard.study.rollout_map import roll_out_picture
from regard.views.encoding import as_json
from regard.views.schema_sight import RolloutAnswer

WHAT: Final = (
    "Rollout: what a token of the last layer is made of if attention and the residual stream were "
    "all there is. Every layer counts half the mean of its heads and half the token itself."
)


def rollout_answer(
    recording: Recording, stack: str, query: int | None = None, *, prompt: int = 0
) -> RolloutAnswer:
    """The share of each position in `query` of the stack's last layer; `why` says why there is
    none. Without a query from where `roll_out_picture` begins. Shares (positions,) add up to 1, so
    that an even one is 1 / positions."""
    found: RolloutAnswer = {
        "start": "", "layers": 0, "shares": [], "on_patches": 0.0, "what": WHAT, "caution": "",
        "why": "",
    }  # fmt: skip
    try:
        made = roll_out_picture(recording, query, prompt=prompt, stack=stack)
    except UnavailableError as error:
        found["why"] = _sentence(error.message)
        return found
    except InputError as error:
        found["why"] = _sentence(str(error))
        return found
    found |= {
        "start": made.start, "layers": made.layers, "on_patches": as_json(made.on_patches),
        "shares": as_json(made.shares.astype(np.float32)), "caution": _sentence(made.caution),
    }  # fmt: skip
    return found


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:].rstrip('.')}." if words else ""
