"""Damaged and interrupted files: a reader gives what the whole file says, or less and says so;
checking finds every byte, and repairing loses nothing that can be read."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from recording.conftest import contents, put
from recording.spec import BLOCK, Frame, document, frame, index, read_frames
from regard.errors import FileError
from regard.recording import Reader, Writer, check, repair
from regard.recording.format.write import annotate, extend


class Answer(NamedTuple):
    """What a reader gives of a file."""

    arrays: dict[str, tuple[Any, ...]]
    notes: dict[str, str]
    is_doubted: bool  # damage is listed, or a tensor refused
    is_closed: bool


def answer(path: Path) -> Answer | None:
    """None where the file is refused; every refusal is one sentence."""
    arrays: dict[str, tuple[Any, ...]] = {}
    try:
        reader = Reader(path)
    except FileError as error:
        assert "\n" not in str(error)
        return None
    with reader:
        is_doubted = bool(reader.damage)
        for name, entry in reader.entries.items():
            try:
                words = reader.array(name).tobytes()
                arrays[name] = entry.dtype, entry.shape, dict(entry.metadata), words
            except FileError as error:
                assert "\n" not in str(error)
                is_doubted = True
        return Answer(arrays, dict(reader.metadata), is_doubted, reader.is_closed)


class Truth:
    """A whole file, and what it says at any time of its writing."""

    def __init__(self, path: Path) -> None:
        self.path, self.raw = path, path.read_bytes()
        self.frames = list(read_frames(self.raw))
        self.answer = answer(path)
        self.notes: dict[str, set[str]] = defaultdict(set)
        for one in self.frames:
            if one.kind == b"META":
                for key, text in one.document["__metadata__"].items():
                    self.notes[key].add(text)

    def holds(self, given: Answer) -> bool:
        """Nothing in the answer that the whole file does not say."""
        arrays = self.answer.arrays
        return all(arrays.get(name) == array for name, array in given.arrays.items()) and all(
            text in self.notes[key] for key, text in given.notes.items()
        )

    def frame_of(self, name: str) -> Frame:
        """The one that holds a tensor."""
        return next(f for f in self.frames if f.kind != b"INDX" and name in f.document)

    def flipped(self, at: int, bit: int = 1) -> bytes:
        """With one wrong byte."""
        return self.raw[:at] + bytes([self.raw[at] ^ bit]) + self.raw[at + 1 :]


@pytest.fixture
def whole(busy):
    """A file with every kind of frame."""
    return Truth(busy)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", range(8))
def test_a_wrong_byte_anywhere_costs_its_frame_and_is_reported(whole, part):
    for at in range(part, len(whole.raw), 8):
        put(whole.path, whole.flipped(at, 1 << at // 8 % 8))
        given = answer(whole.path)
        if at < BLOCK:
            assert given is None
            with pytest.raises(FileError):
                check(whole.path)
            continue
        assert whole.holds(given) and (given.is_doubted or given == whole.answer), at
        assert len(given.arrays) >= len(whole.answer.arrays) - 6  # the tensors of one frame
        damage = check(whole.path).damage
        assert any(d.offset <= at < d.offset + d.length for d in damage), at


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", range(8))
def test_a_file_that_ends_anywhere_is_whole_up_to_there(whole, tmp_path, part):
    """For who opens it, who follows it while it grows, and after it was repaired."""
    edges = {one.end for one in whole.frames} | {BLOCK}
    ends = {edge + n for edge in edges for n in (-1, 0, 1)} | set(range(part, len(whole.raw), 8))
    growing = tmp_path / "growing.regard"
    growing.write_bytes(whole.raw[:BLOCK])
    follower = Reader(growing)
    for end in sorted(n for n in ends if n < len(whole.raw)):
        put(whole.path, whole.raw[:end])
        given = answer(whole.path)
        if end < BLOCK:
            assert given is None
            continue
        put(growing, whole.raw[:end])
        follower.refresh()
        frames = [one for one in whole.frames if one.end <= end]
        names = [n for one in frames if one.kind in (b"TENS", b"MANY") for n in one.document]
        names = [n for n in names if n != "__metadata__"]
        assert list(given.arrays) == list(follower) == names, end
        assert whole.holds(given) and contents(follower) == given.arrays
        assert given.is_doubted == (end not in edges)
        if end in edges or end % 29 == 0:
            was_closed = end in edges and frames != [] and frames[-1].kind == b"INDX"
            assert check(whole.path).was_stopped != was_closed
            report = repair(whole.path)
            assert report.is_whole and report.is_closed and report.tensors == len(names)
            assert not report.was_stopped
            again = answer(whole.path)
            assert (again.arrays, again.notes) == (given.arrays, given.notes)
            assert again.is_closed and not again.is_doubted


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(8))
def test_any_wounds_give_no_wrong_answer_and_can_be_repaired(whole, seed):
    chance = random.Random(seed)
    for number in range(100):
        wounded = bytearray(whole.raw)
        for _ in range(chance.randint(1, 4)):
            start = chance.randrange(len(wounded))
            stop = min(len(wounded), start + chance.choice((1, 4, 64, 200)))
            match chance.randrange(4):
                case 0:
                    wounded[start:stop] = chance.randbytes(stop - start)
                case 1:
                    del wounded[start:stop]
                case 2:
                    wounded[start:start] = wounded[chance.randrange(len(wounded)) :][:64]
                case 3:
                    wounded[start:stop] = bytes(stop - start)
            if not wounded:
                break
        put(whole.path, wounded)
        given = answer(whole.path)
        if given is None:
            continue
        assert whole.holds(given)
        is_less = (given.arrays, given.notes) != (whole.answer.arrays, whole.answer.notes)
        assert given.is_doubted or not given.is_closed or not is_less
        check(whole.path)
        if number % 10 == 0:
            assert repair(whole.path).is_closed
            again = answer(whole.path)
            assert whole.holds(again) and again.arrays.keys() >= given.arrays.keys()
            assert repair(whole.path) == check(whole.path)  # once is enough


def test_damage_says_what_and_where(whole):
    hit = whole.frame_of("L0/keys")
    cut = whole.frame_of("totals")
    raw = whole.flipped(hit.offset + 5)
    put(whole.path, raw[: cut.offset + 100])
    with Reader(whole.path) as reader:
        first, last = reader.damage
        assert (first.offset, first.length) == (hit.offset, hit.end - hit.offset)
        assert str(last) == (
            f"{whole.path}: a frame that was not finished at byte {cut.offset} (100 bytes)"
        )
    put(whole.path, whole.flipped(hit.end - 1)[: hit.end])
    assert [d.reason for d in check(whole.path).damage] == ["stray bytes behind a frame"]


def test_a_recording_inside_a_recording_is_data(whole, tmp_path):
    path = tmp_path / "outer.regard"
    with Writer(path) as writer:
        writer.add("inner", np.frombuffer(whole.raw, np.uint8))
        writer.add("after", np.ones(1))
    raw = bytearray(path.read_bytes())
    raw[BLOCK] ^= 1  # the header of the frame around it
    path.write_bytes(raw[:-BLOCK])
    with Reader(path) as reader:
        assert list(reader) == ["after"] and reader.damage[0].offset == BLOCK


# ── checking and repairing ───────────────────────────────────────────────────────────────────


def test_a_whole_file_is_reported_and_left_as_it_is(whole):
    report = check(whole.path)
    assert report.is_whole and report.is_closed and not report.is_live and not report.was_stopped
    assert (report.frames, report.tensors, report.size) == (12, 12, len(whole.raw))
    assert repair(whole.path) == report and whole.path.read_bytes() == whole.raw


def test_what_cannot_be_repaired_stays_and_so_does_all_else(whole):
    hit = whole.frame_of("L0/lse")
    raw = whole.flipped(hit.offset + BLOCK + len(hit.head))
    put(whole.path, raw)
    damage = [(d.offset, d.reason) for d in repair(whole.path).damage]
    assert damage == [(hit.offset, "a frame with a wrong checksum")]
    assert whole.path.read_bytes() == raw  # the indices are sound
    put(whole.path, raw[: whole.frame_of("totals").end + 70])
    report = repair(whole.path)
    assert [d.offset for d in report.damage] == [hit.offset] and report.is_closed
    kept = answer(whole.path)
    assert kept.arrays.keys() == whole.answer.arrays.keys() - {"L0/lse"} and kept.is_doubted


def test_a_header_that_only_the_index_still_knows_is_kept(small):
    truth = Truth(small)
    put(small, truth.flipped(truth.frame_of("q").offset + 20))
    assert not repair(small).is_whole
    assert answer(small) == truth.answer


@pytest.mark.parametrize("inside", [10, BLOCK + 10, BLOCK + 300])
def test_a_damaged_index_in_the_middle_is_made_void(whole, inside):
    middle = next(one for one in whole.frames if one.kind == b"INDX")
    put(whole.path, whole.flipped(middle.offset + inside))
    assert not check(whole.path).is_whole
    report = repair(whole.path)
    assert report.is_whole == (inside >= BLOCK)  # a header that is gone is no index's any more
    again = answer(whole.path)
    assert (again.arrays, again.notes) == (whole.answer.arrays, whole.answer.notes)


@pytest.mark.parametrize("lie", ["one is left out", "one is invented", "it is not the last"])
def test_an_index_with_sound_checksums_that_lies_is_made_anew(whole, lie):
    """Repairing finds the frames by their headers."""
    listed = whole.frames[:8]
    raw = whole.raw[: listed[-1].end]
    if lie == "one is invented":
        inside = listed[0].offset + BLOCK
        header = frame(b"META", inside, listed[0].head)
        listed.insert(1, Frame(b"META", inside, header, listed[0].head, b""))
    else:
        listed = listed[1:]
    raw += index(len(raw), [f.header[:BLOCK] for f in listed], [f.head for f in listed])
    if lie == "it is not the last":
        raw += frame(b"META", len(raw), document({"__metadata__": {"model": "tiny 4"}}))
    put(whole.path, raw)
    assert {d.reason for d in check(whole.path).damage} == {"an index that disagrees with the file"}
    report = repair(whole.path)
    assert report.is_whole and report.is_closed and report.tensors == 6
    with Reader(whole.path) as reader:
        assert not reader.damage and reader.metadata["prompt"] == "the cat — sat"


def test_one_that_is_being_written_is_checked_but_not_repaired(tmp_path):
    path = tmp_path / "a.regard"
    with Writer(path) as writer:
        writer.add("x", np.ones(3))
        with path.open("ab") as file:
            file.write(b"RGDF")  # the frame that is on its way
        report = check(path)
        assert report.is_live and report.is_whole and report.tensors == 1
        assert not report.was_stopped
        with pytest.raises(FileError, match="being written"):
            repair(path)


def test_a_damaged_file_is_not_gone_on_with(whole):
    raw = whole.raw[:-100]
    put(whole.path, raw)
    for go_on in (lambda: annotate(whole.path, {"n": "1"}), lambda: extend(whole.path)):
        with pytest.raises(FileError, match=r"damaged.*regard verify --repair"):
            go_on()
    assert whole.path.read_bytes() == raw


@pytest.mark.parametrize("raw", [b"", b"\x89", b"PK\x03\x04" + bytes(100), bytes(BLOCK), b"text"])
def test_what_is_no_recording_is_refused_and_left_alone(tmp_path, raw):
    path = tmp_path / "a.regard"
    path.write_bytes(raw)
    for ask in (Reader, check, repair):
        with pytest.raises(FileError, match=r"not a regard recording|header is damaged") as error:
            ask(path)
        assert str(error.value).startswith(str(path)) and error.value.exit_code == 3
    assert path.read_bytes() == raw


def test_a_file_that_shrank_is_an_error_and_no_crash(whole):
    with Reader(whole.path) as reader:
        os.truncate(whole.path, 200)
        for ask in (lambda: reader.array("L0/lse"), reader.refresh):
            with pytest.raises(FileError, match="has shrunk"):
                ask()
