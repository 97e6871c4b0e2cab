"""Documents, shared out over files; each file is whole or not there at all.

A document is remembered by where it stands, not by its text, so that a corpus larger than memory
can be shared out; who records it reads it again, and notices where it has changed meanwhile.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from torch import nn

from regard import recording
from regard.errors import FileError, InputError, RegardError
from regard.files import is_folder, open_file, reason, shown
from regard.models import Loaded, load
from regard.recorder.drive import Estimate, drive, estimate
from regard.recorder.plan import Choice
from regard.recorder.session import record
from regard.recorder.tokens import Encoded, check_length, check_reads_text, encode
from regard.recording import Merged
from regard.recording.format.frames import lock
from regard.recording.format.write import extend
from regard.recording.merged import MERGED_NOTE, written

_SAMPLES = 64  # numbers of a parameter that its model is recognised by


@dataclass(frozen=True)
class RecordOptions:
    """How each document is recorded."""

    chat: bool = False
    generate: int = 0
    layers: str | None = None
    heads: str | None = None
    queries: str | None = None
    budget: int = 2 * 10**9  # bytes a file
    _: KW_ONLY
    truncate: int | None = None  # tokens of a text that are read; None: all

    def __post_init__(self) -> None:
        self.choice()  # wrong words end here, before a model is loaded

    def encode(self, loaded: Loaded, text: str) -> Encoded:
        """A text as it is recorded; ShapeError where the model has no positions for it."""
        found = encode(loaded.tokenizer, text, self.chat)
        if self.truncate is not None:
            found = replace(found, ids=found.ids[:, : self.truncate])
        check_length(loaded.model, found.tokens, self.generate)
        return found

    def choice(self) -> Choice:
        """Which layers, heads and rows."""
        return Choice.of(self.layers, self.heads, self.queries)


class Text(NamedTuple):
    """A document as it is read by the model."""

    name: str
    text: str


class ShardRecorder:
    """A loaded model that turns documents into files."""

    def __init__(self, loaded: Loaded, options: RecordOptions) -> None:
        check_reads_text(loaded.model, loaded.name)
        self._loaded, self._options = loaded, options
        self._estimate: Estimate | None = None

    @cached_property
    def model(self) -> dict[str, str]:
        """What the model is recognised by."""
        one = next(self._loaded.model.parameters())
        return {
            "name": self._loaded.name,
            "dtype": str(one.dtype).removeprefix("torch."),
            "fingerprint": fingerprint(self._loaded.model),
        }

    def tokens(self, text: str) -> int:
        """How many a document has; InputError where it cannot be recorded."""
        encoded = self._encoded(text)
        rows = self._options.choice().rows(0, encoded.tokens, encoded.tokens)
        if not rows:
            raise InputError(
                f"{encoded.tokens} tokens, so no row is among --queries {self._options.queries}"
            )
        return encoded.tokens

    def estimate(self, text: str) -> Estimate:
        """Plans for documents of any length; the text is for a first look at the model."""
        if self._estimate is None:
            ids = self._encoded(text).ids
            self._estimate = estimate(self._loaded.model, ids, self._options.choice())
        return self._estimate

    def write(
        self,
        path: Path,
        texts: Sequence[Text],
        note: Mapping[str, Any],
        advanced: Callable[[float], None] = lambda _: None,
    ) -> Merged:
        """Record documents into one file that appears when it is whole.

        Its statistics over all of them are kept in it and handed back.
        """
        part = _part_of(path, uuid.uuid4().hex)
        try:
            self._record(part, texts, note, advanced)
            with recording.open(part) as made:
                merged = made.merged()
            if merged.documents != len(texts):
                raise RegardError(f"{merged.documents} texts were heard of {len(texts)} documents")
            words, tensors = written(merged)
            with extend(part) as more:
                for name, sums in tensors.items():
                    more.add(name, sums)
                more.note({MERGED_NOTE: words})
            part.replace(path)
            sync_folder(path.parent)
        finally:
            part.unlink(missing_ok=True)
        return merged

    def _record(
        self,
        part: Path,
        texts: Sequence[Text],
        note: Mapping[str, Any],
        advanced: Callable[[float], None],
    ) -> None:
        options, loaded = self._options, self._loaded
        estimated = self.estimate(texts[0].text)  # before anybody listens: it runs the model
        recorder = record(
            loaded.model, part, tokenizer=loaded.tokenizer, layers=options.layers,
            heads=options.heads, queries=options.queries, budget=options.budget,
        )  # fmt: skip
        recorder.name = loaded.name
        with recorder:
            recorder.note(shard=note)
            for one in texts:
                encoded = replace(self._encoded(one.text), title=one.name)
                tokens = encoded.tokens + options.generate
                plan = estimated.plan(tokens, options.budget // len(texts))
                drive(recorder, encoded, generate=options.generate, plan=plan, advanced=advanced)

    def _encoded(self, text: str) -> Encoded:
        return self._options.encode(self._loaded, text)


def _part_of(path: Path, which: str) -> Path:
    return path.parent / f".{path.stem}-{which}.part"


def clear_abandoned(path: Path) -> None:
    """Remove what processes that were killed left of this file; what is being written stays."""
    for part in path.parent.glob(_part_of(path, "*").name):
        with suppress(FileNotFoundError, FileError):  # it is gone; another process writes it
            with part.open("r+b") as file:
                lock(file.fileno(), part.name)
            part.unlink()


@dataclass(frozen=True)
class ModelSpec:
    """Which model, where it runs, and what is recorded of it; called in a worker, it loads it."""

    model: str
    options: RecordOptions
    dtype: str | None = None
    device: str | None = None

    def load(self, worker: int = 0) -> Loaded:
        """The model; `cuda` without a number is shared out over all devices."""
        import torch

        place, devices = self.device, torch.cuda.device_count()
        if place == "cuda" and devices > 1:
            place = f"cuda:{worker % devices}"
        return load(self.model, dtype=self.dtype, device=place)

    def __call__(self, worker: int) -> ShardRecorder:
        return ShardRecorder(self.load(worker), self.options)


def fingerprint(model: nn.Module) -> str:
    """A digest of the shapes and some numbers of every parameter: other weights, other digest."""
    total = sha256()
    for name, parameter in model.named_parameters():
        flat = parameter.detach().reshape(-1)
        some = flat[:: max(flat.numel() // _SAMPLES, 1)].float().cpu().numpy()
        total.update(f"{name} {tuple(parameter.shape)} {parameter.dtype}".encode())
        total.update(some.tobytes())
    return total.hexdigest()


def sync_folder(folder: Path) -> None:
    """The names in a folder on the disk, where the system lets a folder be opened."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ── many documents ─────────────────────────────────────────────────────────────────────────────


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


# ── files that replace others when all are whole ───────────────────────────────────────────────


PARTIAL: Final = "partial"


def move_in(place: Path, files: Iterable[str], stale: Iterable[Path]) -> None:
    """Files of these names in `place` go up into the folder around it; stale ones that none of
    them replaces are removed, and so is the place."""
    names = set(files)
    for file in stale:
        if file.name not in names:
            file.unlink()
    for name in sorted(names):
        (place / name).replace(place.parent / name)
    for left in place.iterdir():  # of a run that was given up
        left.unlink()
    place.rmdir()
