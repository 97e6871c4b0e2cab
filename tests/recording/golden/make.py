"""The golden recordings of one version of the contents: small, and of every kind there is.

    fine.regard     every row and key, q and k; grouped key heads, four kinds of masks, a sink, and
                    statistics of the recording's own
    binned.regard   rows, keys and distances in bins, a ragged last one; q and k of one layer
    cut.regard      the same, cut off within its totals
    ranks/          one prompt over two ranks, in bins
    shards/         four documents in two files
    batch.regard    three documents in one padded batch; from version 3 on

They are written anew with new contents only, packed as attention-N.tar.xz:

    PYTHONPATH=tests python -m recording.golden.make tests/recording/golden
"""

from __future__ import annotations

import sys
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import regard
from regard.recorder.plan import Plan, Size, make_plan
from regard.recording import Reader
from regard.recording.merged import MERGED_NOTE, written
from regard.running import Sums
from regard.summary import RowStatistic

__all__ = ["HighestScore", "make", "pack", "unpack"]

HEADS, KEY_HEADS, DIM, VALUE_DIM, MOST = 4, 2, 8, 4, 160


class HighestScore(RowStatistic):
    """A statistic of somebody's own, without a tag; its rows join by their largest."""

    name, words, unit = "max_final", "the largest final score of a row", "nats"
    needs = ("largest",)

    def define(self, matrix: Any, shape: Any) -> Tensor:
        return matrix.masked.amax(-1)

    def close(self, sums: Sums) -> Any:
        return sums["largest"]


def _causal(_: int) -> dict[str, Any]:
    return {"mask": regard.Causal()}


def _window(_: int) -> dict[str, Any]:
    return {"mask": regard.Window(9), "sink": torch.tensor([0.5, -1.0, 0.0, 1.0])}


def _biased(_: int) -> dict[str, Any]:
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
    return {"mask": regard.Causal(), "bias": regard.ALiBi(slopes), "softcap": 20.0}


def _table(tokens: int) -> dict[str, Any]:
    """Gaps that no interval tells of."""
    dice = np.random.default_rng(5)
    seen = np.tril(dice.random((tokens, tokens)) < 0.7) | np.eye(tokens, dtype=bool)
    return {"mask": regard.mask.Table(torch.from_numpy(seen))}


class Layer(nn.Module):
    """Attention over the same queries, keys and values for every text."""

    def __init__(self, number: int, rules: Callable[[int], dict[str, Any]]) -> None:
        super().__init__()
        dice = np.random.default_rng(number)
        self.rules = rules
        for name, heads, dim in (
            ("query", HEADS, DIM), ("key", KEY_HEADS, DIM), ("value", KEY_HEADS, VALUE_DIM),
        ):  # fmt: skip
            numbers = dice.standard_normal((heads, MOST, dim)).astype(np.float32)
            self.register_buffer(name, torch.from_numpy(numbers))
        with torch.no_grad():
            self.key[0, 0] *= 2  # a sink, for some of the heads
            self.query[:2] += 0.25 * self.key[0, 0]

    def forward(self, ids: Tensor, start: int) -> None:
        """(1, tokens), which stand at `start` and behind."""
        stop = start + ids.shape[1]
        q, k, v = self.query[:, start:stop], self.key[:, :stop], self.value[:, :stop]
        regard.attend(q[None], k[None], v[None], **self.rules(stop))


class Model(nn.Module):
    """Layers beside one another."""

    def __init__(self, *rules: Callable[[int], dict[str, Any]]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(n, one) for n, one in enumerate(rules))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, input_ids: Tensor, start: int = 0) -> None:
        """(1, tokens)."""
        for layer in self.layers:
            layer(input_ids, start)


def _ids(tokens: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(3, 15, (1, tokens)))


def _plan(layers: int, size: int, exact: Sequence[int] = ()) -> Plan:
    """Bins of so many rows and keys."""
    plan = make_plan(10**9, [Size(HEADS, KEY_HEADS, DIM, MOST, MOST)] * layers)
    return replace(
        plan, row_bin=size, key_bin=size, top_every=size, pool_cell=16,
        distances=8 if size > 1 else 0, exact=frozenset(exact),
    )  # fmt: skip


