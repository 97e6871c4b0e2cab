"""How many sequences a call of attention holds, and that its batch entries are theirs.

Queries come as (B, H, L, D): the batch is q's own first axis. What the model was given has to agree
with it. Tokens count sequences beyond doubt (`ModelInputs.batch`); then a batch of q that is a
multiple holds several windows, frames or chunks of each. Whatever could be read in two ways is
refused.
"""

from __future__ import annotations

import math

from regard.engine.call import Call
from regard.errors import InputError
from regard.recorder.inputs import ModelInputs


def sequences(
    given: ModelInputs, call: Call, known: int | None, path: str, *, ours: bool = False
) -> int:
    """The number of sequences; `known` where tokens, or earlier calls, have told it.

    ours   the call is one of `regard.attend`, for which (H, L, D) are heads: where the model was
           given these queries themselves, they are one sequence
    """
    batch, path = call.shape.batch, path or "the model"
    if not batch and ours and known is None and given.holds(call.query):
        return 1
    if not batch:
        return _without_batch(given, call, known, path)
    if known is None:
        known = _fitting(given, call) or _folded(given, call)
    if known is None:
        raise InputError(
            f"{path} attends over {_shape(call)}, and none of what the model was given has "
            f"{batch[0]} sequences: {_said(given)}; give token ids as input_ids, or embeddings as "
            "inputs_embeds (batch, tokens, dim), so that the sequences can be counted"
        )
    if known == 1:
        return 1
    entries = math.prod(batch)
    if known != entries and batch[0] % known:
        raise InputError(
            f"{path} attends over {entries} batch entries, the model was given {known} sequences; "
            "record them one by one"
        )
    if known not in (entries, batch[0]) and not _is_shared_out(given, call, known):
        raise InputError(
            f"{path} attends over {_shape(call)}, the model was given {known} sequences "
            f"({_said(given)}): which entries are whose cannot be known; record them one by one"
        )
    return known


def _without_batch(given: ModelInputs, call: Call, known: int | None, path: str) -> int:
    """(L, D) and (H, L, D), where the first axis could also be the batch, or both in one."""
    if known == 1 or (known is None and _is_alone(given, call)):
        return 1
    told = "" if known is None else f"{known} sequences, "
    raise InputError(
        f"{path} attends over {_shape(call)}, which has no axis for the batch, and the model was "
        f"given {told}{_said(given)}: sequences and heads cannot be told apart; call attention "
        "with (batch, heads, tokens, dim), or record one sequence by its input_ids (1, tokens)"
    )


def _is_alone(given: ModelInputs, call: Call) -> bool:
    """Whether all that was given is one sequence: (1, L, …), or (L, features) without a batch."""
    lengths = (call.shape.queries, call.shape.keys)
    alone = all(shape[0] == 1 for shape, _ in given.data) and call.shape.queries > 1
    plain = all(len(s) == 2 and not whole and s[0] in lengths for s, whole in given.data)
    return alone or plain


def _fitting(given: ModelInputs, call: Call) -> int | None:
    """q's own batch, where something that was given has as many."""
    lengths = (call.shape.queries, call.shape.keys)
    for count in dict.fromkeys((call.shape.batch[0], math.prod(call.shape.batch))):
        for shape, whole in given.data:
            last = shape[1] == count and shape[0] in lengths  # tokens first, then the batch
            alone = count == 1 and len(shape) == 2 and not whole  # (L, features) of one sequence
            if shape[0] == count or last or alone:
                return count
        if not given.data:
            return count
    return None


def _folded(given: ModelInputs, call: Call) -> int | None:
    """The only number of sequences that what was given allows, each of several batch entries."""
    first = call.shape.batch[0]
    every: set[int] | None = None
    for shape, whole in given.data:
        if len(shape) == 2 and not whole:
            continue
        some = {shape[0]} if len(shape) > 3 else {a for a, b in (shape[:2], shape[1::-1]) if b > 1}
        some = {count for count in some if first % count == 0}
        every = some if every is None else every & some
    return every.pop() if every is not None and len(every) == 1 else None


def _is_shared_out(given: ModelInputs, call: Call, known: int) -> bool:
    """Whether each sequence has the same number of entries beside each other: not where heads
    may be among them, nor where pictures are counted by themselves."""
    media = [shape for shape, whole in given.data if len(shape) > 2 and not whole]
    windows = call.shape.query_heads > 1 or any(len(shape) > 3 for shape in media)
    return windows and all(shape[0] in (1, known) for shape in media)


def _shape(call: Call) -> str:
    shape = call.shape
    return f"queries {(*shape.batch, shape.query_heads, shape.queries, shape.dim)}"


def _said(given: ModelInputs) -> str:
    return "tensors " + ", ".join(str(s) for s, _ in given.data) if given.data else "no tensors"
