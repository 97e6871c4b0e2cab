"""`regard.check(model, batch)`: does a model see what it must not?

It changes what some positions hold and looks which rows of the output move: one that moves sees
them. No mask is believed and no kernel trusted, so it holds for fused, compiled and hand-written
attention, convolutions and state spaces alike. Torch is all it needs.

    batch       what the model is given, as positions
    declared    what must not be seen, by the model's own word
    runs        the model run and left as it was, in its own precision and in double
    rules       what is changed, and which rows moved
    layers      what each layer sees, and the first module that moves by itself
    verdicts    → sentences, and lines of torch that show it
    report      what is returned
"""

from __future__ import annotations

import inspect
import sys as _sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from regard.check.report import Decision, Finding, Report
from regard.check.verdicts import Examination as _Examination
from regard.check.verdicts import of_all_ranks as _of_all_ranks

__all__ = ["Decision", "Finding", "Report", "check"]


def check(
    model: Any,
    batch: Any,
    causal: bool | int | None = None,
    window: int | Mapping[str, int] | None = None,
    documents: Any = None,
    rules: Sequence[str] | None = None,
    allow: Mapping[str, str] | None = None,
    *,
    by_layer: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Whether rows of a model's output move with what they must not see.

    model      a module, or any callable(batch) → rows
    batch      what it is given: token ids, embeddings, pictures, or a mapping with them
    causal     whether later tokens are hidden, or how many first tokens see one another; by
               default what the model declares
    window     how many tokens back, oneself counted, a layer sees; {module: window}
    documents  (B, L) the document of each position of a pack; False where it is one text. By
               default cu_seqlens, or positions that start again
    rules      of RULES; all by default
    allow      {rule: reason}: what is known and meant
    by_layer   each layer in float64 by itself, where a copy of the model would be too large
    progress   called with what is being tried

    The model, its mode, hooks and buffers, and all generators are left as they were. Under
    torch.distributed every rank checks its batch, and all return one verdict.
    """
    asked = model, batch, causal, window, documents, rules, allow or {}, progress
    return _of_all_ranks(lambda: _Examination(*asked).report(by_layer))


class _Callable(ModuleType):
    """The function and its folder have one name."""

    __call__ = staticmethod(check)
    __signature__ = inspect.signature(check)


_sys.modules[__name__].__class__ = _Callable
