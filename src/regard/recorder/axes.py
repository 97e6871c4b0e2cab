"""What a model's positions stand for, told from how it reads: the grid that its first convolution
makes of a picture, the tokens of a text that stand for one, a sound's length.

Nothing is guessed that does not add up: a place whose number of positions no grid explains keeps
plain numbers, and `regard.record(model, axes=…)` says what they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from torch import nn

from regard.axes import Axis, Frames, Grid, Part
from regard.errors import InputError
from regard.hear.hooks import Pass
from regard.recorder.learnt import LearntQueries
from regard.recorder.pictures import Grids
from regard.recorder.text_axes import (
    Run,
    among_words,
    as_they_are,
    joined,
    made_coarser,
    runs_of,
    unexplained,
)
from regard.recording.positions import Positions

_REDUCED: Final = (1, 2, 4, 8, 16, 32)  # by how much later layers may be coarser a side
_EXTRAS: Final = {  # parameters that become tokens before the patches, in their order
    "class": ("cls_token", "class_token", "class_embedding"),
    "distillation": ("distillation_token", "dist_token"),
    "register": ("register_tokens", "reg_token"),
}
# model types whose encoder has a position every 20 milliseconds
_SOUND: Final = (
    "whisper",
    "wav2vec2",
    "hubert",
    "wavlm",
    "unispeech",
    "unispeech-sat",
    "data2vec-audio",
)
_STEP: Final = 0.02
_IMAGE_TOKENS: Final = ("image_token_id", "image_token_index", "media_placeholder_token_id")
_VIDEO_TOKENS: Final = ("video_token_id", "video_token_index")
_PARTS: Final = ("text_config", "vision_config", "audio_config", "thinker_config")

NO_GRIDS: Final = Grids()

Declared = Mapping[str, tuple[Axis | None, Axis | None]]


@dataclass(frozen=True)
class Sighted:
    """Pictures as a module's convolution laid them out: `pictures` of them, frames × h × w each."""

    path: str
    pictures: int
    frames: int
    height: int
    width: int
    _: KW_ONLY
    coarser: frozenset[tuple[int, int]] = frozenset()  # sizes that were made of it later
    windowed: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By path, the sizes that layers divide into windows."""

    @property
    def patches(self) -> int:
        """Of one picture."""
        return self.frames * self.height * self.width

    def divided(self, path: str) -> tuple[int, int] | None:
        """What the layer around an attention divides into windows, where it says so."""
        around = (size for one, size in self.windowed.items() if path.startswith(f"{one}."))
        return next(around, None)

    def sizes(self, path: str) -> set[tuple[int, int]]:
        """(h, w) that windows of this module may divide."""
        if (told := self.divided(path)) is not None:
            return {told}
        return {(self.height, self.width), *self.coarser}

    def of(self, count: int) -> Sighted:
        """Those of one of `count` sequences."""
        share = self.pictures // count if self.pictures % count == 0 else self.pictures
        return replace(self, pictures=share)


@dataclass(frozen=True)
class PlaceSize:
    """One attention module of one sequence."""

    label: str
    path: str
    queries: int
    keys: int
    streams: tuple[str, str]  # of queries and keys; "" for none
    windows: int = 1  # batch entries of the sequence, which became heads
    _: KW_ONLY
    cross: bool = False  # its keys are another sequence's
    occurrence: int = 0  # of the module's calls, where it looks at one picture after the other


@dataclass(frozen=True)
class Heard:
    """The sound that a model reads at once.

    seconds  how long it is for the model, with the silence behind its end (whisper: 30)
    start    where it begins in the file that it is a clip of
    step     seconds from one position to the next; None: `seconds` over all of them
    """

    seconds: float
    start: float = 0.0
    step: float | None = None


@dataclass
class AxesReader:
    """Tells the axes of a model's places; of `heard`, where that is told."""

    model: nn.Module
    declared: Declared = field(default_factory=dict)
    heard: Heard | None = None
    _used: set[str] = field(default_factory=set)  # of what was declared
    _known: dict[str, tuple[int, int]] = field(default_factory=dict)  # queries and keys by place

    def unused(self) -> str:
        """In words, what was declared and fits no place; "" for nothing."""
        wrong = [name for name in self.declared if name not in self._used]
        if not wrong or not self._known:
            return ""
        sizes = [f"{name} has {q} queries and {k} keys" for name, (q, k) in self._known.items()]
        there = "; ".join(sizes[:3]) + ("; …" if len(sizes) > 3 else "")
        counts = {len(axis) for axis in self.declared[wrong[0]] if axis is not None}
        what = (
            f"no place has the {' or '.join(map(str, sorted(counts)))} positions of the axis given"
            if wrong == ["*"]
            else f"no place or stack is called {', '.join(map(repr, wrong))}"
        )
        return f"axes: {what}; {there}; their positions stay as they are"

    def positions(
        self,
        places: Iterable[PlaceSize],
        streams: Mapping[str, NDArray[np.int64]],
        sights: Sequence[Sighted],
        grids: Grids = NO_GRIDS,
        texts: Sequence[int] = (),
        read: int | None = None,
    ) -> Positions:
        """Of one sequence. `sights` are its own pictures; `grids` what the model was told of them;
        `texts` how long those are that steer it; `read` how many tokens were read with pictures,
        before it wrote on."""
        from regard.recorder.latents import latent_axes  # which lays grids out as is done here

        found, places = {}, list(places)
        calls: dict[str, list[int]] = {}
        for place in places:
            calls.setdefault(place.path, []).append(place.keys)
        for place in places:
            pair = self._declared(place) or latent_axes(self.model, place, sights, texts)
            if pair is None and (frame := self._frame(place, calls[place.path], grids)):
                pair = frame, frame
            if pair is None:
                queries, keys = (
                    self._axis(place, count, streams.get(name), sights, grids, read)
                    for count, name in zip((place.queries, place.keys), place.streams, strict=True)
                )
                # what looks at patches from elsewhere is none of them (object queries)
                looks = place.cross and keys is not None and bool(keys.grids())
                pair = None if looks and queries is not None and queries.grids() else queries, keys
            if any(axis is not None for axis in pair):
                found[place.label] = pair
        return Positions(found)

    def _declared(self, place: PlaceSize) -> tuple[Axis | None, Axis | None] | None:
        """What the caller said of this place: by its label, its stack, or of every place."""
        stack = place.label.rpartition(".")[0]
        self._known[place.label] = place.queries, place.keys
        for name in (place.label, stack, "*"):
            if name not in self.declared:
                continue
            pair = self.declared[name]
            for axis, count, what in zip(
                pair, (place.queries, place.keys), ("queries", "keys"), strict=True
            ):
                if axis is not None and len(axis) != count and name != "*":
                    raise InputError(
                        f"axes: {place.label} has {count} {what}, and the axis given for "
                        f"{name!r} has {len(axis)} positions"
                    )
            fits = [
                axis if axis is not None and len(axis) == count else None
                for axis, count in zip(pair, (place.queries, place.keys), strict=True)
            ]
            if any(axis is not None for axis in fits):
                self._used.add(name)
                return fits[0], fits[1]
        return None

    def _axis(
        self,
        place: PlaceSize,
        count: int,
        ids: NDArray[np.int64] | None,
        sights: Sequence[Sighted],
        grids: Grids,
        read: int | None,
    ) -> Axis | None:
        if ids is not None and len(ids):
            return self._text(ids[:count], sights, grids, read)
        if grids.all and (axis := self._packed(count, grids)) is not None:
            return axis
        near = nearest(place.path, sights)
        if near is None:
            return self._sound(count)
        if self._is_no_grid(place, count, near):
            return None
        if place.windows > 1 or near.divided(place.path) is not None:
            return self._windows(place, count, near)
        return laid_out(count, near, self._extras(near.path))

    def _is_no_grid(self, place: PlaceSize, count: int, near: Sighted) -> bool:
        """Whether positions are as many as patches by chance at best: learnt ones, or patches that
        a masked autoencoder takes in another order."""
        is_key = place.cross and count == place.keys
        learnt = not is_key and self._learnt.may_be(place.path, count, near.path)
        return learnt or self._is_shuffled(place.path, near.path)

    def _is_shuffled(self, path: str, picture: str) -> bool:
        """Whether a masked autoencoder has patches in another order there: before its encoder
        (ViT-MAE), or the masked ones behind the others in its decoder (VideoMAE)."""
        if "decoder" in path.split("."):
            return hasattr(self.model, "encoder_to_decoder")
        around = (picture.rpartition(".")[0], picture.rpartition(".")[0].rpartition(".")[0])
        return any(hasattr(self.model.get_submodule(one), "random_masking") for one in around)

    @cached_property
    def _learnt(self) -> LearntQueries:
        return LearntQueries(self.model)

    def _sound(self, count: int) -> Axis | None:
        """Moments of what is heard."""
        family = getattr(getattr(self.model, "config", None), "model_type", "")
        step, start = _STEP if family in _SOUND else None, 0.0
        if (heard := self.heard) is not None:
            step, start = heard.step or heard.seconds / max(count, 1), heard.start
        return Axis((Frames(count, step, start),)) if step and count > 1 else None

    # ── pictures ─────────────────────────────────────────────────────────────────────────────

    def _extras(self, path: str) -> tuple[str, ...]:
        """What the tower of this convolution puts before the patches, by name."""
        names: list[str] = []
        for what, spelt in _EXTRAS.items():
            alike = {
                name: one
                for name, one in self.model.named_parameters()
                if name.rpartition(".")[2] in spelt
            }
            if not alike:
                continue
            own = path.split(".")
            nearest_one = max(alike, key=lambda name: _common(own, name.split(".")))
            shape = alike[nearest_one].shape
            count = int(shape[-2]) if len(shape) > 1 else 1
            names += [what] if count == 1 else [f"{what} {n + 1}" for n in range(count)]
        return tuple(names)

    def _configs(self) -> Iterator[Any]:
        config = getattr(self.model, "config", None)
        if config is not None:
            yield config
            for name in _PARTS:
                if (inner := getattr(config, name, None)) is not None:
                    yield inner

    def _windows(self, place: PlaceSize, count: int, near: Sighted) -> Axis | None:
        """Windows of a grid, each attended by itself, as heads; or pictures, likewise."""
        if place.windows == near.pictures and near.divided(place.path) is None:
            axis = laid_out(count, replace(near, pictures=1), self._extras(near.path))
            if axis is not None:
                windows = (1, near.pictures)
                grids = [replace(g, windows=windows, apart=True) for _, g in axis.grids()]
                return Axis(tuple(grids))
        side = math.isqrt(count)
        sizes = {
            (high, wide)
            for high, wide in near.sizes(place.path)
            if math.ceil(high / side) * math.ceil(wide / side) == place.windows
        }
        if side * side != count or len(sizes) != 1:
            return None
        ((high, wide),) = sizes
        windows = math.ceil(high / side), math.ceil(wide / side)
        whole = (0, 0) if (high, wide) == (windows[0] * side, windows[1] * side) else (high, wide)
        shift = self._shift(place.path)
        return Axis((Grid(side, side, windows=windows, shift=shift, whole=whole),))

    def _shift(self, path: str) -> int:
        """By how much the layer around an attention moves its windows."""
        while path:
            path = path.rpartition(".")[0]
            shift = getattr(self.model.get_submodule(path), "shift_size", None)
            if isinstance(shift, int):
                return shift
        return 0

    @property
    def merge(self) -> int:
        """Patches a side of the blocks that a tower joins into one."""
        for config in self._configs():
            merge = getattr(config, "spatial_merge_size", None)
            if isinstance(merge, int) and merge > 0:
                return merge
        return 1

    def _tile(self) -> int:
        """Blocks a side of the windows that a tower sorts its patches by; 0 where it does not."""
        for config in self._configs():
            if hasattr(config, "fullatt_block_indexes"):
                return int(config.window_size // self.merge // config.patch_size)
        return 0

    def _packed(self, count: int, grids: Grids) -> Axis | None:
        """Patches of several pictures in one row, in blocks that are merged later; of stills and
        films together or of one of them. None where that could be either."""
        merge, tile = self.merge, self._tile()
        films = sum(t for t, _, _ in grids.images)  # the number of the first film's first frame
        found = []
        for sizes, first in ((grids.all, 0), (grids.images, 0), (grids.films, films)):
            pictures = np.cumsum([first, *(t for t, _, _ in sizes)]).tolist()
            parts = tuple(
                Grid(h, w, t, merge=merge, tile=tile, picture=pictures[n])
                for n, (t, h, w) in enumerate(sizes)
                if h % merge == w % merge == 0
            )
            if parts and sum(part.count for part in parts) == count:
                found.append(parts)
        alike = len(set(found)) == 1
        return Axis(found[0]) if alike else None

    def _frame(self, place: PlaceSize, calls: Sequence[int], grids: Grids) -> Axis | None:
        """The frame that a tower looks at which takes them one by one: its calls have as many keys
        as each frame has patches."""
        sizes = [(h, w) for t, h, w in grids.all for _ in range(t)]
        if place.streams[1] or len(sizes) < 2 or calls != [h * w for h, w in sizes]:
            return None
        (height, width), merge = sizes[place.occurrence], self.merge
        if height % merge or width % merge or place.queries != place.keys:
            return None
        tile = self._tile()
        grid = Grid(height, width, merge=merge, tile=tile, picture=place.occurrence)
        return Axis((grid,))

    # ── pictures within a text ───────────────────────────────────────────────────────────────

    def image_tokens(self, ids: NDArray[np.int64]) -> int:
        """How many tokens of a text stand for pictures."""
        return int(np.isin(ids, list(self._named(_IMAGE_TOKENS + _VIDEO_TOKENS))).sum())

    def _named(self, names: Sequence[str]) -> set[int]:
        """Tokens that configurations call so."""
        found = (getattr(config, name, None) for config in self._configs() for name in names)
        return {number for number in found if isinstance(number, int)}

    def _text(
        self,
        ids: NDArray[np.int64],
        sights: Sequence[Sighted],
        grids: Grids,
        read: int | None = None,
    ) -> Axis | None:
        """Tokens, with a grid where its tokens stand for a picture's patches; None: text alone."""
        count, ids = len(ids), ids[:read]
        stills, films = (self._named(one) for one in (_IMAGE_TOKENS, _VIDEO_TOKENS))
        runs = runs_of(ids, stills | films)
        if not runs:
            return None
        if grids.all:
            kinds = [runs_of(ids, stills), runs_of(ids, films - stills)]
            return among_words(count, *joined(self._told(kinds, grids)))
        return among_words(count, runs, self._seen(runs, sights) or unexplained(runs))

    def _told(
        self, kinds: Sequence[Sequence[Run]], grids: Grids
    ) -> list[tuple[Run, Sequence[Part]]]:
        """Runs of stills and of films, as pictures of the sizes that the model was told."""
        merge = self.merge
        images, films = (
            [(t, h // merge, w // merge) for t, h, w in one] for one in (grids.images, grids.films)
        )
        frames = sum(t for t, _, _ in images)
        if not kinds[1]:  # films have the tokens of stills (GLM-4V): either comes first
            images, films = [*images, *films], []
        found: list[tuple[Run, Sequence[Part]]] = []
        for runs, sizes, first in zip(kinds, (images, films), (0, frames), strict=True):
            is_mixed = not kinds[1] and bool(grids.images and grids.films)
            parts = None if is_mixed else as_they_are(runs, sizes, first)
            found += zip(runs, parts or unexplained(runs), strict=True)
        return found

    def _seen(self, runs: Sequence[Run], sights: Sequence[Sighted]) -> list[list[Part]] | None:
        """Runs as pictures that a tower saw, or all towers together."""
        if self._learnt.sum_up:
            return None
        names = {name.rpartition(".")[2] for name, _ in self.model.named_parameters()}
        most = 1 if "image_newline" in names else None  # else tiles have tokens between their rows
        for towers in (*([one] for one in sights), sights):
            sizes = [(o.frames, o.height, o.width) for o in towers for _ in range(o.pictures)]
            if (found := made_coarser(runs, sizes, most)) is not None:
                return found
        return None


def sights_of(now: Pass) -> list[Sighted]:
    """What convolutions over colours made of pictures, and latents as the model was given them: by
    path the shape (B, C, …, h, w)."""
    latents = [("", shape) for shape in now.given.latents]
    coarser = frozenset(now.coarser)
    return [
        Sighted(
            path, shape[0], shape[2] if len(shape) == 5 else 1, shape[-2], shape[-1],
            coarser=coarser, windowed=now.windowed,
        )
        for path, shape in (*now.laid_out.items(), *latents)
    ]  # fmt: skip


def nearest(path: str, sights: Sequence[Sighted]) -> Sighted | None:
    """The picture that a module's tower reads: that whose path begins like the module's."""
    own = path.split(".")
    common = [_common(own, one.path.split(".")) for one in sights]
    return sights[common.index(max(common))] if sights else None


def _common(a: list[str], b: list[str]) -> int:
    alike = [x == y for x, y in zip(a, b, strict=False)]
    return alike.index(False) if False in alike else len(alike)


def laid_out(count: int, sight: Sighted, extras: tuple[str, ...]) -> Axis | None:
    """`count` positions as patches of these pictures, with all of `extras` before each or none;
    None where that does not add up."""
    if sight.patches == 1:  # patches that came cut out already, each a picture of its own
        return None
    for names in dict.fromkeys((extras, ())):
        if count == sight.pictures * (len(names) + sight.patches):
            size = sight.height, sight.width, sight.frames
            grid = Grid(*size, prefix=len(names), names=names)
            return Axis(tuple(replace(grid, picture=n) for n in range(sight.pictures)))
    for factor in _REDUCED[1:]:  # a backbone's later, coarser layers
        for round_off in (math.ceil, math.floor):
            height, width = round_off(sight.height / factor), round_off(sight.width / factor)
            fits = count == sight.frames * height * width and count > 1
            if fits and (height, width) in sight.coarser:
                return Axis((Grid(height, width, sight.frames),))
    return None


def declared_axes(given: Any) -> Declared:
    """What `regard.record(axes=…)` was given: an axis for every place that has as many positions,
    or by label or stack an axis, or a pair for queries and keys."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        axis = Axis.of(given)
        return {"*": (axis, axis)}
    return {str(name): _pair(one) for name, one in given.items()}


def _pair(given: Any) -> tuple[Axis | None, Axis | None]:
    is_pair = isinstance(given, tuple) and len(given) == 2
    if is_pair and any(one is None or isinstance(one, Axis) for one in given):
        queries, keys = (None if one is None else Axis.of(one) for one in given)
        return queries, keys
    axis = Axis.of(given)
    return axis, axis
