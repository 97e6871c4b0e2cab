"""The page's own reader of a self-contained file, against the recording: run by vitest."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from regard.mask import Causal, Window
from regard.recording import open
from regard.viewer import answers
from regard.viewer.carried import carried_recording
from regard.viewer.opened import Opened
from regard.views.encoding import as_json
from regard.views.profiles import Track, tracks_of
from regard.views.tiles import levels_of
from support.recordings import Chunk, on_disk

WEB = Path(__file__).parents[2] / "web"
VITEST = WEB / "node_modules" / ".bin" / "vitest"


def _rows(opened: Opened, label: str, numbers: Any) -> list[dict[str, Any]]:
    found = []
    for row in numbers:
        facts = answers.row_facts(opened, 0, label, row, 4)
        weights = np.frombuffer(answers.weights(opened, 0, label, row), "<f4")
        found.append({"row": row, "visible": facts["visible"], "weights": as_json(weights),
                      "top": facts["top"]})  # fmt: skip
    return found


def _tiles(opened: Opened, label: str, levels: dict[str, list[int]]) -> list[dict[str, Any]]:
    found, head_map = [], opened.head_map(0, label)
    for how in ("mean", "max"):
        for level in levels[how]:
            if level in levels_of(head_map.head, how):
                codes = head_map.tile(level, 0, 0, how).codes
                text = base64.b64encode(codes.tobytes()).decode()
                at = {"level": level, "y": 0, "x": 0}
                found.append({"at": at, "how": how, "codes": text})
    return found


def _between(track: Track, told: dict[str, Any]) -> Any:
    """The means of a track between the edges that a file has."""
    edges = np.arange(told["span"][0], told["span"][1] + 1) if told["span"] else told["edges"]
    lengths = np.diff(track.edges)
    sums = np.append(0.0, np.cumsum(track.mean * lengths))
    at = np.searchsorted(track.edges, edges)
    return as_json(np.diff(sums[at]) / np.diff(edges))


def _case(path: Path, name: str, heads: Any, limit: int) -> dict[str, Any]:
    """A payload, and what the server's answers say of what is in it."""
    with open(path) as recording:
        data, blobs = carried_recording(recording, heads=heads, limit=limit)
        facts = json.loads(zlib.decompress(blobs[0]))
        opened, told = Opened(recording), []
        for label, head in facts["heads"].items():
            sight = head["carried"]["sight"]
            lines = facts["sights"][sight] if sight is not None else {"span": None, "rows": []}
            rows = range(*lines["span"]) if lines["span"] else lines["rows"]
            told.append({
                "label": label, "shape": head["shape"],
                "rows": _rows(opened, label, list(rows)[:40]),
                "tiles": _tiles(opened, label, head["levels"]),
                "tracks": {name: told_track and _between(track, told_track) for (name, track),
                           told_track in zip(tracks_of(opened.head(0, label)).items(),
                                             head["tracks"].values(), strict=True)},
            })  # fmt: skip
        assert data["carries"]["form"] == name.split()[0], data["carries"]
        return {"name": name, "blobs": [base64.b64encode(one).decode() for one in blobs],
                "step": data["carries"]["step"], "heads": told,
                "labels": data["carries"]["heads"]}  # fmt: skip


def test_the_page_reads_what_python_wrote(tmp_path):
    words = [f"w{n % 50}" for n in range(600)]
    small = on_disk(tmp_path / "small.regard")
    gaps = [Chunk((0, 300), (0, 300), Causal() & (Window(40) | ~Window(200)))]
    holed = on_disk(tmp_path / "gaps.regard", words[:300], chunks=gaps, exact=(0, 1))
    longer = on_disk(tmp_path / "long.regard", words)
    cases = [
        _case(small, "exact weights", ["L0"], 2_000_000),
        _case(holed, "exact weights of a mask with gaps", ["L0H0"], 2_000_000),
        _case(holed, "rounded weights", "all", 500_000),
        _case(longer, "pooled maps", ["L0"], 220_000),
        _case(longer, "pooled maps, some of them stored", "all", 220_000),
    ]
    for case in cases:
        assert any(head["tiles"] for head in case["heads"]), case["name"]
        assert any(head["rows"] for head in case["heads"]), case["name"]
    file = tmp_path / "carried.json"
    file.write_text(json.dumps(cases))
    assert VITEST.exists(), "the page's tools are not installed; run make page"
    done = subprocess.run(
        [VITEST, "run", "tests/source"], cwd=WEB, capture_output=True, text=True,
        env=os.environ | {"REGARD_CARRIED": str(file), "NO_COLOR": "1"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout
