"""The file that the two sides of regard share, and how it is read: SPEC.md and CONTENTS.md in this
folder. numpy only, no torch.

format      the bytes (`layout`), which frames there are (`frames`), `write`, `verify`
stores      what a recording is read from: a file, a folder of ranks, memory
shards      … many documents in many files
schema      what it says: notes as values, tensors by name, and whether they can be true
measures    what is known of a statistic: the one table
notes       the notes of a recording, those of all ranks merged
pieces      tensors put together from their pieces
rules       masks and score rules out of a file
layer       all that is held of one attention module
sinks       keys that get a large share of every row
visibility  who may see whom, by the masks alone
replay      a head computed again from q, k and lse, tile by tile
collect     what a sweep over its tiles collects
query       what can be asked → answers: looked up, or swept for
indexing    what head[…] means
head        a head and its questions
prompt      one text, its tokens and its heads
recording   what `regard.open` gives
statistics  one number for each head
merged      … over many texts
training    … at every step of a training run
"""

from __future__ import annotations

from regard.recording.format.frames import Damage
from regard.recording.format.verify import Report, check, repair
from regard.recording.format.write import Writer
from regard.recording.head import Head
from regard.recording.layer import Stored
from regard.recording.merged import Merged
from regard.recording.pieces import Stream
from regard.recording.prompt import PromptView
from regard.recording.recording import Recording, open
from regard.recording.shards import Shards
from regard.recording.statistics import STATISTICS, Statistic
from regard.recording.stores import Entry, Folder, FolderEntry, Memory, Reader, open_recording
from regard.recording.training import Alarm, Limit, Training
from regard.summary import TopKeys

__all__ = [
    "STATISTICS",
    "Alarm",
    "Damage",
    "Entry",
    "Folder",
    "FolderEntry",
    "Head",
    "Limit",
    "Memory",
    "Merged",
    "PromptView",
    "Reader",
    "Recording",
    "Report",
    "Shards",
    "Statistic",
    "Stored",
    "Stream",
    "TopKeys",
    "Training",
    "Writer",
    "check",
    "open",
    "open_recording",
    "repair",
]
