"""When each word of a recording of speech was said, from where its tokens look in the sound.

A few heads of a speech model's cross-attention follow what is being said. Their weights A (tokens,
frames) are standardised over tokens, smoothed over frames by a median, and averaged over heads; the
cheapest path through −A from the first token and frame to the last tells at which frame each token
begins (dynamic time warping). These are the steps of transformers' `return_token_timestamps`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.axes import Frames
from regard.errors import InputError
from regard.recording import Head, PromptView, Recording
from regard.recording.schema import SPECIAL

Array = NDArray[Any]
_WIDTH: Final = 7  # frames of the median, where the recording does not say
_MOST_CELLS: Final = 2**26  # tokens × frames
_ACROSS, _DOWN = 2, 1  # where a step of the path comes from: the frame before, the token before
_UNSPACED: Final = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "MYANMAR", "KHMER")


class WordTime(NamedTuple):
    """A word, and the seconds of the file at which it begins and ends."""

    word: str
    start: float
    end: float


def word_times(
    recording: Recording | PromptView,
    prompt: int | None = None,
    *,
    heads: Iterable[tuple[int, int]] | None = None,
) -> list[WordTime]:
    """The words of a recorded sound, each with its start and its end in seconds.

    prompt  one clip; by default all of them, one behind the other
    heads   (layer, head) of the cross-attention that follows the sound; by default those that the
            model names (`alignment_heads`), else every head of the later half of its layers
    """
    wanted = None if heads is None else [(int(layer), int(head)) for layer, head in heads]
    if isinstance(recording, PromptView):
        return _of_prompt(recording, wanted)
    prompts = recording.prompts if prompt is None else [recording.prompt(prompt)]
    return [word for one in prompts for word in _of_prompt(one, wanted)]


def _of_prompt(prompt: PromptView, heads: list[tuple[int, int]] | None) -> list[WordTime]:
    return [word for _, word in placed_words(prompt, heads)]


def placed_words(
    prompt: PromptView, heads: list[tuple[int, int]] | None = None
) -> list[tuple[int, WordTime]]:
    """Each word with the position of its first token."""
    starts, end = token_times(prompt, heads=heads)
    texts, flags = prompt.tokens, prompt.flags
    ends = np.append(starts[1:], end)
    first = _first_token(prompt)
    found: list[tuple[int, WordTime]] = []
    for at in range(first, first + len(starts)):
        if flags[at] & SPECIAL:
            continue
        text, start, stop = texts[at], float(starts[at - first]), float(ends[at - first])
        if not found or _begins_word(text):
            found.append((at, WordTime(text, start, stop)))
        else:
            first_at, begun = found[-1]
            found[-1] = first_at, WordTime(begun.word + text, begun.start, stop)
    return [(at, one._replace(word=one.word.strip())) for at, one in found if one.word.strip()]


def token_times(
    prompt: PromptView, *, heads: Sequence[tuple[int, int]] | None = None
) -> tuple[Array, float]:
    """(tokens,) seconds at which each token of the text begins, without those in front of it that
    tell the model what to do; and where the sound ends."""
    sound = prompt.note.facts.get("sound")
    facts = sound if isinstance(sound, dict) else {}
    following = _following(prompt, heads, facts)
    axis = _moments(following[0])
    moments = _real_moments(axis, facts.get("seconds"))
    rows = range(_first_token(prompt), following[0].shape[0])
    if len(rows) * moments > _MOST_CELLS:
        raise InputError(f"{len(rows)} tokens and {moments} frames are too many to align")
    end = axis.start + moments * axis.seconds
    if not rows or not moments:
        return np.zeros(0), end
    width = facts.get("median_filter_width", _WIDTH)
    if type(width) is not int or not 0 < width < 100 or width % 2 == 0:
        width = _WIDTH
    mean = np.zeros((len(rows), moments))
    for head in following:
        weights = head[rows.start : rows.stop, :moments].astype(np.float64)
        if len(weights) != len(rows):
            raise InputError(f"{head.label}: not every row was recorded; record without queries=")
        mean += smoothed(standardised(weights), width) / len(following)
    return axis.start + jumps(mean) * axis.seconds, end


def _following(
    prompt: PromptView, heads: Sequence[tuple[int, int]] | None, facts: dict[str, Any]
) -> list[Head]:
    """The heads that follow the sound."""
    layers = [place for place in prompt.places.values() if place.stack == "cross"]
    if not layers:
        raise InputError(
            f"prompt {prompt.number} has no cross-attention to time its words by; record a speech "
            "model that writes, such as whisper-tiny.en, with --audio FILE"
        )
    chosen = heads if heads is not None else _named(facts.get("alignment_heads"))
    if chosen is None:
        half = (max(place.layer for place in layers) + 1) // 2
        chosen = [(p.layer, head) for p in layers if p.layer >= half for head in p.heads]
    found = [prompt["cross", layer, head] for layer, head in chosen]
    for head in found:
        if not head.exact:
            raise InputError(f"{head.label} is not exact: {head.why_not}")
    if not found:
        raise InputError("heads: none were named; give (layer, head) pairs")
    return found


def _named(value: Any) -> list[tuple[int, int]] | None:
    """Pairs of whole numbers, as a file says them; None where it does not."""
    fine = isinstance(value, list) and all(
        isinstance(one, list) and len(one) == 2 and all(type(n) is int for n in one)
        for one in value
    )
    return [(layer, head) for layer, head in value] if fine and value else None


def _moments(head: Head) -> Frames:
    (part, *more) = head.key_axis.parts or (None,)
    if more or not isinstance(part, Frames):
        raise InputError(f"{head.label}: its keys are no moments of a sound")
    return part


def _real_moments(axis: Frames, seconds: Any) -> int:
    """How many of the model's moments hold sound and not the silence put behind it."""
    if not isinstance(seconds, int | float) or not seconds > 0:
        return axis.count
    # 0.58 s / 0.02 s is 28.999…
    return int(min(seconds / axis.seconds + 1e-6, axis.count))


