"""What `make test-fast` (pytest --fast) leaves to the whole suite.

Chosen by measured time: files that take four seconds of a processor or more, and those that wait
for processes, browsers, real models and whole families. What is left runs in every folder of the
package; `tests/test_lanes.py` compares.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["SLOW", "is_slow"]

SLOW = (
    # a browser, scripts end to end, families of models
    "browser", "examples", "testing/families/test_sample.py", "testing/families/test_pool.py",
    # the shared matrix; kernels that are interpreted or compiled
    "each/test_brought.py", "each/test_definition.py", "each/test_gradients.py",
    "each/test_stranger.py",
    "engine/backends/gpu/hopper/test_kernel.py", "engine/backends/gpu/test_again.py",
    "engine/backends/gpu/test_backward.py", "engine/backends/gpu/test_interpreted.py",
    "engine/backends/gpu/test_prune.py", "engine/backends/gpu/test_room.py",
    "engine/backends/gpu/test_sweeps.py", "engine/backends/tiled/test_empty.py",
    "engine/test_bits.py", "engine/test_brought.py", "engine/test_compile.py",
    "engine/test_gradcheck.py", "engine/test_gradient_of_bias.py", "engine/test_lifetime.py",
    "engine/test_memory.py", "engine/test_some_queries.py",
    "parallel/test_ring.py", "parallel/test_ring_backward.py", "parallel/test_transport.py",
    "parallel/test_tree.py", "parallel/test_ulysses.py",
    # processes that are started, killed or timed
    "bench/test_page.py", "bench/test_parallel.py", "bench/test_play.py",
    "cli/test_check.py", "cli/test_documents.py", "cli/test_learn.py",
    "cli/test_main.py", "cli/test_odd_words.py", "cli/test_plot.py", "cli/test_ranks.py",
    "cli/test_record.py", "cli/test_report_causal.py", "cli/test_show.py", "cli/test_verify.py",
    "monitor/test_first_batch.py", "monitor/test_outputs.py", "monitor/test_sample.py",
    "recorder/test_documents.py",
    "recorder/test_jobs.py", "recorder/test_sequences.py", "recorder/test_sound.py",
    "play/test_sound.py", "test_arrival.py",
    "tools/test_dist.py", "tools/test_page_vectors.py", "tools/test_sanitize_gpu.py",
    "tools/test_site.py", "tools/test_tutorials.py",
    # many damaged files, many drawings, many exercises
    "learn/grading/test_causes.py", "learn/grading/test_formats.py",
    "learn/grading/test_hidden_steps.py", "mask/test_laws.py", "plot/test_files.py",
    "plot/test_grids.py", "plot/test_maps.py", "plot/test_rows.py", "recording/test_head.py",
    "recording/test_hostile.py", "recording/test_hostile_notes.py",
    "recording/test_interrupts.py", "recording/test_lies.py", "recording/test_replay.py",
    "test_state.py", "viewer/test_carried.py", "viewer/test_file_source.py",
    "views/test_tiles.py",
    # models that are compiled, trained or real, and many of them
    "check/test_forms.py", "check/test_given.py", "check/test_own_models.py",
    "check/test_planted.py", "check/test_ranks.py", "check/test_right.py",
    "huggingface/test_building.py", "huggingface/test_compile.py", "huggingface/test_masks.py",
    "intervene/test_copying.py", "intervene/test_evidence.py", "intervene/test_knock.py",
    "nn/test_language_model.py", "nn/test_loading.py", "nn/test_multi_head.py",
    "study/test_heads.py",
    # every document, every name
    "house/test_blocks.py", "house/test_documented.py", "house/test_exports.py",
    "house/test_names.py",
)  # fmt: skip

_TESTS = Path(__file__).parent


def is_slow(path: Path) -> bool:
    """A file or a folder of the list, or a file below one."""
    if not path.is_relative_to(_TESTS):
        return False
    inside = path.relative_to(_TESTS)
    return any(part.as_posix() in SLOW for part in (inside, *inside.parents))
