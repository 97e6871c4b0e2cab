"""A self-contained page in a notebook: a frame that can do nothing but draw.

The frame has an origin of its own (`sandbox`), so it can read neither the notebook nor its token,
and its policy lets it load nothing and send no form; forms such as "go to" are read by the page
itself. The page is part of the notebook's file and works offline.
"""

from __future__ import annotations

from html import escape
from typing import Any, Final

from regard.learn import Lesson
from regard.learn.render import html_body
from regard.learn.story import narrate
from regard.recording import Recording
from regard.viewer.carried import carried_recording
from regard.viewer.lesson import lesson_data
from regard.viewer.selfcontained import make_page, room_in

LIMIT: Final = 1_000_000  # bytes of one output: a notebook keeps all of its outputs
_HEIGHT: Final = 720  # pixels


def frame(page: str, text: str, *, height: int = _HEIGHT) -> str:
    """The page in a frame; `text` is what it shows, for whoever hears it read."""
    return (
        f'<iframe title="{_attribute(text)}" sandbox="allow-scripts allow-forms allow-downloads" '
        f'style="width:100%;height:{height}px;border:0" srcdoc="{_attribute(page)}"></iframe>'
    )


def _attribute(text: str) -> str:
    """In ASCII: the hashes in the page's policy hold whatever encoding the notebook is read in."""
    return escape(text).encode("ascii", "xmlcharrefreplace").decode("ascii")


def without_picture(text: str, reason: str) -> str:
    """The text alone, and why there is no more."""
    return f"<pre>{escape(text)}</pre><p>No picture: {escape(' '.join(reason.split()))}</p>"


def recording_page(
    recording: Recording,
    *,
    prompt: int = 0,
    head: str | None = None,
    limit: int = LIMIT,
) -> str:
    """A prompt of a recording as a page, or one of its heads."""
    data, blobs = carried_recording(recording, prompt=prompt, heads=head, limit=room_in(limit))
    if head is not None:
        data["open"] = {"view": "head", "head": data["carries"]["heads"][0]}
    return make_page(data, title=page_title(recording, prompt, head), blobs=blobs)


def page_title(recording: Recording, prompt: int = 0, head: str | None = None) -> str:
    """What a browser calls it."""
    model = str(recording.model.get("name", "")) or recording.name
    what = recording.prompt(prompt).title if recording.prompts else "training"
    words: list[Any] = [head, model.rsplit("/", 1)[-1], what]
    return " · ".join(word for word in words if word)


def lesson_page(lesson: Lesson) -> str:
    """A lesson as a page."""
    return make_page(
        {"kind": "lesson", "lesson": lesson_data(lesson)},
        title=lesson.say("page.title_of", sentence=" ".join(lesson.sentence.tokens)),
        without_script=html_body(narrate(lesson)),
        language=lesson.say.code,
    )
