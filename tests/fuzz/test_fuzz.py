"""The first seeds of every area, and the driver that draws others."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import fuzz
from fuzz import __main__ as driver

_EACH = [(area, seed) for area in fuzz.areas() for seed in fuzz.seeds_of(area)]


@pytest.mark.sampled(130)
@pytest.mark.parametrize(("area", "seed"), _EACH, ids=[f"{area}-{seed}" for area, seed in _EACH])
def test_first_seeds(area, seed):
    fuzz.load(area).check(seed)


@pytest.fixture
def planted(monkeypatch):
    """Two areas, of which one fails at every third seed."""

    def third(seed):
        if seed % 3 == 0:
            raise AssertionError(f"{seed} is a multiple of three")

    checks = {"right": lambda seed: None, "third": third}
    monkeypatch.setattr(driver, "areas", lambda: list(checks))
    monkeypatch.setattr(driver, "load", lambda name: SimpleNamespace(check=checks[name]))
    return checks


def test_a_failure_is_named_with_the_command_that_repeats_it(planted, capsys):
    assert driver.main(["--seconds", "0.05"]) == 1
    *_, last = capsys.readouterr().out.splitlines()
    command, _, said = last.partition(": ")
    *_, area, _, seed = command.strip('"').split()
    assert (area, int(seed) % 3) == ("third", 0)
    assert said == f"AssertionError: {seed} is a multiple of three"
    assert driver.main(["--area", area, "--seed", seed]) == 1
    assert "in third" in capsys.readouterr().err


def test_nothing_wrong_is_zero_and_each_area_runs_once(planted, capsys):
    assert driver.main(["--seconds", "0", "--area", "right"]) == 0
    assert "right 1; 0 failed" in capsys.readouterr().out
    assert driver.main(["--area", "third", "--seed", "4"]) == 0


def test_interrupted_it_reports(planted, capsys):
    def interrupted(seed):
        raise KeyboardInterrupt

    planted["right"] = interrupted
    assert driver.main(["--seconds", "60", "--area", "right"]) == 0
    assert "stopped\nright 0; 0 failed" in capsys.readouterr().out
