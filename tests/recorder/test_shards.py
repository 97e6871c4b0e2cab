"""Some documents become one file, whole or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from recorder.models import tiny
from recorder.texts import documents
from regard.errors import FileError, InputError
from regard.models import load
from regard.recorder import shards
from regard.recorder.shards import RecordOptions, ShardRecorder, Text, fingerprint
from regard.recording import STATISTICS
from regard.recording.merged import merge_prompts, read_merged


@pytest.fixture(scope="module")
def loaded(words_model):
    return load(words_model)


def texts(count: int) -> list[Text]:
    return [Text(f"d{n}", text) for n, text in enumerate(documents(count))]


def test_a_file_holds_its_documents_as_prompts_with_their_names(loaded, tmp_path):
    given = texts(3)
    path = tmp_path / "shard-00000.regard"
    steps: list[float] = []
    merged = ShardRecorder(loaded, RecordOptions()).write(
        path, given, {"digest": "x"}, steps.append
    )
    assert list(tmp_path.iterdir()) == [path]  # nothing unfinished is left
    with regard.open(path) as rec:
        assert [one.title for one in rec.prompts] == ["d0", "d1", "d2"]
        assert all(one.finished for one in rec.prompts)
        assert [" ".join(one.tokens) for one in rec.prompts] == [one.text for one in given]
        assert sum(steps) == pytest.approx(sum(len(one.ids) for one in rec.prompts))
        assert rec.prompt(2)["L2H3"].exact
        # what is kept of it is what one finds in the documents, to the bit
        found = merge_prompts(rec.prompts)
        kept = read_merged(rec.store)
        assert kept is not None and kept.documents == found.documents == merged.documents == 3
        for name in STATISTICS:
            np.testing.assert_array_equal(kept.grid(name), found.grid(name), err_msg=name)


def test_the_same_documents_alone_or_in_company(loaded, tmp_path):
    given = texts(4)
    recorder = ShardRecorder(loaded, RecordOptions())
    recorder.write(tmp_path / "shard-0.regard", given, {})
    recorder.write(tmp_path / "shard-1.regard", given[2:3], {})
    with (
        regard.open(tmp_path / "shard-0.regard") as many,
        regard.open(tmp_path / "shard-1.regard") as one,
    ):
        for label in one.labels():
            a, b = many.prompt(2)[label], one.prompt(0)[label]
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_a_failure_leaves_nothing_behind(loaded, tmp_path, monkeypatch):
    calls = []

    def drive(*given: Any, **more: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise OSError("the machine is on fire")
        real(*given, **more)

    real = shards.drive
    monkeypatch.setattr(shards, "drive", drive)
    with pytest.raises(OSError, match="on fire"):
        ShardRecorder(loaded, RecordOptions()).write(tmp_path / "shard-0.regard", texts(3), {})
    assert not list(tmp_path.iterdir())


def test_an_earlier_file_stays_until_the_new_one_is_whole(loaded, tmp_path, monkeypatch):
    path = tmp_path / "shard-0.regard"
    path.write_text("before")

    def extend(_: object) -> None:
        assert path.read_text() == "before"
        raise FileError("no room")

    recorder = ShardRecorder(loaded, RecordOptions())
    with monkeypatch.context() as patched:
        patched.setattr(shards, "extend", extend)
        with pytest.raises(FileError, match="no room"):
            recorder.write(path, texts(1), {})
    assert path.read_text() == "before"
    recorder.write(path, texts(1), {})
    with regard.open(path) as rec:
        assert len(rec.prompts) == 1


def test_documents_that_cannot_be_recorded_say_why(loaded):
    recorder = ShardRecorder(loaded, RecordOptions(queries="10:20", generate=4))
    assert recorder.tokens("the sea " * 10) == 20
    with pytest.raises(InputError, match="64 positions: shorten it by 10"):
        recorder.tokens("the sea " * 35)
    with pytest.raises(InputError, match="3 tokens, so no row is among --queries 10:20"):
        recorder.tokens("the sea rises")


def test_some_of_it_and_what_is_written_on(loaded, tmp_path):
    options = RecordOptions(generate=3, layers="0,2", heads="1", budget=10**6)
    ShardRecorder(loaded, options).write(tmp_path / "shard-0.regard", texts(2), {})
    with regard.open(tmp_path / "shard-0.regard") as rec:
        assert rec.prompt(1).labels() == ["L0H1", "L2H1"]
        assert [one.generated for one in rec.prompts] == [3, 3]
        assert rec.merged().labels() == ["L0H1", "L2H1"]


def test_wrong_words_end_before_a_model_is_loaded():
    with pytest.raises(InputError, match="0,5-10"):
        RecordOptions(layers="x")
    with pytest.raises(InputError, match="range of rows"):
        RecordOptions(queries="9:3")


def test_other_weights_have_another_fingerprint():
    a, b = tiny("llama"), tiny("llama")
    assert fingerprint(a) == fingerprint(b)
    b.model.layers[1].self_attn.q_proj.weight.data += 1e-3
    assert fingerprint(a) != fingerprint(b)
    assert fingerprint(a) != fingerprint(tiny("llama").bfloat16())
