"""Which tests a run has.

    make test-fast   without the files of SLOW
    make test        every promise: n cases of a test that is marked `sampled(n)`, none of what is
                     marked `rest`, and the folders of RELEASED if what they test has changed
    make test-all    everything, as pytest alone does; then RELEASED.txt is written anew
    .ci/run          `make test`, and a seventh of what it leaves out: another one for each commit

Their names decide which cases are the n and which tests are a seventh, so that machines agree.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["RELEASED", "SLOW", "is_slow", "is_unchanged", "left_out", "write_released"]

# Chosen by measured time: files that take four seconds of a processor or more, and those that wait
# for processes, browsers, real models and whole families.
SLOW = (
    # a browser, scripts end to end, families of models
    "browser", "examples", "testing/test_every_family.py",
    # the shared matrix; kernels that are interpreted or compiled
    "each/test_brought.py", "each/test_definition.py", "each/test_empty.py",
    "each/test_gradients.py", "each/test_stranger.py",
    "engine/backends/gpu/hopper/test_kernel.py", "engine/backends/gpu/test_answers.py",
    "engine/backends/gpu/test_bits.py", "engine/backends/gpu/test_compiled.py",
    "engine/backends/gpu/test_decode.py", "engine/backends/gpu/test_divergence.py",
    "engine/backends/gpu/test_interpreter.py", "engine/backends/gpu/test_top.py",
    "engine/test_bits.py", "engine/test_compile.py",
    "engine/test_gradient_of_bias.py", "engine/test_lifetime.py",
    "engine/test_memory.py",
    "parallel/test_answers.py", "parallel/test_ring.py", "parallel/test_transport.py",
    "parallel/test_tree.py",
    # processes that are started, killed or timed
    "bench/test_browsers.py", "bench/test_parallel.py", "parallel/test_page.py",
    "cli/test_check.py", "cli/test_documents.py", "cli/test_learn.py",
    "cli/test_refusals.py", "cli/test_streams.py", "cli/test_plot.py", "cli/test_ranks.py",
    "cli/test_record.py", "cli/test_report.py", "cli/test_show.py", "cli/test_verify.py",
    "monitor/test_first_batch.py", "monitor/test_outputs.py", "monitor/test_ranks.py",
    "recorder/test_documents.py",
    "recorder/test_jobs.py", "recorder/test_sequences.py", "recorder/test_sound.py",
    "play/test_sound.py", "test_arrival.py",
    "test_web.py", "tools/test_dist.py", "tools/test_sanitize_gpu.py",
    "tools/test_site.py", "tools/test_tutorials.py",
    # many damaged files, many drawings, many exercises
    "learn/grading/test_causes.py", "learn/grading/test_formats.py",
    "learn/grading/test_hidden_steps.py", "plot/test_files.py",
    "plot/test_grids.py", "plot/test_maps.py", "plot/test_recorded.py", "plot/test_rows.py",
    "recording/test_head.py",
    "recording/test_damage.py", "recording/test_hostile_notes.py",
    "recording/test_interrupts.py",
    "test_state.py", "viewer/test_carried.py", "viewer/test_file_source.py",
    "views/test_tiles.py",
    # models that are compiled, trained or real, and many of them
    "check/test_forms.py", "check/test_given.py", "check/test_own_models.py",
    "check/test_planted.py", "check/test_ranks.py", "check/test_right.py",
    "huggingface/test_building.py", "huggingface/test_models.py",
    "intervene/test_effects.py", "intervene/test_knock.py",
    "nn/test_models.py", "nn/test_real_models.py",
    "study/test_heads.py",
    # every document, every name
    "house/test_blocks.py", "house/test_fresh.py",
)  # fmt: skip

_TESTS = Path(__file__).parent
_ROOT = _TESTS.parent
_PROVED = _TESTS / "RELEASED.txt"

# What is used when a release is made, written or measured, and the tests that need only run then.
RELEASED = {
    "tools": "tools",
    "bench": "bench",
    "examples": "examples",
    "docs": "tools/test_site.py",
    "docs/tutorials": "tools/test_tutorials.py",
}


def is_slow(path: Path) -> bool:
    """A file or a folder of the list, or a file below one."""
    return _is_below(path, SLOW)


def is_unchanged(path: Path, proved: dict[str, str] | None = None) -> bool:
    """Tests of RELEASED whose folder is as it was when they last passed, and they too."""
    proved = _proved() if proved is None else proved
    folders = [folder for folder, tests in RELEASED.items() if _is_below(path, (tests,))]
    return bool(folders) and all(proved.get(name) == _fingerprint(name) for name in folders)


def write_released() -> None:
    """Everything passed as it is now."""
    lines = [f"{_fingerprint(folder)} {folder}\n" for folder in RELEASED]
    _PROVED.write_text("".join(lines), encoding="utf-8")


def left_out(items: Iterable[Any], commit: str | None) -> list[Any]:
    """The tests that `make test` leaves out; with a commit's hash, less a seventh of them."""
    rest: list[Any] = []
    sampled: dict[str, list[Any]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("rest") or is_unchanged(item.path):
            rest.append(item)
        elif item.get_closest_marker("sampled"):
            sampled[item.nodeid.partition("[")[0]].append(item)
    for cases in sampled.values():
        (many,) = cases[0].get_closest_marker("sampled").args
        rest += sorted(cases, key=_number)[many:]
    if commit is not None:
        rest = [item for item in rest if _number(item) % 7 != int(commit, 16) % 7]
    return rest


def _number(item: Any) -> int:
    return zlib.crc32(item.nodeid.encode())


def _is_below(path: Path, names: Iterable[str]) -> bool:
    if not path.is_relative_to(_TESTS):
        return False
    inside = path.relative_to(_TESTS)
    return any(part.as_posix() in names for part in (inside, *inside.parents))


@cache
def _proved() -> dict[str, str]:
    if not _PROVED.is_file():
        return {}
    rows = (line.split() for line in _PROVED.read_text(encoding="utf-8").splitlines())
    return {folder: fingerprint for fingerprint, folder in rows}


@cache
def _fingerprint(folder: str) -> str:
    """Of a folder of RELEASED and its tests, with the names of their files."""
    seen = hashlib.sha256()
    for top in (_ROOT / folder, _TESTS / RELEASED[folder]):
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and path.suffix not in (".pyc", ".csv"):
                seen.update(path.relative_to(_ROOT).as_posix().encode() + b"\0")
                seen.update(path.read_bytes())
    return seen.hexdigest()[:16]
