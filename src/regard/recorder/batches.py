"""Batches of a Ray Data set → files: the same as `regard record --documents`, as an actor."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from regard import recording
from regard.errors import InputError, RegardError
from regard.models import load
from regard.recorder.corpus import digest_of, text_digest
from regard.recorder.plan import parse_budget
from regard.recorder.shards import RecordOptions, ShardRecorder, Text
from regard.recording import Merged


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
        dtype: str | None = None,
        device: str | None = None,
    ) -> None:
        options = RecordOptions(chat, generate, layers, heads, queries, parse_budget(budget))
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
