"""A recording says what the model's attention did, and leaves the model as it was."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from recorder.models import Plain, Stack, tiny, tokens
from regard.errors import FileError, InputError
from regard.recorder.prompt import Prompts

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def eager(model: Any, **inputs: Any) -> list[np.ndarray]:
    """(B, H, L, S) of each layer, by transformers itself."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        found = model(**inputs, output_attentions=True).attentions
    model.set_attn_implementation(before)
    return [layer.float().numpy() for layer in found]


def by_distance(head: Any) -> dict[int, float]:
    """The offset profile, each distance by itself."""
    stored = head.stored["offsets"]
    return dict(zip(stored.edges[:-1].tolist(), stored.values.tolist(), strict=True))


# ── what is written is what happened ─────────────────────────────────────────────────────────


def test_every_weight_of_a_llama() -> None:
    model, ids = tiny("llama", num_key_value_heads=2), tokens(70)
    truth = eager(model, input_ids=ids)
    with torch.no_grad(), regard.record(model) as rec:
        model(ids)
    assert rec.stacks == {"": (2, 4)}
    for layer, head in ((0, 0), (0, 3), (1, 2)):
        h = rec[layer, head]
        assert h.exact and h.shape == (70, 70)
        np.testing.assert_allclose(np.asarray(h), truth[layer][0, head], atol=2e-6)
        np.testing.assert_allclose(h.received(), truth[layer][0, head].sum(0), atol=1e-5)
        p = truth[layer][0, head].astype(np.float64)
        entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(-1)
        np.testing.assert_allclose(h.entropy(), entropy, atol=1e-5)
        np.testing.assert_allclose(h.peak().weights, p.max(-1), atol=2e-6)


def test_matrices_are_float32() -> None:
    model = tiny("llama")
    with torch.no_grad(), regard.record(model) as rec:
        model(tokens(9))
    assert np.asarray(rec["L0H0"]).dtype == np.float32
    assert np.asarray(rec["L0H0"], dtype=np.float64).dtype == np.float64
    assert np.asarray(rec["L0H0"].stored["entropy"]).dtype == np.float32


def test_long_pieces_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.recorder import layer_writer

    model, ids = tiny("llama"), tokens(300)
    with torch.no_grad(), regard.record(model) as whole:
        model(ids)
    monkeypatch.setattr(layer_writer, "_LARGEST_PIECE", 64)
    with torch.no_grad(), regard.record(model) as rec:
        model(ids)
    assert sum(name.startswith("P0/L0/q/") for name in rec.recording.store.entries) == 5
    np.testing.assert_array_equal(np.asarray(rec["L0H1"]), np.asarray(whole["L0H1"]))
    np.testing.assert_array_equal(rec["L0H1"].entropy(), whole["L0H1"].entropy())


def test_marks_of_tokens() -> None:
    model = tiny("llama")
    ids = torch.tensor([[5, 7, 5, 7, 9, 5]])
    truth = eager(model, input_ids=ids)[1][0, 2]
    with torch.no_grad(), regard.record(model) as rec:
        model(ids)
    stored = rec["L1H2"].stored
    # the last 5 stands before copies at 0 and 2, which 1 and 3 followed
    np.testing.assert_allclose(stored["duplicate"].values[5], truth[5, [0, 2]].sum(), atol=1e-6)
    np.testing.assert_allclose(stored["prefix"].values[5], truth[5, [1, 3]].sum(), atol=1e-6)
    np.testing.assert_allclose(stored["first"].values, truth[:, 0], atol=1e-6)
    assert rec.prompts[0].ids.tolist() == ids[0].tolist()


