"""What a hand calculation says, as named rows of text.

Nothing here knows what a number means: cells stay text, so that 0.50 keeps its two places.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from regard.errors import InputError
from regard.learn.text import quoted

STEPS = (
    "embeddings", "w_q", "w_k", "w_v", "Q", "K", "V", "scores", "scaled", "masked", "weights",
    "output",
)  # fmt: skip
KNOWN = ("tokens", *STEPS, "d_k", "causal")
_OTHER_NAMES = {
    "tokens": "token words sentence sequence inputsequence",
    "embeddings": "embedding tokenembedding tokenembeddings inputembeddings x e",
    "Q": "query queries queryvectors",
    "K": "key keys keyvectors",
    "V": "value values valuevectors",
    "scores": "score attentionscores rawscores qkt qkᵀ computeattentionscores",
    "scaled": "scaledscores scaling scaledattentionscores",
    "masked": "maskedscores maskedscaledscores scaledandmasked causalmask applymask "
    "applycausalmask maskedattentionscores",
    "weights": "weight attentionweights softmax applysoftmax maskedsoftmax maskedweights "
    "causalweights",
    "output": "outputs context contextualembedding contextualembeddings attentionoutput "
    "weightedsum weightedsumofvalues",
}
REMARKS = {"student", "title", "note"}


def key_of(name: str) -> str:
    """The letters and digits of a name, in lower case."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


STEP_OF = {
    key: step for step in KNOWN for key in (key_of(step), *_OTHER_NAMES.get(step, "").split())
}


def step_named(text: str) -> str | None:
    """The step a heading means: "3. Scores (QKᵀ):" is scores; None where it means none."""
    text = re.sub(r"^ *(?:step *)?\d+ *[.):]", "", text, flags=re.IGNORECASE)
    forms = (text, re.split(r"[(:=,]| [-–—] ", text)[0])
    return next((STEP_OF[key_of(form)] for form in forms if key_of(form) in STEP_OF), None)


@dataclass
class Block:
    """The rows of one step, each with its label where it has one, and the columns' headings.

    `lines` has the number of each row's line in a text that has lines, which JSON has not.
    """

    step: str
    columns: list[str] = field(default_factory=list)
    rows: list[tuple[str | None, list[str]]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list, compare=False)


@dataclass(frozen=True)
class Unread:
    """A line or a cell that could not be read, or a heading with nothing under it."""

    line: int
    step: str
    text: str


@dataclass
class Draft:
    """All that a text says. `causal`: no query sees the keys after it."""

    tokens: list[str] = field(default_factory=list)
    d_k: str | None = None
    causal: bool = False
    blocks: list[Block] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)


def unknown_step(name: str) -> InputError:
    """The refusal of a name that is none of KNOWN."""
    return InputError(f"unknown step {quoted(name)}; known are {', '.join(KNOWN)}")
