"""A recording leaves the model as it was, and what was recorded is there however the block ends."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import regard
from recorder.models import tiny, tokens
from recorder.truth import agrees, eager
from regard.errors import FileError, InputError, UnavailableError
from regard.recorder import Recorder
from regard.recorder.prompt import Prompts

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


# ── the model is left as it was ──────────────────────────────────────────────────────────────


def test_outputs_are_those_without_recording() -> None:
    model, ids = tiny("llama", num_key_value_heads=2), tokens(50)
    with torch.no_grad():
        plain = model(ids).logits
        with regard.huggingface.using(model):
            ours = model(ids).logits
            written = model.generate(ids, max_new_tokens=6, do_sample=False)
        with regard.record(model):
            assert torch.equal(model(ids).logits, ours)  # recording changes no bit
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


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("disk_is_full", [False, True])
def test_an_error_inside_the_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], disk_is_full: bool
) -> None:
    """It is the one that is raised, the model is as before, and what was written can be read."""
    model, ids, path = tiny("llama"), tokens(300), tmp_path / "a.regard"
    with pytest.raises(error, match="first"), torch.no_grad(), regard.record(model, path):
        model(ids)
        if disk_is_full:
            monkeypatch.setattr(regard.recording.Writer, "close", _full)
        raise error("first")
    assert model.config._attn_implementation == "sdpa"
    with regard.open(path) as rec:
        assert not rec.prompts[0].finished and rec["L0H0"].shape == (300, 300)
        if error is KeyboardInterrupt:  # the prompt ends there
            agrees(rec["L1H3"], eager(model, input_ids=ids).attentions[1][0, 3], ids[0])


def test_a_disk_that_is_full_at_the_end_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny("llama")
    monkeypatch.setattr(regard.recording.Writer, "close", _full)
    with (
        pytest.raises(FileError, match="disk full"),
        torch.no_grad(),
        regard.record(model, tmp_path / "a.regard"),
    ):
        model(tokens(9))


def _full(_: Any) -> None:
    raise FileError("disk full")


# ── what is asked of a recorder ──────────────────────────────────────────────────────────────


def test_an_unfinished_recording_is_not_asked() -> None:
    model, recorder = tiny("llama"), regard.record(tiny("llama"))
    assert isinstance(recorder, Recorder)
    with pytest.raises(AttributeError):
        _ = recorder.__array_interface__
    for ask in (lambda: recorder.begun, recorder.finish):
        with pytest.raises(InputError, match="has not begun"):
            ask()
    recorder = regard.record(model)
    with torch.no_grad(), recorder as rec:
        model(tokens(9))
        for ask in (lambda: rec["L0H0"], lambda: rec.labels()):
            with pytest.raises(InputError, match="being made; ask after the with block"):
                ask()
        assert rec._repr_html_() is None
    assert "<" in rec._repr_html_() and rec["L0H0"].shape == (9, 9)
    with pytest.raises(InputError, match="used already"), recorder:
        pass


def test_facts_and_sayings_are_kept() -> None:
    model = tiny("llama")
    with torch.no_grad(), regard.record(model) as rec:
        rec.note(check={"rows": 3})
        model(tokens(9))
        rec.say(0, title="a title", bos="<s>")
        rec.say(7, title="of none")
    made = rec.recording
    assert made.check == {"rows": 3}
    assert (rec.prompts[0].title, rec.prompts[0].bos) == ("a title", "<s>")
    assert made.model["family"] == "llama" and made.model["layers"] == 2
    assert made.model["parameters"] == sum(p.numel() for p in model.parameters())
    assert made.plan["row_bin"] == 1
    assert set(made.made) == {"regard", "torch", "transformers", "date"}


# ── what cannot be recorded ──────────────────────────────────────────────────────────────────


def _nothing(_: Any) -> None:
    pass


def _beams(model: Any) -> None:
    model.generate(tokens(10), num_beams=3, max_new_tokens=4, eos_token_id=None)


def _on_meta() -> nn.Module:
    with torch.device("meta"):
        return tiny("llama")


@pytest.mark.parametrize(
    ("make", "run", "kind", "said"),
    [
        (lambda: nn.Linear(2, 2), _nothing, InputError, "no attention was heard"),
        (lambda: tiny("bloom", n_layer=1, n_head=2), _nothing, UnavailableError, "bloom"),
        (lambda: tiny("llama"), _beams, InputError, "num_beams=1"),
        (_on_meta, _nothing, InputError, "meta device"),
        (lambda: "llama", _nothing, InputError, r"model is a str; give a torch\.nn\.Module"),
    ],
)
def test_what_cannot_be_recorded_is_named_and_leaves_no_file(
    tmp_path: Path, make: Callable[[], Any], run: Callable[[Any], None], kind: Any, said: str
) -> None:
    model = make()
    with (
        pytest.raises(kind, match=said),
        torch.no_grad(),
        regard.record(model, tmp_path / "a.regard"),
    ):
        run(model)
    assert run is _beams or not list(tmp_path.iterdir())


def test_a_spent_budget_is_named_and_kept(tmp_path: Path) -> None:
    model, path = tiny("llama"), tmp_path / "a.regard"
    recorder = regard.record(model, path, budget="1MB")
    said = r"prompts took .* of the budget of 1.0 MB"
    with pytest.raises(InputError, match=said), torch.no_grad(), recorder:
        for seed in range(9):
            model(tokens(400, seed=seed))
    assert path.stat().st_size <= 1_000_000


# ── a GPU's host works on one attention while the next is computed ───────────────────────────


def everything(path: Path) -> dict[str, Any]:
    with regard.recording.Reader(path) as reader:
        tensors = {n: (str(e.metadata), reader.words(n)) for n, e in reader.entries.items()}
        files = {name: (facts, words.tobytes()) for name, (facts, words) in tensors.items()}
        return files | {"notes": {k: v for k, v in reader.metadata.items() if k != "made"}}


def test_what_is_entered_late_is_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks, single rows and two prompts, with bins of rows that they do not fill."""
    model, ids = tiny("llama"), tokens(90)
    edges = [0, 50, 81, *range(82, 90)]
    real = Prompts.take

    def run(path: Path) -> tuple[int, int]:
        with torch.no_grad(), regard.record(model, path, budget=130_000) as rec:
            for _ in range(2):
                cache = None
                for start, stop in itertools.pairwise(edges):
                    part = model(ids[:, start:stop], past_key_values=cache, use_cache=True)
                    cache = part.past_key_values
                rec.note(thought="between two prompts")
            with rec.so_far() as so_far:
                assert so_far["L0H0"].place.row_bin > 1
                return len(so_far.store.entries), rec.written_bytes

    said = run(tmp_path / "at once")
    monkeypatch.setattr(Prompts, "take", lambda *given, late: real(*given, late=True))
    assert run(tmp_path / "late") == said
    first, second = (everything(tmp_path / name) for name in ("at once", "late"))
    assert list(first) == list(second) and first == second
    path = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt), torch.no_grad(), regard.record(model, path):
        model(tokens(20))
        raise KeyboardInterrupt
    with regard.open(path) as rec:
        assert rec["L1H0"].shape == (20, 20) and rec["L1H0"].entropy().shape == (20,)
