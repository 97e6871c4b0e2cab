"""`regard.vllm.record` around a stand-in for vllm.LLM."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import regard
from regard.errors import FileError, InputError
from regard.vllm import record
from serving import LLM, Engine, recording


def test_every_request_is_a_prompt(tmp_path: Path) -> None:
    engine, path = Engine(), tmp_path / "run.regard"
    prompts = [list(range(10 * n, 10 * n + 12)) for n in range(5)]
    with recording(engine, path) as (llm, rec):
        with pytest.raises(InputError, match="is being made"):
            _ = rec.recording
        llm.generate(prompts, tokens=8)
    assert [one.ids.tolist()[:12] for one in rec.prompts] == prompts
    assert {one.generated for one in rec.prompts} == {7}
    right = engine.truth(1, rec.prompt(3).ids.tolist())[2]
    np.testing.assert_allclose(rec.prompt(3)["L1H2"].dense(), right, atol=2e-5)
    assert rec["L1H2"].exact
    assert rec.model["family"] == "stand-in"
    assert "vllm" in rec.made


def test_what_is_not_inside_the_block_is_not_recorded(tmp_path: Path) -> None:
    engine = Engine()
    llm = LLM(engine)
    llm.generate([[1, 2, 3]])
    with record(llm, tmp_path / "run.regard", layers=[1], heads="0,2", exact=False) as rec:
        llm.generate([[4, 5, 6]])
    llm.generate([[7, 8, 9]])
    assert [one.ids.tolist()[:3] for one in rec.prompts] == [[4, 5, 6]]
    assert rec.labels() == ["L1H0", "L1H2"]
    assert not rec["L1H0"].exact
    assert "add_request" not in vars(llm.llm_engine)


@pytest.mark.parametrize("is_dead", [False, True])
def test_an_error_inside_and_a_worker_that_died_leave_what_was_finished(
    tmp_path: Path, is_dead: bool
) -> None:
    """The file is whole up to the last request that had finished."""
    engine = Engine()

    def gone(*_: object, **__: object) -> None:
        raise ConnectionError("the worker is dead")

    with (
        pytest.raises(RuntimeError, match="mine"),
        recording(engine, tmp_path / "run.regard") as (llm, _),
    ):
        llm.generate([[1, 2, 3]])
        engine.step()
        if is_dead:
            llm.collective_rpc = gone  # type: ignore[method-assign,assignment]
        raise RuntimeError("mine")
    with regard.open(tmp_path / "run.regard") as found:
        assert len(found.prompts) == 1


def test_nothing_that_could_be_recorded(tmp_path: Path) -> None:
    path = tmp_path / "run.regard"
    with pytest.raises(InputError, match="no request ran inside"), recording(Engine(), path):
        pass
    with (
        pytest.raises(InputError, match="layer 9 does not exist; this model has 0–1"),
        recording(Engine(), path, layers=9) as (llm, _),
    ):
        llm.generate([[1, 2, 3]])
    assert not path.exists()


def test_what_is_given_is_checked_first(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="llm is a str"):
        record("smollm2", tmp_path / "run.regard")
    with pytest.raises(InputError, match="budget"):
        record(LLM(Engine()), tmp_path / "run.regard", budget="none")
    with pytest.raises(InputError, match="top"):
        record(LLM(Engine()), tmp_path / "run.regard", top=0)
    there = tmp_path / "there.regard"
    there.write_text("mine")
    with pytest.raises(FileError, match=r"there\.regard"), recording(Engine(), there):
        pass
    assert there.read_text() == "mine"


def test_a_vllm_without_the_plug_in(tmp_path: Path) -> None:
    llm = LLM(Engine())
    llm.engine.wrapper = SimpleNamespace()
    with (
        pytest.raises(InputError, match=r"install regard\[vllm\].*VLLM_PLUGINS"),
        record(llm, tmp_path / "run.regard"),
    ):
        pass


def test_a_file_is_replaced_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "run.regard"
    for n in range(2):
        with recording(Engine(), path, overwrite=True) as (llm, _):
            llm.generate([[n, 2, 3]] * (n + 1))
    with regard.open(path) as found:
        assert len(found.prompts) == 2
