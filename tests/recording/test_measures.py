"""One table says what a recording knows of a statistic: a line more in it is a statistic more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from regard.declare import encode
from regard.recording import STATISTICS, schema
from regard.recording.measures import (
    COUNTS,
    KEPT_AS,
    KINDS,
    ROW_NUMBERS,
    TOTALS,
    Kind,
    default_join,
    shown_kinds,
)
from regard.summary import Entropy

# The table with one line more, in a process in which nothing was derived from it yet.
ONE_LINE_MORE = """
import importlib.util, pathlib, sys, types

spec = importlib.util.find_spec("regard")
path = pathlib.Path(spec.origin).parent / "recording" / "measures.py"
code = path.read_text(encoding="utf-8")
line = '    Kind("first", "mass on key 0"'
assert line in code
more = '    _measured(Distance(), "mean distance of a row", 16, span="spread", telling=True),\\n'
code = code.replace(line, more + line).replace("Concentration, ", "Concentration, Distance, ", 1)
module = types.ModuleType("regard.recording.measures")
sys.modules[module.__name__] = module
exec(compile(code, str(path), "exec"), module.__dict__)

import numpy as np
import torch
import regard
from recording.golden.make import Model, _causal, _ids, _plan
from regard.draw import Paper
from regard.draw.pages import overview_lines
from regard.views.overview import whole_overview
from regard.recorder.plan import _ROW_STATISTICS

model = Model(_causal)
with torch.no_grad(), regard.record(model) as made:
    model(_ids(40))
head = made["L0H0"]
assert "distance" in regard.recording.STATISTICS and _ROW_STATISTICS == 9
np.testing.assert_allclose(head.stored["distance"].values, head.distance(), rtol=1e-5)
np.testing.assert_allclose(made.grid("distance")[0, 0], head.distance().mean(), rtol=1e-5)
assert made.merged().grid("distance").shape == (1, 4)
assert made.recording.table("rows", heads="L0H0").columns["distance"].shape == (40,)
assert "distance" in made.recording.table().columns
assert overview_lines(made.recording, 0, "distance", Paper())
assert "distance" in whole_overview(made.recording)["stacks"][0]["grids"]
print("a statistic more")
"""


def test_a_line_in_the_table_is_a_statistic_everywhere() -> None:
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", ONE_LINE_MORE], env={**os.environ, "PYTHONPATH": paths},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.stdout.strip() == "a statistic more", done.stderr[-2000:]


def test_what_is_derived_from_it() -> None:
    assert ROW_NUMBERS[0] == "lse" and set(ROW_NUMBERS) - {"lse"} < set(TOTALS)
    assert len(set(TOTALS)) == len(TOTALS) and TOTALS[: len(COUNTS)] == COUNTS
    assert KEPT_AS[encode(Entropy())] == "entropy"
    assert list(STATISTICS) == list(shown_kinds({}))
    assert list(STATISTICS)[:4] == ["sink", "non_sink", "first", "previous"]
    more = shown_kinds({"mine": Kind("mine", "x"), "odd": Kind("odd", "y", of="tiles")})
    assert list(more)[-1] == "mine"  # behind ours; what is no number of a head is not among them


@pytest.mark.parametrize(
    ("joins", "both", "over", "nothing"),
    [("sum", 5, 6, 0), ("max", 3, 3, -float("inf")), ("min", 2, 1, float("inf"))],
)
def test_how_rows_join(joins: str, both: float, over: float, nothing: float) -> None:
    kind = Kind("x", joins=joins)
    assert kind.join(np.array([2.0]), np.array([3.0])) == both
    assert kind.over(np.array([1.0, 2.0, 3.0])) == over
    assert kind.over(np.zeros(0)) == kind.nothing == nothing


def test_what_joins_in_a_way_nobody_knows_is_not_known() -> None:
    kind = Kind("x", joins="median")
    assert np.isnan(kind.join(np.array([2.0]), np.array([3.0]))).all()
    assert np.isnan(kind.over(np.array([1.0]))) and not kind.is_sum
    assert (default_join("max_x"), default_join("x")) == ("max", "sum")
    assert all(kind.joins in ("sum", "max", "min") for kind in KINDS.values())


def test_the_page_names_every_tensor_and_word() -> None:
    page = Path(schema.__file__).with_name("CONTENTS.md").read_text(encoding="utf-8")
    assert schema.CONTENTS in page.splitlines()[0]
    words = {kind.counts for kind in KINDS.values() if kind.counts not in COUNTS}
    for name in (*ROW_NUMBERS, *schema.TENSORS, *words, *schema._TEXTS):
        assert f"`{name}`" in page, name
