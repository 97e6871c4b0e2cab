"""Every model type that transformers can build, tiny and random: right, or refused.

examine("llama")                      one model type → its Outcome
outcomes(names())                     all of them, in processes of their own
python -m regard.testing.families     the same from a shell

catalogue  which types there are, and the class that stands for each
shrink     a configuration class → a small configuration (sizes, exceptions)
build      → a model whose attention is sharp
inputs     what it takes (facts; words, pictures, sounds, others)
subject    what transformers makes of them: the references
checks     regard against the references (compare, attentions, recorded)
examine    → outcome; pool, many; page, the table in docs/families.md
"""

from __future__ import annotations

import regard.huggingface  # noqa: F401 - says which extra is missing
from regard.testing.families.catalogue import names
from regard.testing.families.examination import examine
from regard.testing.families.outcome import Outcome
from regard.testing.families.pool import outcomes
from regard.testing.families.table import page

__all__ = ["Outcome", "examine", "names", "outcomes", "page"]
