"""Words over the latents of a model of diffusion, exactly those of eager weights."""

from __future__ import annotations

from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from diffusers.models.attention_processor import Attention, AttnProcessor

import regard
from denoisers import WORDS, denoiser
from regard.errors import InputError
from regard.study import word_maps
from regard.study.diffusion import enlarged

TIMES = (9, 3)


def steps(model, inputs):
    """Two steps, the second with other latents."""
    name = "sample" if "sample" in inputs else "hidden_states"
    with torch.no_grad():
        for when in TIMES:
            now = inputs["timestep"]
            time = torch.full_like(now, when) if isinstance(now, torch.Tensor) else when
            model(**inputs | {"timestep": time, name: inputs[name] * when / 9})


@contextmanager
def eager_scores(seen):
    """diffusers' own eager attention, whose weights (batch · heads, queries, keys) are kept."""
    real = Attention.get_attention_scores

    def kept(self, query, key, mask=None):
        found = real(self, query, key, mask)
        seen.append(found.reshape(-1, self.heads, *found.shape[1:]).double().numpy())
        return found

    with patch.object(Attention, "get_attention_scores", kept):
        yield


@contextmanager
def dense_scores(seen):
    """Torch's function written out."""

    def dense(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **more):
        weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1)
        seen.append(weights.double().numpy())
        return weights @ value

    with patch.object(F, "scaled_dot_product_attention", dense):
        yield


def mean_map(columns, size):
    """Columns (queries,) with their grids → the mean of the maps, enlarged by whole numbers."""
    maps = []
    for column, (high, wide) in columns:
        laid = column.reshape(high, wide)
        maps.append(np.kron(laid, np.ones((size[0] // high, size[1] // wide))))
    return np.mean(maps, 0)


GRIDS = {384: (16, 24), 96: (8, 12), 64: (8, 8)}


@pytest.mark.parametrize(("name", "size"), [("unet", (16, 24)), ("pixart", (16, 16))])
def test_maps_are_those_of_eager_weights(name, size):
    model, inputs = denoiser(name, batch=2)
    with regard.record(model) as rec:
        steps(model, inputs)
    seen = []
    model.set_attn_processor(AttnProcessor())
    with eager_scores(seen):
        steps(model, inputs)
    across = [one for one in seen if one.shape[-1] == WORDS]
    for token in (0, 4, -1):
        for sequence in (0, 1):
            columns = [(one[sequence, :, :, token].mean(0), GRIDS[one.shape[2]]) for one in across]
            right = mean_map(columns, size)
            found = word_maps(rec.recording, token, sequence=sequence)
            assert found.shape == size
            np.testing.assert_allclose(found, right, atol=2e-6)
            assert right.std() > 1e-4  # places differ, so that the comparison can fail
            half = len(columns) // 2
            second = word_maps(rec.recording, token, sequence=sequence, steps=[1])
            np.testing.assert_allclose(second, mean_map(columns[half:], size), atol=2e-6)
    total = sum(word_maps(rec.recording, n) for n in range(WORDS))
    np.testing.assert_allclose(total, np.ones(size), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "grid", "rows", "first"),
    [("sd3", (8, 6), slice(0, 48), 48), ("flux", (4, 6), slice(WORDS, None), 0)],
)
def test_text_and_latents_that_attend_together(name, grid, rows, first):
    model, inputs = denoiser(name)
    with regard.record(model) as rec:
        steps(model, inputs)
    seen = []
    with dense_scores(seen):
        steps(model, inputs)
    size = (16, 12) if name == "sd3" else grid
    columns = [(one[0, :, rows, first + 2].mean(0), grid) for one in seen]
    np.testing.assert_allclose(word_maps(rec.recording, 2), mean_map(columns, size), atol=2e-6)


@pytest.mark.parametrize("name", ["sd3", "flux"])
def test_the_words_are_where_they_are_said_to_be(name):
    """A change of one word changes the keys of its own position alone, in the first layer."""
    model, inputs = denoiser(name)
    other = dict(inputs) | {"encoder_hidden_states": inputs["encoder_hidden_states"].clone()}
    other["encoder_hidden_states"][:, 2] *= -1
    scores = []
    for given in (inputs, other):
        with regard.record(model) as rec, torch.no_grad():
            model(**given)
        scores.append(rec["L0H0"].scores[:, :])
    changed = np.flatnonzero(np.abs(scores[0] - scores[1]).max(0) > 1e-3)
    rows = np.abs(scores[0] - scores[1])
    at = next(at for at, part in rec["L0H0"].key_axis.starts() if part.kind == "text")
    assert at + 2 in changed
    untouched = np.delete(np.delete(rows, at + 2, 0), at + 2, 1)
    assert untouched.max() < 1e-4


def test_words_are_found_by_their_text():
    class Tokenizer:
        all_special_ids = ()
        words = ("<s>", "a", "cat", "on", "a", "sk", "ate")

        def decode(self, ids):
            return " ".join(self.words[n] for n in ids)

        def convert_ids_to_tokens(self, n):
            return self.words[n]

    model, inputs = denoiser("pixart")
    recorder = regard.record(model, tokenizer=Tokenizer())
    with recorder as rec:
        rec.steer(torch.arange(WORDS))
        steps(model, inputs)
    found = recorder.recording
    np.testing.assert_array_equal(word_maps(found, "Cat"), word_maps(found, 2))
    np.testing.assert_array_equal(word_maps(found, "a"), word_maps(found, 4))  # the last one
    both = word_maps(found, 5) + word_maps(found, 6)
    np.testing.assert_allclose(word_maps(found, "skate"), both, atol=1e-12)
    one = word_maps(found, "cat", places=["transformer_blocks.*.attn2.L1"])
    assert not np.allclose(one, word_maps(found, "cat"))
    with pytest.raises(InputError, match="the text has no word 'dog'"):
        word_maps(found, "dog")
    with pytest.raises(InputError, match="token 7: the text has 7 tokens"):
        word_maps(found, 7)


def test_what_has_no_text_says_so():
    model, inputs = denoiser("dit")
    with regard.record(model) as rec:
        steps(model, inputs)
    with pytest.raises(InputError, match="no attention from latents to a text was recorded"):
        word_maps(rec.recording, 0)
    model, inputs = denoiser("pixart")
    with regard.record(model) as rec:
        steps(model, inputs)
    with pytest.raises(InputError, match=r"call recorder\.steer"):
        word_maps(rec.recording, "cat")


def test_every_cell_covers_its_own_part():
    values = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert enlarged(values, (3, 4)).tolist() == [[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4]]
