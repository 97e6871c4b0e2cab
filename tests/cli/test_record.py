"""`regard record`: prompts, sounds and pictures into one file, and what is left where it stops."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from cli.conftest import WORDS
from regard.errors import InputError

TEXT = " ".join(WORDS * 3)


@pytest.fixture
def record(shell, monkeypatch, tmp_path, model):
    """The verb, run in an empty folder beside which M is the tiny model."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: shell("record", *(model if word == "M" else word for word in words))


def encoder(model: Path, folder: Path, name: str, config: object) -> None:
    """A model of another family with the words of the tiny one."""
    import transformers

    shutil.copytree(model, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    getattr(transformers, name)(config).save_pretrained(folder)


def test_the_first_screen(record):
    status, out, err = record("M", "--text", TEXT, "--generate", 4)
    assert status == 0, err
    assert "45 tokens" in err and "no BOS" in err and "total" in err and "about" in err
    assert "replay against eager on the first 45 tokens: max error" in out
    assert "scale: " in out and "labels are withheld" in " ".join(out.split())  # random weights
    with regard.open("run.regard") as rec:
        assert rec["L2H3"].shape == (49, 49) and rec.prompts[0].generated == 4
        assert rec.check["max_error"] < 1e-5
    status, out, _ = record("M", "--text", TEXT, "--json", "-o", "a.regard")
    told = json.loads(out)
    assert (status, told["file"]) == (0, "a.regard") and told["check"]["max_error"] < 1e-5
    assert told["bytes"] == Path("a.regard").stat().st_size


def test_files_stdin_and_several_prompts(record, monkeypatch, tmp_path):
    (tmp_path / "prompt.txt").write_text("moon pulls on water\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("the sea rises\n"))
    assert record("M", "--file", "prompt.txt", "--text", "a day", "--stdin")[0] == 0
    with regard.open("run.regard") as rec:
        assert [len(p.ids) for p in rec.prompts] == [2, 4, 3]


def test_the_plan_alone(record):
    status, out, err = record("M", "--text", TEXT, "--plan", "--json")
    assert status == 0 and "total" in err and not Path("run.regard").exists()
    assert json.loads(out)["prompts"][0]["exact"] == [0, 1, 2]


def test_some_of_it(record):
    words = ("--layers", "0,2", "--heads", "1-2", "--queries", "10:20", "--dtype", "bfloat16")
    assert record("M", "--text", TEXT, *words)[0] == 0
    with regard.open("run.regard") as rec:
        assert sorted(rec.labels()) == ["L0H1", "L0H2", "L2H1", "L2H2"]
        assert rec["L2H1"].place.rows == (10, 20) and rec.model["dtype"] == "bfloat16"
        np.testing.assert_allclose(np.asarray(rec["L0H1"]).sum(-1), 1, atol=1e-2)


def test_a_long_prompt_names_the_option_that_records_its_beginning(record, refused):
    room = record("M", "--text", TEXT * 2)[2].strip().rpartition("--truncate ")[2]
    assert record("M", "--text", TEXT * 2, "--truncate", room)[0] == 0
    with regard.open("run.regard") as rec:
        assert rec["L0H0"].shape == (int(room), int(room))


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
    with regard.open("a.regard") as rec:
        assert rec["encoder.L1H2"].shape == (1500, 1500) and rec["cross.L1H2"].exact
        assert 1 <= rec.prompts[0].generated <= 3
        words = regard.study.word_times(rec)
    (told,) = json.loads(shell("show", "a.regard", "--words", "--json")[1])
    assert told["seconds"] == 1.0
    assert [one["word"] for one in told["words"]] == [one.word for one in words] != []
    assert f"{words[0].start:.2f} s" in shell("show", "a.regard", "--words")[1]


@pytest.fixture
def seeing(tmp_path):
    """A small classifier of pictures in a folder, and a picture."""
    from PIL import Image
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

    torch.manual_seed(0)
    config = ViTConfig(
        image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, num_labels=3, initializer_range=0.5,
    )  # fmt: skip
    model = ViTForImageClassification(config).eval()
    model.save_pretrained(tmp_path / "seeing")
    processor = ViTImageProcessor(size={"height": 32, "width": 32})
    processor.save_pretrained(tmp_path / "seeing")
    Image.linear_gradient("L").convert("RGB").resize((60, 40)).save(tmp_path / "a.png")
    return model, processor


def test_the_answer_without_a_region_of_a_picture(record, seeing):
    from regard.recorder.pictures import read_picture

    model, processor = seeing
    asked = ("seeing", "--image", "a.png", "-o", "a.regard", "--without", "0,0,0.5,1")
    status, out, err = record(*asked, "--json")
    assert status == 0, err
    (told,) = json.loads(out)["without"]
    inputs = processor(images=[read_picture(Path("a.png"))], return_tensors="pt")
    effect = regard.intervene.without_region(model, inputs, regard.axes.Box(0, 0, 0.5, 1))
    assert told["kl"] == pytest.approx(effect.kl, abs=1e-6)
    assert told["after"][0]["after"] == pytest.approx(effect.after[0].after, abs=1e-6)
    with regard.open("a.regard") as rec:
        assert len(rec.prompts) == 1  # what the region's absence changes is told, not recorded
    status, out, _ = record(*asked, "--overwrite")
    assert status == 0 and "a.png: without rows 0.0–0.5, columns 0.0–1.0 the answer" in out


@pytest.mark.parametrize("size", [(1, 1), (50, 1), (50, 3), (1, 50)])
def test_pictures_as_high_as_there_are_colours_are_read(record, seeing, size):
    """An array (3, 50, 3) does not say which axis the colours are."""
    from PIL import Image

    Image.new("RGB", size, "red").save("thin.png")
    assert record("seeing", "--image", "thin.png")[0] == 0


def test_falcon_is_captured_at_torchs_own_function(record, model):
    from huggingface.zoo import BLIND

    encoder(model, Path("falcon"), "FalconForCausalLM", BLIND["falcon"].configuration())
    status, out, err = record("falcon", "--text", "the sea rises twice", "--generate", 2, "--json")
    assert status == 0, err
    # of a Falcon that was built for torch's function, eager weights are not causal
    assert json.loads(out)["check"] is None
    with regard.open("run.regard") as rec:
        assert rec["L0H3"].shape == (6, 6) and rec["L0H3"].exact
        np.testing.assert_array_equal(np.triu(rec["L0H3"][:, :], 1), 0)


@pytest.mark.parametrize(
    ("words", "said", "status"),
    [
        ("--text ''", "empty", 2),
        ("", "no prompt", 2),
        ("--file nowhere.txt", "nowhere.txt", 3),
        (f"--text '{TEXT} {TEXT}'", "64 positions", 2),
        ("--text day --layers 7", "layer 7 does not exist; this model has 0–2", 2),
        ("--text day --heads 9", "head 9 does not exist; this model has 0–3", 2),
        ("--text day --layers x", "0,5-10", 2),
        ("--text day --queries 9:3", "range of rows", 2),
        (f"--text '{TEXT}' --budget 2kB", "too small", 2),
        ("--text day --budget lots", "2GB", 2),
        ("--text day --chat", "chat template", 2),
        ("--text day --dtype int3", "int3", 2),
        ("--text day --device cuda:77", "cuda", 2),
        ("--text day -o no/such/a.regard", "no folder", 3),
        ("--text day -o mine.regard", "exists already; give another name with -o, or --overw", 3),
        ("--audio x.wav --text hi", "--audio is recorded alone", 2),
        ("--audio x.wav --documents .", "--audio is recorded alone", 2),
        ("--audio x.wav --chat", "--audio is recorded alone", 2),
        ("--audio x.wav", "reads input ids, not sound; give a model of speech", 2),
        ("--image x.png --stdin", "--image is recorded with --text or alone", 2),
        ("--image x.png", "does not read pictures; give a model that does", 2),
        ("--text hi --without 0,0,1,1", "give --image FILE as well", 2),
        *((f"--image x.png --without {box}", "give TOP,LEFT,BOTTOM,RIGHT", 2)
          for box in ("1", "0,0,1", "a,b,c,d", "0,0,2,1", "0.5,0,0.2,1", "0,0,1,1,1")),
    ],
)  # fmt: skip
def test_one_line_for_each_mistake(refused, record, model, words, said, status):
    Path("mine.regard").write_text("mine")
    assert said in refused("record", model, *shlex.split(words), status=status)


def test_a_model_that_is_not_known(record):
    status, out, err = record("no-such-model-anywhere", "--text", "x")
    assert status in (1, 2, 3) and not out
    assert "no-such-model-anywhere" in err and "smollm2" in err and "Traceback" not in err


@pytest.mark.parametrize("more", ["", "--plan", "-o a.regard --generate 3"])
@pytest.mark.parametrize(
    ("family", "name"), [("gptj", "GPTJForCausalLM"), ("deberta-v2", "DebertaV2Model")]
)
def test_a_model_that_cannot_be_seen_is_one_line_and_no_file(
    refused, record, model, family, name, more
):
    from huggingface.zoo import BLIND

    encoder(model, Path("blind"), name, BLIND[family].configuration())
    line = refused("record", "blind", "--text", "the sea rises", *more.split())
    assert line.startswith(f"regard: {family} does not dispatch its attention")
    assert "supported_families()" in line and "regard.replay" in line


def test_an_encoder_writes_nothing(refused, record, model):
    from transformers import BertConfig

    sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2}
    encoder(model, Path("encoder"), "BertModel", BertConfig(**sizes, vocab_size=16))
    for more in ((), ("--plan",)):
        line = refused("record", "encoder", "--text", "the sea", "--generate", 3, *more)
        assert "--generate 3: encoder (BertModel) only reads, it writes no text" in line
        assert "leave out --generate, or give a model that writes" in line
    status, _, err = record("encoder", "--text", "sea")
    assert status == 0 and "encoder: 1 token, nothing put in front" in err


def test_a_model_of_pictures_says_how_it_is_given_one(refused, record, seeing, monkeypatch):
    assert "give it a picture with --image FILE" in refused("record", "seeing", "--text", "hi")

    def refuse(*_, **__):
        raise ValueError("absolute aspect ratio must be smaller than 200\nand more")

    monkeypatch.setattr(type(seeing[1]), "__call__", refuse)
    line = refused("record", "seeing", "--image", "a.png")
    assert "does not take it: absolute aspect ratio must" in line and "and more" not in line


@pytest.fixture
def again(record):
    """The verb over an older file: its status and its last line, which is alone."""

    def run(*words: object, older: bool = True) -> tuple[int, str]:
        if older:
            Path("run.regard").write_text("mine")
        status, out, err = record("M", "--text", TEXT, *words)
        assert not out and "Traceback" not in err
        assert not older or Path("run.regard").read_text() == "mine"
        (line,) = [line for line in err.splitlines() if line.startswith("regard:")]
        return status, line

    return run


def test_a_failed_run_leaves_the_older_file(again, record, monkeypatch):
    assert "exists already" in again()[1]
    status, line = again("--overwrite", "--queries", "500:600")
    assert status == 2 and "no row was recorded" in line
    assert not Path("run.regard.partial").exists()

    def fail(*_):
        raise InputError("no agreement")

    with monkeypatch.context() as patch:  # when all was read
        patch.setattr("regard.cli.record._compare", fail)
        status, line = again("--overwrite")
    assert status == 2
    assert "no agreement; what was recorded until then is in run.regard.partial" in line
    with regard.open("run.regard.partial") as found:
        assert found.tokens
    assert record("M", "--text", TEXT, "--overwrite")[0] == 0
    with regard.open("run.regard") as rec:
        assert rec.prompts[0].finished


@pytest.mark.parametrize("reached", [False, True])
def test_ctrl_c_leaves_the_older_file(again, monkeypatch, reached):
    def stop(*_, **__):
        raise KeyboardInterrupt

    place = "regard.cli.record._compare" if reached else "regard.recorder.drive.drive"
    monkeypatch.setattr(place, stop)
    left = "what was read so far is in run.regard.partial" if reached else "nothing was recorded"
    assert again("--overwrite") == (130, f"regard: stopped; {left}; run.regard is as it was")
    assert Path("run.regard.partial").exists() == reached


def test_a_folder_that_cannot_be_written_to(again, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    status, line = again(older=False)
    assert status == 3 and "cannot be written" in line


@pytest.mark.parametrize("older", [False, True])
def test_a_gpu_that_is_full_is_one_line(again, monkeypatch, older):
    from regard.recorder import reduce

    real, left = reduce.measured, [2]

    def measured(*given):
        left[0] -= 1
        if left[0] < 0:
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 2.00 GiB.")
        return real(*given)

    monkeypatch.setattr(reduce, "measured", measured)
    status, line = again("--overwrite", older=older)
    assert status == 1
    assert line.startswith("regard: out of memory on cpu: the model and what is measured of it do")
    name = "run.regard.partial" if older else "run.regard"
    assert line.endswith(f" is in {name}" + "; run.regard is as it was" * older)
    with regard.open(name) as rec:
        assert not rec.damage and not rec.prompts[0].finished and rec["L1H0"].shape[0] == 45
