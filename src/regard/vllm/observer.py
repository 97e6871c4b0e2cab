"""A worker's steps, as far as requests that asked are concerned.

Rows of a long chunk are measured where they are computed, layer by layer. Rows of decoding, one a
step, are kept as q and output and measured together when enough have gathered: their keys stay in
the cache as long as the request has its pages. vLLM names a request that loses them (finished,
aborted, preempted) before anything else is written there, and then the rest is measured. Pages
behind a sliding window go earlier, so layers with one are measured after every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.recorder.plan import Plan, Size, make_plan
from regard.vllm.ask import NO_SECRET, Ask, asked_in, secret_in
from regard.vllm.layers import ServedLayer, ServedModel, numbers_at
from regard.vllm.sequence import ServedRequest, ServedSequence
from regard.vllm.shelf import FileShelf, MemoryShelf, in_words
from regard.vllm.step import GATHER, Following, OwnRows, ServedStep, StepBatch


class Observer:
    """Follows requests through the steps of one worker."""

    def __init__(
        self,
        model: ServedModel,
        sizes: tuple[int, ...],
        most: int,
        batch: Callable[[Mapping[str, int]], StepBatch],
        shelf: MemoryShelf,
        tokenizer: Callable[[], Any],
        why_not: str = "",
    ) -> None:
        """
        sizes      tokens a page, by group of layers
        most       tokens of any request
        batch      the batch of a step, while the model runs
        shelf      for requests of clients
        tokenizer  called when the first request is at its end
        why_not    a reason that holds for every request
        """
        self.model, self._sizes, self._most, self._batch = model, sizes, most, batch
        self.clients, self._tokenizer, self._why_not = shelf, tokenizer, why_not
        self.files: dict[str, FileShelf] = {}  # by secret: recordings of `regard.vllm.record`
        self._following: dict[str, Following] = {}
        self._step: ServedStep | None = None
        self._verified: set[str] = set()
        self._undo: list[Callable[[], None]] = []

    # ── steps ────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def step(self, scheduled: Any) -> Iterator[None]:
        """One step of the model runs inside; `scheduled` is vLLM's SchedulerOutput."""
        self._prepare(scheduled)
        if self._following:
            self._attach()
        try:
            yield
            self._complete()
        finally:
            self._step = None
            self._detach()

    def follows_any(self) -> bool:
        """Whether a request is being followed."""
        return bool(self._following)

    def _prepare(self, scheduled: Any) -> None:
        counts: Mapping[str, int] = scheduled.num_scheduled_tokens
        for id in scheduled.finished_req_ids:
            if id in self._following:
                self._end(id)
        for id in [id for id in self._following if id not in counts]:
            self._guard(id, self._measure)  # it may be about to lose its pages
        starts: dict[str, int] = {}
        for new in scheduled.scheduled_new_reqs:
            if new.req_id in self._following:  # the second runner's way to resume
                self._resume(new.req_id, new.block_ids, new.num_computed_tokens)
            elif (asked := asked_in(new.sampling_params)) is not None:
                self._begin(new, asked)
            starts[new.req_id] = new.num_computed_tokens
        cached = scheduled.scheduled_cached_reqs
        for number, id in enumerate(cached.req_ids):
            if id not in self._following:
                continue
            starts[id] = cached.num_computed_tokens[number]
            blocks = cached.new_block_ids[number]
            if id in cached.resumed_req_ids:
                self._resume(id, blocks, starts[id])
            elif blocks is not None:
                self._following[id].sequence.place_pages(blocks, anew=False)
        followed = {id: start for id, start in starts.items() if id in self._following}
        for id in [id for id in followed if counts.get(id, 0) >= GATHER]:
            self._guard(id, self._measure)  # rows follow each other
        self._step = ServedStep(counts, followed)

    def _complete(self) -> None:
        """After the model has run."""
        step = self._step
        if step is None or step.kept is None:
            return
        offset = 0
        for part in step.short:
            own = OwnRows(step.kept, slice(offset, offset + part.count), part.start)
            offset += part.count
            part.following.gathered.append(own)
            due = part.following.is_due
            action = self._measure if due else partial(self._measure_windowed, own)
            self._guard(part.following.id, action)

    # ── requests ─────────────────────────────────────────────────────────────────────────────

    def _begin(self, new: Any, asked: Any) -> None:
        secret = secret_in(asked)
        shelf: FileShelf | MemoryShelf = self.clients
        if secret in self.files:
            shelf = self.files[secret]
        else:
            self.clients.expect(new.req_id, secret)
        if not secret:
            shelf.refuse(new.req_id, secret, NO_SECRET)
            return
        try:
            ask = Ask.of(asked)
            following = self._followed(new, ask, shelf)
        except Exception as error:  # noqa: BLE001  told to whoever asked; the server goes on
            shelf.refuse(new.req_id, secret, in_words(error))
        else:
            self._following[new.req_id] = following

    def _followed(self, new: Any, ask: Ask, shelf: FileShelf | MemoryShelf) -> Following:
        why_not = self._why_not or self.model.why_nothing
        if not new.prompt_token_ids:
            why_not = why_not or "its prompt is embeddings, not tokens"
        if why_not:
            raise InputError(f"not recorded: {why_not}")
        choice = ask.choice
        choice.check_layers(1 + max(one.spot.layer for one in self.model.layers.values()))
        layers = [one for one in self.model.layers.values() if choice.has_layer(one.spot.layer)]
        prompt = tuple(new.prompt_token_ids)
        wanted = getattr(new.sampling_params, "max_tokens", None)
        most = self._most if wanted is None else min(len(prompt) + wanted, self._most)
        plan = self._plan(layers, ask, most, shelf.room(new.req_id))
        shelf.foresee(new.req_id, plan.total_bytes)
        request = ServedRequest(new.req_id, ask, prompt, shelf.number(new.req_id), most)
        sequence = ServedSequence(request, plan, tuple(layers), self._sizes)
        sequence.place_pages(new.block_ids, anew=True)
        return Following(sequence, shelf)

    def _plan(self, layers: list[ServedLayer], ask: Ask, most: int, budget: int) -> Plan:
        sizes = [_size(layer, ask, most) for layer in layers]
        return make_plan(budget, sizes, None if ask.exact else ())

    def _resume(self, id: str, blocks: tuple[list[int], ...], first: int) -> None:
        sequence = self._following[id].sequence
        sequence.place_pages(blocks, anew=True)
        sequence.resume(first)

    def _end(self, id: str) -> None:
        """A request is at its end, or its recording is."""
        self._guard(id, self._measure)
        if id in self._following:
            self._guard(id, self._finish)
        self._following.pop(id, None)

    def _finish(self, following: Following) -> None:
        following.sequence.finish(self._tokenizer())
        following.shelf.deliver(following.sequence)

    def finish(self, shelf: FileShelf) -> None:
        """Requests that are recorded there end here, for the recording."""
        for id in [id for id, one in self._following.items() if one.shelf is shelf]:
            self._end(id)
        self._detach()

    def _guard(self, id: str, action: Callable[[Following], None]) -> None:
        """What goes wrong with one request's recording ends that, and nothing else."""
        following = self._following.get(id)
        if following is None:
            return
        try:
            action(following)
        except Exception as error:  # noqa: BLE001  told to whoever asked; the server goes on
            del self._following[id]
            secret = following.sequence.request.ask.secret
            following.shelf.refuse(id, secret, in_words(error))

    def _give_up(self, reason: str) -> None:
        """Nobody is followed any more: what a step holds cannot be told."""
        for id, following in self._following.items():
            following.shelf.refuse(id, following.sequence.request.ask.secret, reason)
        self._following.clear()

    # ── rows ─────────────────────────────────────────────────────────────────────────────────

    def _measure(self, following: Following) -> None:
        """All rows that gathered."""
        gathered, following.gathered = following.gathered, []
        if not gathered:
            return
        self._read_tokens(following.sequence, gathered)
        for path in following.sequence.layers:
            self._take(following.sequence, self.model.layers[path], gathered)

    def _measure_windowed(self, own: OwnRows, following: Following) -> None:
        windowed = [
            self.model.layers[path]
            for path in following.sequence.layers
            if self.model.layers[path].is_windowed
        ]
        if windowed:
            self._read_tokens(following.sequence, [own])
        for layer in windowed:
            self._take(following.sequence, layer, [own])

    def _read_tokens(self, sequence: ServedSequence, gathered: list[OwnRows]) -> None:
        """Those the model wrote itself are known from what it is given next."""
        for own in gathered:
            new = own.start + (own.part.stop - own.part.start) - len(sequence.ids)
            if new > 0:
                sequence.ids += own.kept.ids[own.part][-new:].tolist()

    def _take(self, sequence: ServedSequence, layer: ServedLayer, gathered: list[OwnRows]) -> None:
        pairs = [(one.kept.layers[layer.path], one.part) for one in gathered]
        query = torch.cat([both[0][part] for both, part in pairs])
        output = torch.cat([both[1][part] for both, part in pairs])
        sequence.take(layer, query, output, gathered[0].start)

    def hear(self, layer: ServedLayer, query: Tensor, key: Any, value: Any, output: Tensor) -> None:
        """A layer of the step under way: (tokens, H, D), (tokens, Hkv, D) and the output."""
        step = self._step
        if step is None:
            return
        if not step.is_located:
            step.locate(self._batch(step.counts), self._following)
        if layer.path not in self._verified and key is not None:
            self._verify(layer, step, key, value)
        for part in step.long:
            if layer.path in part.following.sequence.layers:
                own = partial(_take_now, layer, query[part.rows], output[part.rows], part.start)
                self._guard(part.following.id, own)
        if step.kept is not None and layer.path in step.kept.wanted:
            rows = step.kept.rows
            both = query.index_select(0, rows), output.index_select(0, rows)
            step.kept.layers[layer.path] = both

    def _verify(self, layer: ServedLayer, step: ServedStep, key: Tensor, value: Tensor) -> None:
        """Once for each layer: what is read from the cache is what was written to it."""
        self._verified.add(layer.path)
        part = next(iter((*step.long, *step.short)), None)
        if part is None:
            return
        views, sequence = layer.views(), part.following.sequence
        slots = sequence.slots(layer.group, part.start + part.count, key.device)[part.start :]
        for view, given in ((views.key, key), (views.value, value)):
            if not torch.equal(numbers_at(view, slots), given[part.rows].transpose(0, 1)):
                self._why_not = f"{layer.path}: what lies in its cache is not what was put there"
                raise InputError(self._why_not)

    # ── hooks, while a request is followed ───────────────────────────────────────────────────

    def _attach(self) -> None:
        if self._undo:
            return
        for layer in self.model.layers.values():
            impl = layer.module.impl
            own = vars(impl).get("forward")  # another observer's
            undo = partial(delattr, impl, "forward")
            self._undo.append(undo if own is None else partial(setattr, impl, "forward", own))
            impl.forward = self._heard(layer, impl.forward)

    def _detach(self) -> None:
        """Once nobody is followed."""
        while self._undo and not self._following:
            self._undo.pop()()

    def _heard(self, layer: ServedLayer, forward: Callable[..., Any]) -> Callable[..., Any]:
        """An implementation's forward, whose rows are taken down behind it."""

        @wraps(forward)
        def run(
            module: Any, query: Tensor, key: Any, value: Any, cache: Any, metadata: Any,
            output: Tensor, *args: Any, **kwargs: Any,
        ) -> Any:  # fmt: skip
            result = forward(module, query, key, value, cache, metadata, output, *args, **kwargs)
            if metadata is not None and self._step is not None:
                try:
                    self.hear(layer, query, key, value, output)
                except Exception as error:  # noqa: BLE001  told to whoever asked
                    self._give_up(in_words(error))
            return result

        return run


def _take_now(
    layer: ServedLayer, query: Tensor, output: Tensor, start: int, following: Following
) -> None:
    following.sequence.take(layer, query, output, start)


def _size(layer: ServedLayer, ask: Ask, most: int) -> Size:
    module = layer.module
    heads = len(ask.choice.heads_of(module.num_heads))
    item = module.kv_cache.element_size()
    return Size(heads, module.num_kv_heads, module.head_size, most, most, itemsize=item)
