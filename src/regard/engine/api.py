"""attend(), replay() and their kin: what they mean and what they accept.

Everything is checked here, before any kernel runs, and by shape, dtype and device alone: never by
looking at values, so that all of it can be traced.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from regard.engine.answers import Swept
from regard.engine.attention import Attention
from regard.engine.backends.dtensor import for_dtensors
from regard.engine.call import Answers, Call, Known, map_parts
from regard.engine.checks import (
    FLOATS,
    broadcast,
    check_dropout,
    check_in_backward,
    check_inputs,
    check_summaries,
    check_tensors,
    given_state,
    indexer_call,
)
from regard.engine.checks import call_of as _call
from regard.engine.observers import (
    EDITORS,
    LISTENERS,
    edited_call,
    edited_output,
    editors,
    listeners,
    unheard,
)
from regard.engine.packing import pack_of
from regard.engine.paging import packed_lse, paged
from regard.engine.plan import KEPT, MEASURING, Implementation, Settled, choose, keep, key_of
from regard.engine.torch_state import (
    NO_TRANSFORM,
    check_whole,
    has_tangent,
    in_autocast,
    is_batched,
    is_transformed,
    unintercepted,
)
from regard.errors import DTypeError, GradientError, InputError, ShapeError
from regard.mask import Causal, Mask, Pack, as_mask
from regard.mask.base import Part
from regard.score import Bias, LightningScores, PartBias, as_bias
from regard.state import Partial, rounded_off
from regard.summary import Received, Summary


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Mask | Tensor | None = None,
    scale: float | None = None,
    bias: Tensor | Bias | None = None,
    softcap: float | None = None,
    sink: Tensor | None = None,
    dropout: float = 0.0,
    summaries: tuple[Summary, ...] = (),
    in_backward: tuple[Summary, ...] = (),
    implementation: str | None = None,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_k: Tensor | None = None,
) -> Attention:
    """Softmax attention: the output, and any weight, row or statistic of the attention matrix.

    query (…, Hq, L, D), key (…, Hkv, S, D), value (…, Hkv, S, Dv); Hq a multiple of Hkv.

    mask            a regard mask, or booleans broadcastable to (…, Hq, L, S), True = may attend
    scale           multiplies q·k; 1/√D by default
    bias            added to scaled and capped scores; −inf counts as masked
    softcap         cap·tanh(score/cap)
    sink            (Hq,): one more key per head whose value is zero
    dropout         probability of dropping a weight of the output; statistics ignore it
    summaries       what to measure during the forward, such as regard.Entropy()
    in_backward     (regard.Received(),): measure it in the backward, which recomputes the weights
                    anyway; if it is requested before, or without one, a sweep measures it
    implementation  the backend to use, with no fallback; by default the fastest that can serve
    cu_seqlens_q    (sequences + 1,) int32: where each of several packed sequences begins. Then
                    query is (tokens, Hq, D), key (tokens, Hkv, D), value (tokens, Hkv, Dv), the
                    output (tokens, Hq, Dv), and mask and bias apply to each sequence separately
    cu_seqlens_k    the same for the keys; cu_seqlens_q by default

    Order: scale → soft cap → bias → mask → sink → softmax.
    """
    pack = None
    if cu_seqlens_q is not None or cu_seqlens_k is not None:
        given = {"query": query, "key": key, "value": value}
        pack = _packed(given, cu_seqlens_q, cu_seqlens_k)
        query, key, value = (t.transpose(0, 1) for t in (query, key, value))
    return attended(
        query, key, value, mask, scale, bias, softcap, sink, dropout, summaries, in_backward,
        implementation, pack=pack,
    )  # fmt: skip


def _packed(given: dict[str, Tensor], cu_seqlens_q: Any, cu_seqlens_k: Any) -> Pack:
    check_tensors(given)
    if for_dtensors(None, *given.values()) is not None:
        raise InputError("cu_seqlens beside DTensors; give plain tensors, or one batch entry each")
    return pack_of(given, cu_seqlens_q, cu_seqlens_k)


def attended(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask | Tensor | None,
    scale: float | None,
    bias: Tensor | Bias | None,
    softcap: float | None,
    sink: Tensor | None,
    dropout: float,
    summaries: tuple[Summary, ...] = (),
    in_backward: tuple[Summary, ...] = (),
    implementation: str | None = None,
    bare: bool = False,
    pack: Pack | None = None,
) -> Attention:
    """`attend`. `bare`: the output is what the caller is after; the lse may come when asked for."""
    check_whole()
    query, key, value = in_autocast(query, key, value)
    later = in_backward != () and len(check_in_backward(in_backward)) > 0
    changing = editors() if torch.compiler.is_compiling() else EDITORS.get()
    alike = None
    if bias is None and sink is None and pack is None and not changing and not later:
        numbers = (scale, softcap, dropout, implementation)
        alike = key_of(query, key, value, mask, summaries, *numbers)
    settled = None if alike is None else KEPT.get(alike)
    if settled is not None:
        call, summaries, chosen = settled.call(query, key, value), settled.summaries, settled.chosen
        learns = settled.learns
    else:
        dropout = check_dropout(dropout)
        call = _call(query, key, value, mask, scale, bias, softcap, sink, dropout, pack)
        summaries = check_summaries(summaries, call.shape)
        call = edited_call(call, changing) if changing else call
        learns = call.gradients
        later = later and learns
        wanted = (*summaries, Received()) if later else summaries
        chosen = _choose(call, wanted, implementation)
        if alike is not None:
            keep(alike, Settled.of(call, summaries, chosen))
    heard = () if torch.compiler.is_compiling() else LISTENERS.get()
    requests = [listener.wants(call) for listener in heard] if heard else []
    if isinstance(chosen, Swept) and (heard or later):
        # measured aside: checkpointing runs a layer again when nobody listens, and must find the
        # same tensors in the graph
        aside = dict.fromkeys(one for request in requests for one in request.summaries)
        with nullcontext() if call.gradients else unintercepted():  # takes time for each access
            answers = chosen.attend(call, summaries, tuple(aside), later)
    elif bare and (run := _alone(call, chosen, settled)) is not None:
        answers = Answers(run(call.query, call.key, call.value), None, Known(), None)
    elif alike is not None and isinstance(chosen, Swept) and not (call.dropout or learns):
        answers = chosen.attend_now(call, summaries)
    else:
        answers = chosen.attend(call, summaries)
    if changing:
        answers = answers._replace(
            output=edited_output(call, cast(Tensor, answers.output), changing)
        )
    found = Attention(call, answers, chosen)
    for listener, request in zip(heard, requests, strict=True):
        listener.heard(found, request)
    return found


def _alone(
    call: Call, chosen: Implementation, settled: Settled | None
) -> Callable[[Tensor, Tensor, Tensor], Tensor] | None:
    """What computes the output and nothing else, where there is such."""
    if torch.compiler.is_compiling():
        return None
    return chosen.alone(call) if settled is None else settled.alone


def output_alone(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Mask | None = None,
    scale: float | None = None,
    bias: Tensor | None = None,
    softcap: float | None = None,
    sink: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """The output, for a caller that asks for nothing else. Calls alike that were settled before go
    straight to whoever computes them, unless somebody listens or edits."""
    if bias is None and sink is None and not (LISTENERS.get() or EDITORS.get()):
        check_whole()
        q, k, v = in_autocast(query, key, value)
        settled = KEPT.get(key_of(q, k, v, mask, (), scale, softcap, dropout, None))
        if settled is not None and settled.alone is not None:
            return settled.alone(q, k, v)
    return attended(
        query, key, value, mask, scale, bias, softcap, sink, dropout, bare=True
    ).output  # fmt: skip


def attend_counting(
    query: Tensor, key: Tensor, value: Tensor, *, counted: Tensor | None, **options: Any
) -> Attention:
    """`attend`, whose statistics are of the rows `counted` (B, L) alone; None counts all."""
    if counted is None:
        return attend(query, key, value, **options)
    if torch.compiler.is_compiling():  # where nothing listens
        found = attend(query, key, value, **options)
        found._rows_counted = counted
        return found
    with unheard():
        found = attend(query, key, value, **options)
    found._rows_counted = counted
    for listener in listeners():
        twin = found._counting()
        request = listener.wants(twin._call)
        with torch.no_grad():  # aside, as in `attend`
            twin._ask_all(request.summaries)
        listener.heard(twin, request)
    return found


def replay(
    query: Tensor,
    key: Tensor,
    lse: Tensor | None = None,
    *,
    mask: Mask | Tensor | None = None,
    scale: float | None = None,
    bias: Tensor | Bias | None = None,
    softcap: float | None = None,
    sink: Tensor | None = None,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_k: Tensor | None = None,
    pages: Tensor | None = None,
    lengths: Tensor | None = None,
) -> Attention:
    """The attention matrix of another kernel's output, from its q, k and lse; there is no output.

    lse           (…, Hq, L), natural logarithm, as the kernel returned it, with the sink if there
                  was one; if not given, one sweep computes it. Weights are exp(score − lse).
    cu_seqlens_q  packed sequences, as in `attend`; lse is then (Hq, tokens)
    cu_seqlens_k  the same for the keys
    pages         (B, blocks per sequence) int32: the blocks that hold each sequence's keys in a
                  paged cache. Then key is the cache (blocks, size, Hkv, D), of any strides, and
                  query is (B, Lq, Hq, D), or packed with cu_seqlens_q
    lengths       (B,) int32: the number of keys of each sequence in the cache
    """
    pack: Pack | None = None
    if pages is not None or lengths is not None:
        check_tensors({"query": query, "key": key})
        if cu_seqlens_k is not None:
            raise InputError("cu_seqlens_k beside pages; lengths says how many keys there are")
        lse = None if lse is None else packed_lse(lse, query)
        query, key, slots, pack = paged(query, key, pages, lengths, cu_seqlens_q)
        return replay_with((), query, key, lse, mask, scale, bias, softcap, sink, pack, slots)
    if cu_seqlens_q is not None or cu_seqlens_k is not None:
        pack = _packed({"query": query, "key": key}, cu_seqlens_q, cu_seqlens_k)
        query, key = query.transpose(0, 1), key.transpose(0, 1)
    return replay_with((), query, key, lse, mask, scale, bias, softcap, sink, pack)


def replay_with(
    along: tuple[Summary, ...],
    query: Tensor,
    key: Tensor,
    lse: Tensor | None = None,
    mask: Mask | Tensor | None = None,
    scale: float | None = None,
    bias: Tensor | Bias | None = None,
    softcap: float | None = None,
    sink: Tensor | None = None,
    pack: Pack | None = None,
    slots: Tensor | None = None,
) -> Attention:
    """`replay`, whose sweep for the lse brings along what it can measure on its way."""
    check_whole()
    is_plain = isinstance(key, Tensor) and key.layout == torch.strided and not key.is_nested
    nothing = key[..., :0] if is_plain else key
    if slots is not None:
        nothing = key.new_empty((key.shape[1], slots.shape[0], 0))
    alike = None
    if is_plain and bias is None and sink is None and pack is None and slots is None:
        alike = key_of(query, key, nothing, mask, (), scale, softcap, "replay")
    settled = None if alike is None else KEPT.get(alike)
    if settled is not None:
        call, chosen = settled.call(query, key, nothing), settled.chosen
    else:
        call = _call(query, key, nothing, mask, scale, bias, softcap, sink, 0.0, pack, slots)
        chosen = _choose(call, (), None, questions_only=True)
        if alike is not None:
            keep(alike, Settled.of(call, (), chosen))
    known = Known()
    state = given_state(lse, call) if lse is not None else chosen.state(call, along, known)
    return Attention(call, Answers(None, None, known, state), chosen)


def lightning_indexer(
    query: Tensor,
    key: Tensor,
    weights: Tensor,
    *,
    mask: Mask | Tensor | None = None,
    scale: float = 1.0,
) -> Attention:
    """The softmax of a lightning indexer's scores Σ_h w_h·relu(q_h·k) as an attention of one head.

    query (…, H, L, D), key (…, 1, S, D), weights (…, H, L). There is no output; every other
    operation is there, with gradients of all three: `top(k)` gives the keys it would select,
    `regard.divergence` trains it.
    """
    check_tensors({"query": query, "key": key})
    check_inputs(query, key, key[..., :0])
    if key.ndim < 3 or key.shape[-3] != 1:
        raise ShapeError(f"key has shape {tuple(key.shape)}; its heads share one: (…, 1, S, D)")
    check_tensors({"weights": weights})
    if weights.shape != query.shape[:-1]:
        raise ShapeError(
            f"weights has shape {tuple(weights.shape)}; give one number a head and query: "
            f"{tuple(query.shape[:-1])}"
        )
    heads = query.shape[-3]
    each = query.transpose(-3, -2).flatten(-2)  # (…, L, H·D)
    together = torch.cat([each, weights.mT.to(query.dtype)], -1).unsqueeze(-3)
    call = indexer_call(together, key, mask, LightningScores(float(scale), index_heads=heads))
    chosen = _choose(call, (), None)
    return Attention(call, Answers(None, None, Known(), chosen.state(call)), chosen)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention, with the same arguments and results.

    attn_mask is boolean (True = may attend) or additive; is_causal starts at key 0.
    """
    if attn_mask is not None and is_causal:
        raise InputError("attn_mask and is_causal=True exclude each other; put both into the mask")
    check_tensors({"query": query, "key": key, "value": value})
    query, key, value = broadcast(query, key, value, enable_gqa)
    mask: Mask | Tensor | None = Causal(align="start") if is_causal else None
    bias = None
    if attn_mask is not None:
        kind = getattr(attn_mask, "dtype", type(attn_mask).__name__)
        if kind == torch.bool:
            mask = attn_mask
        elif kind in FLOATS:
            bias = attn_mask
        else:
            raise DTypeError(f"attn_mask is {kind}; give a tensor of booleans or floats")
    return attend(
        query, key, value, mask=mask, bias=bias, scale=scale, dropout=dropout_p
    ).output  # fmt: skip


