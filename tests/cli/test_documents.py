"""`regard record --documents` as a shell sees it: real processes, some of them killed half-way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from threading import Event, Thread

import pytest

import regard
from forked import fork_workers
from recorder.texts import arrays_of, documents, recorded, save_model, write_jsonl
from regard.recorder.documents import CorpusRequest
from regard.recorder.shards import RecordOptions

DOCUMENTS = 60
FILES = 30  # two documents each
WORDS = ("--jobs", "2", "--documents-per-file", "2")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("words"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_jsonl(tmp_path_factory.mktemp("source") / "d.jsonl", documents(DOCUMENTS))


@pytest.fixture(scope="module")
def whole(model, source, tmp_path_factory) -> dict[str, dict[str, bytes]]:
    """Every document, recorded without interruption in one process."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    go_on(model, source, folder)
    return arrays_of(folder)


def go_on(model: Path, source: Path, folder: Path) -> list[str]:
    """The same command again, in this process."""
    return recorded(model, CorpusRequest(source, folder, RecordOptions(), per_file=2))


@pytest.fixture
def record(shell, monkeypatch, tmp_path) -> Callable[..., tuple[int, str, str]]:
    """The verb, run in an empty folder, with workers that start at once."""
    monkeypatch.chdir(tmp_path)
    fork_workers(monkeypatch)
    return partial(shell, "record")


# ── killed half-way ──────────────────────────────────────────────────────────────────────────


