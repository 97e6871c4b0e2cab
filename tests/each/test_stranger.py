"""A mask, a bias and three statistics that this file alone defines work wherever ours do.

Without a line in the package: on every implementation, over ranks, through torch.compile and
torch.export, in recordings, tables, the terminal and the page. What cannot be is refused in one
sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

import regard
import warm
from each.conftest import DEVICE
from installed import needs, needs_one_graph
from parallel.world import run
from regard.errors import GradientError, InputError, UnavailableError
from regard.mask import Extent, Mask, Verdict
from regard.parallel import Shards, ring, tree, ulysses
from regard.score import Bias
from regard.shapes import AttentionShape
from regard.summary import (
    ColumnStatistic,
    Entropy,
    Matrix,
    Measured,
    MergePart,
    Received,
    RowStatistic,
    Summary,
    Sums,
)
from regard.viewer import answers
from regard.viewer.opened import Opened


class Dilated(Mask):
    """Oneself and every step-th key before."""

    tag = "test.dilated/1"
    step: int

    def allows(self, i: Any, j: Any, extent: Extent) -> Any:
        back = (i + extent.shift("end"))[:, None] - j[None, :]
        return (back >= 0) & (back % self.step == 0)

    def verdict(self, rows: range, cols: range, extent: Extent) -> Verdict:
        if not rows or not cols or cols[0] > rows[-1] + extent.shift("end"):
            return Verdict.NONE
        return Verdict.SOME


class Varentropy(RowStatistic):
    """(…, Hq, L): the variance of −log p under the weights."""

    tag = "test.varentropy/1"
    name, words, unit = "varentropy", "variance of −log p in a row", "nats²"
    needs = ("total", "centred", "second")
    merges_with = (Entropy(),)
    gradient = "declared"

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        p = torch.cat([matrix.weights, matrix.sink[..., None]], -1)
        some = p > 0
        surprise = torch.where(some, -torch.where(some, p, 1.0).log(), 0.0)
        mean = (p * surprise).sum(-1, keepdim=True)
        return (p * (surprise - mean).square()).sum(-1)

    def close(self, sums: Sums) -> Any:
        total = sums["total"]
        mean, second = sums["centred"] / total, sums["second"] / total
        return torch.where(total == 0, 0.0, second - mean.square())

    def merge(self, parts: Sequence[MergePart]) -> Tensor:
        """Var = E[(−log p)²] − H², each part's surprise shifted by lse − lse of the part."""
        means = [part.also[Entropy()] + part.gap for part in parts]
        mean = sum(part.weight * m for part, m in zip(parts, means, strict=True))
        square = sum(
            part.weight * (part.value + m.square()) for part, m in zip(parts, means, strict=True)
        )
        return square - mean.square()

    def slopes(self, p: Tensor, u: Tensor, value: Tensor) -> Tensor:
        """dV/ds = p ((log p + H)² + 2 (log p + H) − V)."""
        off = u - (p * u).sum(-1, keepdim=True)
        return p * (off.square() + 2 * off - value)


class MostReceived(ColumnStatistic):
    """(…, Hq, S): the largest weight that each key received."""

    tag = "test.most-received/1"
    name, words = "most_received", "the largest weight a key received"
    join = "max"

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        if shape.queries == 0:
            return matrix.weights.sum(-2)
        return matrix.weights.amax(-2)

    def term(self, p: Tensor) -> Tensor:
        return p.amax(-2)


class MeanReceived(Summary):
    """(…, Hq, S): the mean weight that each key received, out of the mass that sweeps bring."""

    tag = "test.mean-received/1"
    name, words = "mean_received", "the mean weight a key received"
    about, gradient = "keys", "mass"

    def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
        return matrix.weights.sum(-2) / max(shape.queries, 1)

    def source(self) -> Summary:
        return Received()

    def answer(self, known: Mapping[Summary, Measured], shape: AttentionShape) -> Tensor | None:
        mass = Received().answer(known, shape)
        return None if mass is None else mass / max(shape.queries, 1)


class Squared(Bias):
    """−slope · distance²."""

    tag = "test.squared/1"
    slope: float

    def tile(self, i: Any, j: Any, extent: Extent) -> Any:
        away = (i + extent.shift("end"))[:, None] - j[None, :]
        return -self.slope * (away * away).to(torch.float64)


