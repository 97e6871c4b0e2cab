"""Without these patches the answer becomes …: what hiding a region of a picture changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.axes import Region
from regard.errors import InputError
from regard.intervene.knock import KnockOut
from regard.intervene.region import HiddenRegion


@dataclass(frozen=True)
class Answer:
    """One of a model's answers: a class, a text that fits, the next token."""

    name: str
    number: int
    before: float  # its probability with the whole picture
    after: float  # … and without the region
    delta_logit: float


@dataclass(frozen=True)
class RegionEffect:
    """What a model says without a region of its picture.

    before   the likeliest answers with the whole picture, likeliest first
    after    … and without the region
    kl       KL(whole picture ‖ without) of the answers' distribution, in nats
    hidden   by place, how many keys were hidden
    unknown  places whose keys may be patches and are not known to be: nothing was hidden there
    """

    region: Region
    before: tuple[Answer, ...]
    after: tuple[Answer, ...]
    kl: float
    hidden: Mapping[str, int]
    unknown: tuple[str, ...]

    @property
    def changed(self) -> bool:
        """Whether the first answer is another."""
        return self.before[0].number != self.after[0].number

    def __str__(self) -> str:
        was, now = self.before[0], self.after[0]
        verb = "becomes" if self.changed else "stays"
        seen = f"; not hidden in {', '.join(self.unknown)}" if self.unknown else ""
        return (
            f"without {self.region} the answer {verb} {now.name!r} ({now.after:.2f}; it was "
            f"{was.name!r} with {was.before:.2f}, which now has {was.after:.2f}); "
            f"KL {self.kl:.3f}{seen}"
        )


def without_region(
    model: nn.Module,
    inputs: Mapping[str, Any],
    region: Region,
    *,
    picture: int | None = None,
    top: int = 5,
    tokenizer: Any = None,
    axes: Any = None,
) -> RegionEffect:
    """What a model answers if nobody in it may look at some patches.

        found = regard.intervene.without_region(vit, inputs, regard.axes.Box(0, 0, 0.5, 0.5))
        print(found)          # without rows 0–0.5, columns 0–0.5 the answer becomes …

    inputs     what the model is called with: one picture, or one text with its pictures
    region     a `Box` or `Patches` of `regard.axes`; `picture` says of which, by default of all
    tokenizer  names the next tokens of a model that writes; classes are named by the model's config

    Every query of every layer, in a tower and where patches stand within a text, loses these keys.
    What a model reads beside attention it still sees: a mean over all patches holds the hidden ones
    too.
    """
    if model.training:
        raise InputError("the model is in training mode, where dropout changes every run")
    hidden = HiddenRegion(model, region, picture, axes)
    whole, without = (_logits(model, inputs, one) for one in (None, hidden))
    before, after = (one.double().softmax(-1) for one in (whole, without))
    kl = float((before * (before.log() - after.log())).nan_to_num(0.0).sum().clamp(min=0))
    name = _names(model, tokenizer, before.numel())

    def answers(likeliest: Tensor) -> tuple[Answer, ...]:
        return tuple(
            Answer(name(n), n, float(before[n]), float(after[n]), float(without[n] - whole[n]))
            for n in likeliest.topk(min(top, likeliest.numel())).indices.tolist()
        )

    return RegionEffect(
        region, answers(before), answers(after), kl, dict(hidden.hidden),
        tuple(sorted(hidden.unknown)),
    )  # fmt: skip


def _logits(model: nn.Module, inputs: Mapping[str, Any], hidden: HiddenRegion | None) -> Tensor:
    """(answers,): of the classes, the texts or the next token. The whole model runs as a knock-out
    of nothing, so that both are computed by the same kernels."""
    with torch.no_grad(), KnockOut(model, region=hidden):
        found = model(**inputs)
    named = (getattr(found, name, None) for name in ("logits", "logits_per_image"))
    logits = found if isinstance(found, Tensor) else next((o for o in named if o is not None), None)
    if not isinstance(logits, Tensor) or logits.ndim not in (2, 3):
        raise InputError(
            f"{type(model).__name__} gives no logits; give a model that classifies, compares with "
            "texts or writes"
        )
    if len(logits) != 1:
        raise InputError(f"{len(logits)} pictures or texts at once; give them one by one")
    return logits[0] if logits.ndim == 2 else logits[0, -1]


def _names(model: nn.Module, tokenizer: Any, count: int) -> Callable[[int], str]:
    if tokenizer is not None:
        return lambda number: str(tokenizer.decode([number]))
    classes = getattr(getattr(model, "config", None), "id2label", None) or {}
    if len(classes) == count:
        return lambda number: str(classes.get(number, number))
    return str