def attend_partial(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Mask | Tensor | None = None,
    scale: float | None = None,
    bias: Tensor | Bias | None = None,
    softcap: float | None = None,
    summaries: tuple[Summary, ...] = (),
    implementation: str | None = None,
    query_start: int = 0,
    key_start: int = 0,
    total_queries: int | None = None,
    total_keys: int | None = None,
) -> Partial:
    """Attention over some of the keys, to be merged with that over others by `regard.merge`.

    The queries given are numbers query_start, query_start + 1, … of total_queries; the keys
    likewise. Mask and bias are those of the whole problem. The sink is given to `finish`.
    Summaries must be ones that merge over keys.
    """
    check_inputs(query, key, value)
    for number in (query_start, key_start, total_queries, total_keys):
        if not isinstance(number, (int, torch.SymInt, type(None))):
            raise DTypeError(f"{number!r} is no place; give whole numbers, counted in tokens")
    queries = query_start + query.shape[-2] if total_queries is None else total_queries
    keys = key_start + key.shape[-2] if total_keys is None else total_keys
    if query_start < 0 or key_start < 0:
        raise InputError(f"query_start={query_start}, key_start={key_start}: give numbers ≥ 0")
    if query_start + query.shape[-2] > queries or key_start + key.shape[-2] > keys:
        raise ShapeError(
            f"queries {query_start}–{query_start + query.shape[-2]} of {queries}, keys "
            f"{key_start}–{key_start + key.shape[-2]} of {keys}: the part reaches past the whole"
        )
    place = (query_start, key_start, queries, keys)
    part_mask = None if mask is None else Part(as_mask(mask), *place)
    whole_bias = as_bias(bias)
    part_bias = None if whole_bias is None else PartBias(whole_bias, *place)
    query, key, value = in_autocast(query, key, value)
    call = _call(query, key, value, part_mask, scale, part_bias, softcap, None, 0.0)
    call = replace(call, place=query_start + (keys - queries) - key_start)
    summaries = check_summaries(summaries, call.shape)
    for summary in summaries:
        if not summary.merges:
            summary.merge(())
    besides = (other for summary in summaries for other in summary.merges_with)
    summaries = tuple(dict.fromkeys((*summaries, *besides)))
    chosen = _choose(call, summaries, implementation)
    found = Attention(call, chosen.attend(call, summaries), chosen)
    measured = {s: _for_merging(found, s, key_start) for s in summaries}
    state = found._state
    rest = None if state is None else found._public(rounded_off(*state))
    return Partial(found.output.to(found.dtype), found.lse, measured, rest)


