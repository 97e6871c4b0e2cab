"""Where a model is at work: the place an attention belongs to, and where its tokens stand."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import nn

from regard.engine.call import Call
from regard.engine.observers import Editor, editing
from regard.errors import UnavailableError
from regard.hear.attached import Substitutes
from regard.hear.hooks import Caller, ModelHooks, Pass
from regard.hear.inputs import sequences
from regard.hear.names import LayerNames, Spot, has_parts, is_cross, is_cross_module
from regard.recorder.call_slice import laid_out

_Places: TypeAlias = NDArray[np.int64]


class Here(ModelHooks):
    """Follows a model and names its places as a recorder does."""

    alone = "a knock-out"

    def __init__(self, model: nn.Module, editor: Editor | None = None) -> None:
        super().__init__(model)
        self._editor = editor
        self._names = LayerNames(named=has_parts(model))
        self._grows = is_hugging_face(model)  # transformers says how much its cache holds
        self._heard: set[Caller] = set()
        self._placed: dict[Caller, tuple[_Places, _Places]] = {}  # of each place's last call
        self._padding: dict[str, _Places] = {}  # by path: (E, 1) tokens before the first real one

    def prepared(self) -> Substitutes:
        """Modules that ask transformers for their attention get regard's."""
        if not is_hugging_face(self.model):
            return {}
        from regard.huggingface.switch import substituted

        return substituted(self.model)

    def around(self, again: bool) -> AbstractContextManager[Any]:
        """Every pass is edited, also where checkpointing runs a part of it again."""
        return nullcontext() if self._editor is None else editing(self._editor)

    def caller(self) -> Caller | None:
        """Who calls attention now, also where a part of the model is run alone."""
        if not self._at.stack or not self.attached:
            return None
        path = self._at.stack[-1]
        if self._is_layer_alone() and Caller(path, 1) in self._heard:
            raise UnavailableError(
                f"{path} serves several layers, and run alone it does not say which one it is; "
                "run the whole model"
            )
        found = Caller(path, 0 if self.now is None else self.now.calls[path])
        self._heard.add(found)
        return found

    def _is_layer_alone(self) -> bool:
        """Whether a layer was called, of which its model has several or uses one several times."""
        return self.now is None or any(part.isdecimal() for part in self.now.path.split("."))

    def spot(self, call: Call) -> Spot | None:
        """The stack and layer that is at work; None outside the model, and for attention between
        channels, which has no place in recordings either."""
        caller = self.caller()
        if caller is None or self.note_channels(caller, call):
            return None
        return self._names.spot(caller)

    def done(self) -> None:
        """The attention of this place is computed."""
        caller = self.caller()
        if caller is not None:
            self.called(caller)

    def check_heads(self, call: Call) -> None:
        """Raise where what looks like heads (H, L, D) may be heads of several sequences."""
        if self.now is not None and not call.shape.batch and call.shape.query_heads > 1:
            sequences(self.now.given, call, self.now.batch, self._at.stack[-1], ours=True)

    def starts(self, call: Call) -> tuple[int, int]:
        """Where the call's first query and first key stand in their whole sequences, padding
        counted."""
        queries, keys = call.shape.queries, call.shape.keys
        cached = 0 if self.now is None else self.now.cached
        caller = self.caller()
        if caller is not None and is_cross(caller.path):
            return cached, 0
        if not self._grows or self.now is None:
            cached = max(cached, keys - queries)
        return cached, max(cached + queries - keys, 0)  # a sliding cache has let the first ones go

    def positions(self, call: Call) -> tuple[_Places, _Places]:
        """(E, L) and (E, S): where the queries and keys of each batch entry stand in their whole
        sequences, as a recording counts them: from the first real token on, −1 for padding.
        (1, …) where nothing is known of entries."""
        caller = self.caller()
        if caller is None or self.now is None:  # run once more for its gradients
            known = None if caller is None else self._placed.get(caller)
            if known is not None and known[0].shape[1] == call.shape.queries:
                return known
            i, j = np.arange(call.shape.queries)[None], np.arange(call.shape.keys)[None]
            query_start, key_start = self.starts(call)
            return i + query_start, j + key_start
        self._placed[caller] = self._counted(call, self.now, caller)
        return self._placed[caller]

    def _counted(self, call: Call, now: Pass, caller: Caller) -> tuple[_Places, _Places]:
        (query_start, key_start), entries = self.starts(call), math.prod(call.shape.batch)
        count = now.batch if now.batch and entries % now.batch == 0 else entries
        cross = is_cross_module(self.model, caller.path)
        layout = laid_out(now.streams, count, caller, now, call, cross=cross)
        ends = [[k.start, k.stop, r.start, r.stop] for r, k, _ in layout]
        # (E, 1) each
        first_key, last_key, first_row, last_row = np.repeat(ends, entries // count, 0).T[..., None]
        own, start = (first_row, query_start) if cross else (first_key, key_start)
        if start == 0 or len(self._padding.get(caller.path, ())) != entries:
            self._padding[caller.path] = own
        before = self._padding[caller.path]  # a cache may have let the padding go
        i, j = np.arange(call.shape.queries), np.arange(call.shape.keys)
        if cross:
            query_at, key_at = i + query_start - before, j - first_key
        else:  # the last row is the last key
            key_at = j + key_start - before
            query_at = i - last_row + last_key + key_start - before
        query_at = np.where((i >= first_row) & (i < last_row), query_at, -1)
        return query_at, np.where((j >= first_key) & (j < last_key), key_at, -1)


def is_hugging_face(model: nn.Module) -> bool:
    """Whether the model is one of transformers, or holds one."""
    return any(
        kind.__name__ == "PreTrainedModel" and kind.__module__.startswith("transformers.")
        for module in model.modules()
        for kind in type(module).__mro__
    )