def _fine(path: Path) -> None:
    model = Model(_causal, _window, _biased, _table)
    more = [regard.Distance(), HighestScore()]
    with torch.no_grad(), regard.record(model, path, statistics=more) as rec:
        rec.name = "golden"
        model(_ids(37))


def _binned(path: Path) -> None:
    model = Model(_causal, _table)
    more = [regard.Distance(), HighestScore()]
    with torch.no_grad(), regard.record(model, path, statistics=more) as rec:
        rec.name = "golden"
        rec.expect(149, _plan(2, 8, exact=(1,)))
        model(_ids(149))


def _cut(path: Path) -> None:
    _binned(path)
    with Reader(path) as reader:
        frame = reader.entries["P0/L1/totals"].frame
    path.write_bytes(path.read_bytes()[: frame.data + 8])


def _ranks(folder: Path) -> None:
    folder.mkdir()
    ids, cuts = _ids(149, 1), (0, 96, 149)
    for rank, (start, stop) in enumerate(pairwise(cuts)):
        model = Model(_causal)
        with torch.no_grad(), regard.record(model, folder / f"rank-{rank:04}.regard") as rec:
            rec.name = "golden"
            rec.expect(149, _plan(1, 8))
            rec.follow(ids[0, :start])
            rec.note(ranks={"world": 2, "rank": rank})
            model(ids[:, start:stop], start)


def _shards(folder: Path) -> None:
    from regard.recording.format.write import extend

    folder.mkdir()
    for number in range(2):
        path, model = folder / f"shard-0000{number}.regard", Model(_causal)
        with torch.no_grad(), regard.record(model, path, statistics=[HighestScore()]) as rec:
            rec.name = "golden"
            for text in range(2):
                tokens = 21 + 8 * number + 3 * text
                rec.expect(tokens, _plan(1, 2))
                model(_ids(tokens, 2 * number + text))
        with regard.open(path) as made:
            words, tensors = written(made.merged())
        with extend(path) as more:
            for name, sums in tensors.items():
                more.add(name, sums)
            more.note({MERGED_NOTE: words})


class Batch(Model):
    """The same of several documents side by side, padded on the right."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> None:  # type: ignore[override]
        """(documents, tokens) each."""
        count, tokens = input_ids.shape
        real = attention_mask.sum(1)
        for layer in self.layers:
            q, k, v = (
                t[None, :, :tokens].expand(count, -1, -1, -1)
                for t in (layer.query, layer.key, layer.value)
            )
            regard.attend(q, k, v, mask=regard.Padding(real, real), scale=0.5)


def _batch(path: Path) -> None:
    model, lengths = Batch(_causal), torch.tensor([9, 5, 1])
    real = torch.arange(9) < lengths[:, None]
    ids = torch.cat([_ids(9, seed) for seed in range(3)]) * real
    with torch.no_grad(), regard.record(model, path) as rec:
        rec.name = "golden"
        model(input_ids=ids, attention_mask=real.long())


def make(folder: Path) -> None:
    """All of them, into an empty folder."""
    _batch(folder / "batch.regard")
    _fine(folder / "fine.regard")
    _binned(folder / "binned.regard")
    _cut(folder / "cut.regard")
    _ranks(folder / "ranks")
    _shards(folder / "shards")


def pack(folder: Path, into: Path) -> None:
    """One archive: the heads of the frames are much alike."""
    with regard.open(folder / "fine.regard") as rec:
        name = rec.store.metadata["contents"].replace("/", "-")
    with tarfile.open(into / f"{name}.tar.xz", "w:xz") as archive:
        archive.add(folder, ".", filter=_anonymous)


def _anonymous(one: tarfile.TarInfo) -> tarfile.TarInfo:
    one.uid = one.gid = one.mtime = 0
    one.uname = one.gname = ""
    return one


def unpack(version: str, folder: Path) -> Path:
    """The recordings of one version, `attention-1`."""
    with tarfile.open(Path(__file__).with_name(f"{version}.tar.xz")) as archive:
        archive.extractall(folder / version, filter="data")
    return folder / version


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        make(Path(made))
        pack(Path(made), Path(sys.argv[1]))