@pytest.mark.parametrize("chunks", [(64, 64, 32), (100, 1, 1, 50, 8), (3, 157)])
@pytest.mark.parametrize("window", [None, 20])
def test_chunks_make_one_attention(chunks: tuple[int, ...], window: int | None) -> None:
    """Prefill in pieces and decoding add up to the same rows, sums and maps."""
    from transformers import DynamicCache

    if window is None:
        model = tiny("llama", num_key_value_heads=2)
    else:
        model = tiny("mistral", num_key_value_heads=2, sliding_window=window)
    ids = tokens(sum(chunks))
    truth = eager(model, input_ids=ids)
    cache, start = DynamicCache(config=model.config), 0
    with torch.no_grad(), regard.record(model) as rec:
        for count in chunks:
            model(ids[:, start : start + count], past_key_values=cache, use_cache=True)
            start += count
    with torch.no_grad(), regard.record(model) as whole:
        model(ids)
    assert len(rec.recording.prompts) == 1
    for label in ("L0H1", "L1H3"):
        layer, head = int(label[1]), int(label[3])
        part, once = rec[label], whole[label]
        np.testing.assert_allclose(np.asarray(part), truth[layer][0, head], atol=2e-6)
        for name in ("entropy", "duplicate", "prefix", "first", "peak", "lse", "output_norm"):
            np.testing.assert_allclose(
                part.stored[name].values, once.stored[name].values, atol=2e-5
            )
        np.testing.assert_allclose(part.received(), once.received(), atol=2e-5)
        np.testing.assert_allclose(
            part.stored["pooled"].values, once.stored["pooled"].values, atol=2e-6
        )
        mine, theirs = by_distance(part), by_distance(once)
        for distance in {*mine, *theirs}:
            assert abs(mine.get(distance, 0) - theirs.get(distance, 0)) < 2e-5
        np.testing.assert_array_equal(
            part.stored["top_keys"].values, once.stored["top_keys"].values
        )


def test_a_growing_cache_is_one_segment() -> None:
    model, ids = tiny("llama"), tokens(40)
    with torch.no_grad(), regard.record(model) as rec:
        model.generate(ids, max_new_tokens=9, do_sample=False, eos_token_id=None)
    place = rec["L0H0"].place
    assert len(place.segments) == 1
    assert place.queries == place.keys == 48  # the last token written is not read again
    assert len(rec.prompts) == 1


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_left_out(side: str) -> None:
    model = tiny("llama")
    one, two = tokens(30), tokens(18, seed=1)
    pad = torch.zeros(1, 12, dtype=torch.long)
    parts = [pad, two] if side == "left" else [two, pad]
    ids = torch.cat([one, torch.cat(parts, 1)])
    mask = (ids != 0).long()
    position = (mask.cumsum(-1) - 1).clamp(min=0)
    with torch.no_grad(), regard.record(model) as rec:
        model(ids, attention_mask=mask, position_ids=position)
    assert [len(p.ids) for p in rec.recording.prompts] == [30, 18]
    for number, alone in enumerate((one, two)):
        truth = eager(model, input_ids=alone)
        head = rec.recording.prompts[number]["L1H1"]
        np.testing.assert_allclose(np.asarray(head), truth[1][0, 1], atol=2e-6)
        np.testing.assert_allclose(head.received(), truth[1][0, 1].sum(0), atol=1e-5)
        assert head.stored["pooled"].values.shape == (2, 2)


def test_several_prompts_follow_each_other() -> None:
    model = tiny("llama")
    with torch.no_grad(), regard.record(model) as rec:
        model(tokens(10))
        model(tokens(20, seed=3))
    assert [len(p.ids) for p in rec.recording.prompts] == [10, 20]
    assert rec.recording.prompts[1]["L0H0"].shape == (20, 20)


def test_an_encoder_sees_both_ways() -> None:
    model, ids = tiny("bert"), tokens(33)
    truth = eager(model, input_ids=ids)
    with torch.no_grad(), regard.record(model) as rec:
        model(ids)
    np.testing.assert_allclose(np.asarray(rec["L1H3"]), truth[1][0, 3], atol=2e-6)
    profile = rec["L1H3"].offsets()
    np.testing.assert_allclose(profile[32], np.trace(truth[1][0, 3]), atol=1e-5)


