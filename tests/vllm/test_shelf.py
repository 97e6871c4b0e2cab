"""Where recordings of requests wait: secrets, limits, and a disk that is full."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.errors import FileError, InputError
from regard.recording import Writer
from regard.vllm.shelf import ClientLimits
from serving import Engine, recording

SECRET = "a secret of this test"


def asked(**more: Any) -> str:
    return json.dumps({"secret": SECRET} | more)


def run(engine: Engine, id: str, tokens: int = 20, **more: Any) -> None:
    engine.add(id, list(range(tokens)), tokens + 1, asked(**more))
    engine.step(**{id: tokens})
    engine.end(id)
    engine.step()


def state(engine: Engine, id: str, secret: str = SECRET) -> str:
    told: str = engine.wrapper.regard_fetch(id, secret)["state"]
    return told


def test_only_the_secret_opens_a_request() -> None:
    engine = Engine()
    run(engine, "cmpl-a-0-1a2b3c4d")
    assert state(engine, "cmpl-a") == state(engine, "cmpl-a-0") == "ready"
    for id, secret in (
        ("cmpl-a", "another secret, too"), ("cmpl-a", ""), ("cmpl", SECRET), ("", SECRET),
        ("cmpl-b", SECRET), ("cmpl-a-0-1a2b3c4", SECRET), ("../cmpl-a", SECRET),
    ):  # fmt: skip
        assert engine.wrapper.regard_fetch(id, secret) == {"state": "unknown"}


def test_a_secret_opens_its_own_requests_alone() -> None:
    """Two clients whose ids are the same, as a header lets them choose."""
    engine = Engine()
    run(engine, "cmpl-a-1a2b3c4d")
    engine.add("cmpl-a-99999999", [7] * 20, 21, json.dumps({"secret": "somebody else's secret"}))
    engine.step(**{"cmpl-a-99999999": 20})
    assert state(engine, "cmpl-a") == "ready"
    assert state(engine, "cmpl-a", "somebody else's secret") == "running"


def test_samples_and_prompts_of_a_request_are_one_file(tmp_path: Path) -> None:
    engine = Engine()
    for id in ("0_cmpl-a-0-1a2b3c4d", "1_cmpl-a-0-1a2b3c4d", "0_cmpl-a-1-5a2b3c4d"):
        run(engine, id)
    path = tmp_path / "all.regard"
    path.write_bytes(engine.wrapper.regard_fetch("cmpl-a", SECRET)["file"])
    with regard.open(path) as found:
        assert [one.number for one in found.prompts] == [0, 1, 2]


def test_the_oldest_make_room_and_those_on_their_way_do_not() -> None:
    engine = Engine()
    engine.config.additional_config["regard"] = {"request": "150kB", "total": "300kB"}
    for n in range(5):
        run(engine, f"mine{n}", tokens=60)
    states = [state(engine, f"mine{n}") for n in range(5)]
    assert states[0] == "unknown"
    assert states[-1] == "ready"
    for n in range(5):
        engine.add(f"long{n}", list(range(60)), 250, asked())
        engine.step(**{f"long{n}": 60})
    told = engine.wrapper.regard_fetch("long4", SECRET)
    assert told["state"] == "refused"


def test_a_request_stays_within_its_share() -> None:
    engine = Engine()
    engine.config.additional_config["regard"] = {"request": "90kB"}
    run(engine, "mine", tokens=200)
    assert len(engine.wrapper.regard_fetch("mine", SECRET)["file"]) < 110_000


def test_time_runs_out() -> None:
    engine = Engine()
    engine.config.additional_config["regard"] = {"seconds": 60}
    run(engine, "mine")
    shelf = vars(engine.wrapper)["_regard_observer"].clients
    now = shelf._clock()
    shelf._clock = lambda: now + 61
    assert state(engine, "mine") == "unknown"


def test_limits_are_checked() -> None:
    assert ClientLimits.of(None) == ClientLimits()
    assert ClientLimits.of({"request": "1MB", "seconds": 5}) == ClientLimits(
        request=10**6, seconds=5.0
    )
    for wrong in ({"requests": 1}, "1MB", {"total": "lots"}):
        with pytest.raises(InputError):
            ClientLimits.of(wrong)


def test_a_full_disk_ends_the_recording_and_not_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written before is whole, and the error says how much that is."""
    engine, path, append = Engine(), tmp_path / "run.regard", Writer.append
    prompts = [list(range(20)), list(range(30))]
    with (
        pytest.raises(FileError, match=r"no space left.*1 requests are in"),
        recording(engine, path) as (llm, _),
    ):
        llm.generate(prompts[:1])
        engine.step()  # the first is written

        def full(self: Writer, frame: Any) -> None:
            raise FileError(f"{path}: cannot be written (no space left on device)")

        monkeypatch.setattr(Writer, "append", full)
        llm.generate(prompts)
        monkeypatch.setattr(Writer, "append", append)
    with regard.open(path) as found:
        assert [len(one.tokens) for one in found.prompts] == [25]
    with recording(engine, tmp_path / "next.regard") as (llm, rec):
        llm.generate(prompts)
    assert len(rec.prompts) == 2
