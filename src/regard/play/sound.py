"""A sound file that was sent → what a model of speech takes at once."""

from __future__ import annotations

import tempfile
from pathlib import Path

from regard.errors import FileError, InputError
from regard.models import Loaded
from regard.recorder.sound import Clip, clips


def one_clip(loaded: Loaded, content: bytes) -> Clip:
    """Its only clip; InputError where the sound is longer, or is none."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sound")
        path.write_bytes(content)
        try:
            found = clips(loaded, path)
        except (FileError, InputError) as error:  # where it lay for a moment says nothing
            raise InputError(str(error).replace(str(path), "the file")) from None
    if len(found) > 1:
        seconds = sum(one.seconds for one in found)
        most = found[0].seconds
        raise InputError(f"the file has {seconds:.1f} s of sound; give at most {most:.0f} s")
    return found[0]
