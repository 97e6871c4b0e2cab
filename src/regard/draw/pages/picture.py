"""A row or column over the pictures it looks at, on a terminal; and who looks at one key."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from regard.colour.scale import Scale
from regard.draw.finish import wrapped
from regard.draw.over import Patches, patch_lines, pooling_step
from regard.draw.pages.head import title_lines
from regard.draw.paper import Paper, StyledLine
from regard.draw.scale import scale_lines
from regard.draw.spelling import label
from regard.draw.table import Column, spark, weight_table
from regard.recording import PromptView
from regard.views.decoded import decoded
from regard.views.head import HeadView
from regard.views.picture import GridOverlay, Overlay
from regard.views.positions import kind_word, patch_scale
from regard.views.row import heaviest, token_at
from regard.views.text import CAVEAT, count
from regard.views.uniform import Look

_MOST_GRIDS: Final = 3  # pictures of one row that are drawn


def column_lines(
    prompt: PromptView, over: Overlay, look: Look, paper: Paper, *, top: int
) -> list[StyledLine]:
    """Who looks at a key."""
    head, key = over.head, over.at or 0
    name = token_at(head.key_names, key)
    weights = np.nan_to_num(over.weights.astype(np.float64), posinf=0.0)
    seen = int((~np.isnan(over.weights)).sum())
    facts = [f"seen by {count(seen, 'row')}", f"receives {weights.sum():.3f} in all"]
    who = f"key {key}" + ("" if name is None else f" {label(name, 24, paper)}")
    lines: list[StyledLine] = [
        *title_lines(HeadView(prompt, head), paper),
        [(who, "bold"), (paper.dot + paper.dot.join(facts), "")],
        [],
    ]
    best = heaviest(weights, top).tolist()
    columns = [Column("row", [str(n) for n in best], True)]
    if head.query_names is not None:
        texts = [token_at(head.query_names, n) or "" for n in best]
        columns.append(Column(kind_word(head.query_axis), [label(t, 16, paper) for t in texts]))
    columns.append(Column("weight", [f"{weights[n]:.3f}" for n in best], True))
    lines += [*weight_table(columns, [float(weights[n]) for n in best], paper), []]
    if over.axis.grids():
        lines += [*overlay_lines(prompt, over, look, paper), []]
    return [*lines, [(CAVEAT, "dim")]]


def overlay_lines(prompt: PromptView, over: Overlay, look: Look, paper: Paper) -> list[StyledLine]:
    """Every picture that it looks at, the heaviest first where there are many, and the scale."""
    grids = sorted(over.grids, key=_mass, reverse=True)
    shown = sorted(grids[:_MOST_GRIDS], key=lambda one: one.start)
    scale = patch_scale([over], look)
    lines, remarks = [*_mass_lines(over, paper)], dict[str, None]()
    for one in shown:
        found, remark = _grid_lines(prompt, over, one, scale, look, paper)
        lines += [*found]
        remarks |= dict.fromkeys(filter(None, [remark]))
    if len(grids) > len(shown):
        left = sum(map(_mass, grids[len(shown) :]))
        lines.append([(f"{len(grids) - len(shown)} more pictures hold {left:.3f}", "dim")])
    return [*lines, *scale_lines(scale, paper, *remarks)]


def _mass(one: GridOverlay) -> float:
    return float(np.nansum(np.where(np.isinf(one.weights), 0, one.weights)))


def _mass_lines(over: Overlay, paper: Paper) -> list[StyledLine]:
    """Where the weight lies: on patches, on the tokens before them, on text."""
    parts = {"grid": "patches", "text": "text", "frames": "sound", "other": "others"}
    facts = []
    for kind, word in parts.items():
        own = [one.mass for one in over.masses if one.part.kind == kind]
        if own:
            facts.append(f"{sum(own):.3f} on {word}")
    for grid in over.grids:
        facts += [f"{weight:.3f} on {label(name, 16, paper)}" for name, weight, _ in grid.prefix]
    return wrapped("weight: " + ", ".join(facts), paper, indent=2)


def _grid_lines(
    prompt: PromptView, over: Overlay, one: GridOverlay, scale: Scale, look: Look, paper: Paper
) -> tuple[list[StyledLine], str]:
    """One grid, of a film the frame with most weight; and what has to be said of its colours."""
    laid = one.weights if look.raw else one.times
    masses = np.nansum(np.where(np.isinf(one.weights), 0, one.weights), axis=(1, 2))
    frame = int(masses.argmax())
    shares = scale.shares(one.place.over_picture(laid)[frame].astype(np.float64))
    number = one.picture if one.picture < 0 or one.grid.apart else one.picture + frame
    pixels, remark = _behind(prompt, number, paper)
    lines = [_heading(prompt, one, number, frame, masses, paper)]
    if one.grid.frames > 1:
        least, most = (f"{end:.3f}" for end in (masses.min(), masses.max()))
        lines.append([("frames ", "dim"), (spark(masses, paper), ""),
                      (f"  {least} to {most} a frame", "dim")])  # fmt: skip
    step = pooling_step(shares.shape, paper)
    notes = [remark, f"max of {step}{paper.times}{step} patches" if step > 1 else ""]
    if paper.colours != "true" and np.isnan(shares).any():
        notes.append(f"{paper.hidden} not looked at from here")
    remark = "; ".join(filter(None, notes))
    return [*lines, *patch_lines(Patches(shares, pixels), paper)], remark


def _behind(prompt: PromptView, number: int, paper: Paper) -> tuple[NDArray[np.uint8] | None, str]:
    """The picture, and why it is not shown; a terminal without its colours is not told."""
    if paper.colours != "true":
        return None, "patches by row and column"
    found = decoded(prompt, number)
    return found.pixels, found.why_not and f"heat alone: {found.why_not}"


def _heading(
    prompt: PromptView, one: GridOverlay, number: int, frame: int, masses: NDArray[np.float64],
    paper: Paper,
) -> StyledLine:  # fmt: skip
    """Which picture, how many patches, how much of the weight."""
    noted = prompt.pictures[number] if 0 <= number < len(prompt.pictures) else None
    high, wide = one.place.size
    name = f"frame {frame}" if one.grid.frames > 1 else f"picture {number}"
    facts = [] if noted is None or not noted.title else [label(noted.title, 32, paper)]
    if noted is not None and noted.seconds is not None:
        facts.append(f"{noted.seconds:.2f} s")
    facts.append(f"{high} {paper.times} {wide} patches")
    if (high, wide) != (one.grid.height, one.grid.width):
        top, left = one.place.corner
        size = f"{one.grid.height} {paper.times} {one.grid.width}"
        facts.append(f"window {one.place.window}: {size} from ({top}, {left}) on")
    facts.append(f"{masses[frame]:.3f} on them")
    return [(name if number >= 0 or one.grid.frames > 1 else "patches", "bold"),
            (paper.dot + paper.dot.join(facts), "")]  # fmt: skip
