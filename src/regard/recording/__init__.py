"""The file that the two sides of regard share: SPEC.md in this folder. numpy only, no torch.

layout     file header and frame header, to the byte
document   the safetensors document inside a frame
source     the file, read at offsets; its lock
catalogue  which frames there are: from the index, or by walking the headers
append     the end of the file, where frames are added whole or not at all
write      a new recording
read       an open recording
folder     one recording per rank, as one
verify     what is damaged, and what can be repaired
"""

from __future__ import annotations

from regard.recording.catalogue import Damage
from regard.recording.folder import Folder, FolderEntry, open_recording
from regard.recording.read import Entry, Reader
from regard.recording.verify import Report, check, repair
from regard.recording.write import Writer

__all__ = [
    "Damage",
    "Entry",
    "Folder",
    "FolderEntry",
    "Reader",
    "Report",
    "Writer",
    "check",
    "open_recording",
    "repair",
]
