"""Questions → replies: status, bytes and headers, whoever carries them. The server sends them over
HTTP (`app`), a notebook's kernel as messages of a widget (`kernel`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from regard.errors import InputError, RegardError, UnavailableError
from regard.viewer import answers
from regard.viewer.carried import LIMIT
from regard.viewer.notebook import recording_page
from regard.viewer.opened import Opened
from regard.viewer.questions import QUESTIONS, Asked, Binary, Question, UnreadableError
from regard.viewer.work import GivenUpError, Job
from regard.views.encoding import as_text

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


def download(opened: Opened, asked: Asked) -> Binary:
    """One head; or without a name all of them, or those that the findings name."""
    prompt, head = asked.prompt, asked.name("head")
    opened.prompt(prompt)
    page = recording_page(opened.snapshot(), prompt=prompt, head=head or None, limit=LIMIT)
    parts = [opened.name.removesuffix(".regard"), head]
    name = _UNSAFE.sub("-", "-".join(part for part in parts if part))
    headers = {"content-disposition": f'attachment; filename="{name}.html"'}
    return Binary(page.encode(), kind="text/html", headers=headers)


JSON: Final = "application/json"
_LOG: Final = logging.getLogger(__name__)
_PAGE: Final = Question(Binary, download, "tiles")  # the recording itself, to keep or to send
_Made = TypeVar("_Made")


class Reply(NamedTuple):
    """What is sent; `status` is HTTP's."""

    body: bytes
    status: int = 200
    kind: str = JSON  # media type
    headers: Mapping[str, str] = {}


@dataclass(frozen=True)
class Asking:
    """A question about one of the recordings, named by its number."""

    question: Question[Any]
    number: str
    given: Mapping[str, str]  # parameters
    opened: Sequence[Opened]

    def answer(self, job: Job) -> Reply:
        """Its answer, computed."""
        asked = Asked(self.given, self.opened, job.go_on)
        return reply_of(self.question.answer(self._one(), asked))

    def ready(self, _: Job) -> Reply | None:
        """Its answer where none needs to be computed."""
        if self.question.ready is None:
            return None
        made = self.question.ready(self._one(), Asked(self.given, self.opened))
        return None if made is None else reply_of(made)

    def _one(self) -> Opened:
        return Asked({"number": self.number}, self.opened).recording("number")


def questions() -> dict[str, Question[Any]]:
    """By name: the table, and the recording as a page of its own."""
    return QUESTIONS | {"page": _PAGE}


def listed(opened: Sequence[Opened]) -> Reply:
    """Which recordings there are."""
    return reply_of([answers.listing(one) for one in opened])


def reply_of(made: Any) -> Reply:
    """JSON; or bytes, whose sizes are headers."""
    if not isinstance(made, Binary):
        return Reply(as_text(made))
    sizes = {f"x-regard-{name}": str(size) for name, size in made.sizes.items()}
    return Reply(made.content, kind=made.kind, headers={**sizes, **made.headers})


def said(answer: Callable[[Job], _Made], job: Job) -> _Made | Reply:
    """The answer, or in one line why there is none."""
    try:
        job.go_on()
        return answer(job)
    except GivenUpError:
        return refusal(499, "given up")
    except UnavailableError as error:
        return refusal(409, error.message)
    except UnreadableError as error:
        return refusal(400, str(error))
    except InputError as error:
        return refusal(404, str(error))
    except RegardError as error:
        return refusal(500, str(error))
    except Exception:  # noqa: BLE001  a mistake of ours: told here, not to the page
        _LOG.exception("no answer to a request")
        return refusal(500, "something went wrong; the log of the process that answers says what")


def refusal(status: int, reason: str) -> Reply:
    """{"error": one line}"""
    line = " ".join(reason.split())
    return Reply(as_text({"error": line}), status)
