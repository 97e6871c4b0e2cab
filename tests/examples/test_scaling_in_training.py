"""Both ways of both learners, from the same start, measured and drawn."""

from __future__ import annotations

import pytest

from examples.scripts import EXAMPLES, call, load

scaling, health = load("scaling_in_training"), load("attention_health")

PICTURES = EXAMPLES.parent / "docs" / "pictures"
SMALL = ("--steps", "4", "--every", "2", "--width", "16", "--d-k", "64")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """What a short run measured, and its picture."""
    folder = tmp_path_factory.mktemp("scaling")
    path, picture = folder / "s.csv", folder / "s.png"
    status, out = call(scaling, *SMALL, "--csv", str(path), "--plot", str(picture))
    assert status == 0, out
    assert out.count("not divided") == 2
    return path


def test_without_the_division_rows_are_sharper_from_the_start(table):
    runs = health.read_readings(table)
    assert len(runs) == 4
    for task in scaling.TASKS:
        divided, plain = runs[task, True][0], runs[task, False][0]
        assert plain.entropy < divided.entropy - 0.1
        assert plain.gradient_p99 > divided.gradient_p99
        assert [one.step for one in runs[task, True]] == [0, 2, 4]


def test_the_picture_is_made_of_the_table(table, tmp_path):
    again = tmp_path / "again.png"
    status, out = call(
        scaling, "--csv", str(table), "--plot", str(again), "--redraw", "--d-k", "64"
    )
    assert status == 0, out
    assert again.read_bytes() == table.with_suffix(".png").read_bytes()


def test_the_shipped_picture_is_that_of_the_shipped_table(tmp_path):
    again = tmp_path / "scaling.png"
    shipped = PICTURES / "scaling.csv"
    status, out = call(scaling, "--csv", str(shipped), "--plot", str(again), "--redraw")
    assert status == 0, out
    assert again.read_bytes()[:4] == (PICTURES / "scaling.png").read_bytes()[:4] == b"\x89PNG"
    end = {key: readings[-1] for key, readings in health.read_readings(shipped).items()}
    for task in scaling.TASKS:  # what the documents say of it
        assert end[task, False].saturated > end[task, True].saturated
        assert end[task, False].dead > end[task, True].dead
