"""`torchrun … -m regard record`, as a shell sees it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.distributed as dist
import typer

import regard
from cli.test_record import WORDS
from parallel.world import launched, run
from regard.cli import main
from regard.cli.ranks import Ranks, _alike, _check_folder
from regard.errors import FileError, RegardError

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


def _command(folder: Path, *words: str) -> tuple[int, str, str]:
    """The command in a rank: status, stdout, stderr."""
    os.chdir(folder)
    sys.argv = ["regard", "record", *words]
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--text", TEXT, "--generate", "3"), 2,
         "--generate and --queries are not offered over several ranks"),
        (("--file", "nowhere.txt"), 3, "nowhere.txt: cannot be read"),
        (("--text", TEXT, "-o", "full"), 3,
         "full: holds rank-0000.regard already; give another -o, or --overwrite"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_once(
    tmp_path: Path, tiny: Path, words: tuple[str, ...], status: int, said: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "rank-0000.regard").touch()
    told = launched(2, _command, tmp_path, str(tiny), "-o", "out", *words)
    assert [code for code, _, _ in told] == [status] * 2
    assert "".join(err for _, _, err in told).count(said) == 1
    assert not any(out for _, out, _ in told)
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


def _one_fails(odd: int) -> list[Any]:
    """What each of two steps comes to, the first of which one rank cannot take."""
    ranks = Ranks(dist.get_rank(), dist.get_world_size(), 0)

    def act() -> str:
        if ranks.rank == odd:
            raise FileError("no such model here")
        return "done"

    try:
        _alike(ranks, act)
    except FileError as error:
        return ["own", str(error)]
    except RegardError as error:
        return ["told", str(error)]
    except typer.Exit as end:
        return ["silent", end.exit_code]
    return [_alike(ranks, lambda: "done")]


@pytest.mark.parametrize(
    ("odd", "first", "others"),
    [
        (0, ["own", "no such model here"], ["silent", 3]),
        (2, ["told", "rank 2: no such model here"], ["silent", 3]),
        (9, ["done"], ["done"]),
    ],
)
def test_what_one_rank_cannot_do_ends_all_and_is_told_once(
    odd: int, first: list[Any], others: list[Any]
) -> None:
    assert run(3, _one_fails, odd) == [first, others, others]


def test_folders_that_cannot_be_filled(tmp_path: Path) -> None:
    for name in ("rank-0000.regard", "file"):
        (tmp_path / name).touch()
    with pytest.raises(FileError, match="file: is a file; several ranks fill a folder"):
        _check_folder(tmp_path / "file", False)
    with pytest.raises(FileError, match="not/there: no such folder"):
        _check_folder(tmp_path / "not" / "there" / "out", False)
    with pytest.raises(FileError, match=r"holds rank-0000\.regard already"):
        _check_folder(tmp_path, False)
    _check_folder(tmp_path, True)
    _check_folder(tmp_path / "new", False)
    assert not (tmp_path / "new").exists()
