"""`regard.knock_out(model, heads, edges)`: a model without some of its attention."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from regard.axes import Region
from regard.engine.call import Call
from regard.engine.observers import uncompiled
from regard.errors import InputError, RegardWarning
from regard.hear.names import Spot
from regard.hear.unheard import missed_modules, why_missed
from regard.intervene.edges import Edge, without
from regard.intervene.here import Here
from regard.intervene.names import HeadNames, Heads, read_heads
from regard.intervene.region import HiddenRegion
from regard.intervene.survey import Survey, check_model, listed
from regard.mask import Mask


def knock_out(
    model: nn.Module,
    heads: HeadNames | Iterable[HeadNames] = (),
    edges: Edge | Iterable[Edge] = (),
    *,
    region: Region | None = None,
    picture: int | None = None,
    axes: Any = None,
) -> KnockOut:
    """Within the block, a model runs without these heads and edges.

        with regard.knock_out(model, heads=["L5H1", (5, 2)]):
            without = model(ids).logits
        with regard.knock_out(model, edges=[Edge(queries=47, keys=range(10, 21))]):
            blind = model(ids).logits
        with regard.knock_out(vit, region=regard.axes.Box(0, 0, 0.5, 0.5)):
            without = vit(pixel_values).logits

    heads  their output, before w_o mixes the heads, is zero
    edges  queries that may not see keys (see `regard.intervene.Edge`); the weights they had go to
           the keys that are left. A row that is left without any key gives zero
    region   a part of a picture (`regard.axes.Box`, `regard.axes.Patches`): nobody may look at its
             patches, in any layer, neither in a tower nor where they stand within a text, wherever
             padding moves them
    picture  the number of the picture, or of the frame of a film; all of them by default
    axes     what positions stand for, as for `regard.record`, where the model does not tell

    For models of transformers that dispatch their attention and for modules that use regard's
    layers or `regard.attend`. Labels are those of a recording. Knock-outs inside one another add
    up, gradients flow through what is left, and afterwards everything is as it was. Modules that
    mix tokens by other means (state spaces, convolutions) are listed in `unheard`: they carry
    tokens past an edge that is knocked out, of which a warning tells.
    """
    hidden = None if region is None else HiddenRegion(model, region, picture, axes)
    return KnockOut(model, heads, edges, hidden)


class KnockOut:
    """A knock-out for as long as a block lasts; it may be entered again."""

    def __init__(
        self,
        model: nn.Module,
        heads: HeadNames | Iterable[HeadNames] = (),
        edges: Edge | Iterable[Edge] = (),
        region: HiddenRegion | None = None,
    ) -> None:
        check_model(model)
        self.region = region
        self.model = model
        self.heads = read_heads(heads)
        self.edges = (edges,) if isinstance(edges, Edge) else tuple(edges)
        survey = Survey.of(model)
        survey.check(self.heads)
        for edge in self.edges:
            _check_edge(edge, survey)
        self._stack, self._inside = ExitStack(), False

    def __enter__(self) -> KnockOut:
        if self._inside:
            raise InputError("this knock-out is at work already; make another to put inside it")
        self._here = Here(self.model, self)
        self._met: set[Spot] = set()  # places that were at work
        with ExitStack() as stack:
            stack.enter_context(self._here)
            stack.enter_context(uncompiled())
            self._stack = stack.pop_all()
        self._inside = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._inside = False
        self._stack.close()
        if kind is None:
            self._check_met()
            self._warn_of_others()

    # ── editing ──────────────────────────────────────────────────────────────────────────────

    def mask(self, call: Call) -> Mask | None:
        """Who may see whom in a call of the model, less the edges."""
        spot, total = self._here.spot(call), call.shape.query_heads
        if spot is None:
            return call.mask
        self._here.check_heads(call)
        self._met.add(spot)
        positions = self._here.positions(call) if self.edges else ()
        for edge in self.edges:
            heads = range(total) if edge.heads is None else _chosen(edge.heads, spot, total)
            if heads:
                mask = without(call, edge, heads, *positions)
                call = replace(call, mask=mask)
        return call.mask if self.region is None else self.region.without(call, self._here, spot)

    def output(self, call: Call, output: Tensor) -> Tensor:
        """What a call of the model gives, less the heads."""
        spot = self._here.spot(call)
        self._here.done()
        if spot is None:
            return output
        heads = _chosen(self.heads, spot, call.shape.query_heads)
        if not heads:
            return output
        gone = torch.zeros(output.shape[-3], 1, 1, dtype=torch.bool, device=output.device)
        gone[list(heads)] = True
        return output.masked_fill(gone, 0)  # and not times 0, which leaves NaN

    # ── afterwards ───────────────────────────────────────────────────────────────────────────

    @property
    def unheard(self) -> tuple[str, ...]:
        """Modules that ran in the block, mix tokens, and are out of its reach."""
        where = self._here
        return tuple(why_missed(self.model, missed_modules(where, {}), where.attended)[0])

    def _warn_of_others(self) -> None:
        """Edges and regions cut attention alone."""
        if (self.edges or self.region is not None) and (others := self.unheard):
            said = f"tokens also pass where nothing is knocked out: {', '.join(others)}"
            warnings.warn(f"{said}{self._channels()}", RegardWarning, stacklevel=3)

    def _channels(self) -> str:
        """Modules that attend between channels, in words."""
        return "".join(f"; {path}: {why}" for path, why in self._here.over_channels.items())

    def _check_met(self) -> None:
        """Raise where something was to be knocked out and never came up: the block shows nothing
        about it."""
        asked = {*self.heads, *(one for edge in self.edges for one in edge.heads or ())}
        channels = self._channels()
        missed = sorted(h.label for h in asked if not any(map(h.stand_at, self._met)))
        if not self._met and (asked or self.edges or self.region is not None):
            raise InputError(
                f"nothing was knocked out: {self._here.not_run()}, was compiled before it, or "
                "computes its attention by other means than transformers' attention interface, "
                f"regard's layers and regard.attend{channels}"
            )
        if self.region is not None and not self.region.hidden:
            raise InputError(
                f"nothing was hidden: no place of {type(self.model).__name__} has keys that are "
                f"patches in {self.region.region}; say with axes= what its positions are{channels}"
            )
        if missed:
            there = sorted({spot.stack for spot in self._met})
            each = [_layers_of(stack, self._met) for stack in there]
            raise InputError(
                f"{', '.join(missed)} never came up inside the block; what did: {'; '.join(each)}"
                f"{channels}"
            )


def _chosen(heads: tuple[Heads, ...], spot: Spot, total: int) -> set[int]:
    """Which of a place's heads are among these."""
    return {n for one in heads if one.stand_at(spot) for n in one.chosen(total)}


def _layers_of(stack: str, met: Iterable[Spot]) -> str:
    layers = sorted(spot.layer for spot in met if spot.stack == stack)
    return f"layers {listed(layers)}" + (f" of {stack}" if stack else "")


def _check_edge(edge: Edge, survey: Survey) -> None:
    if not isinstance(edge, Edge):
        raise InputError(
            f"edges: {edge!r} is no edge; give regard.intervene.Edge(queries, keys, heads)"
        )
    if edge.heads is None and survey.named:
        stacks = sorted({spot.stack for spot in survey.spots})
        raise InputError(
            f"this model has the stacks {', '.join(stacks)}, each with places of its own; say "
            f"which an edge is in: Edge(queries, keys, heads=[{stacks[0]!r}])"
        )
    survey.check(edge.heads or ())
