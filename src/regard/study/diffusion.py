"""Where a model of diffusion puts the words of its text: cross-attention over steps, layers, heads.

For a word at the text's position t, a place whose queries are a grid h × w of the latents has the
weights A[(y, x), t]. A map is their mean over heads, enlarged to the latents' size so that each
cell covers its own part, and the mean of that over places and steps (Tang et al. 2022, DAAM). A
column of weights is computed from q, k and lse: nothing of size queries × keys is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.axes import Axis, Grid, Tokens
from regard.errors import InputError
from regard.recording import PromptView, Recording

Array = NDArray[Any]


class _Text(NamedTuple):
    """A place's grid among its queries and the text among its keys, by their first positions."""

    grid_at: int
    grid: Grid
    text_at: int
    tokens: int


def word_maps(
    recording: Recording,
    token: int | str,
    *,
    steps: Iterable[int] | None = None,
    places: Iterable[str] | None = None,
    sequence: int = -1,
) -> Array:
    """(h, w) float64: how much of each place of the latents looks at a word, as a mean over steps,
    places and heads.

    token     a position in the text, or a word; of several tokens their weights are added
    steps     steps of denoising, counted from the first recorded; all by default
    places    labels such as "L3", or the beginnings of their names; all with text by default
    sequence  which of the batch; the last by default, which with guidance is that of the prompt
    """
    wanted = None if steps is None else set(steps)
    named = None if places is None else tuple(places)
    total, size, count = np.zeros((1, 1)), (0, 0), 0
    for prompt in recording.prompts:
        facts = _facts(prompt)
        at = sequence % facts["of"]
        if facts["sequence"] != at or (wanted is not None and facts["step"] not in wanted):
            continue
        positions = word_positions(prompt, token)
        for label, found in _text_places(prompt, named):
            if not size[0]:
                size = facts["latents"] or _largest(prompt)
                total = np.zeros(size)
            total += enlarged(_map(prompt, label, found, positions), size)
            count += 1
    if not count:
        raise InputError(
            "no attention from latents to a text was recorded there; record pipe.unet or "
            "pipe.transformer of a pipeline with a text, with regard.record"
        )
    return total / count


def word_positions(prompt: PromptView, token: int | str) -> list[int]:
    """Where a word stands in the text: its last occurrence, token by token."""
    if isinstance(token, int):
        return [token]
    stream = prompt.streams.get("encoder")
    texts = stream.tokens if stream is not None else []
    if not texts:
        raise InputError(
            "the text's tokens were not recorded; call recorder.steer(token ids) before the "
            "pipeline runs, or give the position of the word"
        )
    wanted = "".join(token.split()).casefold()
    for first in reversed(range(len(texts))):
        spelt = ""
        for last in range(first, len(texts)):
            spelt += "".join(texts[last].replace("</w>", "").split()).casefold()
            if spelt == wanted:
                return list(range(first, last + 1))
            if not wanted.startswith(spelt):
                break
    raise InputError(f"the text has no word {token!r}: {' '.join(texts[:40])[:200]}")


def enlarged(values: Array, size: tuple[int, int]) -> Array:
    """(h, w) → (H, W): cell (⌊y · h / H⌋, ⌊x · w / W⌋) at each (y, x)."""
    rows = np.arange(size[0]) * values.shape[0] // size[0]
    columns = np.arange(size[1]) * values.shape[1] // size[1]
    found: Array = values[rows[:, None], columns[None, :]]
    return found


def _map(prompt: PromptView, label: str, found: _Text, positions: Sequence[int]) -> Array:
    """(h, w): the mean over heads; over frames too, of a film."""
    if not all(-found.tokens <= n < found.tokens for n in positions):
        raise InputError(f"token {max(positions)}: the text has {found.tokens} tokens")
    keys = [found.text_at + n % found.tokens for n in positions]
    rows = slice(found.grid_at, found.grid_at + found.grid.count)
    heads = [prompt[f"{label}H{head}"] for head in prompt.places[label].heads]
    total = np.zeros(found.grid.count)
    for head in heads:
        if not head.exact or len(head.recorded) != head.shape[0]:
            why = head.why_not or "not every row was recorded"
            raise InputError(f"{head.label} is not exact: {why}")
        for key in keys:
            total += head[rows, key]
    laid: Array = found.grid.lay(total / len(heads)).mean(0)
    return laid


def _text_places(prompt: PromptView, named: tuple[str, ...] | None) -> Iterable[tuple[str, _Text]]:
    """The places where latents look at the text."""
    for label in prompt.places:
        if named is not None and not label.startswith(named):
            continue
        found = _text_of(*prompt.axes(label))
        if found is not None:
            yield label, found


def _text_of(queries: Axis, keys: Axis) -> _Text | None:
    grids = queries.grids()
    texts = [(at, part) for at, part in keys.starts() if isinstance(part, Tokens)]
    if len(grids) != 1 or len(texts) != 1:
        return None
    (grid_at, grid), (text_at, text) = grids[0], texts[0]
    return _Text(grid_at, grid, text_at, text.count)


def _facts(prompt: PromptView) -> dict[str, Any]:
    """Of a step of diffusion, as the file says them; of a prompt without any, its number."""
    given = prompt.note.facts.get("diffusion")
    facts = given if isinstance(given, dict) else {}
    found: dict[str, Any] = {"step": prompt.number, "sequence": 0, "of": 1, "latents": None}
    for name in ("step", "sequence", "of"):
        value = facts.get(name)
        if type(value) is int and value >= (name == "of"):
            found[name] = value
    size = facts.get("latents")
    if isinstance(size, list) and len(size) == 2:
        if all(type(one) is int and 0 < one <= 4096 for one in size):
            found["latents"] = (size[0], size[1])
    return found


def _largest(prompt: PromptView) -> tuple[int, int]:
    """The finest grid of any place."""
    grids = [grid for label in prompt.places for _, grid in prompt.axes(label)[0].grids()]
    return max(((one.height, one.width) for one in grids), default=(1, 1))
