"""One request that asked, by the recorder's own flow: rows of a layer → `measure` → `reduce` →
`LayerWriter` → a recording in memory, which a restart (preemption) begins anew.

Shapes: n rows, H query heads, D numbers a head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.engine.api import replay_with
from regard.engine.observers import unheard
from regard.errors import InputError
from regard.hear.hooks import Caller
from regard.recorder.background_writer import CountingStore
from regard.recorder.call_slice import CallPlan, CallSlice, Matches
from regard.recorder.layer_writer import LayerWriter
from regard.recorder.measure import CallMeasures, matchings
from regard.recorder.plan import Plan
from regard.recorder.prompt import place_of
from regard.recorder.reduce import reduced
from regard.recorder.tokens import Stream
from regard.recording import Memory
from regard.recording.schema import PROMPT_NOTE, Prompt
from regard.shapes import AttentionShape
from regard.vllm.ask import Ask
from regard.vllm.layers import ServedLayer, numbers_at

_TITLE = 80  # characters


@dataclass(frozen=True)
class ServedRequest:
    """What is known of a request before its first row."""

    id: str  # vLLM's own, with what it adds to the client's
    ask: Ask
    prompt: tuple[int, ...]  # token ids
    number: int  # of its prompt in the recording
    most: int  # tokens it may have in the end


class ServedSequence:
    """Takes rows, layer by layer."""

    def __init__(
        self,
        request: ServedRequest,
        plan: Plan,
        layers: tuple[ServedLayer, ...],
        sizes: tuple[int, ...],
    ) -> None:
        """`sizes` are those of a page, by group of layers."""
        self.request, self.plan, self._sizes = request, plan, sizes
        self.layers = {layer.path: number for number, layer in enumerate(layers)}
        self.ids = list(request.prompt)
        self.pages: list[list[int]] = [[] for _ in sizes]
        self.restarts = 0
        self.cached = 0  # rows that were never computed: keys of an earlier request
        self._begin()

    def _begin(self) -> None:
        self.memory = Memory()
        self._store = CountingStore(self.memory)
        self._writers: dict[str, LayerWriter] = {}
        self._rows: dict[str, int] = {}  # by layer: rows taken down, and so keys
        self._known: dict[Any, Any] = {}  # of the rows at hand, for all layers

    @property
    def spent(self) -> int:
        """Bytes so far."""
        return self._store.spent

    @property
    def rows(self) -> int:
        """How far all layers are."""
        return min(self._rows.values(), default=0)

    def place_pages(self, blocks: tuple[list[int], ...], *, anew: bool) -> None:
        """Where its keys lie: more pages, or others than before."""
        for own, more in zip(self.pages, blocks, strict=True):
            own[:] = more if anew else own + more

    def resume(self, first: int) -> None:
        """It goes on at this row after it was preempted. From 0 everything is taken down again;
        rows whose keys were still cached are computed by nobody, and stay as they are."""
        self.restarts += 1
        self._known.clear()
        if first == 0:
            self._begin()

    # ── rows ─────────────────────────────────────────────────────────────────────────────────

    def take(self, layer: ServedLayer, query: Tensor, output: Tensor, start: int) -> None:
        """Rows from `start` on: query (n, H, D), output (n, H, D)."""
        done = self._rows.get(layer.path)
        again = 0 if done is None else done - start
        if again < 0:
            raise InputError(f"{layer.path}: rows {done} to {start - 1} were not computed here")
        query, output, start = query[again:], output[again:], start + again
        if not len(query):
            return
        if done is None:
            self.cached = start
        self._measure(layer, query.transpose(0, 1), output.transpose(0, 1), start)
        self._rows[layer.path] = start + len(query)

    def _measure(self, layer: ServedLayer, query: Tensor, output: Tensor, start: int) -> None:
        """(H, n, D) each."""
        rows, stop = query.shape[1], start + query.shape[1]
        cache, slots = layer.views(), self.slots(layer.group, stop, query.device)
        shape = AttentionShape(
            (), query.shape[0], cache.key.shape[1], rows, stop, query.shape[2], output.shape[2]
        )
        part = self._slice(layer, shape, start)
        cell = self.plan.pool_cell if part.is_aligned(self.plan.pool_cell) else 0
        copies, prefix = self._matches(part, shape, query.device)
        measures = CallMeasures(self.request.ask.top, cell, copies, prefix)
        decided = CallPlan(Caller(layer.path), layer.spot, (part,), measures, self.plan)
        with unheard(), torch.no_grad():
            attention = replay_with(
                decided.summaries(), query, cache.key, mask=layer.mask, scale=layer.scale,
                bias=layer.bias, softcap=layer.softcap, sink=layer.sink, slots=slots,
            )  # fmt: skip
            fresh = numbers_at(cache.value, slots[part.known_keys :])
            (arrived,) = reduced(attention, output, fresh, decided)
        if layer.path not in self._writers:
            place = place_of(shape, decided, part, ("tokens", "tokens"))
            number = self.request.number
            self._writers[layer.path] = LayerWriter(number, place, self.plan, self._store)
        self._writers[layer.path].take(arrived())

    def _slice(self, layer: ServedLayer, shape: AttentionShape, start: int) -> CallSlice:
        plan, count = self.plan, shape.queries
        known = self._rows.get(layer.path, 0)  # rows of a cached prefix are none, its keys are read
        first = self._writers[layer.path].place.rows[0] if known else start
        return CallSlice(
            first=0,
            count=1,
            rows=range(count),
            keys=range(shape.keys),
            row_start=start,
            key_start=0,
            known_keys=known,
            kept=range(count),
            begins=(start - first) % math.lcm(plan.row_bin, plan.top_every) == 0,
            heads=self.request.ask.choice.heads_of(shape.query_heads),
            kind="self",
            exact=plan.is_exact(self.layers[layer.path]),
            whole=True,
            length=self.request.most,
        )

    def _matches(self, part: CallSlice, shape: AttentionShape, device: torch.device) -> Matches:
        where = ("matches", part.rows, part.keys, shape, device)
        if where not in self._known:
            self._forget(shape.keys)
            ids = np.asarray(self.ids[: shape.keys], np.int64)
            made = matchings([ids], [part.rows], [part.keys], shape, device)
            self._known[where] = made
        return self._known[where]

    def slots(self, group: int, keys: int, device: torch.device) -> Tensor:
        """(keys,): where they lie in the cache, counted through all its pages."""
        where = ("slots", group, keys)
        if where not in self._known:
            self._forget(keys)
            size = self._sizes[group]
            pages = np.asarray(self.pages[group][: -(-keys // size)], np.int64)
            slots: NDArray[np.int64] = (pages[:, None] * size + np.arange(size)).ravel()[:keys]
            self._known[where] = torch.from_numpy(slots).to(device)
        return self._known[where]

    def _forget(self, keys: int) -> None:
        """What layers share is kept for one length."""
        if self._known.get("keys") != keys:
            self._known.clear()
            self._known["keys"] = keys

    # ── the end ──────────────────────────────────────────────────────────────────────────────

    def finish(self, tokenizer: Any) -> None:
        """Write what is left; no more rows will come."""
        rows, number = self.rows, self.request.number
        for path, writer in self._writers.items():
            writer.finish(self._rows[path], self._rows[path])
        ids = self.ids[:rows]
        stream = Stream(number, "tokens", tokenizer)
        stream.extend(np.asarray(ids, np.int64))
        series = stream.take(last=True)
        if series:
            self._store.add_many(series)
        served = {
            "request": self.request.id,
            "cached": self.cached,
            "restarts": self.restarts,
            "statistics": list(self.request.ask.statistics),
        }
        prompt = Prompt(
            rows,
            max(rows - len(self.request.prompt), 0),
            _title(tokenizer, self.request.prompt),
            _bos(tokenizer, self.request.prompt),
            finished=True,
            facts={"served": served},
        )
        self._store.note({f"{PROMPT_NOTE}{number}": prompt.to_json()})


def _title(tokenizer: Any, ids: tuple[int, ...]) -> str:
    """The prompt's beginning."""
    if tokenizer is None:
        return ""
    text = tokenizer.decode(list(ids[: 2 * _TITLE]), skip_special_tokens=True)
    return " ".join(text.split())[:_TITLE]


def _bos(tokenizer: Any, ids: tuple[int, ...]) -> str:
    """Which token was put in front."""
    first = getattr(tokenizer, "bos_token_id", None)
    is_first = first is not None and ids[:1] == (first,)
    return str(tokenizer.convert_ids_to_tokens(first)) if is_first else ""
