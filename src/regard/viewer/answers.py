"""What a served recording answers: views, made under its lock, of what is written of it by now."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final

from regard.errors import InputError
from regard.viewer.opened import Opened
from regard.views.comparison import Side, make_comparison
from regard.views.head import HeadView, head_answer
from regard.views.overview import heads_of, make_overview, tokens_of
from regard.views.overview import listing as listed
from regard.views.picture import overlay, overlay_bytes
from regard.views.rollout import rollout_answer
from regard.views.row import MOST_TOP, cells_of, make_row, own_row, weights_of
from regard.views.run import MOST_BINS, Snapshot, Strips, snapshot_of, strips_of, training_answer
from regard.views.schema import (
    ComparisonAnswer,
    HeadFactsAnswer,
    ListingAnswer,
    OverviewAnswer,
    ProgressAnswer,
    RowFactsAnswer,
    TokensAnswer,
    TrainingFactsAnswer,
)
from regard.views.schema_sight import HeardAnswer, RolloutAnswer, SightAnswer
from regard.views.sight import sight_answer
from regard.views.thumbnails import SIDE, Thumbnails, thumbnails_of
from regard.views.timing import heard_answer

MOST_OVERLAID: Final = 2**20  # weights in one answer: 64 heads of 16,384 patches
_HEAD_BYTES: Final = 2048  # of a head's numbers in the overview, about
_SHARE_BYTES: Final = 32  # of a position in a rollout, a float of Python
_HEARD_BYTES: Final = 2**16  # of the words of a clip, about
_RUN_BYTES: Final = 2**16  # of a training run's facts
_COMPARED_BYTES: Final = 512  # of a head in a comparison


def listing(opened: Opened) -> ListingAnswer:
    """Which recording this is, and how it is."""
    with opened.lock:
        return listed(opened.recording, opened.who)


def overview(opened: Opened, prompt: int = 0) -> OverviewAnswer:
    """Everything the first page needs; what was written since is looked at first."""
    with opened.lock:
        opened.refresh()
        heads = None
        if opened.recording.prompts:
            view = opened.prompt(prompt)
            size = _HEAD_BYTES * len(view)
            heads = opened.remembered("heads", prompt, lambda: heads_of(view), size)
        return make_overview(opened.recording, prompt, opened.who, heads)


def thumbnails(
    opened: Opened,
    prompt: int = 0,
    stack: str = "",
    side: int = SIDE,
    go_on: Callable[[], None] = lambda: None,
) -> Thumbnails:
    """Small pictures of a stack's heads, made once; others are answered meanwhile."""
    with opened.lock:
        view, key = opened.prompt(prompt), opened.key(prompt, f"thumbnails {side} {stack}")
        layers, heads = view.stacks.get(stack, (0, 0))

    def make() -> Thumbnails:
        return thumbnails_of(opened.snapshot().prompts[prompt], stack, side, go_on)

    return opened.shared(key, make, layers * heads * (side * side + 1))


def tokens(
    opened: Opened, prompt: int = 0, stream: str = "", start: int = 0, count: int = 1024
) -> TokensAnswer:
    """A page of a stream's tokens."""
    with opened.lock:
        return tokens_of(opened.prompt(prompt), stream, start, count)


def head_facts(opened: Opened, prompt: int, label: str) -> HeadFactsAnswer:
    """A head's numbers, the levels of its map, and the tracks beside it."""
    with opened.lock:
        view = HeadView(opened.prompt(prompt), opened.head(prompt, label))
        told = head_answer(view, opened.revision)
        told["prompt"] = prompt
        return told


def row_facts(opened: Opened, prompt: int, label: str, row: int, top: int = 32) -> RowFactsAnswer:
    """What a row may see, and its heaviest keys."""
    if not 0 < top <= MOST_TOP:
        raise InputError(f"top={top}; give 1 to {MOST_TOP}")
    with opened.lock:
        head = opened.head(prompt, label)
        return make_row(opened.prompt(prompt), head, row, top=top).as_answer()


def weights(opened: Opened, prompt: int, label: str, row: int) -> bytes:
    """(keys,) float32: a whole row; NaN where it may not look, ∞ where a weight is no number."""
    with opened.lock:
        head = opened.head(prompt, label)
        own = own_row(head, row)
        found = weights_of(
            opened.prompt(prompt), head, range(own, own + 1), range(head.shape[1])
        )  # fmt: skip
        return bytes(found.tobytes())


