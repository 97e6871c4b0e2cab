"""vLLM's own server on the loopback interface, with the plug-in named in VLLM_PLUGINS."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard

# a module of the package's own: the folder of these tests would be found as an empty package
pytest.importorskip("vllm.version")

SECRET = "a secret of this test"
BUDGET = 1e-4
STORY = "There was a cat that lived in a tree near the river and was very old and wise. "


@pytest.fixture(scope="module")
def server(folder: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    limits = {"regard": {"request": "40MB", "total": "120MB", "seconds": 300}}
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1",
        "--port", str(port), "--model", folder, "--served-model-name", "smollm2",
        "--dtype", "float32", "--enforce-eager", "--max-model-len", "512", "--block-size", "32",
        "--additional-config", json.dumps(limits),
    ]  # fmt: skip
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=os.environ | {"VLLM_PLUGINS": "regard"}, stdout=out, stderr=out
        )
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(240):
            if process.poll() is not None:
                pytest.fail(log.read_text()[-3000:])
            try:
                urllib.request.urlopen(f"{address}/health", timeout=5)
                break
            except OSError:
                time.sleep(1)
        yield address
    finally:
        process.terminate()
        process.wait(60)


def complete(server: str, prompt: Any, asked: Any = None, **more: Any) -> Any:
    body = {"model": "smollm2", "prompt": prompt, "max_tokens": 12, "temperature": 0} | more
    if asked is not None:
        text = asked if isinstance(asked, str) else json.dumps(asked)
        body["vllm_xargs"] = {"regard": text}
    request = urllib.request.Request(
        f"{server}/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as reply:
        return json.load(reply)


def fetch(server: str, id: str, secret: str = SECRET, form: str = "") -> tuple[int, bytes]:
    request = urllib.request.Request(
        f"{server}/regard/{id}{form}", headers={"x-regard-secret": secret}
    )
    for _ in range(50):
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                if reply.status != 202:
                    return reply.status, reply.read()
                time.sleep(0.1)
        except urllib.error.HTTPError as error:
            return error.code, error.read()
    return 202, b""


def test_the_statistics_of_ones_own_tokens(
    server: str, eager: Callable[[tuple[int, ...]], Any]
) -> None:
    asked = {"secret": SECRET, "layers": "5,17", "top": 3, "statistics": ["entropy", "top"]}
    reply = complete(server, "The capital of France is", asked)
    status, body = fetch(server, reply["id"])
    assert status == 200
    (own,) = json.loads(body)["requests"]
    assert own["tokens"][:5] == ["The", " capital", " of", " France", " is"]
    assert own["generated"] == 11
    truth = eager(tuple(own["ids"]))
    assert [one["layer"] for one in own["layers"]] == [5, 17]
    for layer in own["layers"]:
        right = truth[layer["layer"]]
        entropy = -(right * np.log(np.maximum(right, 1e-30))).sum(-1)
        np.testing.assert_allclose(layer["entropy"], entropy, atol=BUDGET)
        heaviest = np.sort(right, -1)[..., ::-1][..., :3]
        np.testing.assert_allclose(layer["top_weights"], heaviest, atol=BUDGET)
        assert "received" not in layer


def test_a_recording_of_ones_own_request(
    server: str, worst_error: Callable[[Any, list[int]], float], tmp_path: Path
) -> None:
    reply = complete(server, STORY * 8, {"secret": SECRET}, max_tokens=70, ignore_eos=True)
    status, body = fetch(server, reply["id"], form="?as=recording")
    assert status == 200
    path = tmp_path / "mine.regard"
    path.write_bytes(body)
    with regard.open(path) as found:
        (prompt,) = found.prompts
        assert prompt.generated == 69
        assert worst_error(prompt, prompt.ids.tolist()) <= BUDGET
    subprocess.run([sys.executable, "-m", "regard", "verify", path], check=True)


def test_one_of_eight_at_once(server: str) -> None:
    """Who does not ask is not recorded, and gets the same text."""
    prompts = [f"{n} {STORY}" for n in range(8)]
    alone = complete(server, prompts[3])["choices"][0]["text"]
    with ThreadPoolExecutor(8) as pool:
        asked = [{"secret": SECRET, "layers": 2} if n == 3 else None for n in range(8)]
        replies = list(pool.map(complete, [server] * 8, prompts, asked))
    assert replies[3]["choices"][0]["text"] == alone
    found = [fetch(server, one["id"])[0] for one in replies]
    assert found == [200 if n == 3 else 404 for n in range(8)]


def test_nobody_else_can_read_it(server: str) -> None:
    reply = complete(server, "My password is", {"secret": SECRET, "layers": 0})
    wrong = fetch(server, reply["id"], secret="another secret, as long")
    unknown = fetch(server, "cmpl-nothing")
    assert wrong == unknown
    assert wrong[0] == 404
    assert fetch(server, reply["id"], secret="")[0] == 404
    assert fetch(server, reply["id"][:-1])[0] == 404
    assert fetch(server, "..%2f..%2fetc%2fpasswd")[0] == 404


def test_several_samples_and_prompts_are_one_answer(server: str) -> None:
    asked = {"secret": SECRET, "layers": 1, "statistics": ["peak"]}
    reply = complete(server, ["The cat", "The dog sat"], asked, n=2, temperature=0.8)
    own = json.loads(fetch(server, reply["id"])[1])["requests"]
    assert sorted(one["tokens"][1] for one in own) == [" cat", " cat", " dog", " dog"]


def test_limits_hold_and_the_server_goes_on(server: str) -> None:
    """Forty of a megabyte or more each, where 120 MB fit: the oldest are dropped."""
    ids = []
    for n in range(12):
        asked = {"secret": SECRET}
        ids.append(complete(server, STORY * 8 + str(n), asked, max_tokens=100)["id"])
    found = [fetch(server, id)[0] for id in ids]
    assert found[-1] == 200
    assert found[0] == 404
    assert complete(server, "The cat")["choices"][0]["text"]
