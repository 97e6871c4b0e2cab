"""Arrays of numpy or torch, handled through what the two share; only tensors bring torch along."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard.errors import DTypeError, InputError, ShapeError

Array: TypeAlias = NDArray[np.float64]  # of the lesson, whose numbers are all doubles


def like(values: Any, index: Any) -> Any:
    """`values` in the array library (and on the device) of `index`."""
    return np.asarray(values) if isinstance(index, np.ndarray) else index.new_tensor(values)


def as_array(given: Any) -> Any:
    """An array as it is; numbers and lists as a numpy array. While torch traces, which knows no
    dtype of numpy's arrays, these are tensors."""
    if is_traced() and not _is_tensor(given):
        import torch

        return torch.as_tensor(given)
    return given if hasattr(given, "shape") and hasattr(given, "dtype") else np.asarray(given)


def is_traced() -> bool:
    """Whether torch.compile or torch.export traces this very line."""
    if "torch" not in sys.modules:
        return False
    import torch

    return torch.compiler.is_compiling()


def _is_tensor(given: Any) -> bool:
    import torch

    return isinstance(given, torch.Tensor)


def host(array: Any) -> Any:
    """The array as numpy sees it, fetched from wherever it lives."""
    return np.asarray(array.cpu() if hasattr(array, "cpu") else array)


def is_bool(array: Any) -> bool:
    """Whether the dtype is boolean, in either library."""
    return str(array.dtype).rpartition(".")[2] == "bool"


def is_integer(array: Any) -> bool:
    """Whether the dtype is a whole-number one, in either library."""
    return "int" in str(array.dtype)


def whole_numbers(given: Any, name: str) -> Any:
    """An array (…, tokens) of whole numbers."""
    array = as_array(given)
    if not is_integer(array):
        raise DTypeError(f"{name} has dtype {array.dtype}; give whole numbers")
    if array.ndim == 0:
        raise ShapeError(f"{name} is a single number; give one id per token")
    return array


def counts(given: Any, name: str) -> Any:
    """An array (*batch,) of whole numbers; one number is fine."""
    array = as_array(given)
    if not is_integer(array):
        raise DTypeError(f"{name} has dtype {array.dtype}; give a whole number")
    _refuse_negative(given, name)
    return array


def counts_or_flags(given: Any, name: str) -> Any:
    """Lengths (*batch,) or booleans (*batch, tokens)."""
    array = as_array(given)
    if is_bool(array) and array.ndim == 0:
        raise ShapeError(f"{name} is a single boolean; give one per token, or lengths")
    if not (is_bool(array) or is_integer(array)):
        raise DTypeError(f"{name} has dtype {array.dtype}; give lengths or booleans")
    _refuse_negative(given, name)
    return array


def _refuse_negative(given: Any, name: str) -> None:
    """Of Python's numbers alone: the values of an array may be on a device, or not there yet."""
    if isinstance(given, (list, tuple)):
        for one in given:
            _refuse_negative(one, name)
    elif type(given) is int and given < 0:
        raise InputError(f"{name} has {given}; give how many keys or queries, 0 or more")


def real(given: Any, index: Any) -> Any:
    """(*batch, len(index)): whether each token is real."""
    if is_bool(given):
        return given[..., index]
    return index < given[..., None]


def pick(array: Any, batch: tuple[int, ...], trailing: int) -> Any:
    """One batch entry of an array whose leading axes broadcast against the batch."""
    leading = max(array.ndim - trailing, 0)
    entry = batch[len(batch) - leading :]
    return array[tuple(0 if array.shape[n] == 1 else b for n, b in enumerate(entry))]


def check_broadcast(shape: Sequence[int], full: Sequence[int], name: str, axes: str) -> None:
    """Raise ShapeError unless `shape` broadcasts to `full`, whose axes are called `axes`."""
    missing = len(full) - len(shape)
    fits = missing >= 0
    if fits:  # while torch traces, sizes are symbols, which are in no tuple
        fits = not [n for n, f in zip(shape, full[missing:], strict=True) if not (n == 1 or n == f)]
    if not fits:
        raise ShapeError(
            f"{name} has shape {tuple(shape)}, which does not broadcast to {axes} = {tuple(full)}"
        )


def brief(value: Any) -> str:
    """An array by dtype and shape, a function by name, anything else by repr."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"<{str(value.dtype).rpartition('.')[2]} {tuple(value.shape)}>"
    name = getattr(value, "__qualname__", None)
    return f"<{name}>" if name is not None and callable(value) else repr(value)


# ── arithmetic that both libraries have, by one name ─────────────────────────────────────────


def library(array: Any) -> Any:
    """numpy for its arrays and numbers, torch for tensors."""
    if isinstance(array, (np.ndarray, np.generic)):
        return np
    import torch  # whose tensor this is, so it is loaded already

    return torch


def where(condition: Any, yes: Any, no: Any) -> Any:
    """Numbers among arrays take their dtype."""
    return library(condition).where(condition, yes, no)


def amax(array: Any) -> Any:
    """The largest along the last axis."""
    return library(array).amax(array, -1)


def softmax(array: Any) -> Any:
    """exp / Σ exp along the last axis."""
    if not isinstance(array, np.ndarray):
        return array.softmax(-1)
    e = np.exp(array - array.max(-1, keepdims=True, initial=-np.inf))
    return e / e.sum(-1, keepdims=True)


def logsumexp(array: Any) -> Any:
    """log Σ exp along the last axis."""
    if not isinstance(array, np.ndarray):
        return array.logsumexp(-1)
    peak = array.max(-1, initial=-np.inf)
    return peak + np.log(np.exp(array - peak[..., None]).sum(-1))


def repeated(array: Any, times: int, axis: int) -> Any:
    """Each entry of an axis so many times, side by side."""
    if isinstance(array, np.ndarray):
        return np.repeat(array, times, axis)
    return array.repeat_interleave(times, axis)


def cast(array: Any, to: Any) -> Any:
    """In the dtype of another."""
    if isinstance(array, np.ndarray):
        return array.astype(to.dtype, copy=False)
    return array.to(to.dtype)


def filled(alike: Any, shape: Sequence[int], value: float, whole: bool = False) -> Any:
    """A new array in the library and dtype (where `whole`, int64) and on the device of another."""
    if isinstance(alike, np.ndarray):
        return np.full(shape, value, np.int64 if whole else alike.dtype)
    return alike.new_full(shape, value, dtype=library(alike).int64 if whole else None)


def numbers(start: int, stop: int, alike: Any) -> Any:
    """start … stop − 1 as int64, in the library and on the device of another array."""
    if isinstance(alike, np.ndarray):
        return np.arange(start, stop)
    return library(alike).arange(start, stop, device=alike.device)


def here(array: Any, alike: Any) -> Any:
    """The array in the library, or on the device, of another."""
    return host(array) if isinstance(alike, np.ndarray) else array.to(alike.device)


def padded(array: Any, tile: tuple[int, ...]) -> Any:
    """(…, r, c) → (…, R, C), with 0 behind."""
    if tuple(array.shape[-len(tile) :]) == tile:
        return array
    shape = (*array.shape[: array.ndim - len(tile)], *tile)
    made: Any = filled(array, shape, 0)
    made[(..., *(slice(n) for n in array.shape[-len(tile) :]))] = array
    return made
