"""The callback for Lightning's Trainer."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import pytest
import torch

import regard
from recorder.models import tiny, tokens

IDS = tokens(9, batch=12)


class Module(lightning.LightningModule):  # type: ignore[misc]
    """A step that calls a part of the module, which is never called itself."""

    def __init__(self, fails: int | None = None) -> None:
        super().__init__()
        self.model, self.fails = tiny("llama"), fails

    def training_step(self, ids: Any, number: int) -> Any:
        if number == self.fails:
            raise RuntimeError("the data is at its end")
        return self.model(input_ids=ids, labels=ids).loss

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.1)


def fit(callback: Any, module: Module, **options: Any) -> None:
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
             "enable_model_summary": False, "accelerator": "cpu"}  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(callbacks=[callback], max_epochs=1, **quiet, **options)
        trainer.fit(module, torch.utils.data.DataLoader(IDS, batch_size=2))


def test_every_step_is_sampled_with_the_trainers_number(tmp_path: Path) -> None:
    taken: list[int] = []
    callback = regard.monitor.LightningCallback(
        log=[tmp_path / "run.csv", lambda _, n: taken.append(n)]
    )
    fit(callback, Module(), accumulate_grad_batches=2)
    assert taken == [0, 1, 2] and callback.monitor.latest.places == ("L0", "L1")
    assert np.isfinite(callback.monitor.latest["grad_w_q"]).all()
    lines = (tmp_path / "run.csv").read_text().splitlines()
    assert len(lines) == 1 + 3 * 8


def test_a_run_that_breaks_leaves_its_log_whole(tmp_path: Path) -> None:
    module = Module(fails=2)
    callback = regard.monitor.LightningCallback(log=tmp_path / "run.csv", every=2)
    with pytest.raises(RuntimeError, match="at its end"):
        fit(callback, module)
    assert len((tmp_path / "run.csv").read_text().splitlines()) == 1 + 8
    assert not any(m._forward_hooks for m in module.model.modules())