ASKED = (Varentropy(), MostReceived(), MeanReceived(), Entropy())
MASKS: dict[str, Mask] = {
    "alone": Dilated(3),
    "combined": ~Dilated(2) & regard.Window(40) | regard.Prefix(2),
    "padded": Dilated(2) & regard.Padding(torch.tensor([150, 90])),
}
ON = ("cpu", "tiled", None) if DEVICE == "cpu" else ("triton", "tiled", None)


def tensors(n: int = 150, dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Tensor]:
    dice = torch.Generator().manual_seed(seed)
    heads = (4, 2, 2)
    made = [torch.randn(2, h, n, 16, generator=dice, dtype=dtype) for h in heads]
    return [t.to(DEVICE) for t in made]


def near(found: Any, right: Any) -> None:
    torch.testing.assert_close(found, right.to(found.dtype), rtol=1e-6, atol=1e-8)


def compare(found: Any, right: Any, asked: Sequence[Any] = ASKED) -> None:
    near(found.output, right.output)
    a, b = found.summarize(*asked), right.summarize(*asked)
    for one in asked:
        assert a[one] is not None
        near(a[one], b[one])


RULES: dict[str, Callable[[], dict[str, Any]]] = {
    "plain": dict,
    "sink": lambda: {"sink": torch.randn(4, dtype=torch.float64, device=DEVICE)},
    "soft cap": lambda: {"softcap": 3.0},
}


@pytest.mark.parametrize("implementation", ON)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("mask", MASKS)
def test_every_implementation(
    mask: str, rule: str, implementation: str | None, tokens: int = 150
) -> None:
    q, k, v = tensors(tokens)
    options = {"mask": MASKS[mask].map(lambda array: torch.as_tensor(array).to(DEVICE))}
    options |= RULES[rule]()
    right = regard.attend(q, k, v, implementation="dense", **options)
    asked = regard.attend(q, k, v, summaries=ASKED, implementation=implementation, **options)
    compare(asked, right)
    compare(regard.attend(q, k, v, implementation=implementation, **options), right)
    near(asked[0, 1, 7], right[0, 1, 7])


@pytest.mark.parametrize("implementation", ON)
def test_gradients(implementation: str | None, tokens: int = 40) -> None:
    def grads(implementation: str | None) -> list[Tensor]:
        given = [t.requires_grad_() for t in tensors(tokens)]
        a = regard.attend(*given, mask=Dilated(2), implementation=implementation)
        value = a.summarize(Varentropy())[Varentropy()]
        turned = value * torch.arange(tokens, device=DEVICE) + a.output.sum(-1)
        turned = turned + a.summarize(MeanReceived())[MeanReceived()].square()
        return list(torch.autograd.grad(turned.sum(), given))

    for found, right in zip(grads(implementation), grads("dense"), strict=True):
        near(found, right)


def test_a_bias_is_added_or_refused() -> None:
    q, k, v = given = [t.requires_grad_() for t in tensors(60)]
    right = regard.attend(q, k, v, bias=Squared(0.01), implementation="dense")
    for implementation in ("tiled", None):
        found = regard.attend(q, k, v, bias=Squared(0.01), implementation=implementation)
        compare(found, right)
        for a, b in zip(
            *(
                torch.autograd.grad(x.output.sum(), given, retain_graph=True)
                for x in (found, right)
            ),
            strict=True,
        ):
            near(a, b)
    near(regard.replay(q.detach(), k.detach(), bias=Squared(0.01)).entropy(), right.entropy())
    with pytest.raises(UnavailableError, match=r"of biases it does not know Squared\(slope=0.01\)"):
        regard.attend(q, k, v, bias=Squared(0.01), implementation=ON[0])


def test_what_has_no_gradient_says_so() -> None:
    given = [t.requires_grad_() for t in tensors(20)]
    a = regard.attend(*given, mask=Dilated(2), implementation=ON[0])
    with pytest.raises(GradientError, match="MostReceived has no gradient"):
        a.summarize(MostReceived())[MostReceived()].sum().backward()
    b = regard.attend(*given, sink=torch.zeros(4, device=DEVICE), implementation=ON[0])
    with pytest.raises(GradientError, match="Varentropy has no gradient beside a sink"):
        b.summarize(Varentropy())


