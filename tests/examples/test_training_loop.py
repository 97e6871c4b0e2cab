"""Checkpoints are whole or not there, and belong to the run that made them."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from rich.console import Console
from torch import nn

import regard
from examples.scripts import load
from regard.nn import LanguageModel, LanguageModelConfig

loop = load("training_loop")


def learner(seed: int = 0):
    """A tiny model with dropout, and what it learns from: each number is followed by the next."""
    torch.manual_seed(seed)
    shape = {"vocabulary": 8, "dim": 8, "heads": 2, "layers": 1, "dropout": 0.2}
    model = LanguageModel(LanguageModelConfig(**shape))

    def losses(dice: torch.Generator) -> torch.Tensor:
        ids = (torch.randint(8, (4, 1), generator=dice) + torch.arange(7)) % 8
        logits = model(ids[:, :-1]).flatten(0, 1)
        return nn.functional.cross_entropy(logits, ids[:, 1:].flatten(), reduction="none")

    return model, losses


def run(path=None, steps: int = 12, log=None, **recipe):
    """Trained; the model's numbers and what was measured."""
    model, losses = learner()
    plan = loop.Plan(steps, every=5, checkpoint=path, log=log, recipe={"steps": steps, **recipe})
    readings = loop.train(model, losses, plan, Console(file=io.StringIO()))
    return {name: tensor.tolist() for name, tensor in model.state_dict().items()}, readings


def interrupted(monkeypatch, step: int, path, log=None) -> None:
    """A run that ends in the middle of a step."""
    take = loop._take_step

    def stop(state, *rest):
        if state.step == step:
            raise KeyboardInterrupt
        return take(state, *rest)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(loop, "_take_step", stop)
        run(path, log=log)


@pytest.mark.parametrize(("step", "kept"), [(5, 5), (9, 5), (11, 10)])
def test_what_is_lost_is_at_most_an_interval(step, kept, monkeypatch, tmp_path):
    path = tmp_path / "run.pt"
    interrupted(monkeypatch, step, path)
    assert torch.load(path, weights_only=True)["step"] == kept
    goes_on = run(path)
    assert goes_on == run()
    assert [reading.step for reading in goes_on[1]] == [0, 5, 10, 12]
    monkeypatch.delattr(loop, "_take_step")
    assert run(path) == goes_on  # a finished run is not repeated


def test_a_log_of_every_head_goes_on_too(monkeypatch, tmp_path):
    """As if nothing had happened; and to be watched changes nothing."""
    log, other = tmp_path / "logs" / "run.regard", tmp_path / "whole.regard"
    interrupted(monkeypatch, 9, tmp_path / "run.pt", log)
    with regard.open(log) as recording:
        assert recording.training.steps.tolist() == list(range(9))
    plain, _ = run()
    assert run(tmp_path / "run.pt", log=log)[0] == plain == run(log=other)[0]
    with regard.open(log) as recording, regard.open(other) as whole:
        assert recording.training.steps.tolist() == list(range(12))
        for name, values in whole.training.statistics.items():
            np.testing.assert_array_equal(recording.training[name], values)
            assert values.shape == (12, 1, 2) and not np.isnan(values).any()
    assert loop.log_name(None) is None
    with pytest.raises(typer.BadParameter, match=r"ends in \.regard or \.csv"):
        loop.log_name(Path("run.txt"))


def test_another_recipe_is_refused(tmp_path):
    run(tmp_path / "run.pt", width=8)
    with pytest.raises(typer.BadParameter, match="width=8, not 16"):
        run(tmp_path / "run.pt", width=16)
    with pytest.raises(typer.BadParameter, match="steps=12, not 20"):
        run(tmp_path / "run.pt", steps=20, width=8)


def test_without_the_scale_scores_are_plain_products():
    model, _ = learner()
    layer = model.decoder.blocks[0].attention
    x = torch.randn(1, 5, 8)
    with torch.no_grad():
        before = layer.look(x)
        plain, divided = before.scores[0, 1].clone(), layer.head_dim**0.5
        loop.remove_scale(model)
        torch.testing.assert_close(layer.look(x).scores[0, 1], plain * divided)
