"""Token ids, their masks, and places for what other inputs become."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from support.families.facts import BATCH, TOKENS, Facts, Inputs

SHORTER = 3  # tokens that the first entry has less than the others, where there is padding

_PLACES = {
    kind: (f"{kind}_token_id", f"{kind}_token_index") for kind in ("image", "audio", "video")
}


def words(facts: Facts, places: Mapping[str, int]) -> Inputs:
    """What a text model takes; `places` says how many tokens stand for each other input."""
    takes = facts.takes
    if "input_ids" not in takes:
        return _decoder(facts)
    ids = facts.ids()
    for kind, count in places.items():
        token = facts.find(*_PLACES[kind])
        ids = torch.cat([torch.full((BATCH, count), token), ids], dim=1)
    end = facts.find("eos_token_id")
    if isinstance(end, int) and not facts.model.can_generate():
        ids[:, -1] = end  # where CLIP and its kin read
    found: Inputs = {"input_ids": ids}
    if "attention_mask" in takes:
        found["attention_mask"] = torch.ones_like(ids)
    if "mm_token_type_ids" in takes:
        found["mm_token_type_ids"] = _kinds(facts, ids)
    if "bbox" in takes:
        found["bbox"] = torch.tensor([1, 2, 30, 40]).repeat(*ids.shape, 1)
    return found | _decoder(facts)


def _decoder(facts: Facts) -> Inputs:
    takes = facts.takes
    return {"decoder_input_ids": facts.ids()} if "decoder_input_ids" in takes else {}


def _kinds(facts: Facts, ids: Tensor) -> Tensor:
    """0 for text, 1 for images, 2 for videos, 3 for sound."""
    kinds = torch.zeros_like(ids)
    for number, kind in enumerate(("image", "video", "audio"), 1):
        token = facts.find(*_PLACES[kind])
        if isinstance(token, int):
            kinds[ids == token] = number
    return kinds


def padded(inputs: Inputs, side: str, pad: int) -> Inputs | None:
    """The same with a shorter first entry; None where there is no text mask to say so."""
    mask = inputs.get("attention_mask")
    ids = inputs.get("input_ids")
    if mask is None or ids is None or mask.shape != ids.shape:
        return None
    tokens = ids.shape[1]
    kept = [*range(tokens - TOKENS), *range(tokens - TOKENS + SHORTER, tokens)]  # places stay
    first = ids[0, kept]
    real, rest = torch.ones_like(first), torch.zeros(SHORTER, dtype=mask.dtype)
    blank = torch.full((SHORTER,), pad)
    if side == "left":
        row, seen = torch.cat([blank, first]), torch.cat([rest, real])
    else:
        row, seen = torch.cat([first, blank]), torch.cat([real, rest])
    found = inputs | {"input_ids": torch.stack([row, *ids[1:]])}
    found["attention_mask"] = torch.stack([seen, *mask[1:]])
    kinds = inputs.get("mm_token_type_ids")
    if kinds is not None:
        moved = kinds[0, kept]
        none = torch.zeros(SHORTER, dtype=kinds.dtype)
        row = torch.cat([none, moved] if side == "left" else [moved, none])
        found["mm_token_type_ids"] = torch.stack([row, *kinds[1:]])
    return found
