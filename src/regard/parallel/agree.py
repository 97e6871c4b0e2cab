"""All ranks must mean the same: a few numbers of each go round before anything else does.

Always the same few, so that ranks which are about to do different things meet here and find out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.parallel.group import Peers
from regard.parallel.message import pack
from regard.parallel.travel import around

__all__ = ["agree", "contents"]

_SOUND, _BROKEN = 1, 0
_SUBJECTS = 8  # at most
_TAG = 100  # no shard is taken for words: gloo ends the process over a message that is too long


def agree(
    peers: Peers, said: Mapping[str, str], device: torch.device, error: Exception | None = None
) -> None:
    """Raise InputError on every rank unless all ranks said the same of every subject.

    error   what is wrong with this rank's own words; the other ranks are told that there is
            something, so that they do not wait for it, and it is raised here
    """
    assert len(said) <= _SUBJECTS
    numbers = [_BROKEN if error else _SOUND, *map(_digest, said.values())]
    mine = torch.zeros(1 + _SUBJECTS, dtype=torch.int64)
    mine[: len(numbers)] = torch.tensor(numbers)
    mine = mine.to(device)
    # by the ring and not by a gather: there it is known who does not answer
    tour = around(peers, [mine], [len(mine)] * peers.world, axis=0, tag=_TAG)
    everyone = {owner: numbers for owner, (numbers,) in tour}
    if error is not None:
        raise error
    _compare(torch.stack([everyone[rank] for rank in range(peers.world)]).cpu(), said, peers.rank)


def contents(arrays: Iterable[Any]) -> str:
    """What is in arrays that live on the host; others by shape and dtype, so that no device is
    waited for."""
    marks = []
    for array in arrays:
        tensor = torch.as_tensor(array).detach()
        mark = f"{tensor.dtype}{tuple(tensor.shape)}"
        if tensor.device.type == "cpu":
            mark += blake2b(pack([tensor]).numpy().tobytes(), digest_size=8).hexdigest()
        marks.append(mark)
    return " ".join(marks)


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), signed=True)


def _compare(everyone: Tensor, said: Mapping[str, str], rank: int) -> None:
    broken = (everyone[:, 0] == _BROKEN).nonzero().flatten().tolist()
    if broken:
        raise InputError(
            f"{_ranks(broken)} could not take what was given there; see the error there"
        )
    for n, (subject, text) in enumerate(said.items(), start=1):
        column = everyone[:, n].tolist()
        counted = Counter(column)
        if len(counted) == 1:
            continue
        usual = max(column, key=lambda value: counted[value])  # the first, where two are as many
        odd = [r for r, value in enumerate(column) if value != usual]
        raise InputError(
            f"the ranks disagree on {subject}: {_ranks(odd)} differs from rank "
            f"{column.index(usual)}; rank {rank} has {text}. Give all ranks the same"
        )


def _ranks(numbers: list[int]) -> str:
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
