"""What the positions of diffusers' models stand for: places of the latents, tokens of the text that
they are steered by, or both one behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from torch import nn

from regard.axes import Axis, Tokens
from regard.hear.inputs import ModelInputs
from regard.recorder.axes import PlaceSize, Sighted, laid_out, nearest

# of models that attend over text and latents together: which of them comes first
_JOINT: Final[dict[str, Literal["grid", "text"]]] = {
    "SD3Transformer2DModel": "grid",
    "FluxTransformer2DModel": "text",
    "Flux2Transformer2DModel": "text",
}
_Pair = tuple[Axis | None, Axis | None]


def latent_axes(
    model: nn.Module, place: PlaceSize, sights: Sequence[Sighted], texts: Sequence[int]
) -> _Pair | None:
    """Axes of queries and keys; None where the place is in no model of diffusers. `texts` are the
    lengths of the texts that the model was given."""
    owner = _owner(model, place.path)
    near = nearest(place.path, sights)
    if owner is None or near is None:
        return None
    order = _JOINT.get(type(owner).__name__)
    keys = Axis((Tokens(place.keys),)) if place.cross and place.keys in texts else None
    found = _laid(place.queries, near, texts, order), keys or _laid(place.keys, near, texts, order)
    return None if found == (None, None) else found


def step_facts(given: ModelInputs, step: int, sequence: int, count: int) -> dict[str, Any]:
    """What a prompt says of itself that is a step of diffusion: which of the steps heard, at which
    timestep, which of the batch's sequences, and how large the latents are; {} of others."""
    if not given.timesteps:
        return {}
    times = given.timesteps
    time = times[sequence] if len(times) == count else times[0]
    found: dict[str, Any] = {"step": step, "timestep": time, "sequence": sequence, "of": count}
    if given.latents:
        found["latents"] = list(given.latents[0][-2:])
    return {"diffusion": found}


def _owner(model: nn.Module, path: str) -> nn.Module | None:
    """The model of diffusers around a module: the outermost one."""
    pieces = path.split(".")
    for count in range(len(pieces)):
        one = model.get_submodule(".".join(pieces[:count]))
        if type(one).__module__.startswith("diffusers.models."):
            return one
    return None


def _laid(
    count: int, near: Sighted, texts: Sequence[int], order: Literal["grid", "text"] | None
) -> Axis | None:
    """A grid of the latents, or a text and a grid; None where neither adds up."""
    whole = _grid(count, near)
    if whole is not None or order is None:
        return whole
    for text in texts:
        grid = _grid(count - text, near) if count > text else None
        if grid is not None:
            words = (Tokens(text),)
            return Axis((*words, *grid.parts) if order == "text" else (*grid.parts, *words))
    return None


def _grid(count: int, near: Sighted) -> Axis | None:
    """On none of the prompt's pictures: latents are not colours."""
    found = laid_out(count, near, ())
    return found and Axis(tuple(replace(grid, picture=-1) for _, grid in found.grids()))
