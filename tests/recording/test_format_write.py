"""Writing: whole frames, one writer, nothing lost that was written."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from recording.conftest import contents
from regard.errors import DTypeError, FileError, InputError
from regard.recording import Reader, Writer, check
from regard.recording.format import log as append
from regard.recording.format import write


@pytest.mark.parametrize("dtype", "f8 f4 f2 i8 i4 i2 i1 u8 u4 u2 u1 ?".split())
def test_every_dtype_comes_back(tmp_path, dtype):
    array = np.array([[0, 1, 1], [1, 0, 1]], dtype)
    with Writer(tmp_path / "a.regard") as writer:
        writer.add("x", array)
        writer.add("big-endian", array.astype(array.dtype.newbyteorder(">")))
        writer.add("transposed", array.T)
        writer.add("nothing", array[:0])
    reader = Reader(tmp_path / "a.regard")
    np.testing.assert_array_equal(reader.array("x"), array)
    np.testing.assert_array_equal(reader.array("big-endian"), array)
    np.testing.assert_array_equal(reader.array("transposed"), array.T)
    assert reader.array("nothing").shape == (0, 3)
    assert reader.array("x").dtype == array.dtype


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.array(["text"]), None),
        (np.array([object()]), None),
        (np.array([1j]), None),
        (np.zeros(2, np.float32), "BF16"),
        (np.zeros(2, np.float32), "F64"),
        (np.zeros(2, [("a", "f4")]), None),
    ],
)
def test_other_dtypes_are_refused_and_leave_nothing_behind(tmp_path, array, dtype):
    wrong = pytest.raises(DTypeError, match="cannot be recorded")
    with Writer(tmp_path / "a.regard") as writer, wrong:
        writer.add("x", array, dtype=dtype)
    assert len(Reader(tmp_path / "a.regard")) == 0


def test_wrong_names_and_metadata_are_refused(tmp_path):
    with Writer(tmp_path / "a.regard") as writer:
        writer.add("x", np.zeros(1))
        for name in ("x", "", "__metadata__", 3, "\ud800"):
            with pytest.raises(InputError):
                writer.add(name, np.zeros(1))
        with pytest.raises(DTypeError, match="'layer' is not text"):
            writer.add("y", np.zeros(1), {"layer": 3})
        with pytest.raises(InputError, match="a frame takes"):
            writer.note({"prompt": "x" * (16 << 20)})
    assert list(Reader(tmp_path / "a.regard")) == ["x"]


def test_an_existing_file_is_refused(small):
    before = small.read_bytes()
    with pytest.raises(FileError, match=r"exists already; .* overwrite=True"):
        Writer(small)
    assert small.read_bytes() == before


def test_overwriting_leaves_the_old_one_to_its_readers(small):
    old = Reader(small)
    with Writer(small, overwrite=True) as writer:
        writer.add("new", np.ones(2))
    assert contents(old).keys() == old.entries.keys()
    assert list(Reader(small)) == ["new"]
    assert [path.name for path in small.parent.iterdir()] == [small.name]
    umask = os.umask(0)
    os.umask(umask)
    assert small.stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_only_a_whole_recording_takes_the_place_of_an_older_one(small, error):
    before = small.read_bytes()
    for name in ("small.regard.partial", "small.regard.partial2"):
        with pytest.raises(error) as caught, Writer(small, overwrite=True) as writer:
            assert writer.path == small.with_name(name)
            writer.add("new", np.ones(2))
            raise error
        assert small.read_bytes() == before
        assert caught.value.__notes__ == [
            f"what was recorded until then is in {small.with_name(name)}; {small} is as it was"
        ]
        assert list(Reader(small.with_name(name))) == ["new"]
    with Writer(small, overwrite=True) as writer:
        writer.add("new", np.ones(2))
    assert writer.path == small and list(Reader(small)) == ["new"]


def test_a_process_that_is_killed_leaves_the_older_recording(small):
    before = small.read_bytes()
    script = (
        "import os, sys, numpy as np\nfrom regard.recording import Writer\n"
        "writer = Writer(sys.argv[1], overwrite=True)\nwriter.add('new', np.ones(2))\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, str(small)], check=False)
    assert small.read_bytes() == before
    assert list(Reader(small.with_name("small.regard.partial"))) == ["new"]


def test_what_is_not_there_is_written_in_its_place(tmp_path):
    with Writer(tmp_path / "a.regard", overwrite=True) as writer:
        writer.add("x", np.ones(2))
        assert list(Reader(tmp_path / "a.regard")) == ["x"]  # it can be watched while it grows


def test_nothing_but_a_file_is_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/dev/null")
    before = {path.name: path.lstat().st_mode for path in tmp_path.iterdir()}
    for name in before:
        with pytest.raises(FileError, match=r"a (pipe|folder|device), not a file"):
            Writer(tmp_path / name, overwrite=True)
    assert {path.name: path.lstat().st_mode for path in tmp_path.iterdir()} == before


def test_a_link_stays_one(tmp_path, small):
    link = tmp_path / "elsewhere" / "link.regard"
    link.parent.mkdir()
    link.symlink_to(small)
    with Writer(link, overwrite=True) as writer:
        writer.add("new", np.ones(2))
        assert writer.path.parent == small.parent
    assert link.is_symlink() and list(Reader(small)) == ["new"]


def test_a_recording_that_is_being_written_is_not_pulled_away(tmp_path):
    path = tmp_path / "a.regard"
    with Writer(path) as writer:
        writer.add("x", np.ones(2))
        with pytest.raises(FileError, match="being written"):
            Writer(path, overwrite=True)
    Writer(path, overwrite=True).close()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_missing_folder_is_one_line(tmp_path, overwrite):
    with pytest.raises(FileError, match="cannot be created") as caught:
        Writer(tmp_path / "none" / "a.regard", overwrite=overwrite)
    assert "\n" not in str(caught.value)


def test_a_closed_writer_says_so(tmp_path):
    writer = Writer(tmp_path / "a.regard")
    writer.close()
    writer.close()
    with pytest.raises(InputError, match="this writer is closed"):
        writer.add("x", np.zeros(1))


def test_threads_may_share_a_writer(tmp_path):
    with Writer(tmp_path / "a.regard") as writer:

        def add(thread: int) -> None:
            for n in range(50):
                writer.add(f"{thread}/{n}", np.full(n, thread))

        threads = [threading.Thread(target=add, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    report = check(tmp_path / "a.regard")
    assert report.is_whole and report.tensors == 200


def test_an_index_comes_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setattr(write, "_INDEX_EVERY", 2000)
    with Writer(tmp_path / "a.regard") as writer:
        for n in range(200):
            writer.add(f"t{n}", np.full(100, n, np.uint8))
    report = check(tmp_path / "a.regard")
    indices = report.frames - report.tensors
    assert report.is_whole and report.tensors == 200
    assert 3 <= indices <= 10  # rarer as it grows, else the file would be mostly index


def full_disk(monkeypatch, after: int) -> None:
    """A disk that takes so many more bytes, even in the middle of a call."""
    real, left = os.write, [after]

    def some(descriptor, parts):
        taken = b"".join(parts)[: left[0]]
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left[0] -= len(taken)
        return real(descriptor, taken)

    monkeypatch.setattr(append, "_write_some", some)


@pytest.mark.parametrize("room", [0, 1, 63, 64, 100, 191])
def test_a_full_disk_is_one_line_and_the_file_stays_whole(tmp_path, monkeypatch, room):
    path = tmp_path / "a.regard"
    message = r"No space left on device\); all before byte"
    with pytest.raises(FileError, match=message) as caught, Writer(path) as writer:
        writer.add("x", np.ones(3))
        full_disk(monkeypatch, room)
        writer.add("y", np.ones(3))
    assert "\n" not in str(caught.value)
    report = check(path)
    assert report.is_whole and report.tensors == 1 and not report.is_closed


def test_a_full_disk_at_the_end_is_told(tmp_path, monkeypatch):
    writer = Writer(tmp_path / "a.regard")
    writer.add("x", np.ones(3))
    full_disk(monkeypatch, 10)
    with pytest.raises(FileError, match="No space left"):
        writer.close()
    assert list(Reader(tmp_path / "a.regard")) == ["x"]


def test_after_a_full_disk_writing_can_go_on(tmp_path, monkeypatch):
    with Writer(tmp_path / "a.regard") as writer:
        with monkeypatch.context() as patch:
            full_disk(patch, 70)
            with pytest.raises(FileError):
                writer.add("x", np.ones(3))
        writer.add("x", np.ones(3))
    assert check(tmp_path / "a.regard").is_whole


def test_a_limit_on_the_file_size_is_met_in_earnest(tmp_path):
    path = tmp_path / "a.regard"
    script = (
        "import resource, sys, numpy as np\nfrom regard.recording import Writer\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "w = Writer(sys.argv[1])\n"
        "for n in range(100): w.add(f't{n}', np.full(50, n))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True)
    assert "FileError" in done.stderr.splitlines()[-1] and "File too large" in done.stderr
    report = check(path)
    assert report.is_whole and report.tensors == 7


@pytest.mark.parametrize("heads", [3, 1200])
def test_a_slice_is_written_as_its_copy_is(tmp_path, monkeypatch, heads):
    """Where its rows are long they are not copied; one call of the system takes only so many."""
    monkeypatch.setattr(write, "_LONG_RUN", 16)
    whole = np.random.default_rng(0).integers(0, 9000, (heads, 12, 5)).astype(np.uint16)
    slices = [
        whole[:, 2:9],
        whole[:, ::2],
        whole[1:, :, 1:4],
        whole.T,
        whole[:0, 1:],
        whole[:, 3:3],
    ]
    for name, made in (("slices", lambda a: a), ("copies", np.ascontiguousarray)):
        with Writer(tmp_path / name) as writer:
            for number, part in enumerate(slices):
                writer.add(str(number), made(part), dtype="BF16")
    assert (tmp_path / "slices").read_bytes() == (tmp_path / "copies").read_bytes()
    with Reader(tmp_path / "slices") as reader:
        np.testing.assert_array_equal(reader.words("0"), slices[0])
    assert check(tmp_path / "slices").is_whole


def test_long_rows_of_a_slice_are_not_copied(tmp_path, monkeypatch):
    seen = []
    real = append._write_some
    monkeypatch.setattr(
        append, "_write_some", lambda d, parts: seen.extend(parts) or real(d, parts)
    )
    whole = np.zeros((3, 40_000), np.float32)
    with Writer(tmp_path / "a.regard") as writer:
        writer.add("x", whole[:, 100:30_000])
        assert sum(np.shares_memory(np.asarray(part), whole) for part in seen) == 3


# ── durable, while more is written ───────────────────────────────────────────────────────────


def test_writing_goes_on_while_the_disk_works(tmp_path, monkeypatch):
    monkeypatch.setattr(write, "_INDEX_EVERY", 1000)
    monkeypatch.setattr(write, "_INDEX_SHARE", 0)
    may_end, synced = threading.Event(), []

    def fsync(descriptor):
        if threading.current_thread() is not threading.main_thread():
            assert may_end.wait(120)
        synced.append(threading.current_thread().name)

    monkeypatch.setattr(os, "fsync", fsync)
    writer = Writer(tmp_path / "a.regard")
    writer.add("x", np.zeros(1000, np.uint8))  # an index is due
    writer.add("y", np.zeros(8, np.uint8))
    assert synced == []
    with Reader(tmp_path / "a.regard") as reader:
        assert list(reader) == ["x", "y"]
    may_end.set()
    writer.close()
    assert synced == ["regard-sync", "MainThread"]
    assert check(tmp_path / "a.regard").is_whole


def test_the_disk_begins_early_and_one_thread_at_a_time(tmp_path, monkeypatch):
    """Between two indices as well; while the disk is at it, nobody waits or asks again."""
    monkeypatch.setattr(append, "_SYNC_EVERY", 1000)
    may_end, begun, real = threading.Event(), threading.Semaphore(0), os.fsync
    at_work = []

    def fsync(descriptor):
        if threading.current_thread() is not threading.main_thread():
            at_work.append(os.fstat(descriptor).st_size)
            begun.release()
            assert may_end.wait(120)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with Writer(tmp_path / "a.regard") as writer:
        writer.add("a", np.zeros(900, np.uint8))
        assert begun.acquire(timeout=120) and len(at_work) == 1
        for n in range(5):
            writer.add(f"b{n}", np.zeros(900, np.uint8))
        assert len(at_work) == 1
        may_end.set()
        writer._log._syncing.join(120)
        writer.note({"n": "1"})
        assert begun.acquire(timeout=120) and len(at_work) == 2
    report = check(tmp_path / "a.regard")
    assert report.is_whole and report.frames == 8  # no more indices than ever


@pytest.mark.parametrize("then", ["close", "add"])
def test_a_disk_that_fails_meanwhile_is_told_of_once(tmp_path, monkeypatch, then):
    monkeypatch.setattr(write, "_INDEX_EVERY", 1000)
    monkeypatch.setattr(write, "_INDEX_SHARE", 0)
    troubles = [OSError(errno.EIO, os.strerror(errno.EIO))]

    def fsync(descriptor):
        if troubles:
            raise troubles.pop()

    monkeypatch.setattr(os, "fsync", fsync)
    writer = Writer(tmp_path / "a.regard")
    writer.add("x", np.zeros(1000, np.uint8))
    with pytest.raises(FileError, match=r"cannot be written \(Input/output error\)"):
        writer.close() if then == "close" else writer.add("y", np.zeros(1000, np.uint8))
    writer.close()
    assert check(tmp_path / "a.regard").damage == ()
    with Reader(tmp_path / "a.regard") as reader:
        assert list(reader) == ["x"] + ["y"] * (then == "add")


KILLED = """
import sys, numpy as np
from regard.recording import Writer
writer = Writer(sys.argv[1])
for n in range(10**6):
    writer.add(f"t{n}", np.full(200_000, n, np.uint32))
    print(n, flush=True)
"""


@pytest.mark.parametrize("frames", [1, 5, 20, 40])
def test_a_killed_writer_loses_at_most_the_frame_it_was_writing(tmp_path, frames):
    path = tmp_path / "a.regard"
    command = [sys.executable, "-c", KILLED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        done = [int(child.stdout.readline()) for _ in range(frames)]
        child.send_signal(signal.SIGKILL)
        done += [int(line) for line in child.stdout if line.endswith("\n")]
    reader = Reader(path)
    assert len(reader) >= done[-1] + 1 and not reader.is_live
    for n in range(len(reader)):
        assert (reader.array(f"t{n}") == n).all()
    assert all(one.reason == "a frame that was not finished" for one in reader.damage)
