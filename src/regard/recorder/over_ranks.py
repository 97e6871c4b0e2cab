"""One long prompt over many ranks: each reads its tokens, and writes what they looked at.

    out/rank-0000.regard    tokens 0 … a − 1
    out/rank-0001.regard    tokens a … b − 1, which saw 0 … b − 1

Every rank is a causal model that goes on from a cache of the tokens before its own; the other
ranks fill that cache (`regard.parallel.prefill`). The folder opens as one recording. Where it holds
an earlier one that may be replaced, the new files wait in the folder `partial` inside it until
those of all ranks are whole.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from regard.errors import FileError, InputError, RegardError
from regard.files import reason, shown
from regard.hear.intercept import is_hugging_face
from regard.hear.weights import device_of
from regard.parallel import Peers
from regard.parallel.prefill import Before, balanced
from regard.parallel.transport import reporting_lost_rank
from regard.recorder.drive import SizeListener, guesses, is_causal_model, keeps_last_logits
from regard.recorder.plan import Choice, Plan, make_plan, parse_budget
from regard.recorder.session import record
from regard.recorder.shards import PARTIAL, move_in

_PROBE = 2  # tokens


@dataclass(frozen=True)
class Reading:
    """What was decided before anything runs, the same on all ranks."""

    before: Before
    plan: Plan
    choice: Choice

    @property
    def file(self) -> str:
        """Of this rank, in the folder."""
        return f"rank-{self.before.peers.rank:04}.regard"


def record_over_ranks(
    model: nn.Module,
    ids: Tensor,
    folder: str | os.PathLike[str],
    *,
    tokenizer: Any = None,
    layers: Iterable[int] | int | str | None = None,
    heads: Iterable[int] | int | str | None = None,
    budget: str | int = "2GB",
    overwrite: bool = False,
    group: Any = None,
) -> None:
    """Record how a causal model reads one prompt, its tokens spread over the ranks of a group.

    A collective: every rank calls it with the same model (of transformers or of regard.nn), the
    same ids (1, tokens) of the whole prompt, and a folder that all can write to. `budget` is for
    all files together. Everything else is as in `regard.record`.
    """
    choice = Choice.of(layers, heads, None)
    reading = prepare(model, ids, choice, parse_budget(budget), group)
    read(model, ids, Path(folder), reading, tokenizer=tokenizer, overwrite=overwrite)


def prepare(
    model: nn.Module, ids: Tensor, choice: Choice, budget: int, group: Any = None
) -> Reading:
    """Which tokens each rank reads, and what is kept of them."""
    peers = Peers.of(group)
    if not _is_causal(model):
        raise InputError(
            f"{type(model).__name__} is no causal language model; only those can be read over "
            "several ranks, since no token needs what stands behind it"
        )
    if ids.ndim != 2 or ids.shape[0] != 1:
        raise InputError(f"ids has shape {tuple(ids.shape)}; give one prompt: (1, tokens)")
    seen, tokens = _sizes(model, ids), ids.shape[1]
    kept = [replace(size, queries=tokens, keys=tokens) for size in seen.chosen(choice)]
    plan = make_plan(budget, kept)
    parameters = sum(p.numel() for p in model.parameters())
    cells = sum(size.heads * size.dim for _, size in seen.sizes)
    align = math.lcm(plan.row_bin, plan.key_bin, plan.top_every, max(plan.pool_cell, 1))
    # operations a token: twice the parameters, and some ten for each key and dimension of a head
    shards = balanced(tokens, peers.world, 2.0 * parameters, 10.0 * cells, align)
    if 0 in shards.lengths:
        raise InputError(
            f"{tokens} tokens are too few for {peers.world} ranks: a rank's part is a multiple of "
            f"{align} tokens here; use fewer ranks, or a larger budget"
        )
    return Reading(Before(shards, peers.group), plan, choice)


def read(
    model: nn.Module,
    ids: Tensor,
    folder: Path,
    reading: Reading,
    *,
    tokenizer: Any = None,
    name: str = "",
    title: str = "",
    bos: str = "",
    overwrite: bool = False,
    watcher: Callable[[], None] | None = None,
) -> None:
    """This rank's tokens into this rank's file."""
    before, piece = reading.before, reading.before.piece
    choice, place = reading.choice, _place(folder, before.peers, overwrite)
    recorder = record(
        model, place / reading.file, tokenizer=tokenizer, layers=choice.layers,
        heads=choice.heads, budget=reading.plan.budget,
    )  # fmt: skip
    recorder.name = name or recorder.name
    ids = ids.to(device_of(model))
    with recorder, torch.inference_mode():
        recorder.expect(ids.shape[1], reading.plan)
        recorder.follow(ids[0, : piece.start])
        recorder.watcher = watcher
        recorder.note(ranks={"world": before.peers.world, "rank": before.peers.rank})
        logits = _run(model, ids[:, piece.start : piece.stop], before)
        facts: dict[str, Any] = {"title": title, "bos": bos}
        if before.peers.rank == before.peers.world - 1:
            facts["next"] = guesses(logits, recorder.tokenizer)
        recorder.say(0, **facts)
        recorder.finish()
    if place != folder:
        _take_place(place, before.peers)


def _place(folder: Path, peers: Peers, overwrite: bool) -> Path:
    """Where the files are written; the first rank makes it for all."""
    made: list[Path | RegardError | None] = [None]
    if peers.rank == 0:
        try:
            made = [_make(folder, overwrite)]
        except OSError as error:
            made = [FileError(f"{shown(folder)}: cannot be made or written to ({reason(error)})")]
    with reporting_lost_rank(peers, None, "waiting for the folder"):
        first = dist.get_global_rank(peers.group, 0)
        dist.broadcast_object_list(made, src=first, group=peers.group)
    if isinstance(made[0], Path):
        return made[0]
    raise cast("RegardError", made[0])


def _make(folder: Path, overwrite: bool) -> Path:
    """The folder; where it holds an earlier recording, an empty one inside it."""
    folder.mkdir(parents=True, exist_ok=True)
    if not overwrite or not _files(folder):
        return folder
    place = folder / PARTIAL
    place.mkdir(exist_ok=True)
    for file in _files(place):  # of a run that failed
        file.unlink()
    return place


def _take_place(place: Path, peers: Peers) -> None:
    """Once every rank's file is whole. There may have been more ranks in the earlier recording."""
    with reporting_lost_rank(peers, None, "waiting for all files"):
        dist.barrier(peers.group)
        if peers.rank == 0:
            names = [file.name for file in _files(place)]
            move_in(place, names, _files(place.parent))
        dist.barrier(peers.group)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("rank-*.regard"))


def _run(model: nn.Module, ids: Tensor, before: Before) -> Tensor:
    """(vocabulary,): logits behind this rank's last token."""
    if is_hugging_face(model):
        from regard.huggingface.rank_cache import cache_of_ranks

        cache = cache_of_ranks(model.config, before)
        few = keeps_last_logits(model)
        found = model(input_ids=ids, past_key_values=cache, use_cache=True, **few).logits
    else:
        from regard.nn.rank_cache import stack_of_ranks

        layers: Any = model.decoder
        found = model(ids, cache=stack_of_ranks(len(layers.blocks), before))
    last: Tensor = found[0, -1]
    return last.float()


def _is_causal(model: nn.Module) -> bool:
    from regard.nn import LanguageModel

    return is_causal_model(model) if is_hugging_face(model) else isinstance(model, LanguageModel)


def _sizes(model: nn.Module, ids: Tensor) -> SizeListener:
    """The attentions of a model."""
    first = ids[:, :_PROBE].to(device_of(model))
    listener = SizeListener(model)
    with torch.inference_mode(), listener.where:
        model(first)
    return listener