def _for_merging(found: Attention, summary: Summary, key_start: int) -> Any:
    value, known = found._ask(summary), found._known.values.get(summary)
    known = None if known is None else map_parts(known, found._public)
    return summary.for_merging(value, known, lambda: found.scores[...].detach(), key_start)


# ── what is accepted ─────────────────────────────────────────────────────────────────────────


def _choose(
    call: Call,
    summaries: tuple[Summary, ...],
    implementation: str | None,
    questions_only: bool = False,
) -> Implementation:
    over_ranks = for_dtensors(implementation, call.query, call.key, call.value)
    if over_ranks is not None:
        return over_ranks
    if torch.compiler.is_compiling() and (implementation is None or implementation in MEASURING):
        return Swept(None, implementation)  # the operator itself chooses, or checks, when it runs
    if implementation != "dense" and has_tangent(call.tensors()):
        raise GradientError(
            "forward-mode derivatives (torch.func.jvp, forward_ad) are asked for; only "
            "implementation='dense' has them, every other has gradients by backward()"
        )
    if implementation != "dense" and is_transformed(call.tensors()):
        raise GradientError(NO_TRANSFORM)
    if implementation != "dense" and is_batched(call.tensors()):
        raise InputError(
            "torch.vmap over regard needs implementation='dense'; attend takes any number of "
            "leading axes: give the whole batch at once"
        )
    chosen = choose(call.problem(summaries), implementation)
    # an lse that is given counts, and the definition has its own
    return chosen if not questions_only or chosen.name in MEASURING else Swept(None)