# ── torch ────────────────────────────────────────────────────────────────────────────────────


def both(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    a = regard.attend(q, k, v, mask=Dilated(3), summaries=(Varentropy(),))
    found = a.summarize(Varentropy(), MostReceived())
    return a.output, found[Varentropy()], found[MostReceived()]


def test_compiled() -> None:
    needs_one_graph()
    given = tensors(30)
    for found, right in zip(torch.compile(both, fullgraph=True)(*given), both(*given), strict=True):
        near(found, right)


def test_compiled_gradients() -> None:
    needs_one_graph()

    def loss(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        a = regard.attend(q, k, v, mask=Dilated(3))
        return a.summarize(Varentropy())[Varentropy()].square().sum() + a.output.sum()

    def grads(run: Any) -> list[Tensor]:
        given = [t.requires_grad_() for t in tensors(30)]
        return list(torch.autograd.grad(run(*given), given))

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for mine, right in zip(grads(compiled), grads(loss), strict=True):
        near(mine, right)


def test_exported() -> None:
    needs_one_graph()

    class Model(torch.nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
            return both(q, k, v)

    given = tuple(tensors(30))
    program = torch.export.export(Model(), given)
    for found, right in zip(program.module()(*given), both(*given), strict=True):
        near(found, right)


# ── ranks ────────────────────────────────────────────────────────────────────────────────────

TOKENS = 26


def over(way: str) -> list[list[float]]:
    """What a rank finds, by one of the three ways, next to what is right for it."""
    import torch.distributed as dist

    q, k, v = (t[:, :, :TOKENS].cpu() for t in tensors())  # gloo sends no other
    rank, world = dist.get_rank(), dist.get_world_size()
    shards = Shards.zigzag(TOKENS, world) if way == "ring" else Shards.even(TOKENS, world)
    right = regard.attend(q, k, v, mask=Dilated(3), implementation="dense")
    values = right.summarize(*ASKED)
    mine = shards.positions(rank)
    if way == "tree":
        rows = torch.arange(TOKENS)
        found = tree(
            q, shards.take(k, rank), shards.take(v, rank), shards=shards, mask=Dilated(3),
            summaries=ASKED,
        )  # fmt: skip
        answers = {one: found[one] for one in ASKED}
    else:
        rows = mine
        call = ring if way == "ring" else ulysses
        a = call(*(shards.take(t, rank) for t in (q, k, v)), shards=shards, mask=Dilated(3))
        answers = a.summarize(*ASKED)
        found = a
    near(found.output, right.output[:, :, rows])
    for one in ASKED:
        near(answers[one], values[one][..., mine if one.about == "keys" else rows])
    return [[1.0]]


@pytest.mark.parametrize("way", ["ring", "tree", "ulysses"])
def test_over_ranks(way: str) -> None:
    assert run(2, over, way) == [[[1.0]]] * 2


def sharded(axis: int) -> bool:
    mesh = init_device_mesh("cpu", (2,))
    given = [t[:, :, :TOKENS].cpu() for t in tensors()]
    right = regard.attend(*given, mask=Dilated(3), implementation="dense")
    spread = [distribute_tensor(t.contiguous(), mesh, [Shard(axis)]) for t in given]
    if axis == 2:  # only queries are spread over ranks
        spread[1:] = [distribute_tensor(t.contiguous(), mesh, [Shard(0)]) for t in given[1:]]
    a = regard.attend(*spread, mask=Dilated(3), summaries=ASKED)
    values, wanted = a.summarize(*ASKED), right.summarize(*ASKED)
    for one in ASKED:
        near(values[one].full_tensor(), wanted[one])
    return True


@pytest.mark.parametrize("axis", [0, 1])
def test_over_dtensors(axis: int) -> None:
    needs("torch", "2.11", "attention over DTensors is served")
    assert run(2, sharded, axis) == [True, True]


# ── declarations that cannot be ──────────────────────────────────────────────────────────────


def test_a_row_statistic_without_close() -> None:
    with pytest.raises(InputError, match=r"Half: a RowStatistic needs close\(sums\)"):

        class Half(RowStatistic):
            name = "half"

            def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor: ...


def test_a_sum_that_is_not_there() -> None:
    with pytest.raises(InputError, match=r"Third\.needs names 'third'; there are total, centred"):

        class Third(RowStatistic):
            name = "third"
            needs = ("third",)

            def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor: ...
            def close(self, sums: Sums) -> Any: ...


def test_a_column_statistic_without_a_term() -> None:
    with pytest.raises(InputError, match=r"Empty: a ColumnStatistic needs term\(p\)"):

        class Empty(ColumnStatistic):
            name = "empty"

            def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor: ...


def test_a_merge_that_is_not_there() -> None:
    class Lonely(Varentropy):
        tag = "test.lonely/1"
        merge = RowStatistic.merge

    with pytest.raises(InputError, match=r"Lonely\(\) does not merge over keys"):
        regard.attend_partial(*tensors(9), summaries=(Lonely(),))


def test_a_statistic_that_is_neither() -> None:
    class Odd(regard.summary.Summary):
        def define(self, matrix: Matrix, shape: AttentionShape) -> Tensor:
            return matrix.lse

    a = regard.attend(*tensors(9), implementation="tiled")
    with pytest.raises(InputError, match="Odd is neither a RowStatistic nor a ColumnStatistic"):
        a.summarize(Odd())


def test_arrays_that_do_not_fit() -> None:
    class Limits(Mask):
        limit: Any = regard.mask.array("heads")

        def allows(self, i: Any, j: Any, extent: Extent) -> Any:
            return (i[:, None] - j).abs() <= self.limit[..., None, None]

    with pytest.raises(InputError, match=r"Limits\(limit\) has shape \(3,\).* \(…, heads\) = "):
        regard.attend(*tensors(9), mask=Limits(torch.ones(3, device=DEVICE)))
    regard.attend(*tensors(9), mask=Limits(torch.ones(4, device=DEVICE)))


def test_an_array_that_is_not_declared() -> None:
    class Hidden(Mask):
        limit: Any

        def allows(self, i: Any, j: Any, extent: Extent) -> Any:
            return (i[:, None] - j).abs() <= self.limit

    for limit in (torch.tensor(3), torch.ones(4, 1, 1)):
        with pytest.raises(InputError, match=r"Hidden\.limit holds an array; declare it"):
            regard.attend(*tensors(9), mask=Hidden(limit))
        with pytest.raises(InputError, match=r"Hidden\.limit holds an array; declare it"):
            regard.attend(*tensors(9), mask=~Hidden(limit))
    regard.attend(*tensors(9), mask=Hidden(3))


# ── recordings ───────────────────────────────────────────────────────────────────────────────


class Layer(torch.nn.Module):
    """Two heads that look where the stranger's mask lets them."""

    def __init__(self) -> None:
        super().__init__()
        self.project = torch.nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        q = self.project(x).unflatten(-1, (2, 8)).transpose(1, 2)
        self.seen = regard.attend(q, q, q, mask=Dilated(3))
        return self.seen.output.transpose(1, 2).flatten(-2)


def recorded(path: Path, **options: Any) -> Any:
    torch.manual_seed(0)
    model = torch.nn.Sequential(Layer(), Layer())
    with regard.record(model, path, **options):
        model(torch.randn(1, 30, 16))
    return [layer.seen for layer in model]


def command(*words: Any) -> str:
    """Of a process that knows no class of these."""
    done = warm.run("import regard.cli\nregard.cli.main()", *map(str, words))
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def test_a_recorded_mask_is_replayed_and_shown(tmp_path: Path) -> None:
    path = tmp_path / "strange.regard"
    seen = recorded(path)
    near(torch.as_tensor(regard.open(path)["L1H0"].rows(range(30))), seen[1][0, 0].detach())
    for words in (["show", path], ["show", path, "L1H0"], ["report", path]):
        command(*words)


@pytest.mark.parametrize("budget", ["2GB", "60kB"], ids=["every-row", "binned"])
def test_a_recorded_statistic_is_kept_exported_and_shown(tmp_path: Path, budget: str) -> None:
    path = tmp_path / "strange.regard"
    seen = recorded(path, statistics=Varentropy(), budget=budget)
    right = [one.summarize(Varentropy())[Varentropy()][0].detach() for one in seen]
    with regard.open(path) as rec:
        grid = rec.grid("varentropy")
        np.testing.assert_allclose(grid, torch.stack(right).mean(-1), rtol=1e-5)
        np.testing.assert_allclose(rec.merged().grid("varentropy"), grid, rtol=1e-12)
        kept = rec["L1H0"].stored["varentropy"]
        spans = zip(kept.edges[:-1], kept.edges[1:], strict=True)
        means = [float(right[1][0, a:b].mean()) for a, b in spans]
        np.testing.assert_allclose(kept.values, means, rtol=1e-5, atol=1e-7)
        # the page takes what is shown from these answers, served or in one file
        said = answers.overview(Opened(rec))
        assert said["statistics"]["varentropy"]["words"] == Varentropy.words
        np.testing.assert_allclose(said["stacks"][0]["grids"]["varentropy"], grid)
        assert rec.plot_grid("varentropy") is not None
    assert "varentropy: variance of −log p in a row" in command("show", path, "--stat=varentropy")
    shown = json.loads(command("show", path, "L1H0", "--json"))
    assert shown["statistics"]["varentropy"] == pytest.approx(grid[1, 0])
    for what, to in (("statistics", "csv"), ("rows", "csv"), ("rows", "npz")):
        file = tmp_path / f"{what}.{to}"
        command("export", path, "--to", to, "--what", what, "-o", file)
        text = file.read_text() if to == "csv" else " ".join(np.load(file))
        assert "varentropy" in text


@pytest.mark.parametrize("kept", [(), Varentropy()], ids=["replayed", "stored"])
def test_a_recording_is_asked_for_them(tmp_path: Path, kept: Any) -> None:
    path = tmp_path / "strange.regard"
    seen = recorded(path, statistics=kept)
    right = seen[1].summarize(*ASKED)
    found = regard.open(path)["L1H1"].summarize(*ASKED)
    for one in ASKED:
        np.testing.assert_allclose(found[one], right[one][0, 1].detach(), rtol=1e-5, atol=1e-6)


def test_without_q_and_k_a_recording_refuses_them(tmp_path: Path) -> None:
    recorded(tmp_path / "strange.regard", budget="30kB", statistics=Varentropy())
    head = regard.open(tmp_path / "strange.regard")["L1H1"]
    for one, why in (
        (Varentropy(), "varentropy row by row cannot be computed; stored: .*varentropy"),
        (MostReceived(), "the largest weight a key received cannot be computed"),
    ):
        with pytest.raises(UnavailableError, match=why):
            head.summarize(one)


def test_a_statistic_that_cannot_be_recorded(tmp_path: Path) -> None:
    class Taken(Varentropy):
        tag, name = "test.taken/1", "entropy"

    class Tensor(Varentropy):
        tag, name = "test.tensor/1", "top_keys"

    for given, why in (
        (MostReceived(), "a recording keeps statistics of rows beside its own; ask the open"),
        (Taken(), "Taken.name = 'entropy' is taken"),
        (Tensor(), "Tensor.name = 'top_keys' is taken"),
        ([Varentropy(), Varentropy()], "Varentropy.name = 'varentropy' is taken"),
        ("varentropy", "'varentropy' is not a summary"),
    ):
        with pytest.raises(InputError, match=re.escape(why)):
            regard.record(Layer(), tmp_path / "no.regard", statistics=given)
    assert not list(tmp_path.iterdir())


def test_without_the_class_a_recording_opens_and_refuses_cells(tmp_path: Path) -> None:
    path = tmp_path / "strange.regard"
    recorded(path, statistics=Varentropy())
    script = (
        "import sys, regard\n"
        "head = regard.open(sys.argv[1])['L0H0']\n"
        "print(head.entropy().shape, head.stored['varentropy'].values.shape)\n"
        "try:\n    head[3, 3]\n"
        "except regard.errors.RegardError as error:\n    print(error)\n"
    )
    shape, refused = warm.run(script, str(path)).stdout.splitlines()
    assert shape == "(30,) (30,)"
    assert "is a 'test.dilated/1'; import the module that defines it" in refused
