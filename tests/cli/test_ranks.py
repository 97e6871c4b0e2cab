"""`torchrun … -m regard record`: one prompt over several processes, and mistakes told once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import regard
from cli.conftest import WORDS, Stream
from parallel.world import launched
from regard.cli import main

TEXT = " ".join((WORDS * 5)[:60])


def test_two_ranks_write_one_recording(tmp_path: Path, model, shell):
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    words = ["-m", "regard", "record", str(model), "--text", TEXT, "-o", "out"]
    done = subprocess.run(
        [*launch, *words], cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "60 tokens over 2 ranks" in done.stderr
    assert "written: out, 2 files" in done.stdout
    single = tmp_path / "single.regard"
    status, _, err = shell("record", model, "--text", TEXT, "-o", single)
    assert status == 0, err
    with regard.open(tmp_path / "out") as ranks, regard.open(single) as one:
        assert ranks.tokens == one.tokens
        np.testing.assert_allclose(ranks["L2H3"].dense(), one["L2H3"].dense(), atol=1e-6)
        assert ranks.prompts[0].title == one.prompts[0].title
        assert [text for text, _ in ranks.prompts[0].next] == [t for t, _ in one.prompts[0].next]
    assert shell("show", tmp_path / "out", "L2H3")[0] == 0


MISTAKES = {  # words → the status of each rank, and the line of the first
    ("--text", TEXT, "--generate", "3", "-o", "out"): (
        [2, 2], "--generate and --queries are not offered over several ranks",
    ),
    ("--text", "a", "--text", "b", "-o", "out"): ([2, 2], "2 prompts; over several ranks give one"),
    ("--file", "nowhere.txt", "-o", "out"): ([3, 3], "nowhere.txt: cannot be read"),
    ("--text", TEXT, "-o", "full"): (
        [3, 3], "full: holds rank-0000.regard already; give another -o, or --overwrite",
    ),
    ("--text", TEXT, "-o", "full/rank-0000.regard"): ([3, 3], "is a file; several ranks fill a"),
    ("--text", TEXT, "-o", "not/there/out"): ([3, 3], "not/there: no such folder"),
    # which the first rank has
    ("--file", "only-RANK.txt", "-o", "out"): ([1, 3], "rank 1: only-1.txt: cannot be read"),
}  # fmt: skip


def _mistaken(folder: Path, model: str) -> list[tuple[int, str, str]]:
    """Every mistake, one after the other, in a rank: status, stdout, stderr."""
    os.chdir(folder)
    answers = []
    for words in MISTAKES:
        own = (word.replace("RANK", os.environ["RANK"]) for word in words)
        sys.argv = ["regard", "record", model, *own]
        sys.stdout, sys.stderr = Stream("utf-8", False), Stream("utf-8", False)
        with pytest.raises(SystemExit) as stopped:
            main()
        answers.append((stopped.value.code, sys.stdout.text(), sys.stderr.text()))
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    return answers


def test_a_mistake_is_told_once(tmp_path: Path, model):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "rank-0000.regard").touch()
    (tmp_path / "only-0.txt").write_text(TEXT)
    ranks = launched(2, _mistaken, tmp_path, str(model))
    for (statuses, said), answers in zip(MISTAKES.values(), zip(*ranks, strict=True), strict=True):
        assert [code for code, _, _ in answers] == statuses, answers
        assert "".join(err for _, _, err in answers).count(said) == 1
        assert not any(out for _, out, _ in answers)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "only-0.txt"]
