"""What is answered about pictures and sounds, field by field; see `schema.py`."""

from __future__ import annotations

from typing import Literal, TypedDict

from regard.views.schema import Known


class PictureFactsAnswer(TypedDict):
    """A picture that a prompt was read from, or a frame of a film."""

    width: int
    height: int
    type: Literal["image/jpeg", "image/png"]
    title: str
    seconds: float | None  # When it is seen, of a film's frame.


class GridPlaceAnswer(TypedDict):
    """A grid of patches. Frame f lies on picture + f; on none where picture is −1."""

    prefix: list[str]  # Names of the tokens before the patches: class, registers.
    frames: int
    height: int
    width: int
    picture: int
    windows: tuple[int, int]  # Rows and columns of windows; a head is about one of them.
    shift: int  # By how many patches windows are moved down and right, cyclically.
    size: tuple[int, int]  # Rows and columns on the picture; windows may reach beyond them.
    apart: bool  # Whether windows are pictures of their own.
    order: list[int] | None  # row · width + column of each patch of a frame; null: row by row.


class MomentsAnswer(TypedDict):
    """Positions that are moments of a sound."""

    seconds: float  # Of each.
    first: float  # When the first begins.


class AxisPartAnswer(TypedDict):
    """Positions of one kind, one behind the other."""

    start: int
    count: int
    kind: Literal["text", "grid", "frames", "other"]
    what: str  # A word for each of them, where they have no place: query, latent.
    grid: GridPlaceAnswer | None
    moments: MomentsAnswer | None


class SightedPlaceAnswer(TypedDict):
    """An attention module: which of the axes its queries and keys are, and whose texts."""

    queries: int
    keys: int
    query_tokens: str
    key_tokens: str
    heads: int  # All that the module has, windows counted as heads.


class SightAnswer(TypedDict):
    """What the positions of a prompt stand for, and the pictures it was read from."""

    pictures: list[PictureFactsAnswer]
    axes: list[list[AxisPartAnswer]]
    places: dict[
        str, SightedPlaceAnswer
    ]  # By label: L0, vision.L3. Those of text alone are left out.


class RolloutAnswer(TypedDict):
    """What a token of a stack's last layer is made of, through all of its layers."""

    start: str  # What it was followed from.
    layers: int
    shares: list[Known]  # One for each position; an even one is 1 over how many there are.
    on_patches: Known  # Of all patches together.
    what: str  # A sentence about rollout.
    caution: str  # One more where layers only look back; else empty.
    why: str  # Why there are no shares; empty where there are.


class HeardWordAnswer(TypedDict):
    """A word of a recorded sound, in seconds of its file."""

    position: int  # Of its first token.
    word: str
    start: float
    end: float


class HeardAnswer(TypedDict):
    """A recorded sound; `seconds` without the silence that the model was given behind it."""

    picture: int  # Its spectrogram, which covers those seconds; −1 where there is none.
    start: float
    seconds: Known
    words: list[HeardWordAnswer]  # None where they cannot be timed.


class PartMassAnswer(TypedDict):
    """A part of an axis and the weight on it; of a grid on its patches, its prefix apart."""

    start: int
    kind: str  # text, grid, frames or other.
    count: int
    mass: Known
    prefix: Known


class SpotAnswer(TypedDict):
    """One position."""

    position: int
    words: str
    kind: str  # text, grid, frames or other.
    cell: tuple[int, int, int] | None  # Frame, row and column of a patch.
    picture: int  # −1 where it lies on none.
    box: tuple[float, float, float, float] | None  # Left, top, width, height, as fractions.
