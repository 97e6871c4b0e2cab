"""An object of a class, with weights large enough to tell mistakes apart, and their roles."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import numpy as np

from regard.learn.programs import probes
from regard.learn.programs.entry import COMPLETE, Target
from regard.learn.programs.names import parameter, part, role
from regard.learn.programs.recipe import Array

_SPELT: Final = {
    "embed": "embed_dim d_model dim n_embd hidden_size embed_size d_in emb_dim hidden_dim d_embed",
    "heads": "num_heads n_heads heads h n_head nhead num_attention_heads n_kv_heads num_kv_heads",
    "head_dim": "head_dim d_k head_size d_head",
    "max_len": "max_len block_size context_length seq_len max_seq_len max_length n_ctx",
    "dropout": "dropout dropout_p attn_dropout drop_rate attn_pdrop resid_pdrop p_drop",
    "bias": "bias qkv_bias use_bias",
    "d_out": "d_out out_dim",
}


@dataclass
class Sizes:
    """The sizes an object is built with."""

    embed: int
    heads: int
    dropout: float = 0.0
    flags: bool = True  # of what is not otherwise known


def build(target: Target, sizes: Sizes, module: ModuleType) -> Any:
    """The object; errors of its constructor come through."""
    single = "heads" not in target.build.values()
    values = {
        "embed": sizes.embed, "heads": sizes.heads, "max_len": probes.LONGEST,
        "d_out": probes.HEADS * probes.WIDTH if not single else probes.WIDTH,
        "head_dim": probes.WIDTH, "d_v": probes.VALUES if single else probes.WIDTH,
        "batch": probes.BATCH, "dropout": sizes.dropout, "training": False, "eval": True,
        "bias": True, "causal": True,
    }  # fmt: skip
    given: dict[str, Any] = {}
    defaults = inspect.signature(target.thing.__init__).parameters if target.build else {}
    for name, meant in target.build.items():
        kept = defaults[name].default is not inspect.Parameter.empty
        if kept and meant in ("bias", "causal", "training", "eval", "batch", "config"):
            continue
        if kept and meant == "dropout" and not isinstance(defaults[name].default, int | float):
            continue
        given[name] = _config(values, module) if meant == "config" else _value(meant, values)
    return target.thing(**given)


def _value(meant: str, values: dict[str, Any]) -> Any:
    if meant.startswith("w_"):
        width = probes.HEADS * probes.WIDTH
        return probes.numbers(width, width, seed=len(meant) + ord(meant[-1]), spread=0.5)
    return values.get(meant, True)


def _config(values: dict[str, Any], module: ModuleType) -> Any:
    """A dataclass of the file with our sizes in it, or a namespace with every spelling."""
    for thing in vars(module).values():
        if inspect.isclass(thing) and is_dataclass(thing):
            wanted = {one.name: role(one.name) for one in fields(thing)}
            sizes = {n: _value(r, values) for n, r in wanted.items() if r in values and r != "x"}
            return thing(**sizes)
    spelt = {word: values[meant] for meant, words in _SPELT.items() for word in words.split()}
    return _Config(**spelt)


class _Config(SimpleNamespace):
    """Read as config.dim and as config["dim"]."""

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self, name, default)


@dataclass
class Weights:
    """By role, (in, out); which head each belongs to is the order of its columns."""

    by_role: dict[str, Array]
    named: bool
    free: bool  # raw matrices, so that x W and x Wᵀ are both right
    per_head: int = 0


def prepared(thing: Any, kind: str) -> Weights:
    """Fill an object's weights with numbers that spread the scores, and name them by role."""
    if kind == "module":
        state = _torch_state(thing)
    else:
        state = [
            (name, value, False)
            for name, value in _held(vars(thing))
            if isinstance(value, np.ndarray) and value.dtype.kind == "f" and parameter(name)
        ]
        for at, (_, value, _) in enumerate(state):
            value[...] = _spread(value.shape, at)
    return _by_role(state)


