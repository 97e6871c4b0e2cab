"""Both ways of both learners, from the same start, measured and drawn."""

from __future__ import annotations

from examples.scripts import EXAMPLES, call, load

scaling, health = load("scaling_in_training"), load("attention_health")
PICTURES = EXAMPLES.parent / "docs" / "pictures"


def test_without_the_division_rows_are_sharper_from_the_start(tmp_path):
    table, picture, again = (tmp_path / name for name in ("s.csv", "s.png", "again.png"))
    small = ("--steps", "4", "--every", "2", "--width", "16", "--d-k", "64", "--csv", str(table))
    status, out = call(scaling, *small, "--plot", str(picture))
    assert status == 0 and out.count("not divided") == 2, out
    runs = health.read_readings(table)
    assert len(runs) == 4
    for task in scaling.TASKS:
        divided, plain = runs[task, True][0], runs[task, False][0]
        assert plain.entropy < divided.entropy - 0.1
        assert plain.gradient_p99 > divided.gradient_p99
        assert [reading.step for reading in runs[task, True]] == [0, 2, 4]
    status, out = call(scaling, *small, "--plot", str(again), "--redraw")
    assert status == 0 and again.read_bytes() == picture.read_bytes(), out  # of the table alone


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
