"""Where the command line writes: stdout for results, stderr for everything else.

Either may know less than UTF-8. Then √ becomes sqrt, · becomes *, and a letter that ASCII does not
have becomes ?; JSON keeps every letter, escaped.
"""

from __future__ import annotations

import codecs
import errno
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from regard.draw import Paper
    from regard.learn.text import StyledLine
    from regard.recording import Head

_SLOW = 2**27  # cells of a map
_HANDLER = "regard-ascii"
_SIGNS = str.maketrans(
    {
        "√": "sqrt ", "÷": "/", "·": "*", "×": "x", "−": "-", "–": "-", "—": "-", "∂": "d",
        "ᵀ": "^T", "‖": "|", "°": " deg", "→": "->", "≤": "<=", "≥": ">=", "≠": "!=", "≈": "~",
        "…": "...", "⋮": ":", "•": "*", "▇": "#", "✓": "+", "✗": "x",
    }
    | {sign: str(n) for n, sign in enumerate("₀₁₂₃₄₅₆₇₈₉")}
)  # fmt: skip


class _Output(io.FileIO):
    """A stream whose reader may leave, or was never there: what cannot be written then is dropped.

    The verb goes on, so that `regard grade … | head` ends with the status it has without head,
    and `regard record … | head` records to the end. A full disk is an error of standard output;
    standard error has nowhere to report its own.
    """

    def __init__(self, descriptor: int, *, drops: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.drops = drops  # whatever cannot be written

    def write(self, data: Any) -> int:
        """As io.FileIO's; a closed pipe takes everything."""
        try:
            return super().write(data)
        except OSError as error:
            is_closed = isinstance(error, ConnectionError) or error.errno == errno.EBADF
            if not is_closed and not self.drops:
                raise OSError(error.errno, error.strerror, "standard output") from None
            return memoryview(data).nbytes


def again(command: str) -> str:
    """A command of ours as it can be typed here: by the path of this program off PATH."""
    called = sys.argv[0]
    if Path(called).name != "regard" or which("regard"):
        return command
    return command.replace("regard", called, 1)


def guard_streams() -> None:
    """Whatever is written from now on can be encoded, and a closed stream ends no verb."""
    codecs.register_error(_HANDLER, _spell_what_fails)
    _reopen_descriptors()
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(os.devnull)))
    sys.stdout = _guarded(sys.stdout, drops=False)
    sys.stderr = _guarded(sys.stderr, drops=True)


def release_streams() -> None:
    """The exit status is settled: what buffers still hold is written where that is possible."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _Output):
        raw.drops = True


def _reopen_descriptors() -> None:
    """Of 0, 1 and 2 those that are closed lead to the null device: the next file to be opened
    would get such a number, and output meant for a terminal would be written into it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one


def _guarded(stream: TextIO | None, *, drops: bool) -> TextIO:
    if stream is None:  # Python has none for a descriptor that was closed at its start
        nowhere = io.BufferedWriter(io.FileIO(os.devnull, "w"))
        return io.TextIOWrapper(nowhere, "utf-8", _HANDLER)
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.reconfigure(errors=_HANDLER)
    raw = getattr(stream.buffer, "raw", stream.buffer)  # python -u has no buffer in between
    if type(raw) is not io.FileIO:  # a stream of a test or a notebook, or one guarded before
        return stream
    stream.flush()
    output = _Output(raw.fileno(), drops=drops)
    return io.TextIOWrapper(
        output if stream.buffer is raw else io.BufferedWriter(output),
        stream.encoding, _HANDLER, line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )  # fmt: skip


def _spell_what_fails(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return in_ascii(error.object[error.start : error.end]), error.end


def _is_utf(stream: TextIO | Console) -> bool:
    return "utf" in (getattr(stream, "encoding", None) or "ascii").lower()


def ascii_only(console: Console) -> bool:
    """Whether it cannot be trusted with more: another encoding, or a dumb terminal."""
    return not _is_utf(console) or os.environ.get("TERM") == "dumb"


def in_ascii(text: str) -> str:
    """The text in plain ASCII: mathematical signs spelt out, the rest replaced by '?'."""
    plain = text.replace("÷√d", "div").translate(_SIGNS)  # the heading of a narrow column
    return plain.encode("ascii", "replace").decode("ascii")


def spelt(text: str) -> str:
    """The text as stdout can encode it."""
    return text if _is_utf(sys.stdout) else in_ascii(text)


def results() -> Console:
    """The console for results; colour only on a terminal and without NO_COLOR."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def status() -> Console:
    """The console for progress and remarks."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


@contextmanager
def advancing(words: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr while something is done piece by piece: call it with how many are done and
    how many there are."""
    from rich.progress import Progress

    console = status()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(words, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def recording_bar(told: str) -> Progress:
    """A bar on stderr while something is recorded, with the time left; nothing where nobody
    looks. `told` is what stands behind it."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = status()
    columns = TextColumn("recording"), BarColumn(), TextColumn(told), TimeRemainingColumn()
    return Progress(*columns, console=console, disable=not console.is_terminal)


def print_lines(console: Console, lines: Iterable[StyledLine]) -> None:
    """Write the lines; nothing in them is taken for markup."""
    from rich.text import Text

    plain = ascii_only(console)
    for line in lines:
        text = Text()
        for piece, style in line:
            text.append(in_ascii(piece) if plain else piece, style)
        text.rstrip()
        console.print(text)


def show_lines(draw: Callable[[Paper], list[StyledLine]]) -> None:
    """What is drawn on the paper that stdout is, made safe and cut to it."""
    from regard.draw import finished, paper_of

    console = results()
    paper = paper_of(console, is_ascii=ascii_only(console))
    print_lines(console, finished(draw(paper), paper))


def tell_if_slow(head: Head) -> None:
    """A map that has to be computed takes a while where the text is long."""
    if head.exact and len(head.recorded) * head.shape[1] > _SLOW:
        status().print(f"computing the map of {head.label}; a while for so long a text")


def write(text: str, *, error: bool = False) -> None:
    """One text and a line end, on stdout or on stderr."""
    (sys.stderr if error else sys.stdout).write(f"{text}\n")


def write_json(value: Any) -> None:
    """One JSON document on stdout. NaN and infinities are errors, never invalid JSON. Texts come
    from elsewhere: what could steer a terminal is escaped, which is the same JSON."""
    escaped = not _is_utf(sys.stdout)
    text = json.dumps(value, indent=2, ensure_ascii=escaped, allow_nan=False)
    write("\n".join(harmless(line) for line in text.split("\n")))


def harmless(text: str) -> str:
    """One line without signs that a terminal would obey: they are spelt as JSON spells them."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
