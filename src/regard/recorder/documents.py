"""Many documents → a folder of files, by several processes; begun, stopped, and gone on with.

    manifest.json         what the run is: model, options, documents of each file
    shard-00000.regard    a file appears under its name when it is whole

The manifest is written before the first file. So whatever file is there is one of this run, and is
done; the same command again goes on with the others. Where files of another run are to be replaced,
the new ones are written into the folder `partial` inside, and change places with them when all are
whole.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from regard import recording
from regard.errors import FileError, InputError, RegardError
from regard.models import load
from regard.recorder.drive import Estimate
from regard.recorder.jobs import Task, Workers
from regard.recorder.plan import human, parse_budget
from regard.recorder.shards import (
    PARTIAL,
    Bad,
    Document,
    RecordOptions,
    Shard,
    ShardRecorder,
    Text,
    clear_abandoned,
    digest_of,
    move_in,
    read_corpus,
    shards_of,
    sync_folder,
    text_digest,
)
from regard.recording import Merged, Reader
from regard.recording.format.frames import lock
from regard.recording.shards import MANIFEST, SHARD_NOTE, shard_files

_LOOKED_AT = 64  # documents that are checked as one task
_TOLD = 3  # differences, bad documents
_PARTS = (".shard-*.part", f"{PARTIAL}/.shard-*.part", f".{MANIFEST}.part")


@dataclass(frozen=True)
class CorpusRequest:
    """What somebody wants recorded, and where to."""

    documents: Path
    folder: Path
    options: RecordOptions
    _: KW_ONLY
    per_file: int = 16
    field: str = "text"
    skip_bad: bool = False
    overwrite: bool = False


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is to be done, known before any of it is."""

    manifest: dict[str, Any]
    todo: tuple[Shard, ...]
    stale: tuple[Path, ...]  # files of another run, that are to go when all others are whole
    skipped: tuple[Bad, ...]
    documents: int
    done: int  # files that are there already
    place: Path  # where the others are written
    tokens: int  # of what is to do
    size: int  # bytes of that, about
    seconds: float  # of one process

    @property
    def files(self) -> int:
        """How many there will be."""
        return len(self.manifest["shards"])


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """The folder for this run alone: made where it is missing, unfinished files cleared away."""
    is_new = not folder.exists()
    try:
        folder.mkdir(exist_ok=True)
        # a folder cannot be opened, so not locked, on Windows
        held = None if os.name == "nt" else os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise FileError(f"{folder}: cannot be made or opened ({error.strerror})") from None
    try:
        if held is not None:
            lock(held, str(folder))
        _clear(folder)
        try:
            yield
        finally:
            _clear(folder)
            if is_new and not any(folder.iterdir()):
                folder.rmdir()
    finally:
        if held is not None:
            os.close(held)


def _clear(folder: Path) -> None:
    for part in [part for pattern in _PARTS for part in folder.glob(pattern)]:
        part.unlink(missing_ok=True)
    place = folder / PARTIAL
    if place.is_dir() and not any(place.iterdir()):
        place.rmdir()


# ── before ───────────────────────────────────────────────────────────────────────────────────


def gather(request: CorpusRequest) -> tuple[list[Document], list[Bad]]:
    """The documents and those that are none, which are an error unless they may be left out."""
    found, bad = read_corpus(request.documents, request.field)
    _refuse_bad(bad, request)
    return found, bad


