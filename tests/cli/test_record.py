"""`regard record` as a shell sees it."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.errors import InputError
from regard.recording.format import write as append

WORDS = "the sea rises twice a day and falls again because moon pulls on water .".split()
TEXT = " ".join(WORDS * 3)


@pytest.fixture
def record(shell, monkeypatch, tmp_path):
    """The verb, run in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return partial(shell, "record")


@pytest.fixture(scope="session")
def model(tmp_path_factory) -> Path:
    """A folder with a tiny Llama and a tokenizer of a few words."""
    return save_tiny(tmp_path_factory.mktemp("tiny"))


def save_tiny(folder: Path) -> Path:
    """A tiny Llama and a tokenizer of a few words."""
    from transformers import LlamaConfig, LlamaForCausalLM

    words = save_words(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=3,
        intermediate_size=48, vocab_size=words, max_position_embeddings=64,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def save_words(folder: Path) -> int:
    """A tokenizer of a few words: how many."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: n for n, word in enumerate(["<s>", "<unk>", *WORDS])}
    plain = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain, bos_token="<s>", unk_token="<unk>", model_max_length=64
    )
    tokenizer.save_pretrained(folder)
    return len(vocabulary)


def test_the_first_screen(record, model):
    status, out, err = record(model, "--text", TEXT, "--generate", 4)
    assert status == 0, err
    assert "45 tokens" in err and "no BOS" in err and "total" in err and "about" in err
    assert "replay against eager on the first 45 tokens: max error" in out
    assert "scale: " in out and "labels are withheld" in " ".join(out.split())  # random weights
    with regard.open("run.regard") as rec:
        assert rec["L2H3"].shape == (49, 49)
        assert rec.prompts[0].generated == 4
        assert rec.check["max_error"] < 1e-5


def test_as_json(record, model):
    status, out, _ = record(model, "--text", TEXT, "--json", "-o", "a.regard")
    assert status == 0
    said = json.loads(out)
    assert said["file"] == "a.regard" and said["bytes"] == Path("a.regard").stat().st_size
    assert said["check"]["max_error"] < 1e-5


def test_a_sound_file_is_transcribed_and_recorded(record, shell, tmp_path):
    import soundfile

    beeps = np.sin(np.arange(16_000) * 0.3) * (np.arange(16_000) % 4000 < 2000)
    soundfile.write(tmp_path / "beeps.wav", beeps, 16_000)
    asked = ("whisper-tiny.en", "--audio", "beeps.wav", "--generate", 3, "-o", "a.regard")
    status, out, err = record(*asked, "--plan", "--json")
    assert status == 0 and len(json.loads(out)["prompts"]) == 1 and not Path("a.regard").exists()
    status, out, err = record(*asked)
    assert status == 0, err
    assert "1.0 seconds of sound" in err and "total" in err and "beeps.wav, 0:00–0:01" in err
    assert "[transformers]" not in err
    with regard.open("a.regard") as rec:
        assert rec["encoder.L1H2"].shape == (1500, 1500) and rec["cross.L1H2"].exact
        assert 1 <= rec.prompts[0].generated <= 3
        words = regard.study.word_times(rec)
    status, out, _ = shell("show", "a.regard", "--words", "--json")
    (told,) = json.loads(out)
    assert status == 0 and told["seconds"] == 1.0
    assert [one["word"] for one in told["words"]] == [one.word for one in words] != []
    status, out, _ = shell("show", "a.regard", "--words")
    assert status == 0 and f"{words[0].start:.2f} s" in out
    status, _, err = shell("show", "a.regard", "L0H0", "--words")
    assert status != 0 and "--words is about a whole text" in err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--audio", "x.wav", "--text", "hi"), "--audio is recorded alone"),
        (("--audio", "x.wav", "--documents", "."), "--audio is recorded alone"),
        (("--audio", "x.wav", "--chat"), "--audio is recorded alone"),
        (("--audio", "x.wav"), "reads input ids, not sound; give a model of speech"),
    ],
)
def test_sound_that_cannot_be_recorded_is_one_line(record, model, given, said):
    status, out, err = record(model, *given)
    assert status == 2 and not out and said in err and err.count("\n") == 1
    assert not Path("run.regard").exists()


@pytest.mark.parametrize("more", [(), ("--plan",), ("-o", "a.regard", "--generate", 3)])
@pytest.mark.parametrize("family", ["gptj", "gpt_neo", "deberta-v2"])
def test_a_model_that_cannot_be_seen_is_one_line_and_no_file(
    record, tmp_path, capsys, family, more
):
    import transformers

    from huggingface.zoo import BLIND

    folder = tmp_path / "blind"
    names = {"gptj": "GPTJForCausalLM", "gpt_neo": "GPTNeoForCausalLM"}
    config = BLIND[family].configuration()
    getattr(transformers, names.get(family, "DebertaV2Model"))(config).save_pretrained(folder)
    save_words(folder)
    capsys.readouterr()  # bars of the saving
    status, out, err = record(folder, "--text", "the sea rises", *more)
    assert status == 2 and not out
    lines = [line for line in err.splitlines() if "transformers]" not in line]
    assert len(lines) == 1, err
    assert lines[0].startswith(f"regard: {family} does not dispatch its attention")
    assert "supported_families()" in err and "regard.replay" in err
    assert [path.name for path in tmp_path.iterdir()] == ["blind"]


@pytest.mark.parametrize("more", [(), ("--plan",)])
def test_an_encoder_writes_nothing(record, tmp_path, more):
    from transformers import BertConfig, BertModel

    words = save_words(tmp_path / "encoder")
    config = BertConfig(
        hidden_size=32, num_attention_heads=4, num_hidden_layers=2, intermediate_size=48,
        vocab_size=words,
    )  # fmt: skip
    BertModel(config).save_pretrained(tmp_path / "encoder")
    status, out, err = record("encoder", "--text", "the sea", "--generate", 3, *more)
    assert (status, out) == (2, "")
    last = err.splitlines()[-1]
    assert last.startswith(
        "regard: --generate 3: encoder (BertModel) only reads, it writes no text"
    )
    assert "leave out --generate, or give a model that writes" in last
    assert [path.name for path in tmp_path.iterdir()] == ["encoder"]
    status, out, err = record("encoder", "--text", "sea", *more)
    assert status == 0 and "encoder: 1 token, nothing put in front" in err


def test_falcon_is_heard_at_torchs_own_function(record, tmp_path):
    from transformers import FalconForCausalLM

    from huggingface.zoo import BLIND

    FalconForCausalLM(BLIND["falcon"].configuration()).save_pretrained(tmp_path / "falcon")
    save_words(tmp_path / "falcon")
    status, out, err = record("falcon", "--text", "the sea rises twice", "--generate", 2, "--json")
    assert status == 0, err
    # of a Falcon that was built for torch's function, eager weights are not causal
    assert json.loads(out)["check"] is None
    with regard.open("run.regard") as rec:
        assert rec["L0H3"].shape == (6, 6) and rec["L0H3"].exact
        np.testing.assert_array_equal(np.triu(rec["L0H3"][:, :], 1), 0)


def test_files_stdin_and_several_prompts(record, model, monkeypatch, tmp_path):
    import io

    (tmp_path / "prompt.txt").write_text("moon pulls on water")
    monkeypatch.setattr(sys, "stdin", io.StringIO("the sea rises"))
    words = ("--file", "prompt.txt", "--text", "a day", "--stdin")
    assert record(model, *words)[0] == 0
    with regard.open("run.regard") as rec:
        assert [len(p.ids) for p in rec.prompts] == [2, 4, 3]


def test_the_plan_alone(record, model):
    status, out, err = record(model, "--text", TEXT, "--plan", "--json")
    assert status == 0 and "total" in err
    assert json.loads(out)["prompts"][0]["exact"] == [0, 1, 2]
    assert not Path("run.regard").exists()


def test_some_of_it(record, model):
    words = ("--layers", "0,2", "--heads", "1-2", "--queries", "10:20")
    assert record(model, "--text", TEXT, *words)[0] == 0
    with regard.open("run.regard") as rec:
        assert sorted(rec.labels()) == ["L0H1", "L0H2", "L2H1", "L2H2"]
        assert rec["L2H1"].place.rows == (10, 20)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(record, model, dtype):
    assert record(model, "--text", TEXT, "--dtype", dtype)[0] == 0
    with regard.open("run.regard") as rec:
        assert rec.model["dtype"] == dtype
        np.testing.assert_allclose(np.asarray(rec["L0H0"]).sum(-1), 1, atol=1e-2)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--text", ""], 2, "empty"),
        ([], 2, "no prompt"),
        (["--file", "nowhere.txt"], 3, "nowhere.txt"),
        (["--text", " ".join(WORDS * 6)], 2, "64 positions"),
        (["--text", TEXT, "--layers", "7"], 2, "layer 7 does not exist; this model has 0–2"),
        (["--text", TEXT, "--heads", "9"], 2, "head 9 does not exist; this model has 0–3"),
        (["--text", TEXT, "--layers", "x"], 2, "0,5-10"),
        (["--text", TEXT, "--queries", "9:3"], 2, "range of rows"),
        (["--text", TEXT, "--budget", "2kB"], 2, "too small"),
        (["--text", TEXT, "--budget", "lots"], 2, "2GB"),
        (["--text", TEXT, "--chat"], 2, "chat template"),
        (["--text", TEXT, "--dtype", "int3"], 2, "int3"),
        (["--text", TEXT, "--device", "cuda:77"], 2, "cuda"),
        (["--text", TEXT, "-o", "no/such/a.regard"], 3, "no folder"),
    ],
)
def test_one_line_for_each_mistake(record, model, words, status, said):
    found, out, err = record(model, *words)
    lines = [line for line in err.splitlines() if line.startswith("regard:")]
    assert (found, out) == (status, ""), err
    assert len(lines) == 1 and said in lines[0]
    assert "Traceback" not in err
    assert not list(Path().glob("*.regard"))


def test_a_model_nobody_knows(record):
    status, _, err = record("no-such-model-anywhere", "--text", "x")
    assert status in (1, 2, 3)
    assert "no-such-model-anywhere" in err and "smollm2" in err and "Traceback" not in err


def test_an_existing_file_is_kept(record, model):
    Path("run.regard").write_text("mine")
    status, _, err = record(model, "--text", TEXT)
    assert status == 3 and "exists already" in err and "--overwrite" in err
    assert Path("run.regard").read_text() == "mine"
    assert record(model, "--text", TEXT, "--overwrite")[0] == 0


def test_a_failed_run_leaves_the_older_file(record, model, monkeypatch):
    Path("run.regard").write_text("mine")
    status, _, err = record(model, "--text", TEXT, "--overwrite", "--queries", "500:600")
    assert status == 2 and "no row was recorded" in err
    assert Path("run.regard").read_text() == "mine" and not Path("run.regard.partial").exists()

    def fail(*_):
        raise InputError("no agreement")

    with monkeypatch.context() as patch:  # when all was read
        patch.setattr("regard.cli.record._compare", fail)
        status, _, err = record(model, "--text", TEXT, "--overwrite")
    (line,) = [line for line in err.splitlines() if line.startswith("regard:")]
    assert status == 2 and "no agreement; what was recorded until then is in run.regard.p" in line
    assert Path("run.regard").read_text() == "mine"
    with regard.open("run.regard.partial") as found:
        assert found.tokens


@pytest.mark.parametrize("reached", [False, True])
def test_ctrl_c_leaves_the_older_file(record, model, monkeypatch, reached):
    Path("run.regard").write_text("mine")

    def stop(*_, **__):
        raise KeyboardInterrupt

    place = "regard.cli.record._compare" if reached else "regard.recorder.drive.drive"
    monkeypatch.setattr(place, stop)
    status, _, err = record(model, "--text", TEXT, "--overwrite")
    said = "what was read so far is in run.regard.partial" if reached else "nothing was recorded"
    assert status == 130 and f"regard: stopped; {said}; run.regard is as it was" in err
    assert Path("run.regard").read_text() == "mine"
    assert Path("run.regard.partial").exists() == reached


def test_a_folder_that_cannot_be_written_to(record, model, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    status, _, err = record(model, "--text", TEXT)
    assert status == 3 and "cannot be written" in err


def test_a_full_disk_is_one_line_and_no_whole_file(record, model, monkeypatch):
    room = [60_000]
    for name in ("write", "writev", "pwrite", "pwritev"):
        monkeypatch.setattr(append.os, name, _failing(getattr(os, name), room))
    status, out, err = record(model, "--text", TEXT)
    assert (status, out) == (3, "")
    assert "No space left" in err and "Traceback" not in err
    if Path("run.regard").exists():
        with regard.open("run.regard") as rec:
            assert not any(prompt.finished for prompt in rec.prompts)


@pytest.mark.parametrize("older", [False, True])
def test_a_gpu_that_is_full_is_one_line(record, model, monkeypatch, older):
    from regard.recorder import reduce

    real, left = reduce.measured, [2]

    def measured(*given):
        left[0] -= 1
        if left[0] < 0:
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 2.00 GiB.")
        return real(*given)

    if older:
        Path("run.regard").write_text("mine")
    monkeypatch.setattr(reduce, "measured", measured)
    status, out, err = record(model, "--text", TEXT, "--overwrite")
    (line,) = [line for line in err.splitlines() if line.startswith("regard:")]
    assert (status, out) == (1, "") and "Traceback" not in err
    assert line.startswith("regard: out of memory on cpu: the model and what is measured of it do")
    if older:
        assert line.endswith("is in run.regard.partial; run.regard is as it was")
        assert Path("run.regard").read_text() == "mine"
    else:
        assert line.endswith("; what was read so far is in run.regard")
    with regard.open("run.regard.partial" if older else "run.regard") as rec:
        assert not rec.damage and not rec.prompts[0].finished
        assert rec["L1H0"].shape[0] == 45


def _failing(real, room):
    def write(descriptor, data, *rest):
        parts = data if isinstance(data, list | tuple) else [data]
        room[0] -= sum(memoryview(part).nbytes for part in parts)
        if room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data, *rest)

    return write


LONG = " ".join(WORDS * 3)
SLOW = """
import sys, time
from regard.recorder import layer_writer
real = layer_writer.LayerWriter.take
def take(self, page):
    real(self, page)
    time.sleep(0.2)
layer_writer.LayerWriter.take = take
from regard.cli import main
main()
"""


def started(model: Path, folder: Path) -> subprocess.Popen[str]:
    """The verb as a process that takes its time, until the recording has begun."""
    words = ["record", str(model), "--text", LONG, "--generate", "8", "-o", "slow.regard"]
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, *words], cwd=folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    path, end = folder / "slow.regard", time.monotonic() + 120
    while not (path.exists() and path.stat().st_size > 2000):
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    time.sleep(0.5)
    return process


def test_ctrl_c_leaves_a_readable_file(model, tmp_path):
    process = started(model, tmp_path)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130 and out == ""
    assert "what was read so far is in slow.regard" in err and "Traceback" not in err
    with regard.open(tmp_path / "slow.regard") as rec:
        assert not rec.damage and not rec.prompts[0].finished
        assert rec["L0H0"].shape[0] >= 1
        np.testing.assert_allclose(np.asarray(rec["L0H0"]).sum(-1), 1, atol=1e-5)


def test_a_killed_process_loses_no_frame_that_was_written(model, tmp_path):
    process = started(model, tmp_path)
    process.kill()
    process.communicate(timeout=120)
    with regard.open(tmp_path / "slow.regard") as rec:
        assert not rec.is_live
        assert rec.prompts[0].ids.tolist()


def test_a_long_prompt_names_the_option_that_records_its_beginning(record, model):
    status, out, err = record(model, "--text", TEXT * 2)
    assert status == 2 and not out
    said = err.strip().rpartition("--truncate ")[2]
    status, _, err = record(model, "--text", TEXT * 2, "--truncate", said, "-o", "a.regard")
    assert status == 0, err
    with regard.open("a.regard") as rec:
        assert rec["L0H0"].shape == (int(said), int(said))
