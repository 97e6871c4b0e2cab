"""What the first page will ask for, computed while the browser starts."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from regard.viewer import answers
from regard.viewer.opened import Opened
from regard.viewer.work import Pool


def warm_up(opened: Sequence[Opened], pool: Pool) -> Future[None]:
    """The overview and the small pictures of the first recording's first prompt. What goes wrong
    is said when it is asked for."""
    return pool.submit(lambda: _first_page(opened[0]), "long")  # whoever asks may wait for it


def _first_page(one: Opened) -> None:
    for stack in answers.overview(one)["stacks"]:
        answers.thumbnails(one, 0, stack["name"])
