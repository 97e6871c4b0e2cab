"""`regard record --documents`: a folder of files, by workers of which some are killed half-way."""

from __future__ import annotations

import json
import os
import signal
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from threading import Event, Thread

import pytest

import regard
from cli.typed import ended, forked_workers, typed, until
from forked import fork_workers
from recorder.texts import arrays_of, documents, recorded, write_jsonl
from regard.recorder.documents import CorpusRequest
from regard.recorder.shards import RecordOptions

DOCUMENTS = 60
FILES = 30  # two documents each
WORDS = ("--jobs", "2", "--documents-per-file", "2")


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
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
def record(shell, monkeypatch, tmp_path):
    """The verb, run in an empty folder, with workers that start at once."""
    monkeypatch.chdir(tmp_path)
    fork_workers(monkeypatch)
    return partial(shell, "record")


def files_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob("shard-*.regard"))


def is_there(pid: int) -> bool:
    """A process that has ended and was not waited for is gone, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(pids: list[int]) -> bool:
    """Whether they all end; a worker notices by itself that its parent has died."""
    return until(lambda: not any(map(is_there, pids)), 60)


@pytest.fixture
def started(model, source, tmp_path):
    """The verb as a process with two workers that has written some files; those workers."""
    place = tmp_path / "place"
    place.mkdir()
    words = ("record", model, "--documents", source, "-o", "out", *WORDS)
    process = typed(place, words, forked_workers)
    is_half_way = until(
        lambda: len(files_in(place / "out")) >= 3 or not process.is_alive()
    ) and until((place / "workers").exists)
    assert is_half_way and process.is_alive(), ended(process, place)
    return process, place, [int(pid) for pid in (place / "workers").read_text().split()]


def test_a_killed_worker_ends_the_run_by_name(model, source, whole, tmp_path, record):
    folder, done, workers = tmp_path / "out", Event(), []

    def kill_one() -> None:
        until(lambda: len(files_in(folder)) >= 3 or done.is_set())
        mine = [child for child in active_children() if child.name.startswith("worker ")]
        workers.extend(child.pid for child in mine)
        os.kill(workers[0], signal.SIGKILL)

    killer = Thread(target=kill_one)
    killer.start()
    status, out, err = record(model, "--documents", source, "-o", folder, *WORDS)
    done.set()
    killer.join()
    assert (status, out, len(workers)) == (1, "", 2), err
    (line,) = [line for line in err.splitlines() if line.startswith("regard:")]
    assert f"(process {workers[0]}) was killed by SIGKILL" in line
    assert line.split()[1].startswith("shard-")
    there = files_in(folder)
    assert f"{len(there)} of {FILES} files are whole" in err and "Traceback" not in err
    assert 0 < len(there) < FILES and not list(folder.glob(".*")) and gone(workers)
    made = go_on(model, source, folder)
    assert sorted([*there, *made]) == files_in(folder)  # nothing twice
    assert arrays_of(folder) == whole


def test_a_killed_parent_leaves_whole_files_and_no_worker(model, source, whole, started, record):
    process, place, workers = started
    process.kill()
    process.join()
    folder = place / "out"
    assert gone(workers)
    there = files_in(folder)
    before = {name: (folder / name).stat().st_mtime_ns for name in there}
    status, out, err = record(model, "--documents", source, "-o", folder, *WORDS)
    assert status == 0 and 0 < len(there) < FILES, err
    assert f"{DOCUMENTS} documents in {FILES} files, {len(there)} of them there already" in err
    assert f"{DOCUMENTS} documents in {FILES} files" in out and "scale: " in out
    assert {name: (folder / name).stat().st_mtime_ns for name in there} == before
    assert len(files_in(folder)) == FILES and not list(folder.glob(".*"))
    assert arrays_of(folder) == whole


def test_ctrl_c_leaves_whole_files_only(model, source, whole, started):
    process, place, workers = started
    for pid in (*workers, process.pid):  # to all of them, as a terminal does
        os.kill(pid, signal.SIGINT)
    status, out, err = ended(process, place)
    assert (status, out) == (130, ""), err
    there = files_in(place / "out")
    assert 0 < len(there) < FILES and not list((place / "out").glob(".*"))
    assert f"regard: stopped; {len(there)} of {FILES} files are whole" in err
    assert "Traceback" not in err and "the same command goes on" in err and gone(workers)
    go_on(model, source, place / "out")
    assert arrays_of(place / "out") == whole


def test_a_folder_of_files_as_json_and_then_shown(model, record, shell, tmp_path):
    (tmp_path / "texts").mkdir()
    for n, text in enumerate(documents(4)):
        (tmp_path / "texts" / f"{n}.txt").write_text(text + "\n")
    (tmp_path / "texts" / "empty.txt").write_text("")
    words = ("--documents", "texts", "--skip-bad", "--documents-per-file", "3", "--json")
    status, out, err = record(model, *words)
    assert status == 0 and "left out: empty.txt: empty" in err, err
    told = json.loads(out)
    assert (told["documents"], told["files"]) == (4, ["shard-00000.regard", "shard-00001.regard"])
    assert told["skipped"] == ["empty.txt: empty"]
    tokens = sum(len(text.split()) for text in documents(4))
    assert told["tokens"] == tokens and told["statistics"]["entropy"]["rows"] == [tokens] * 12
    with regard.open("run") as rec:
        assert [one.title for one in rec.prompts] == ["0.txt", "1.txt", "2.txt", "3.txt"]
    assert json.loads(shell("show", "run", "--json")[1])["statistics"] == told["statistics"]
    for words, *shown in (
        ("show run --stat entropy", "4 documents in 2 files", "entropy"),
        ("show run --prompt 3", "prompt 3", "3.txt"),
        ("show run L1H2 --prompt 2 --row -1", "L1H2"),
        ("report run --prompt 1", "prompt 1"),
        ("verify run", "shard-00001.regard"),
    ):
        status, out, _ = shell(*words.split())
        assert status == 0 and all(text in out for text in shown)
    status, _, err = shell("report", "run", "--causal", "--keep")
    assert status == 2 and "a folder of documents" in err


def test_the_plan_alone(model, record, source):
    status, out, err = record(model, "--documents", source, "--plan", "--json", "-o", "out")
    told = json.loads(out)
    assert (status, told["documents"], told["files"], told["done"]) == (0, DOCUMENTS, 4, 0), err
    assert told["bytes"] > 0 and not Path("out").exists()
    assert f"{DOCUMENTS} documents in 4 files" in err and "to do:" in err


@pytest.mark.parametrize(
    ("words", "said", "status"),
    [
        ("--documents nowhere", "no such folder or file", 3),
        ("--documents d.jsonl", "d.jsonl:2: the field 'text' is a number", 2),
        ("--documents texts --text x", "--documents is for many texts", 2),
        ("--documents texts --jobs 0", "--jobs 0", 2),
        ("--documents texts --documents-per-file 0", "give a number", 2),
        ("--documents texts -o a/b", "there is no folder a", 3),
        ("--documents texts -o d.jsonl", "is a file", 3),
        ("--documents texts --layers x", "0,5-10", 2),
        ("--text x --jobs 2", "--jobs is about many documents", 2),
        ("--text x --field body", "--field is about many documents", 2),
        ("--text x --skip-bad", "--skip-bad is about many documents", 2),
    ],
)
def test_one_line_for_each_mistake(refused, model, record, words, said, status):
    Path("texts").mkdir()
    Path("texts", "a.txt").write_text("the sea")
    Path("d.jsonl").write_text('{"text": "the sea"}\n{"text": 5}\n')
    assert said in refused("record", model, *words.split(), status=status)


def test_ranks_are_for_one_long_prompt(refused, model, record, monkeypatch):
    for name, text in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, text)
    assert "give --jobs N, not torchrun" in refused("record", model, "--documents", ".")