def _held(attributes: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """An object's attributes, and what the dictionaries among them hold."""
    for name, value in attributes.items():
        yield from value.items() if isinstance(value, dict) else [(name, value)]


def of_globals(module: ModuleType) -> Weights:
    """The weights a file keeps beside its functions."""
    held = [
        (name, np.asarray(value, dtype=np.float64), False)
        for name, value in vars(module).items()
        if hasattr(value, "shape") and parameter(name)
    ]
    return _by_role(held)


def _spread(shape: tuple[int, ...], seed: int) -> Array:
    rows = shape[-1] if len(shape) > 1 else 4
    return probes.numbers(*shape, seed=20 + seed, spread=1.1 / rows**0.5)


def _torch_state(thing: Any) -> list[tuple[str, Array, bool]]:
    """(name, value, whether it is a Linear's), its numbers replaced."""
    import torch

    linear = {
        f"{name}.weight".lstrip(".")
        for name, one in thing.named_modules()
        if isinstance(one, torch.nn.Linear)
    }
    norms = [n for n, one in thing.named_modules() if "Norm" in type(one).__name__]
    state = []
    with torch.no_grad():
        for at, (name, value) in enumerate(thing.named_parameters()):
            if name.rpartition(".")[0] in norms:
                continue
            fresh = _spread(tuple(value.shape), at)
            value.copy_(torch.as_tensor(fresh, dtype=value.dtype))
            kept = value.detach().double().numpy()
            combined = "in_proj_weight" in name
            state.append((name, kept, name in linear or combined))
    return state


def _by_role(state: list[tuple[str, Array, bool]]) -> Weights:
    entries = [(part(name), name, value, linear) for name, value, linear in state]
    matrices = [one for one in entries if one[2].ndim > 1 and not one[0].startswith("b_")]
    known = {one[0] for one in matrices}
    named = any(known >= one for one in COMPLETE)
    if not named:
        entries = _in_order(entries)
    found: dict[str, list[Array]] = {}
    free = False
    for meant, _, value, linear in entries:
        if not meant:
            continue
        free |= value.ndim == 2 and not linear
        found.setdefault(meant, []).append(_flat(value, linear, meant))
    counts = {len(values) for meant, values in found.items() if meant in ("w_q", "w_k", "w_v")}
    heads = max(counts, default=0)
    joined = {m: v[0] if len(v) == 1 else np.concatenate(v, -1) for m, v in found.items()}
    return Weights(joined, named, free, heads if heads > 1 else 0)


def _flat(value: Array, linear: bool, meant: str) -> Array:
    """(in, out), whichever way a matrix or the matrices of all heads are laid out."""
    if linear:
        return value.T
    if value.ndim == 3 and meant == "w_o":  # (heads, d, out)
        return value.reshape(-1, value.shape[-1])
    if value.ndim == 3 and value.shape[0] == probes.HEADS:  # (heads, in, d)
        value = value.transpose(1, 0, 2)
    if value.ndim == 3 or (value.ndim == 2 and meant.startswith("b_")):  # (in, heads, d)
        return value.reshape(*value.shape[: value.ndim - 2], -1)
    return value


def _in_order(entries: list[tuple[str, str, Array, bool]]) -> list[tuple[str, str, Array, bool]]:
    """By order where names do not tell: Q's, K's and V's matrix, then the output's."""
    order = ["w_q", "w_k", "w_v", "w_o"]
    matrices = [one for one in entries if one[2].ndim > 1]
    if len(matrices) == 2 and max(matrices[0][2].shape) == 3 * min(matrices[0][2].shape):
        order = ["w_qkv", "w_o"]
    if len(matrices) == 1:
        order = ["w_qkv"]
    meant: dict[str, str] = {}
    for letter, (_, name, _, _) in zip(order, matrices, strict=False):
        meant[name.removesuffix("weight")] = letter
    renamed = []
    for _, name, value, linear in entries:
        stem = name.removesuffix("weight").removesuffix("bias")
        found = meant.get(name.removesuffix("weight")) or meant.get(stem, "")
        found = found.replace("w_", "b_") if value.ndim == 1 else found
        renamed.append((found, name, value, linear))
    return renamed
