"""Every model type that transformers can build, tiny and random: right, or refused.

examine("llama")                      one model type → its Outcome
outcomes(names())                     all of them, in processes of their own
python -m support.families     the same from a shell

shrink     which types there are, and a small configuration of each
build      → a model whose attention is sharp
inputs     what it takes: words, pictures, sounds, others
subject    what transformers makes of them: the references
checks     regard against the references (compare); sight: what the type sees (known)
examine    → outcome, of one type or of many; the pages in docs: tables
"""

from __future__ import annotations

import regard.huggingface  # noqa: F401 - says which extra is missing
from support.families.examination import Outcome, examine, outcomes
from support.families.shrink import names
from support.families.tables import page, sight_page

__all__ = ["Outcome", "examine", "names", "outcomes", "page", "sight_page"]
