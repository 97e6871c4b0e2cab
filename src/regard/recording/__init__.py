"""The file that the two sides of regard share, and how it is read: SPEC.md and CONTENTS.md in this
folder. numpy only, no torch.

layout     file header and frame header, to the byte
document   the safetensors document inside a frame
source     the file, read at offsets; its lock
catalogue  which frames there are: from the index, or by walking the headers
append     the end of the file, where frames are added whole or not at all
write      a new recording
read       an open recording
folder     one recording per rank, as one
shards     one recording of many documents in many files
memory     a recording without a file
store      what these have in common
verify     what is damaged, and what can be repaired
annotate   notes added to a finished recording
extend     … and tensors

contents   what a recording of attention says: notes as values, tensors by name
notes      the notes of a recording, those of all ranks merged
knocked    what knock-outs changed, as a note
pieces     tensors put together from their pieces
stream     tokens
doubt      whether a note can be true
rules      masks and score rules out of a file
held       all that is held of one place, doubted and put together
offsets    mass by distance
sight      who may see whom, by the masks alone
replay     a head computed again from q, k and lse, tile by tile
online     sums of exponentials over tiles
collect    what a sweep over tiles collects of rows
regions    … of columns, cells and diagonals
heaviest   … of the heaviest keys
stored     what was measured while recording
question   what can be asked → answers: looked up, or swept for
index      what head[…] means
head       a head and its questions
prompt     one text, its tokens and its heads
recording  what `regard.open` gives
statistics one number for each head
merged     … over many texts
training   … at every step of a training run
"""

from __future__ import annotations

from regard.recording.catalogue import Damage
from regard.recording.folder import Folder, FolderEntry, open_recording
from regard.recording.head import Head
from regard.recording.memory import Memory
from regard.recording.merged import Merged
from regard.recording.prompt import PromptView
from regard.recording.read import Entry, Reader
from regard.recording.recording import Recording, open
from regard.recording.shards import Shards
from regard.recording.statistics import STATISTICS, Statistic
from regard.recording.stored import Stored
from regard.recording.stream import Stream
from regard.recording.training import Alarm, Limit, Training
from regard.recording.verify import Report, check, repair
from regard.recording.write import Writer
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
