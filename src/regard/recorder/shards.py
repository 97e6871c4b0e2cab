"""Some documents → one file, whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from regard import recording
from regard.errors import InputError, RegardError
from regard.models import Loaded
from regard.recorder.choice import Choice
from regard.recorder.drive import drive
from regard.recorder.encode import Encoded, check_length, check_reads_text, encode
from regard.recorder.estimate import Estimate, estimate
from regard.recorder.session import record
from regard.recording import Merged
from regard.recording.extend import extend
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

    def __post_init__(self) -> None:
        self.choice()  # wrong words end here, before a model is loaded

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
        part = path.parent / f".{path.stem}-{uuid.uuid4().hex}.part"
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
        found = encode(self._loaded.tokenizer, text, self._options.chat)
        check_length(self._loaded.model, found.tokens, self._options.generate)
        return found


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
