"""One prompt over many ranks is one recording, as one rank would have made it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

import regard
from parallel.world import run
from regard import recording
from regard.errors import FileError, InputError, UnavailableError
from regard.recorder.over_ranks import record_over_ranks

TOKENS = 300


def llama(**changes: Any) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 16, "vocab_size": 50,
        "max_position_embeddings": 2048,
    }  # fmt: skip
    return LlamaForCausalLM(LlamaConfig(**sizes | changes)).eval()


def own() -> nn.Module:
    from regard.nn import LanguageModel, LanguageModelConfig

    torch.manual_seed(0)
    config = LanguageModelConfig(dim=32, heads=4, kv_heads=2, vocabulary=50, layers=2)
    return LanguageModel(config).eval()


MODELS = {"llama": llama, "own": own}


def ids(tokens: int = TOKENS) -> torch.Tensor:
    return torch.randint(0, 50, (1, tokens), generator=torch.Generator().manual_seed(1))


def read(folder: str, budget: str, names: list[str]) -> None:
    for name in names:
        record_over_ranks(MODELS[name](), ids(), f"{folder}/{name}", budget=budget)


def alone(name: str, path: Path, budget: str) -> regard.recording.Recording:
    model = MODELS[name]()
    with torch.no_grad(), regard.record(model, path, budget=budget):
        model(ids())
    return regard.open(path)


@pytest.mark.parametrize(("size", "budget"), [(2, "2GB"), (3, "200kB")])
def test_the_folder_answers_as_one_rank_does(tmp_path: Path, size: int, budget: str) -> None:
    run(size, read, str(tmp_path), budget, list(MODELS))
    for name in MODELS:
        with (
            alone(name, tmp_path / f"{name}.regard", budget) as one,
            regard.open(tmp_path / name) as every,
        ):
            assert len(list((tmp_path / name).glob("rank-*.regard"))) == size
            assert every.tokens == one.tokens
            assert not every.damage
            assert every.prompts[0].places.keys() == one.prompts[0].places.keys()
            for statistic in ("entropy", "peak", "first", "duplicate", "previous", "non_sink"):
                np.testing.assert_allclose(every.grid(statistic), one.grid(statistic), rtol=2e-5)
            for label in ("L0H0", "L1H3"):
                same_head(every[label], one[label])


def same_head(found: recording.Head, right: recording.Head) -> None:
    close = {"rtol": 2e-5, "atol": 2e-6}
    np.testing.assert_allclose(found.received(), right.received(), **close)
    np.testing.assert_allclose(found.pooled(), right.pooled(), **close)
    np.testing.assert_allclose(found.entropy(), right.entropy(), **close)
    np.testing.assert_array_equal(found.top(4).keys, right.top(4).keys)
    if right.place.exact:
        np.testing.assert_allclose(
            found.rows([0, 77, 150, 299]), right.rows([0, 77, 150, 299]), **close
        )


def refuse() -> list[str]:
    said = []
    for model, prompt in ((nn.Linear(2, 2), ids()), *(
        (make(), some) for make in MODELS.values() for some in (ids().expand(2, -1), ids(20))
    )):  # fmt: skip
        with pytest.raises(InputError) as error:
            record_over_ranks(model, prompt, "nowhere")
        said.append(str(error.value))
    return said


def test_what_cannot_be_read_over_ranks_is_refused_before_anything_runs() -> None:
    for kind, *others in run(3, refuse):
        assert "Linear is no causal language model" in kind
        for batch, short in zip(others[::2], others[1::2], strict=True):
            assert "give one prompt: (1, tokens)" in batch
            assert "20 tokens are too few for 3 ranks" in short
    assert not Path("nowhere").exists()


def lose(folder: str) -> str:
    """Rank 1 is lost in its last layer, once it has more than the first look's two tokens."""
    model = llama()
    if dist.get_rank() == 1:
        end = lambda _, given: os._exit(9) if given[0].shape[1] > 2 else None  # noqa: E731
        model.model.layers[1].register_forward_pre_hook(end)
    with pytest.raises(UnavailableError) as error:
        record_over_ranks(model, ids(1200), folder)
    return str(error.value)


def test_a_lost_rank_is_named_and_what_was_written_can_be_read(tmp_path: Path) -> None:
    first, _, last = run(3, lose, str(tmp_path / "ranks"), dying=[1], patience=10.0)
    assert "rank 1 is lost" in first or "rank 1 is lost" in last
    with regard.open(tmp_path / "ranks") as found:
        assert found["L0H0"].entropy().shape[0] > 0
        assert not found.prompts[0].finished


def read_anew(folder: str, is_failing: bool) -> str:
    """Rank 1's file cannot be closed, where it is to fail."""
    from regard.recording import Writer

    with pytest.MonkeyPatch.context() as patch:
        if is_failing and dist.get_rank() == 1:
            patch.setattr(Writer, "close", _full)
        try:
            record_over_ranks(llama(), ids(), folder, layers=[1], heads=[0, 2], overwrite=True)
        except (FileError, UnavailableError) as error:
            return str(error)
    return ""


def _full(_: Any) -> None:
    raise FileError("no space left")


def test_an_older_recording_stays_until_the_files_of_all_ranks_are_whole(tmp_path: Path) -> None:
    folder = tmp_path / "llama"
    run(3, read, str(tmp_path), "2GB", ["llama"])
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    told = run(2, read_anew, str(folder), True, disturbed=True, patience=5.0)
    assert all(told)
    assert {f.name: f.read_bytes() for f in folder.iterdir() if f.is_file()} == before
    assert (folder / "partial" / "rank-0000.regard").exists()
    assert run(2, read_anew, str(folder), False) == ["", ""]
    assert sorted(f.name for f in folder.iterdir()) == ["rank-0000.regard", "rank-0001.regard"]
    with regard.open(folder) as found:
        assert found.prompts[0].finished and len(found.tokens) == TOKENS
        assert found.prompts[0].labels() == ["L1H0", "L1H2"]