def _first_token(prompt: PromptView) -> int:
    """Behind the special tokens that the text begins with."""
    plain = np.flatnonzero((np.asarray(prompt.flags) & SPECIAL) == 0)
    return int(plain[0]) if len(plain) else len(prompt.flags)


def _begins_word(text: str) -> bool:
    """With a space; or with a letter of a script that writes none between words."""
    if not text[:1].strip():
        return True
    return unicodedata.name(text[0], "").startswith(_UNSPACED)


# ── the path ─────────────────────────────────────────────────────────────────────────────────


def standardised(weights: Array) -> Array:
    """(tokens, frames): each frame less its mean over tokens, over its deviation; 0 where no token
    differs."""
    far = weights - weights.mean(0)
    deviation = weights.std(0)
    found: Array = np.divide(far, deviation, out=np.zeros_like(far), where=deviation > 0)
    return found


def smoothed(weights: Array, width: int) -> Array:
    """The median of `width` neighbouring frames, which are mirrored at both ends."""
    half = width // 2
    if weights.shape[1] <= half:
        return weights
    wide = np.pad(weights, ((0, 0), (half, half)), mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(wide, width, axis=1)
    found: Array = np.median(windows, axis=2)
    return found


def jumps(gain: Array) -> Array:
    """(tokens,): the frame at which the path of the largest gain reaches each token."""
    came = _trace(-gain)
    token, frame = gain.shape[0] - 1, gain.shape[1] - 1
    found = np.zeros(gain.shape[0], np.int64)
    while token > 0 or frame > 0:
        found[token] = frame  # the last one written is the first on the path
        step = _ACROSS if token == 0 else _DOWN if frame == 0 else came[token, frame]
        token -= step != _ACROSS
        frame -= step != _DOWN
    found[0] = 0
    return found


def _trace(cost: Array) -> NDArray[np.int8]:
    """(tokens, frames): from where the cheapest path comes: 0 both before, 1 the token before,
    2 the frame before. Diagonal by diagonal, whose cells do not depend on one another."""
    tokens, frames = cost.shape
    came = np.zeros(cost.shape, np.int8)
    # sums of the two diagonals before, by token; what lies outside is never chosen
    last, before = np.full(tokens + 1, np.inf), np.full(tokens + 1, np.inf)
    before[0] = 0.0
    for diagonal in range(tokens + frames - 1):
        rows = np.arange(max(0, diagonal - frames + 1), min(tokens, diagonal + 1))
        both, down, across = before[rows], last[rows], last[rows + 1]
        step = np.full(len(rows), _ACROSS, np.int8)
        step[(down < both) & (down < across)] = _DOWN
        step[(both < down) & (both < across)] = 0
        came[rows, diagonal - rows] = step
        sums = np.full(tokens + 1, np.inf)
        least = np.choose(step, [both, down, across])
        sums[rows + 1] = cost[rows, diagonal - rows] + least
        before, last = last, sums
    return came