def test_an_encoder_decoder_has_three_stacks() -> None:
    options = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    model, ids = tiny("t5", decoder_start_token_id=0, **options), tokens(21)
    with torch.no_grad(), regard.record(model) as rec:
        model.generate(ids, max_new_tokens=5, do_sample=False, num_beams=1, eos_token_id=None)
    assert rec.stacks == {"encoder": (2, 4), "decoder": (2, 4), "cross": (2, 4)}
    assert rec["encoder.L1H0"].shape == (21, 21)
    cross = rec["cross.L1H2"]
    assert cross.shape == (5, 21)
    np.testing.assert_allclose(np.asarray(cross).sum(-1), 1, atol=1e-5)
    assert len(cross.key_tokens) == 21 and len(cross.query_tokens) == 5


def test_layers_of_our_own() -> None:
    model, x = Stack(), torch.randn(2, 40, 32)
    with torch.no_grad():
        plain = model(x)
        with regard.record(model) as rec:
            assert torch.equal(model(x), plain)
        a = model.layers[0].look(x, mask=regard.Causal())
    for number in range(2):
        found = rec.recording.prompts[number]["L0H3"]
        np.testing.assert_allclose(np.asarray(found), a[number, 3].numpy(), atol=1e-6)
    assert rec["L0H0"].place.name == "layers.0"


def test_modules_around_torchs_function() -> None:
    model, x = Plain().eval(), torch.randn(1, 40, 32)
    with torch.no_grad():
        plain = model(x)
        with regard.record(model) as rec:
            assert torch.equal(model(x), plain)  # torch's own output, bit for bit
    assert rec.stacks == {"": (3, 4)}
    assert rec["L2H0"].place.name == "blocks.2"
    weights = np.asarray(rec["L2H0"])
    assert (np.triu(weights, 1) == 0).all()
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


def test_half_precision_is_kept_as_it_was() -> None:
    model, ids = tiny("llama").to(torch.bfloat16), tokens(30)
    with torch.no_grad(), regard.record(model) as rec:
        a = None
        model(ids)
    assert rec["L0H0"].exact
    with torch.no_grad(), regard.huggingface.using(model):
        a = model(ids, output_attentions=True).attentions[0]
    np.testing.assert_allclose(np.asarray(rec["L0H1"]), a[0, 1].float().numpy(), atol=1e-6)


# ── the model is left as it was ──────────────────────────────────────────────────────────────


def test_outputs_are_those_without_recording() -> None:
    model, ids = tiny("llama", num_key_value_heads=2), tokens(50)
    with torch.no_grad():
        plain = model(ids).logits
        with regard.huggingface.using(model):
            ours = model(ids).logits
            written = model.generate(ids, max_new_tokens=6, do_sample=False)
        with regard.record(model):
            assert torch.equal(model(ids).logits, ours)  # listening changes no bit
            assert torch.equal(model.generate(ids, max_new_tokens=6, do_sample=False), written)
    assert (ours - plain).abs().max() < 1e-5
    assert model.config._attn_implementation == "sdpa"
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_gradients_flow_through_a_recording() -> None:
    model, ids = tiny("llama"), tokens(20)
    model.train()
    model.gradient_checkpointing_enable()
    with regard.record(model) as rec:
        model(ids, labels=ids).loss.backward()
    grads = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(ids, labels=ids).loss.backward()
    for mine, theirs in zip(grads, model.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs.grad, atol=1e-5, rtol=1e-4)
    assert len(rec.recording.prompts) == 1  # computed again for the gradient, recorded once
    assert rec["L0H0"].place.queries == 20


def test_an_error_inside_the_block_restores_the_model(tmp_path: Path) -> None:
    model = tiny("llama")
    recorder = regard.record(model, tmp_path / "a.regard")
    with pytest.raises(RuntimeError, match="on purpose"), torch.no_grad(), recorder:
        model(tokens(300))
        raise RuntimeError("on purpose")
    assert model.config._attn_implementation == "sdpa"
    with regard.open(tmp_path / "a.regard") as rec:  # what was written is there
        assert rec["L0H0"].shape == (300, 300)
        assert not rec.prompts[0].finished


# ── choices and budgets ──────────────────────────────────────────────────────────────────────


