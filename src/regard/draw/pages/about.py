"""What a recording says of itself: the model, its state, its prompts, what was kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.draw.finish import wrapped
from regard.draw.paper import Paper, StyledLine, plain
from regard.draw.passage import Passage, shaded_text
from regard.draw.spelling import fitted, flowing, visible
from regard.recording import PromptView, Recording
from regard.recording.prompt import listed
from regard.recording.schema import Place
from regard.views.text import bytes_in_words, count, large_number

_PROMPTS = 8  # listed
_GUESSES = 5  # next tokens
_UNLIKELY = 0.005  # what two decimals would show as nothing
_TEXT_LINES = 3
_DAMAGES = 3  # listed


def model_lines(recording: Recording, paper: Paper) -> list[StyledLine]:
    """The model, the file, and what is wrong with it."""
    model, name = recording.model, Path(recording.name)
    facts = [f"{layers} {paper.times} {heads} heads" for layers, heads in recording.stacks.values()]
    if isinstance(parameters := model.get("parameters"), int):
        facts.append(f"{large_number(parameters)} parameters")
    facts += [flowing(str(model[key]), paper) for key in ("dtype", "device") if key in model]
    size = f", {bytes_in_words(name.stat().st_size)}" if name.is_file() else ""
    called = str(model.get("name", "a model"))
    title = visible(Path(called).name if Path(called).is_absolute() else called, paper)
    return [
        [(title, "bold"), ("".join(paper.dot + fact for fact in facts), "")],
        [(flowing(name.name, paper) + size, "dim")],
        *_state_lines(recording, paper),
    ]


def _state_lines(recording: Recording, paper: Paper) -> list[StyledLine]:
    words = [
        f"damaged at byte {one.offset}: {one.reason}; the rest is shown"
        for one in recording.damage[:_DAMAGES]
    ]
    if len(recording.damage) > _DAMAGES:
        words.append(f"and {len(recording.damage) - _DAMAGES} more: regard verify lists them")
    if recording.not_recorded:
        named = ", ".join(flowing(one, paper) for one in recording.not_recorded)
        words.append(f"not recorded: {named}")
    if recording.is_live:
        words.append("still being written: what is shown is what there is so far")
    if not recording.prompts and not len(recording.training):
        words.append("nothing was recorded yet")
    return [line for one in words for line in wrapped(one, paper, "bold", indent=2)]


def prompt_lines(recording: Recording, prompt: PromptView, paper: Paper) -> list[StyledLine]:
    """All prompts, how this one begins, and what the model would say next."""
    shown = [one for one in recording.prompts[:_PROMPTS] if one is not prompt]
    lines: list[StyledLine] = [[(_prompt_words(prompt, paper), "")], *_excerpt(prompt, paper)]
    if prompt.next:
        likely = [one for one in prompt.next[:_GUESSES] if one[1] >= _UNLIKELY] or prompt.next[:1]
        guesses = [f"{visible(token, paper)} {share:.2f}" for token, share in likely]
        lines.append([("next: " + "  ".join(guesses), "")])
    lines += [[(_prompt_words(one, paper), "dim")] for one in shown]
    rest = len(recording.prompts) - len(shown) - 1
    return [*lines, *([[(f"and {count(rest, 'prompt')} more", "dim")]] if rest else [])]


def _prompt_words(prompt: PromptView, paper: Paper) -> str:
    words = [f"prompt {prompt.number}", count(prompt.length, "token")]
    if prompt.generated:
        words.append(f"{prompt.generated:,} of them generated")
    if not prompt.finished:
        words.append("not finished")
    title = f": {flowing(prompt.title, paper)}" if prompt.title else ""
    return ", ".join(words) + title


def _excerpt(prompt: PromptView, paper: Paper) -> list[StyledLine]:
    """How the text begins."""
    tokens = prompt.tokens[: _TEXT_LINES * paper.width]
    nothing = np.zeros(len(tokens))
    every = plain(shaded_text(Passage(tokens, nothing, nothing), replace(paper, colours="none")))
    lines = [line for line in every if line != flowing("\n", paper)]  # empty ones tell nothing
    shown = lines[:_TEXT_LINES]
    if shown and (len(lines) > _TEXT_LINES or len(tokens) < len(prompt.tokens)):
        shown[-1] = fitted(shown[-1], paper.width - 1, paper).rstrip(paper.ellipsis)
        shown[-1] += paper.ellipsis
    return [[(line, "dim")] for line in shown]


def kept_lines(prompt: PromptView, paper: Paper) -> list[StyledLine]:
    """Of which layers any cell can be computed."""
    lines: list[StyledLine] = []
    for name in prompt.stacks:
        words = _kept_words(prompt, name).replace("–", paper.dash)
        lines += wrapped(f"{name}: {words}" if name else words, paper, indent=2)
    return lines


def _kept_words(prompt: PromptView, stack: str) -> str:
    places = [place for place in prompt.places.values() if place.stack == stack]
    recorded, exact = [place.layer for place in places], _exact_layers(prompt, stack)
    is_whole = len(recorded) == prompt.stacks[stack][0]
    parts = _chosen_parts(places)
    ending = "" if is_whole and not parts else "; nothing else was recorded"
    whose = parts or " of every head"
    if not exact:
        some = whose if is_whole else f"{parts} of {_layers(recorded)}"
        return f"summaries are kept{some}, but no single cells{ending}"
    if len(exact) == len(recorded):
        some = whose if is_whole else f"{parts} of {_layers(exact)}"
        return f"every cell{some} can be computed{ending}"
    summed = [layer for layer in recorded if layer not in exact]
    rest = "the others" if is_whole else _layers(summed)
    words = f"every cell{parts} of {_layers(exact)} can be computed; of {rest} summaries are kept"
    return words + ending


def _chosen_parts(places: Sequence[Place]) -> str:
    """of rows … of heads …, where not all of them were to be recorded."""
    heads, rows = {place.heads for place in places}, {place.rows for place in places}
    words = ""
    if any(place.rows != (0, place.queries) for place in places):
        start, stop = next(iter(rows))
        words += f" of rows {start}–{stop - 1}" if len(rows) == 1 else " of some rows"
    if any(len(place.heads) < place.total_heads for place in places):
        words += f" of heads {listed(next(iter(heads)))}" if len(heads) == 1 else " of some heads"
    return words


def _layers(numbers: Sequence[int]) -> str:
    return f"layer{'s' if len(numbers) > 1 else ''} {listed(numbers)}"


def _exact_layers(prompt: PromptView, stack: str) -> list[int]:
    return [
        place.layer
        for label, place in prompt.places.items()
        if place.stack == stack
        and not any(prompt.held(label).why_not(head) for head in place.heads)
    ]
