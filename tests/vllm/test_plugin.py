"""How the plug-in is found and what it puts into vLLM's classes."""

from __future__ import annotations

import json
import tomllib
import warnings
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regard.errors import RegardWarning
from regard.vllm.plugin import TESTED, check_version, read_whole_prompts
from regard.vllm.worker import install
from serving import Engine

SECRET = "a secret of this test"
ROOT = Path(__file__).parents[2]


def test_vllm_finds_both_parts_by_one_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for group in ("vllm.general_plugins", "vllm.endpoint_plugins"):
        ((name, where),) = project["entry-points"][group].items()
        assert name == "regard"
        assert callable(EntryPoint(name, where, group).load())


def test_another_version_gets_a_warning_that_names_both() -> None:
    with pytest.warns(RegardWarning, match=rf"tested with vLLM {TESTED}, and this is 9\.9\.1"):
        check_version("9.9.1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_version(f"{TESTED}.7+cpu")


def test_a_process_may_load_it_twice() -> None:
    engine = Engine()
    once = engine.worker.execute_model  # type: ignore[attr-defined]
    install(engine.worker)
    assert engine.worker.execute_model is once  # type: ignore[attr-defined]


def test_a_vllm_of_another_make_goes_on_serving() -> None:
    """A runner whose attributes have other names: no recording, a warning, and every token."""
    engine = Engine()
    del engine.model_runner.kv_cache_config
    engine.add("mine", list(range(20)), 21, json.dumps({"secret": SECRET}))
    with pytest.warns(RegardWarning, match="regard records nothing: AttributeError"):
        engine.step(mine=20)
    calls = [module.impl.calls for module in engine.modules.values()]
    assert calls == [1, 1]
    told = engine.wrapper.regard_begin("x.regard", SECRET, 1, False)
    assert "kv_cache_config" in told["error"]


@pytest.mark.parametrize(
    ("asked", "skips"),
    [
        (None, False),
        ({"secret": SECRET}, True),
        ({"secret": SECRET, "prefix_cache": True}, False),
        ({"secret": "short"}, False),
    ],
)
def test_requests_that_ask_read_no_cached_prefix(asked: Any, skips: bool) -> None:
    class Request:
        def __init__(self, params: Any) -> None:
            self.sampling_params = params

        def get_skip_reading_prefix_cache(self) -> bool:
            return bool(self.sampling_params.skip)

    read_whole_prompts(Request)
    read_whole_prompts(Request)
    extra = None if asked is None else {"regard": json.dumps(asked)}
    request = Request(SimpleNamespace(extra_args=extra, skip=False))
    assert request.get_skip_reading_prefix_cache() is skips
    request.sampling_params.skip = True
    assert request.get_skip_reading_prefix_cache() is True
