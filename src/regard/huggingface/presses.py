"""Presses of kvpress that need no eager attention: `pip install 'regard[kvpress]'`.

    from regard.huggingface.presses import ObservedAttentionPress, KVComposePress

They take the place of kvpress's own presses of these names, which run a model on eager attention
and read its N×N weights. Here the model computes on regard while the press is applied, whatever
implementation it was loaded with, and each layer's scores come with its forward, in O(N) memory.

    ObservedAttentionPress   `regard.kv.observed`: the mean weight over the queries that see a key
    KVComposePress           the largest (or mean) weight of each head, from the pass that repeats
                             the context; composed as kvpress does
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from regard.engine.attention import Attention
from regard.engine.call import Call
from regard.engine.observers import Request, listening
from regard.errors import MissingExtraError
from regard.huggingface.switch import using
from regard.summary import Received, Summary

try:
    import kvpress
except ModuleNotFoundError as error:
    if error.name != "kvpress":
        raise
    raise MissingExtraError("regard.huggingface.presses", "kvpress", "kvpress") from None


class _LastReceived:
    """Listens to a model; knows what the keys of its last attention received."""

    def __init__(self, asked: Summary, every: bool) -> None:
        self._asked, self._every = asked, every
        self._value: Tensor | None = None
        self.queries = 0  # of that attention, over its batch

    def wants(self, call: Call) -> Request[None]:
        """The statistic; where it is not about every call, of calls with keys of earlier passes."""
        wanted = self._every or call.shape.queries != call.shape.keys
        return Request((self._asked,) if wanted else ())

    def heard(self, attention: Attention, request: Request[None]) -> None:
        """Keep the answer alone."""
        self._value = None
        for summary in request.summaries:
            self._value = attention.summarize(summary)[summary]
            self.queries = attention.shape[0] * attention.shape[-2]

    def taken(self) -> Tensor | None:
        """The answer, once."""
        value, self._value = self._value, None
        return value


@dataclass
class ObservedAttentionPress(kvpress.ObservedAttentionPress):  # type: ignore[misc]
    """kvpress's ObservedAttentionPress without eager attention. Padded batches differ from it: the
    mean is over the queries that may see a key, padding excluded."""

    def score(
        self,
        module: nn.Module,
        hidden_states: Tensor,
        keys: Tensor,
        values: Tensor,
        attentions: Any,
        kwargs: Any,
    ) -> Tensor:
        """(batch, Hkv, S)."""
        found = self._listener.taken()
        assert found is not None
        return found.to(keys.dtype)

    @contextmanager
    def __call__(self, model: Any) -> Iterator[None]:
        """Within the block, prompts are compressed as they are read."""
        self._listener = _LastReceived(Received(how="mean", groups="mean"), True)
        with listening(self._listener), using(model), super().__call__(model):
            yield


@dataclass
class KVComposePress(kvpress.KVComposePress):  # type: ignore[misc]
    """kvpress's KVComposePress without eager attention."""

    def forward_hook(
        self, module: nn.Module, input: Any, kwargs: dict[str, Any], output: Any
    ) -> Any:
        """What each head's keys received in a pass over the context's keys joins the aggregators;
        the pass that reads the context leaves nothing."""
        found = self._listener.taken()
        if found is None:
            return output
        aggregators = self.task_aggregators[module.layer_idx]
        for head, aggregator in enumerate(aggregators):
            received = found[:, head, : self.context_len].to(aggregator.data.dtype)
            if self.agg_task == "max":
                aggregator.partial_fit(received)
            else:  # a mean over all queries, however many passes they came in
                aggregator.sum_data += received.sum(0)
                aggregator.count_data += self._listener.queries
                aggregator.data = aggregator.sum_data / aggregator.count_data
        return output

    @contextmanager
    def __call__(self, model: Any) -> Iterator[None]:
        """Within the block, prompts are compressed as they are read."""
        asked = Received(how="max" if self.agg_task == "max" else "sum")
        self._listener, press = _LastReceived(asked, False), self

        def forward(
            self: Any, input_ids: Tensor, past_key_values: Any, *args: Any, **kwargs: Any
        ) -> Any:
            """Reads the context, then the prompts, or the context once more, over its keys."""
            press.register_context_ids(input_ids)
            run = self.original_forward_KVComposePress
            with listening(press._listener), using(self):
                given = {"past_key_values": past_key_values, **kwargs}
                outputs = run(*args, input_ids=input_ids, **given)
                press._register_cache(past_key_values)
                for ids in press.prompt_ids or [press.context_ids]:
                    run(*args, input_ids=ids.to(input_ids.device), **given)
            return outputs

        with super().__call__(model):
            model.model.forward = types.MethodType(forward, model)
            yield