def prepare(
    request: CorpusRequest,
    found: Sequence[Document],
    broken: Sequence[Bad],
    workers: Workers[ShardRecorder],
) -> Run:
    """See what the model makes of each document, and what is in the folder already."""
    tokens, too_long = _tokens(found, workers)
    _refuse_bad(too_long, request)
    bad = [*broken, *too_long]
    good = [one for one in found if one.name in tokens]
    if not good:
        raise InputError(f"{request.documents}: no document can be recorded; the first: {bad[0]}")
    shards = shards_of(good, request.per_file)
    first = Task("looking at the model", _look, good[0])
    _, (model, estimated) = next(iter(workers.run([first])))
    manifest = _manifest(request, model, shards, bad)
    done, stale, place = _compared(request, manifest)
    todo = [shard for shard in shards if shard.file not in done]
    counts = [(tokens[one.name], len(shard.documents)) for shard in todo for one in shard.documents]
    size, seconds = _estimated(request.options, estimated, counts)
    return Run(
        manifest=manifest,
        todo=tuple(todo),
        stale=tuple(stale),
        skipped=tuple(bad),
        documents=len(good),
        done=len(done),
        place=place,
        tokens=sum(count + request.options.generate for count, _ in counts),
        size=size,
        seconds=seconds,
    )


def _refuse_bad(bad: Sequence[Bad], request: CorpusRequest) -> None:
    if bad and not request.skip_bad:
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        raise InputError(f"{bad[0]}{more}; mend it, or leave such documents out with --skip-bad")


def _tokens(
    found: Sequence[Document], workers: Workers[ShardRecorder]
) -> tuple[dict[str, int], list[Bad]]:
    """How many each document has, by name; and those that cannot be recorded."""
    parts = [found[at : at + _LOOKED_AT] for at in range(0, len(found), _LOOKED_AT)]
    tasks = [Task("reading documents", _count, part) for part in parts]
    counts: dict[str, int] = {}
    bad: dict[str, Bad] = {}
    for task, told in workers.run(tasks):
        for one, count in zip(task.given, told, strict=True):
            if isinstance(count, int):
                counts[one.name] = count
            else:
                bad[one.name] = Bad(one.name, count)
    return counts, [bad[one.name] for one in found if one.name in bad]


def _count(
    recorder: ShardRecorder, documents: Sequence[Document], _: Callable[[float], None]
) -> list[int | str]:
    """In a worker: the tokens of each, or why it cannot be recorded."""
    found: list[int | str] = []
    for one in documents:
        text = one.text()
        try:
            found.append(recorder.tokens(text))
        except RegardError as error:
            found.append(str(error))
    return found


def _look(
    recorder: ShardRecorder, document: Document, _: Callable[[float], None]
) -> tuple[dict[str, str], Estimate]:
    """In a worker: what the model is, and what it takes."""
    return recorder.model, recorder.estimate(document.text())