def started(model: Path, source: Path, folder: Path) -> subprocess.Popen[str]:
    """The verb as a process with two workers, until some files are whole."""
    words = ["record", str(model), "--documents", str(source), "-o", str(folder), *WORDS]
    process = subprocess.Popen(
        [sys.executable, "-m", "regard", *words], text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert some_files(folder, lambda: process.poll() is None), process.communicate()
    return process


def some_files(folder: Path, runs: Callable[[], bool]) -> bool:
    """Waits until some files are whole; whether the run still goes on."""
    end = time.monotonic() + 300
    while len(files_in(folder)) < 3 and runs() and time.monotonic() < end:
        time.sleep(0.005)
    return runs() and time.monotonic() < end


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """Its children that record."""
    told = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [pid for pid in map(int, told.split()) if "spawn_main" in command(pid)]


def command(pid: int) -> str:
    """What a process was started as; nothing where it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def files_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob("shard-*.regard"))


def gone(pids: list[int]) -> bool:
    """Whether they all end; a worker notices by itself that its parent has died."""
    end = time.monotonic() + 60
    while any(map(command, pids)):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def test_a_killed_worker_ends_the_run_by_name(model, source, whole, tmp_path, record):
    folder = tmp_path / "out"
    workers = []

    def kill_one() -> None:
        if some_files(folder, lambda: not done.is_set()):
            mine = [child for child in active_children() if child.name.startswith("worker ")]
            workers.extend(child.pid for child in mine)
            os.kill(workers[0], signal.SIGKILL)

    done, killer = Event(), Thread(target=kill_one)
    killer.start()
    status, out, err = record(model, "--documents", source, "-o", folder, *WORDS)
    done.set()
    killer.join()
    assert (status, out, len(workers)) == (1, "", 2), err
    (line,) = [line for line in err.splitlines() if line.startswith("regard:")]
    assert f"(process {workers[0]}) was killed by SIGKILL" in line
    name = line.split()[1].rstrip(":")
    assert name.startswith("shard-")
    there = files_in(folder)
    assert f"{len(there)} of {FILES} files are whole" in err and "Traceback" not in err
    assert 0 < len(there) < FILES and not list(folder.glob(".*"))
    assert gone(workers)
    made = go_on(model, source, folder)
    assert sorted([*there, *made]) == files_in(folder)  # nothing twice
    assert arrays_of(folder) == whole


def test_a_killed_parent_leaves_whole_files_and_no_worker(model, source, whole, tmp_path, record):
    folder = tmp_path / "out"
    process = started(model, source, folder)
    workers = workers_of(process)
    process.kill()
    process.communicate(timeout=300)
    assert len(workers) == 2 and gone(workers)
    there = files_in(folder)
    assert 0 < len(there) < FILES
    before = {name: (folder / name).stat().st_mtime_ns for name in there}
    status, out, err = record(model, "--documents", source, "-o", folder, *WORDS)
    assert status == 0, err
    assert f"{DOCUMENTS} documents in {FILES} files, {len(there)} of them there already" in err
    assert f"{DOCUMENTS} documents in {FILES} files" in out and "scale: " in out
    assert {name: (folder / name).stat().st_mtime_ns for name in there} == before
    assert len(files_in(folder)) == FILES and not list(folder.glob(".*"))
    assert arrays_of(folder) == whole


def test_ctrl_c_leaves_whole_files_only(model, source, whole, tmp_path):
    folder = tmp_path / "out"
    process = started(model, source, folder)
    workers = workers_of(process)
    os.killpg(process.pid, signal.SIGINT)  # to all of them, as a terminal does
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (130, ""), err
    there = files_in(folder)
    assert 0 < len(there) < FILES and not list(folder.glob(".*"))
    assert f"regard: stopped; {len(there)} of {FILES} files are whole" in err
    assert "Traceback" not in err and "the same command goes on" in err
    assert gone(workers)
    go_on(model, source, folder)
    assert arrays_of(folder) == whole


# ── what it says ─────────────────────────────────────────────────────────────────────────────


def test_a_folder_of_files_as_json_and_then_shown(model, record, shell, tmp_path):
    (tmp_path / "texts").mkdir()
    for n, text in enumerate(documents(4)):
        (tmp_path / "texts" / f"{n}.txt").write_text(text + "\n")
    (tmp_path / "texts" / "empty.txt").write_text("")
    words = ("--documents", "texts", "--skip-bad", "--documents-per-file", "3", "--json")
    status, out, err = record(model, *words)
    assert status == 0, err
    assert "left out: empty.txt: empty" in err
    said = json.loads(out)
    assert (said["documents"], said["files"]) == (4, ["shard-00000.regard", "shard-00001.regard"])
    assert said["skipped"] == ["empty.txt: empty"]
    tokens = sum(len(text.split()) for text in documents(4))
    assert said["tokens"] == tokens
    assert said["statistics"]["entropy"]["rows"] == [tokens] * 12

    status, out, _ = shell("show", "run", "--json")
    assert status == 0 and json.loads(out)["statistics"] == said["statistics"]
    status, out, _ = shell("show", "run", "--stat", "entropy")
    assert status == 0 and "4 documents in 2 files" in out and "entropy" in out
    status, out, _ = shell("show", "run", "--prompt", "3")
    assert status == 0 and "prompt 3" in out and "3.txt" in out
    status, out, _ = shell("show", "run", "L1H2", "--prompt", "2", "--row", "-1")
    assert status == 0 and "L1H2" in out
    status, out, _ = shell("report", "run", "--prompt", "1")
    assert status == 0 and "prompt 1" in out
    status, out, _ = shell("verify", "run")
    assert status == 0 and "shard-00001.regard" in out
    status, _, err = shell("report", "run", "--causal", "--keep")
    assert status == 2 and "a folder of documents" in err
    with regard.open("run") as rec:
        assert [one.title for one in rec.prompts] == ["0.txt", "1.txt", "2.txt", "3.txt"]


def test_the_plan_alone(model, record, source):
    status, out, err = record(model, "--documents", source, "--plan", "--json", "-o", "out")
    assert status == 0, err
    said = json.loads(out)
    assert (said["documents"], said["files"], said["done"]) == (DOCUMENTS, 4, 0)
    assert said["bytes"] > 0 and not Path("out").exists()
    assert f"{DOCUMENTS} documents in 4 files" in err and "to do:" in err


def test_a_bad_document_is_one_line_before_any_work(model, record):
    Path("d.jsonl").write_text('{"text": "the sea"}\n{"text": 5}\n')
    status, out, err = record(model, "--documents", "d.jsonl")
    assert (status, out) == (2, "")
    assert err.strip().startswith("regard: d.jsonl:2: the field 'text' is a number")
    assert err.count("\n") == 1 and not Path("run").exists()


def test_ranks_are_for_one_long_prompt(model, record, monkeypatch):
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    status, _, err = record(model, "--documents", ".")
    assert status == 2 and "give --jobs N, not torchrun" in err


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--documents", "nowhere"], 3, "no such folder or file"),
        (["--documents", ".", "--text", "x"], 2, "--documents is for many texts"),
        (["--documents", ".", "--jobs", "0"], 2, "--jobs 0"),
        (["--documents", ".", "--documents-per-file", "0"], 2, "give a number"),
        (["--documents", ".", "-o", "a/b"], 3, "there is no folder a"),
        (["--documents", ".", "-o", "file"], 3, "is a file"),
        (["--documents", ".", "--layers", "x"], 2, "0,5-10"),
        (["--text", "x", "--jobs", "2"], 2, "--jobs is about many documents"),
        (["--text", "x", "--field", "body"], 2, "--field is about many documents"),
        (["--text", "x", "--skip-bad"], 2, "--skip-bad is about many documents"),
    ],
)
def test_one_line_for_each_mistake(model, record, words, status, said):
    Path("file").write_text("x")
    found, out, err = record(model, *words)
    assert (found, out) == (status, ""), err
    (line,) = [line for line in err.splitlines() if line.startswith("regard:")]
    assert said in line and "Traceback" not in err
    assert not Path("run").exists()