def test_some_layers_and_heads() -> None:
    model, ids = tiny("llama", num_hidden_layers=4, num_key_value_heads=2), tokens(30)
    truth = eager(model, input_ids=ids)
    with torch.no_grad(), regard.record(model, layers=[1, 3], heads="2-3") as rec:
        model(ids)
    assert sorted(rec.labels()) == ["L1H2", "L1H3", "L3H2", "L3H3"]
    np.testing.assert_allclose(np.asarray(rec["L3H2"]), truth[3][0, 2], atol=2e-6)


@pytest.mark.parametrize("given", ["20:30", slice(20, 30), range(20, 30)])
def test_some_queries(given: Any) -> None:
    model, ids = tiny("llama"), tokens(50)
    truth = eager(model, input_ids=ids)[1][0, 1]
    with torch.no_grad(), regard.record(model, queries=given) as rec:
        model(ids)
    head = rec["L1H1"]
    assert head.place.rows == (20, 30)
    np.testing.assert_allclose(head.rows(range(20, 30)), truth[20:30], atol=2e-6)
    np.testing.assert_allclose(head.received(), truth[20:30].sum(0), atol=1e-5)
    with pytest.raises(InputError, match="20"):
        head.rows(5)


def test_the_last_queries() -> None:
    model, ids = tiny("llama"), tokens(50)
    with torch.no_grad(), regard.record(model, queries=4) as rec:
        model(ids)
    assert rec["L0H0"].place.rows == (46, 50)