def _estimated(
    options: RecordOptions, estimated: Estimate, counts: Sequence[tuple[int, int]]
) -> tuple[int, float]:
    """Bytes and seconds of documents, given as (tokens, documents in its file)."""
    size, seconds, known = 0, 0.0, dict[tuple[int, int], int]()
    for tokens, together in counts:
        if (tokens, together) not in known:
            plan = estimated.plan(tokens + options.generate, options.budget // together)
            known[tokens, together] = plan.total_bytes
        size += known[tokens, together]
        seconds += estimated.seconds(tokens, options.generate)
    return size, seconds


# ── what is there already ────────────────────────────────────────────────────────────────────


def _manifest(
    request: CorpusRequest, model: dict[str, str], shards: Sequence[Shard], bad: Sequence[Bad]
) -> dict[str, Any]:
    return {
        "contents": "documents/1",
        "made": {
            "regard": metadata.version("regard"),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
        },
        "documents": str(request.documents),
        "model": model,
        "options": asdict(request.options),
        "skipped": [asdict(one) for one in bad],
        "shards": [
            {"file": one.file, "documents": len(one.documents), "digest": one.digest}
            for one in shards
        ],
    }


def _compared(request: CorpusRequest, wanted: dict[str, Any]) -> tuple[set[str], list[Path], Path]:
    """Files that are done; files of another run, which are an error unless they may go; and where
    the files to do are written."""
    done, stale = _sorted(request.folder, wanted)
    if stale and not request.overwrite:
        some = "; ".join(f"{file.name}: {why}" for file, why in list(stale.items())[:_TOLD])
        more = f"; and {len(stale) - _TOLD} files more" if len(stale) > _TOLD else ""
        raise FileError(
            f"{request.folder} holds files of another run: {some}{more}. Give another folder with "
            "-o, or --overwrite to record these anew"
        )
    if not stale:
        return done, [], request.folder
    place = request.folder / PARTIAL
    return done | _sorted(place, wanted)[0], list(stale), place


def _sorted(folder: Path, wanted: dict[str, Any]) -> tuple[set[str], dict[Path, str]]:
    """The names of files that this run would write as they are, and why the others are not."""
    there = shard_files(folder) if folder.is_dir() else []
    digests = {one["file"]: one["digest"] for one in wanted["shards"]}
    why = {file: _difference(file, wanted, digests.get(file.name)) for file in there}
    return {file.name for file in there if not why[file]}, {f: w for f, w in why.items() if w}


def _difference(file: Path, wanted: dict[str, Any], digest: str | None) -> str:
    """Why a file is not the one that this run would write; "" where it is."""
    if digest is None:
        return "this run has no such file"
    try:
        with Reader(file) as reader:
            if reader.damage or not reader.is_closed:
                return "damaged"
            told = json.loads(reader.metadata.get(SHARD_NOTE, "{}"))
        facts = [
            *_unlike(told["model"], wanted["model"], ("dtype", "fingerprint")),
            *_unlike(told["options"], wanted["options"], wanted["options"]),
        ]
        return ", ".join(facts) or ("" if told["digest"] == digest else "other documents")
    except (FileError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "no file of documents, or damaged"


def _unlike(there: dict[str, Any], now: dict[str, Any], names: Any) -> list[str]:
    words = {"fingerprint": "another model"}
    return [
        words.get(name, f"{name} {there.get(name)} there, {now[name]} now")
        for name in names
        if there.get(name) != now[name]
    ]


# ── the work ─────────────────────────────────────────────────────────────────────────────────


def carry_out(
    run: Run,
    request: CorpusRequest,
    workers: Workers[ShardRecorder],
    advanced: Callable[[float], None] = lambda _: None,
) -> Iterator[str]:
    """Record what is to do; the name of each file as it is done."""
    _check_room(run, request.folder)
    if not run.stale:
        _write_manifest(request.folder / MANIFEST, run.manifest)
    about = {key: run.manifest[key] for key in ("model", "options")}
    run.place.mkdir(exist_ok=True)
    tasks = (Task(one.file, _write, (run.place, one, about)) for one in run.todo)
    for task, _ in workers.run(tasks, advanced):
        yield task.name
    if run.stale:
        _write_manifest(request.folder / MANIFEST, run.manifest)
        ours = {one["file"] for one in run.manifest["shards"]}
        there = {file.name for file in shard_files(run.place)}
        move_in(run.place, ours & there, run.stale)


def _write(
    recorder: ShardRecorder,
    given: tuple[Path, Shard, dict[str, Any]],
    advanced: Callable[[float], None],
) -> None:
    """In a worker: one file."""
    folder, shard, about = given
    documents = shard.documents
    names = [one.name for one in documents]
    note = about | {"digest": shard.digest, "documents": len(documents), "names": names}
    texts = [Text(one.name, one.text()) for one in documents]
    recorder.write(folder / shard.file, texts, note, advanced)


def _check_room(run: Run, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if run.size > free:
        raise FileError(
            f"{folder}: {len(run.todo)} files of together about {human(run.size)}, and "
            f"{human(free)} are free there; give a smaller --budget (it is for each file), fewer "
            "--layers or --heads, or another place with -o"
        )


def _write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """In its place at once, and on the disk before any file that it tells of."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            json.dump(manifest, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror})") from None


# ── the same as an actor of Ray Data ───────────────────────────────────────────────────────────


class BatchRecorder:
    """Records batches of documents: an actor for Ray Data's `map_batches`.

        documents.map_batches(BatchRecorder, fn_constructor_args=("smollm2", "/shared/out"),
                              batch_size=16, concurrency=4, num_cpus=2)

    The model is loaded once per actor. Each batch becomes one file in `folder`, which every machine
    must reach. The file is named after what is in it: a batch that is tried again after a failure,
    or in a second run, is not recorded twice. `regard.open(folder)` opens them all.

    texts, names   the columns with the documents and with what they are called; without names a
                   document is called by the beginning of its digest
    """

    def __init__(
        self,
        model: str,
        folder: str | os.PathLike[str],
        *,
        texts: str = "text",
        names: str | None = None,
        chat: bool = False,
        generate: int = 0,
        layers: str | None = None,
        heads: str | None = None,
        queries: str | None = None,
        budget: str | int = "2GB",
        truncate: int | None = None,
        dtype: str | None = None,
        device: str | None = None,
    ) -> None:
        room = parse_budget(budget)
        options = RecordOptions(chat, generate, layers, heads, queries, room, truncate=truncate)
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._texts, self._names = texts, names
        self._recorder = ShardRecorder(load(model, dtype=dtype, device=device), options)
        self._options = asdict(options)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """One file; a row for each head: `file`, `head`, `documents`, `tokens`, and its statistics
        over the batch. `rows` is how many rows of attention they are means of."""
        documents = self._documents(batch)
        if not documents:
            return _as_columns("", Merged())
        note = self._note(documents)
        path = self._folder / f"shard-{text_digest(json.dumps(note))[:24]}.regard"
        if path.exists():  # recorded before, with the same options
            with recording.open(path) as found:
                return _as_columns(path.name, found.merged())
        clear_abandoned(path)
        merged = self._recorder.write(path, documents, note)
        return _as_columns(path.name, merged)

    def _documents(self, batch: Mapping[str, Any]) -> list[Text]:
        for column in filter(None, (self._texts, self._names)):
            if column not in batch:
                have = ", ".join(map(repr, batch)) or "none"
                raise InputError(f"the batch has no column {column!r}; its columns are {have}")
        texts = list(batch[self._texts])
        names = [f"document {n}" for n in range(len(texts))]
        if self._names is not None:
            names = [str(one) for one in batch[self._names]]
        for name, text in zip(names, texts, strict=True):
            self._check(name, text)
        if self._names is None:
            names = [text_digest(text)[:12] for text in texts]
        return [Text(name, str(text)) for name, text in zip(names, texts, strict=True)]

    def _check(self, name: str, text: Any) -> None:
        """InputError where it cannot be recorded; before any of its batch is."""
        if not isinstance(text, str):
            raise InputError(f"{name}: a {type(text).__name__} in {self._texts!r}; give a text")
        if not text.strip():
            raise InputError(f"{name}: the text is empty; leave it out")
        try:
            self._recorder.tokens(text)
        except RegardError as error:
            raise InputError(f"{name}: {error}") from error

    def _note(self, documents: Sequence[Text]) -> dict[str, Any]:
        digest = digest_of([(one.name, text_digest(one.text)) for one in documents])
        names = {} if self._names is None else {"names": [one.name for one in documents]}
        facts = {"digest": digest, "model": self._recorder.model, "options": self._options}
        return facts | {"documents": len(documents)} | names


def _as_columns(file: str, merged: Merged) -> dict[str, Any]:
    """As Ray Data takes a batch: columns of one length, a row a head."""
    labels = merged.labels()
    count = len(labels)
    facts: dict[str, Any] = {
        "file": np.array([file] * count, str), "head": np.array(labels, str),
        "documents": np.full(count, merged.documents), "tokens": np.full(count, merged.tokens),
        "rows": merged.counted("entropy"),
    }  # fmt: skip
    return facts | merged.numbers()
