"""The lesson on a terminal, or as plain text in a pipe."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.style import Style
from rich.text import Text

from regard.learn.languages import Language, language
from regard.learn.render.terminal_grids import STYLES, side_by_side
from regard.learn.story.document import Document, Grids, Line, Lines, Part, Prose, Section
from regard.learn.text import wrapped

_INDENT = 3
_WIDEST = 92  # prose is not read well in longer lines


def print_document(document: Document, console: Console) -> None:
    """Write every section. Colours, where the console has any, follow the roles."""
    for row in _rows(document, console.width):
        console.print(row)


def _rows(document: Document, width: int) -> Iterable[Text]:
    yield Text(document.title, Style(bold=True))
    for sentence in document.opening:
        yield from _prose(sentence, width, indent=0)
    yield Text()
    yield Text(" " * _INDENT + document.formula)
    say = language(document.language)
    for section in document.sections:
        yield Text()
        yield from _section(section, width, say)


def _section(section: Section, width: int, say: Language) -> Iterable[Text]:
    mark = "" if section.number is None else str(section.number).ljust(_INDENT)
    for n, words in enumerate(_wrap(section.title, width - _INDENT)):
        yield Text((" " * len(mark) if n else mark) + words, Style(bold=True))
    if section.why:
        yield from _prose(section.why, width, style=Style(italic=True))
    for part in section.parts:
        yield from _part(part, width, say)


def _part(part: Part, width: int, say: Language) -> Iterable[Text]:
    if isinstance(part, Prose):
        yield from _prose(part.text, width)
    elif isinstance(part, Lines):
        yield from (_line(one) for one in part.lines)
    else:
        yield from _grids(part, width, say)


def _grids(part: Grids, width: int, say: Language) -> Iterable[Text]:
    for row in side_by_side(part.grids, width - _INDENT - 1, say):
        yield Text(" " * _INDENT) + row if row else row


def _line(one: Line) -> Text:
    text = Text(" " * _INDENT)
    for span in one:
        text.append(span.text, STYLES[span.role])
    text.rstrip()
    return text


def _prose(
    sentence: str, width: int, *, indent: int = _INDENT, style: Style | None = None
) -> Iterable[Text]:
    hang = 2 if sentence.startswith("• ") else 0
    for n, words in enumerate(_wrap(sentence, min(width, _WIDEST) - indent - hang - 1)):
        yield Text(" " * (indent + (hang if n else 0)) + words, style or Style())


def _wrap(sentence: str, width: int) -> list[str]:
    # Words of the user may be longer than the line; they are left whole for the terminal to break.
    return wrapped(sentence, max(width, 20), break_long_words=False)