def test_a_small_budget_keeps_statistics_of_all_heads(tmp_path: Path) -> None:
    model, ids = tiny("llama", num_hidden_layers=6), tokens(600)
    sizes = {}
    for budget in ("2GB", "2MB", "700kB", "250kB"):
        path = tmp_path / f"{budget}.regard"
        with torch.no_grad(), regard.record(model, path, budget=budget) as rec:
            model(ids)
        sizes[budget] = path.stat().st_size
        assert rec.grid("non_sink").shape == (6, 4)
        assert np.isfinite(rec.grid("entropy")).all()
        with torch.no_grad(), regard.record(model) as full:
            model(ids)
        for stat in ("entropy", "peak", "duplicate", "first", "previous"):
            np.testing.assert_allclose(rec.grid(stat), full.grid(stat), atol=1e-4, err_msg=stat)
    assert sizes["2MB"] <= 2.0e6 and sizes["700kB"] <= 0.7e6
    with pytest.raises(regard.errors.UnavailableError, match="budget"):
        rec["L0H0"][5, 3]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"layers": [7]}, r"layer 7 does not exist; this model has 0–1"),
        ({"heads": [9]}, r"head 9 does not exist; this model has 0–3"),
        ({"budget": "1kB"}, r"too small for anything"),
    ],
)
def test_what_cannot_be_had(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    model = tiny("llama")
    path = tmp_path / "a.regard"
    recorder = regard.record(model, path, **options)
    with pytest.raises(InputError, match=said), torch.no_grad(), recorder:
        model(tokens(10))
    assert not path.exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"layers": "x"}, "0,5-10"),
        ({"layers": [-1]}, "whole numbers"),
        ({"heads": []}, "whole numbers"),
        ({"queries": "9:3"}, "range of rows"),
        ({"queries": 0}, "last n"),
        ({"budget": "much"}, "such as '2GB'"),
        ({"budget": 0}, "more than nothing"),
    ],
)
def test_wrong_words(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        regard.record(tiny("llama"), **options)


def test_nothing_heard_is_said_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "a.regard"
    recorder = regard.record(torch.nn.Linear(2, 2), path)
    with pytest.raises(InputError, match="no attention was heard"), recorder:
        pass
    assert not path.exists()


def test_a_family_that_does_not_dispatch_is_named() -> None:
    model = tiny("bloom", n_layer=1, n_head=2)
    with pytest.raises(regard.errors.UnavailableError, match="bloom"), regard.record(model):
        pass


def test_beams_are_refused() -> None:
    model = tiny("llama")
    with pytest.raises(InputError, match="num_beams=1"), torch.no_grad(), regard.record(model):
        model.generate(tokens(10), num_beams=3, max_new_tokens=4, eos_token_id=None)


def test_a_recorder_is_used_once() -> None:
    model = tiny("llama")
    recorder = regard.record(model)
    with pytest.raises(InputError, match="has not begun"):
        recorder.finish()
    with torch.no_grad(), recorder:
        model(tokens(9))
    with pytest.raises(InputError, match="used already"), recorder:
        pass
    assert recorder["L0H0"].shape == (9, 9)


def test_a_model_without_weights_is_refused() -> None:
    with torch.device("meta"):
        model = tiny("llama")
    with pytest.raises(InputError, match="meta device"), regard.record(model):
        pass


def test_a_spent_budget_is_named_and_kept(tmp_path: Path) -> None:
    model, path = tiny("llama"), tmp_path / "a.regard"
    recorder = regard.record(model, path, budget="1MB")
    said = r"prompts took .* of the budget of 1.0 MB"
    with pytest.raises(InputError, match=said), torch.no_grad(), recorder:
        for seed in range(9):
            model(tokens(400, seed=seed))
    assert path.stat().st_size <= 1_000_000


def test_the_first_error_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.recording import Writer

    def close(_: Writer) -> None:
        raise FileError("disk full")

    model = tiny("llama")
    monkeypatch.setattr(Writer, "close", close)
    with pytest.raises(ValueError, match="first"), regard.record(model, tmp_path / "a.regard"):
        raise ValueError("first")
    assert model.config._attn_implementation == "sdpa"


def test_tokens_written_one_by_one_share_pieces() -> None:
    model = tiny("llama")
    with torch.no_grad(), regard.record(model) as rec:
        out = model.generate(tokens(10), max_new_tokens=30, do_sample=False, eos_token_id=None)
    assert rec.prompts[0].ids.tolist() == out[0, :-1].tolist()
    assert sum(name.startswith("P0/tokens/ids") for name in rec.recording.store.entries) == 2


# ── a GPU's host works on one attention while the next is computed ───────────────────────────


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From then on every page is entered late, as if it came from a GPU."""
    real = Prompts.take

    def take(self: Prompts, *given: Any, late: bool) -> None:
        real(self, *given, late=True)

    return lambda: monkeypatch.setattr(Prompts, "take", take)


def everything(path: Path) -> dict[str, Any]:
    with regard.recording.Reader(path) as reader:
        tensors = {n: (str(e.metadata), reader.words(n)) for n, e in reader.entries.items()}
        found = {name: (facts, words.tobytes()) for name, (facts, words) in tensors.items()}
        return found | {"notes": {k: v for k, v in reader.metadata.items() if k != "made"}}


def test_what_is_entered_late_is_the_same_file(late: Callable[[], None], tmp_path: Path) -> None:
    """Chunks, single rows and two prompts, with bins of rows that they do not fill."""
    model, ids = tiny("llama"), tokens(90)
    edges = [0, 50, 81, *range(82, 90)]

    def run(path: Path) -> tuple[int, int]:
        with torch.no_grad(), regard.record(model, path, budget=130_000) as rec:
            for _ in range(2):
                cache = None
                for start, stop in itertools.pairwise(edges):
                    part = model(ids[:, start:stop], past_key_values=cache, use_cache=True)
                    cache = part.past_key_values
                rec.note(thought="between two prompts")
            with rec.so_far() as found:
                assert found["L0H0"].place.row_bin > 1
                return len(found.store.entries), rec.written_bytes

    said = run(tmp_path / "at once")
    late()
    assert run(tmp_path / "late") == said
    first, second = (everything(tmp_path / name) for name in ("at once", "late"))
    assert list(first) == list(second) and first == second


def test_ctrl_c_keeps_what_was_heard_last(late: Callable[[], None], tmp_path: Path) -> None:
    model, path = tiny("llama"), tmp_path / "a.regard"
    late()
    with pytest.raises(KeyboardInterrupt), torch.no_grad(), regard.record(model, path):
        model(tokens(20))
        raise KeyboardInterrupt
    with regard.open(path) as found:
        assert found["L1H0"].shape == (20, 20) and found["L1H0"].entropy().shape == (20,)
