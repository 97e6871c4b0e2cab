"""`regard scaling` as a user sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

SMALL = ("--d-k", "1,64,1024", "--rows", "200")


def spawn(*words, **environment):
    command = [sys.executable, "-m", "regard", "scaling", *words]
    return subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", env=os.environ | environment
    )


def test_the_report_says_what_must_be_said(shell):
    status, out, err = shell("scaling", *SMALL)
    assert (status, err) == (0, "")
    said = " ".join(out.split())
    for words in ("median", "p99", "dead", "∂L/∂weights drawn unit normal", "below 0.001"):
        assert words in said
    for words in ("[0.8808 0.1192]", "[0.7311 0.2689]", "0.105", "0.098", "temperature"):
        assert words in said
    assert "does not show vanishing" in said and "Both words of the note hold" in said


def test_the_report_fits_80_columns_and_a_pipe_has_no_escapes(shell):
    _, out, _ = shell("scaling", *SMALL)
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out


@pytest.mark.parametrize(
    "environment", [{"PYTHONIOENCODING": "ascii"}, {"TERM": "dumb", "PYTHONIOENCODING": "utf-8"}]
)
def test_ascii_where_nothing_else_is_safe(environment):
    done = spawn(*SMALL, **environment)
    assert done.returncode == 0 and done.stdout.isascii()
    assert "* median raw" in done.stdout and "sqrt d_k" in done.stdout


def test_json_carries_every_figure(shell):
    status, out, _ = shell("scaling", "--json", "--d-k", "4,256", "--rows", "300", "--seed", "9")
    document = json.loads(out)
    assert status == 0
    assert [r["d_k"] for r in document["readings"]] == [4, 256]
    assert (document["rows"], document["seed"], document["dead_below"]) == (300, 9, 0.001)
    fields = document["readings"][1]["raw"].keys()
    assert {"variance", "largest_weight", "entropy", "gradient_median", "gradient_p99"} < fields
    assert document["temperature"]["scaled"]["scores"] == [3, 2]


def test_every_figure_says_its_statistic(shell):
    """The largest weight is a median and the entropy a mean; neither may be taken for the other."""
    _, out, _ = shell("scaling", *SMALL)
    lines = out.splitlines()
    last = next(i for i, line in enumerate(lines) if line.startswith("  d_k"))
    upper, _, statistics = lines[last - 3 : last]
    for word, statistic in (("largest", "median"), ("entropy", "mean")):
        end = upper.index(word) + len(word)  # headings end where their columns end
        assert statistics[:end].split()[-1] == statistic
    assert "largest weight is the median, the entropy the mean" in " ".join(out.split())
    document = json.loads(shell("scaling", "--json", *SMALL)[1])
    stated = document["statistics"]
    assert stated["largest_weight"] == "median over rows" and "mean" in stated["entropy"]
    assert stated.keys() == document["readings"][0]["raw"].keys()
    help_text = " ".join(shell("scaling", "--help")[1].split())
    assert "largest weight (median over the rows), entropy (mean over the rows)" in help_text


def test_max_d_k_bounds_the_list(shell):
    _, out, _ = shell("scaling", "--json", "--max-d-k", "6", "--rows", "100")
    assert [r["d_k"] for r in json.loads(out)["readings"]] == [1, 2, 4, 6]


def test_one_d_k_has_a_table_and_no_plot(shell):
    _, out, _ = shell("scaling", "--d-k", "8", "--rows", "100")
    assert "by d_k" not in out and "    8" in out


@pytest.mark.parametrize(
    "words",
    [("--d-k", "x"), ("--d-k", "0"), ("--d-k", ","), ("--rows", "3"), ("--keys", "1"),
     ("--max-d-k", "0"), ("--seed", "-1"), ("--max-d-k", "999999999")],
)  # fmt: skip
def test_bad_usage_is_one_line_and_status_2(shell, words):
    status, out, err = shell("scaling", *words)
    assert (status, out) == (2, "")
    assert err.startswith("regard: ") and err.count("\n") == 1
