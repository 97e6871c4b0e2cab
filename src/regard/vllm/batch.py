"""Which request has which rows of a step. Both of vLLM's model runners lay the tokens of all
requests one after another; who stands where is known to the runner alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from torch import Tensor


class StepBatch(NamedTuple):
    """One step's tokens, as the model is given them."""

    starts: Mapping[str, int]  # by request: its first row
    ids: Tensor  # (rows, or more)

    @classmethod
    def of(cls, order: Sequence[str], counts: Mapping[str, int], ids: Tensor) -> StepBatch:
        """From the requests in order, and how many rows each has."""
        ends = accumulate((counts[one] for one in order), initial=0)
        return cls(dict(zip(order, ends, strict=False)), ids)


class Rows:
    """Tells the batch of the step under way."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner
        self._prepared: Any = None  # the second runner's batch, which it keeps nowhere
        if not hasattr(runner, "input_batch"):
            prepare = runner.prepare_inputs

            def prepare_inputs(*args: Any, **kwargs: Any) -> Any:
                self._prepared = prepare(*args, **kwargs)
                return self._prepared

            runner.prepare_inputs = prepare_inputs

    def now(self, counts: Mapping[str, int]) -> StepBatch:
        """`counts` says how many tokens of each request are computed in this step."""
        runner = self._runner
        if self._prepared is not None:
            return StepBatch.of(self._prepared.req_ids, counts, self._prepared.input_ids)
        return StepBatch.of(runner.input_batch.req_ids, counts, runner.input_ids.gpu)
