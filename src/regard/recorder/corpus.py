"""Many documents: a folder of text files, or a JSONL, one document a line.

A document is remembered by where it stands, not by its text, so that a corpus larger than memory
can be shared out; who records it reads it again, and notices where it has changed meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from regard.errors import FileError, InputError
from regard.files import is_folder, open_file, reason, shown


@dataclass(frozen=True)
class Document:
    """A text, by where it stands."""

    name: str  # relative path, or file:line
    path: Path
    digest: str  # of the text
    start: int = 0  # byte of its line in a JSONL
    length: int | None = None  # bytes of the line; None: the file is the document
    field: str = ""

    def text(self) -> str:
        """Read again; FileError where it is not what it was."""
        try:
            text = _whole(self.path) if self.length is None else self._line(self.length)
        except (OSError, ValueError) as error:
            raise FileError(f"{self.name}: cannot be read any more ({error})") from None
        if text_digest(text) != self.digest:
            raise FileError(f"{self.name}: was changed while documents were recorded; begin anew")
        return text

    def _line(self, length: int) -> str:
        with open_file(self.path) as file:
            file.seek(self.start)
            return _field(file.read(length), self.field)


@dataclass(frozen=True)
class Bad:
    """A document that cannot be recorded, and why not."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


@dataclass(frozen=True)
class Shard:
    """Documents that go into one file."""

    number: int
    documents: tuple[Document, ...]

    @property
    def file(self) -> str:
        """What the file is called."""
        return f"shard-{self.number:05}.regard"

    @property
    def digest(self) -> str:
        """Of its documents, their names and their order."""
        return digest_of([(one.name, one.digest) for one in self.documents])


def read_corpus(path: Path, field: str) -> tuple[list[Document], list[Bad]]:
    """Every document, and every one that is none: empty, not text, not JSON."""
    documents: list[Document] = []
    bad: list[Bad] = []
    for one in _files(path) if is_folder(path) else _lines(path, field):
        (documents if isinstance(one, Document) else bad).append(one)  # type: ignore[arg-type]
    if not documents and not bad:
        raise InputError(f"{path}: holds no document; give a folder of text files or a JSONL")
    return documents, bad


def shards_of(documents: Sequence[Document], size: int) -> list[Shard]:
    """The documents by order, so many a file."""
    starts = range(0, len(documents), size)
    return [Shard(n, tuple(documents[at : at + size])) for n, at in enumerate(starts)]


def digest_of(pairs: Sequence[tuple[str, str]]) -> str:
    """Of names and the digests of their texts, in order."""
    return sha256(json.dumps(list(pairs)).encode()).hexdigest()


def text_digest(text: str) -> str:
    """Of a text; ValueError where it has signs that are no Unicode text."""
    return sha256(text.encode("utf-8")).hexdigest()


# ── a folder ─────────────────────────────────────────────────────────────────────────────────


def _files(folder: Path) -> Iterator[Document | Bad]:
    """Every file inside, hidden ones left out, in the order of their paths."""
    inside = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    for name, path in sorted(inside.items()):
        if not path.is_file() or any(part.startswith(".") for part in name.split("/")):
            continue
        if path.suffix in (".jsonl", ".ndjson"):
            yield Bad(name, "a JSONL inside a folder of text files; give it by itself")
            continue
        try:
            text = _whole(path)
            yield _checked(Document(name, path, text_digest(text)), text)
        except UnicodeDecodeError:
            yield Bad(name, "not UTF-8 text")
        except OSError as error:
            yield Bad(name, f"cannot be read ({error.strerror})")


def _whole(path: Path) -> str:
    # the last line break is the editor's, not the text's
    with open_file(path) as file:
        return file.read().decode("utf-8").removesuffix("\n")


# ── a JSONL ──────────────────────────────────────────────────────────────────────────────────


def _lines(path: Path, field: str) -> Iterator[Document | Bad]:
    """A document a line; blank lines are none."""
    start = 0
    try:
        with open_file(path) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _line_document(f"{path.name}:{number}", path, start, line, field)
                start += len(line)
    except FileNotFoundError:
        words = "no such folder or file; give text files or a JSONL"
        raise FileError(f"{shown(path)}: {words}") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{shown(path)}: cannot be read ({reason(error)})") from None


def _line_document(name: str, path: Path, start: int, line: bytes, field: str) -> Document | Bad:
    try:
        text = _field(line, field)
        return _checked(Document(name, path, text_digest(text), start, len(line), field), text)
    except UnicodeDecodeError:
        return Bad(name, "not UTF-8 text")
    except UnicodeEncodeError:
        return Bad(name, "its text has a lone surrogate, which is no Unicode text")
    except json.JSONDecodeError as error:
        return Bad(name, f"not JSON ({error.msg} at column {error.colno})")
    except (ValueError, RecursionError) as error:
        return Bad(name, str(error))


def _field(line: bytes, field: str) -> str:
    """The text of a line; ValueError where there is none."""
    found: Any = json.loads(line.decode("utf-8"))
    if not isinstance(found, dict):
        raise ValueError(f"a JSON {_kind(found)}; give an object with the field {field!r}")
    if field not in found:
        names = ", ".join(map(repr, list(found)[:5])) or "none"
        raise ValueError(f"no field {field!r}; its fields are {names}: choose with --field")
    if not isinstance(found[field], str):
        raise ValueError(f"the field {field!r} is a {_kind(found[field])}, not a text")
    return found[field]


def _kind(value: Any) -> str:
    names = {dict: "object", list: "list", str: "text", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def _checked(document: Document, text: str) -> Document | Bad:
    return document if text.strip() else Bad(document.name, "empty")
