"""`torchrun … -m regard record`, as a shell sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import regard
from cli.test_record import WORDS
from regard.cli.ranks import Ranks

TEXT = " ".join((WORDS * 5)[:60])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny Llama and a tokenizer of a few words."""
    from cli.test_record import save_tiny

    return save_tiny(tmp_path_factory.mktemp("tiny"))


def start(folder: Path, *words: object, ranks: int = 2) -> subprocess.CompletedProcess[str]:
    """The command on several ranks of this machine."""
    place = os.environ | {"OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*launch, f"--nproc-per-node={ranks}", "-m", "regard", "record", *map(str, words)]
    return subprocess.run(
        command, cwd=folder, env=place, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({}, None),
        ({"RANK": "0", "WORLD_SIZE": "1"}, None),
        ({"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}, Ranks(2, 4, 1)),
        ({"RANK": "1", "WORLD_SIZE": "2"}, Ranks(1, 2, 0)),
        ({"WORLD_SIZE": "2"}, None),
    ],
)
def test_who_this_process_is(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, str], found: Ranks | None
) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    assert Ranks.here() == found


def test_two_ranks_write_one_recording(tmp_path: Path, tiny: Path, shell) -> None:
    done = start(tmp_path, tiny, "--text", TEXT, "-o", "out")
    assert done.returncode == 0, done.stderr
    assert "60 tokens over 2 ranks" in done.stderr
    assert "written: out, 2 files" in done.stdout
    status, _, err = shell("record", tiny, "--text", TEXT, "-o", tmp_path / "one.regard")
    assert status == 0, err
    with regard.open(tmp_path / "out") as ranks, regard.open(tmp_path / "one.regard") as one:
        assert ranks.tokens == one.tokens
        np.testing.assert_allclose(ranks["L2H3"].dense(), one["L2H3"].dense(), atol=1e-6)
        assert ranks.prompts[0].title == one.prompts[0].title
        assert [text for text, _ in ranks.prompts[0].next] == [t for t, _ in one.prompts[0].next]
    status, _, err = shell("show", tmp_path / "out", "L2H3")
    assert status == 0, err

    again = start(tmp_path, tiny, "--text", TEXT, "-o", "out")
    assert again.returncode != 0
    assert "out: holds rank-0000.regard already; give another -o, or --overwrite" in again.stderr


def test_a_mistake_is_told_once(tmp_path: Path, tiny: Path) -> None:
    done = start(tmp_path, tiny, "--text", TEXT, "--generate", 3, "-o", "out")
    assert done.returncode != 0
    assert done.stderr.count("--generate and --queries are not offered over several ranks") == 1
    assert not (tmp_path / "out").exists()
