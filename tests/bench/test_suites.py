"""`python -m bench SUITE`: rows on stdout and in a file, progress on stderr, errors in one line.
No time is reported for a wrong answer."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import regard
from bench import check, decode, gpu, host, monitor, record
from bench.__main__ import main
from bench.long_recording import write_large
from regard.bench.results import WrongResultError
from regard.recording.format.verify import check as verify

# suite → what it is asked, the tokens, heads and width of its rows, its contenders, what they are
# compared with
SUITES = {
    "host": ("16", [16], (4, 64), "sdpa/bare/rows/everything/afterwards", "sdpa"),
    "decode": ("3,4", [3, 4], (4, 8), "transformers/bare loop/regard", "transformers"),
    "monitor": ("8", [8], (2, 8), "plain/monitored", "plain"),
    "record": ("30,40", [30, 40, 48], (4, 8), "sdpa/regard/recorded", "sdpa"),
    "report": ("64,128", [64, 128], (6, 64), "report", "linear from 64"),
}


@pytest.mark.parametrize("suite", SUITES)
def test_rows_are_printed_and_appended(small: Any, suite: str, tmp_path: Path, capsys: Any) -> None:
    asked, tokens, (heads, dim), contenders, peer = SUITES[suite]
    path, threads = tmp_path / "rows.csv", torch.get_num_threads()
    assert main([suite, "--tokens", asked, "--seconds", "0", "--csv", str(path)]) == 0
    assert torch.get_num_threads() == threads
    with path.open() as file:
        rows = list(csv.DictReader(file))
    expected = [(str(count), what) for count in tokens for what in contenders.split("/")]
    assert [(row["tokens"], row["what"]) for row in rows] == expected
    for row in rows:
        assert row["suite"].split()[0] == suite and row["peer"] == peer
        assert (row["heads"], row["dim"]) == (str(heads), str(dim))
        assert 0 < float(row["p20_ms"]) <= float(row["median_ms"]) <= float(row["p80_ms"])
        assert float(row["ratio"]) > 0
        if row["what"] == peer:
            assert row["ratio"] == "1.0"
    printed = capsys.readouterr()
    assert f"÷ {peer}" in printed.out and max(map(len, printed.out.splitlines())) <= 110
    for row in rows:
        assert row["what"] in printed.out and row["note"] in printed.out
    assert suite == "report" or f"[1/{asked.count(',') + 1}] {tokens[0]} tokens" in printed.err


def test_rows_as_json(small: Any, capsys: Any) -> None:
    assert main(["monitor", "--tokens", "8", "--seconds", "0", "--json"]) == 0
    assert [row["what"] for row in json.loads(capsys.readouterr().out)] == ["plain", "monitored"]


def test_checks_are_compared_with_budgets(small: Any) -> None:
    rows = check.measure(12, "tiny", rounds=1)
    assert [(row.what, row.tokens) for row in rows] == [
        ("tiny", 24), ("tiny of transformers", 24), ("model", 12)
    ]  # fmt: skip
    for row in rows:
        budget = check.BUDGETS[row.what]
        assert row.peer == f"budget of {budget:.0f} s"
        assert row.ratio == pytest.approx(row.median_ms / 1e3 / budget, abs=1e-3)
    assert {(row.heads, row.dim) for row in rows} == {(8, 8)}
    assert rows[0].note.endswith("itself 0.5 s")
    assert rows[2].note.startswith("10 forwards of at most ")


@pytest.mark.parametrize("what", check.SCRIPTS)
def test_the_scripts_of_checks_find_nothing(what: str) -> None:
    names: dict[str, regard.check.Report] = {}
    exec(check.SCRIPTS[what], names)
    assert names["report"].ok


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("cpu", 2, "usage: python -m bench"),
        ("monitor --tokens many", 2, "usage: python -m bench"),
        ("monitor --tokens 0", 2, "usage: python -m bench"),
        ("monitor --csv other.csv", 3, "bench: other.csv has columns a, b; move it away"),
        ("parallel --tokens 3", 2, "give at least 4 tokens, and heads that divide by the ranks"),
        ("sight --tokens 60", 2, "60 patches are no square picture"),
        ("gpu --only sideways", 2, "there is no part 'sideways'; there are: forward, length"),
        ("vllm --tokens 4", 2, "python -m bench vllm needs the package 'vllm'"),
    ],
)
def test_mistakes(
    words: str, status: int, message: str, tmp_path: Path, capsys: Any, monkeypatch: Any, stage: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other.csv").write_text("a,b\n")
    monkeypatch.setitem(sys.modules, "vllm", None)
    try:
        ended = main(words.split())
    except SystemExit as stop:
        ended = stop.code
    printed = capsys.readouterr()
    assert (ended, printed.out) == (status, "") and message in printed.err
    assert "Traceback" not in printed.err


def test_rows_of_the_gpu_are_written_as_they_come(
    stage: Any, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    def fail() -> Any:
        raise WrongResultError("output of a kernel is off by 2")

    fine = gpu.jobs(stage, ["length"], [32, 64], 0.0)
    bad = gpu.Job("length", "a wrong one", fail)
    monkeypatch.setattr(gpu, "jobs", lambda *_: [bad, *fine])
    path = tmp_path / "out.csv"
    assert main(["gpu", "--csv", str(path)]) == 1
    out, err = capsys.readouterr()
    assert "[2/3] length: d128 1×8×32 causal" in err
    assert err.endswith("bench: output of a kernel is off by 2\n")
    assert len(path.read_text().splitlines()) == 1 + 2 * 4
    assert "gpu length: d128, 1×8×64, causal" in out and "everything" in out
    assert "MiB: the peak beyond" in out and max(map(len, out.splitlines())) <= 80


# ── wrong answers ────────────────────────────────────────────────────────────────────────────


@contextmanager
def _louder(model: Any, *_: Any, **__: Any) -> Iterator[None]:
    """Logits are doubled while it lasts."""

    def double(module: Any, given: Any, output: Any) -> None:
        output.logits = output.logits * 2

    with model.register_forward_hook(double):
        yield


def _with_using(real: Any) -> Any:
    """The package as the suite sees it: patched there, `using` would stay in what imports it."""
    return SimpleNamespace(
        models=real.models, record=real.record, huggingface=SimpleNamespace(using=_louder)
    )


def _leaking(load: Any) -> Any:
    """A model whose rows hold the mean of all rows."""

    def loaded(name: str, **options: Any) -> Any:
        def leak(module: Any, given: Any, output: Any) -> None:
            output.logits = output.logits + output.logits.mean(1, keepdim=True)

        named = load(name, **options)
        named.model.register_forward_hook(leak)
        return named

    return loaded


WRONG = {
    "host": (lambda: host.measure(16, 0), regard, "attend",
             lambda right: lambda q, *given, **options: right(q + 1, *given, **options),
             "the output is not torch's"),
    "record, not recorded": (lambda: record.measure("tiny", 40, 0), record, "regard", _with_using,
                             r"outputs of regard are off by \d"),
    "record": (lambda: record.measure("tiny", 40, 0), regard, "record", lambda _: _louder,
               r"outputs of recorded are off by \d"),
    "documents": (lambda: record.measure_documents("tiny", 5, 0), regard, "record",
                  lambda _: _louder, r"outputs of recorded are off by \d"),
    "monitor": (lambda: monitor.measure(8, 0), regard.Monitor, "step", lambda _: lambda self: None,
                "and 0 heads instead of"),
    "check": (lambda: check.measure(12, "tiny", 1), regard.models, "load", _leaking,
              r"future +found[\s\S]*"),
}  # fmt: skip


@pytest.mark.parametrize("suite", WRONG)
def test_wrong_answers_are_not_timed(small: Any, monkeypatch: Any, suite: str) -> None:
    run, owner, name, wrong, message = WRONG[suite]
    monkeypatch.setattr(owner, name, wrong(getattr(owner, name)))
    with pytest.raises(WrongResultError, match=rf"{message}.*no time is reported"):
        run()


def test_other_tokens_are_not_timed(small: Any) -> None:
    with torch.no_grad():
        small.decoder.norm.weight.neg_()
    with pytest.raises(WrongResultError, match=r"regard writes other .* from token 1 on; no time"):
        decode.measure("tiny", 6, seconds=0)


def test_a_process_that_finds_something_is_not_timed(small: Any, monkeypatch: Any) -> None:
    monkeypatch.setitem(check.SCRIPTS, "tiny", "class report: ok, about = False, 'a model, 1 s'")
    with pytest.raises(WrongResultError, match=r"AssertionError.*no time is reported"):
        check.measure(12, "tiny", rounds=1)


# ── long recordings, and reports of them ─────────────────────────────────────────────────────


@pytest.mark.parametrize("row_bin", [1, 4])
def test_made_recordings_are_recordings(tmp_path: Path, row_bin: int) -> None:
    """Whole to the last byte; their numbers agree, and heads are of the kinds they are made of."""
    path = tmp_path / "a.regard"
    with regard.recording.Writer(path) as writer:
        write_large(writer, 300, layers=2, heads=5, row_bin=row_bin)
    assert verify(path).damage == ()
    with regard.open(path) as recording:
        assert recording.stacks == {"": (2, 5)} and len(recording.tokens) == 300
        assert recording.prompts[0].finished
        for head in recording:
            stored = head.stored
            for mass in (stored["received"], stored["offsets"]):
                assert mass.values.sum() == pytest.approx(300, rel=1e-4)
            assert float(head.pooled(16).sum()) * 256 == pytest.approx(300, rel=0.15)
            assert stored["peak"].measure.bin == row_bin
            assert len(stored["peak"].values) == -(-300 // row_bin)
        assert recording["L0H1"].exact and not recording["L1H1"].exact
        kinds = [recording.grid(name)[0].argmax() for name in ("previous", "first", "entropy")]
        assert kinds == [0, 1, 4]
