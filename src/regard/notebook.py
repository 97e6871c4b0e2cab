"""Values in a notebook: an attention, a recording, one of its texts or heads, a lesson.

Each becomes the self-contained page in a sandboxed frame. Notebooks keep a value's `repr` beside
it as plain text, so nothing more is needed for those that show no HTML.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from regard.errors import RegardError, UnavailableError
from regard.learn import Lesson
from regard.recording import Head, PromptView, Recording
from regard.recording.stores import Store
from regard.viewer.notebook import frame, lesson_page, recording_page, without_picture

if TYPE_CHECKING:
    from regard.engine.attention import Attention
    from regard.engine.call import Call

MOST_CELLS: Final = 2**26  # of an attention that are swept for a picture: a second or two


def html_of(value: object) -> str:
    """The value in a frame; where that cannot be, its text and why."""
    text = repr(value)
    try:
        return frame(_page(value), text)
    except RegardError as error:
        return without_picture(text, str(error))


def _page(value: Any) -> str:
    if isinstance(value, Lesson):
        return lesson_page(value)
    if isinstance(value, Recording):
        return recording_page(value)
    if isinstance(value, PromptView):
        own, prompt = _found(value._store, value.filed)
        return recording_page(own, prompt=prompt)
    if isinstance(value, Head):
        own, prompt = _found(value._held.store, value._held.prompt)
        return recording_page(own, prompt=prompt, head=value.label)
    return recording_page(recording_of(value))


def _found(store: Store, number: int) -> tuple[Recording, int]:
    """The recording again, with heads of its own, and where a prompt stands in it."""
    own = Recording(store)
    return own, [one.number for one in own.prompts].index(number)


# ── an attention ─────────────────────────────────────────────────────────────────────────────


def recording_of(attention: Attention) -> Recording:
    """An attention as a recording in memory: its first batch entry, and as many of its heads as
    are swept in a second or two."""
    import torch

    from regard.engine.observers import unheard
    from regard.recorder import record

    attention._fresh()
    call = attention._call
    model = _again(call, _heads_swept(call))
    with unheard(), torch.no_grad():
        recorder = record(model)
        recorder.name = "attention"
        with recorder:
            model()
    found = recorder.recording
    found.name = f"attention {attention.shape}"
    return found


def _heads_swept(call: Call) -> int:
    """The first so many; all of them where a mask or a score rule holds numbers of its own."""
    shape = call.shape
    cells = max(shape.queries * shape.keys, 1)
    arrays = [*call.score.arrays(), *([] if call.mask is None else call.mask.arrays())]
    count = shape.query_heads if arrays else min(shape.query_heads, max(MOST_CELLS // cells, 1))
    if count * cells > 4 * MOST_CELLS or not math.prod(shape.batch) * count:
        raise UnavailableError(
            f"{shape.queries:,} × {shape.keys:,} weights of {count} heads are too many to sweep "
            "for a picture; ask for a slice, rows, pooled() or top(), or record the model and "
            "open the file with `regard view`"
        )
    return count


def _again(call: Call, heads: int) -> Any:
    """A module that computes the first batch entry of these heads anew, for a recorder to hear."""
    from torch import nn

    from regard.engine.api import attend

    call, first = call.read(), (0,) * len(call.shape.batch)
    group = call.shape.query_heads // call.shape.key_heads
    shared = [head // group for head in range(heads)]
    query = call.query[first][:heads]
    key = call.key[first][shared]
    value = call.value[first][shared] if call.value.shape[-1] else key * 0  # a replay has none
    score = call.score.select(first)

    class Attention(nn.Module):
        def forward(self) -> Any:
            return attend(
                query, key, value, mask=None if call.mask is None else call.mask.select(first),
                scale=score.scale, bias=score.bias, softcap=score.softcap, sink=score.sink,
            ).output  # fmt: skip

    return Attention()