def cells(opened: Opened, prompt: int, label: str, rows: range, keys: range) -> bytes:
    """A rectangle of weights, and how many keys its rows may see; see `views.row`."""
    with opened.lock:
        return cells_of(opened.prompt(prompt), opened.head(prompt, label), rows, keys)


def sight(opened: Opened, prompt: int = 0) -> SightAnswer:
    """What positions stand for, and which pictures there are: none in a training run alone, nor in
    a recording that has just begun, which every page asks about."""
    with opened.lock:
        if prompt == 0 and not opened.recording.prompts:
            return {"pictures": [], "axes": [], "places": {}}
        return sight_answer(opened.prompt(prompt))


def overlays(
    opened: Opened, prompt: int, labels: Sequence[str], *, query: int | None, key: int | None
) -> bytes:
    """A row, or a column, of each of the heads; see `views.picture.overlay_bytes`."""
    with opened.lock:
        heads = [opened.head(prompt, label) for label in labels]
        cells = sum(max(head.shape) for head in heads)
        if cells > MOST_OVERLAID:
            raise InputError(f"{cells} weights; at most {MOST_OVERLAID} at once: name fewer heads")
        return overlay_bytes(overlay(head, query=query, key=key) for head in heads)


def heard(opened: Opened, prompt: int = 0) -> HeardAnswer:
    """A sound and when its words were said, made once; others are answered meanwhile."""
    opened.prompt(prompt)  # which says so where there is none
    make = lambda: heard_answer(opened.snapshot().prompts[prompt])  # noqa: E731
    return opened.shared(opened.key(prompt, "heard"), make, _HEARD_BYTES)


def rollout(opened: Opened, prompt: int, label: str, query: int | None) -> RolloutAnswer:
    """A query of the last layer followed through all layers of a head's stack, made once; others
    are answered meanwhile."""
    with opened.lock:
        head = opened.head(prompt, label)
        stack, key = head.place.stack, opened.key(prompt, f"rollout {head.place.stack} {query}")

    def make() -> RolloutAnswer:
        return rollout_answer(opened.snapshot(), stack, query, prompt=prompt)

    return opened.shared(key, make, _SHARE_BYTES * head.shape[1])


def picture(opened: Opened, prompt: int, number: int) -> tuple[bytes, str]:
    """A picture as it is encoded, and its media type: image/jpeg or image/png."""
    with opened.lock:
        view = opened.prompt(prompt)
        return view.picture(number), view.pictures[number].type


def training(opened: Opened) -> TrainingFactsAnswer:
    """What was monitored; what was written since is looked at first."""
    with opened.lock:
        opened.refresh()
        own, who = opened.recording.training, opened.who
        make = lambda: training_answer(own, who.number, who.revision)  # noqa: E731
        return opened.remembered("training", 0, make, _RUN_BYTES)


def strips(opened: Opened, statistic: str, most: int = MOST_BINS) -> Strips:
    """A statistic of every head over the steps."""
    with opened.lock:
        return strips_of(opened.recording.training, statistic, most)


def snapshot(opened: Opened, head: str, step: int) -> Snapshot:
    """What was stored of a head at a step, or last before it."""
    with opened.lock:
        return snapshot_of(opened.recording.training, head, step)


def comparison(
    a: tuple[Opened, int], b: tuple[Opened, int], go_on: Callable[[], None] = lambda: None
) -> ComparisonAnswer:
    """Every head that two prompts both have; made once as long as neither recording grows."""
    for opened, prompt in (a, b):
        opened.prompt(prompt)  # which says so where there is none
    key = _compared(a, b)
    size = _COMPARED_BYTES * len(a[0].prompt(a[1]))

    def advance(done: int, total: int) -> None:
        go_on()
        a[0].progress[key] = done, total

    def make() -> ComparisonAnswer:
        sides = [Side(one.snapshot(), prompt, one.who) for one, prompt in (a, b)]
        try:
            return make_comparison(*sides, go_on=advance)
        finally:
            a[0].progress.pop(key, None)

    return a[0].shared(("compare", key), make, size)


def comparison_progress(a: tuple[Opened, int], b: tuple[Opened, int]) -> ProgressAnswer:
    """How far the comparison of two prompts is."""
    done, total = a[0].progress.get(_compared(a, b), (0, 0))
    return {"done": done, "total": total}


def _compared(a: tuple[Opened, int], b: tuple[Opened, int]) -> Hashable:
    return tuple((one.number, one.revision, prompt) for one, prompt in (a, b))
