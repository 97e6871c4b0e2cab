"""Two different heads for the hand-made features, small enough to be explained number by number.

Head 1, topic: a token asks for what it is about itself, so words of one topic find each other.
Head 2, doer: an action asks for a person or an animal; these ask for an action too, but less, so
that the score from one word to another is not the score back.
Each writes what it found back into the columns of its features.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.arrays import Array
from regard.learn.languages import Phrase
from regard.learn.lesson.projections import Projections, Triple
from regard.learn.lesson.vocabulary import features

GAIN = 2.0  # of the queries: scores twice as large make clearer weights
BACK = 1.0  # the same, of those who ask for their action: half as strong
TOPIC = ("animal", "place", "water", "money")
ASKS = ("action", "action", "person", "animal")
STRENGTHS = (GAIN, GAIN, BACK, BACK)
IS_FOUND_BY = ("person", "animal", "action", "action")
GIVES = ("person", "animal", "action", "past")


def projections_by_hand() -> Projections:
    """Two heads of 4 dimensions each on 8 features, and w_o (8 × 8), which sorts them back."""
    topic, gives = _picks(TOPIC), _picks(GIVES)
    heads = (
        Triple(GAIN * topic, topic, topic),
        Triple(_picks(ASKS) * np.array(STRENGTHS), _picks(IS_FOUND_BY), gives),
    )
    return Projections(heads, np.vstack([topic.T, gives.T]), Phrase("vectors.heads_by_hand"))


def _picks(names: Sequence[str]) -> Array:
    """(features, len(names)): each column passes one feature through."""
    known = features().names or ()
    picked = np.zeros((len(known), len(names)))
    for column, name in enumerate(names):
        picked[known.index(name), column] = 1.0
    return picked
