"""What is put into vLLM's worker: a look at every step's requests, and three answers to
`collective_rpc`: `regard_begin`, `regard_end`, `regard_fetch`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from regard.errors import RegardWarning
from regard.recorder.facts import first_notes, made_now
from regard.vllm.ask import asked_in
from regard.vllm.layers import served_model
from regard.vllm.observer import Observer
from regard.vllm.shelf import ClientLimits, FileShelf, MemoryShelf, in_words
from regard.vllm.step import Rows

_NAME = "_regard_observer"  # of a worker, once a request has asked


def install(wrapper: Any) -> None:
    """Into the class of vLLM's worker wrappers (WorkerWrapperBase); again: nothing happens."""
    if hasattr(wrapper, "regard_begin"):
        return
    execute = wrapper.execute_model

    @wraps(execute)
    def execute_model(self: Any, scheduler_output: Any) -> Any:
        observer = vars(self).get(_NAME)
        if observer is None or not observer.follows_any():
            new = scheduler_output.scheduled_new_reqs
            asking = any(asked_in(one.sampling_params) is not None for one in new)
            observer = _serving(self) if asking else None
        if observer is None:
            return execute(self, scheduler_output)
        with observer.step(scheduler_output):
            return execute(self, scheduler_output)

    wrapper.execute_model = execute_model
    for answer in (regard_begin, regard_end, regard_fetch):
        setattr(wrapper, answer.__name__, answer)


def _serving(wrapper: Any) -> Observer | None:
    """The observer; None, with a warning, where this vLLM is of another make than regard knows."""
    try:
        return observer_of(wrapper)
    except Exception as error:  # noqa: BLE001  the server goes on
        warnings.warn(f"regard records nothing: {in_words(error)}", RegardWarning, stacklevel=2)
        return None


def observer_of(wrapper: Any) -> Observer:
    """The observer of a worker, made when it is first needed: the model is loaded by then."""
    known = vars(wrapper)
    if _NAME not in known:
        known[_NAME] = _observer(wrapper.worker)
    return known[_NAME]


def _observer(worker: Any) -> Observer:
    config, runner = worker.vllm_config, worker.model_runner
    groups = runner.kv_cache_config.kv_cache_groups
    modules = config.compilation_config.static_forward_context
    model = served_model(
        modules, {name: n for n, group in enumerate(groups) for name in group.layer_names}
    )
    limits = ClientLimits.of((config.additional_config or {}).get("regard"))
    return Observer(
        model,
        tuple(group.kv_cache_spec.block_size for group in groups),
        config.model_config.max_model_len,
        Rows(runner).now,
        MemoryShelf(_notes(worker, dict(model.refused)), limits),
        cache(lambda: _tokenizer(config.model_config)),
        why_not(config),
    )


def why_not(config: Any) -> str:
    """Why a worker with this configuration records nothing; "" where it does."""
    parallel = config.parallel_config
    if parallel.world_size > 1:
        return (
            f"the model is split over {parallel.world_size} workers, and each has some heads or "
            "layers; serve it with tensor_parallel_size=1 and pipeline_parallel_size=1"
        )
    if config.speculative_config is not None:
        return "speculative decoding computes rows that are thrown away; serve it without"
    mode = getattr(config.compilation_config, "cudagraph_mode", None)
    whole = mode is not None and getattr(mode, "has_full_cudagraphs", lambda: False)()
    if whole and config.device_config.device_type != "cpu":
        return (
            "whole CUDA graphs run attention without Python; serve with --compilation-config "
            '\'{"cudagraph_mode": "PIECEWISE"}\' or --enforce-eager'
        )
    return ""


def _notes(worker: Any, refused: dict[str, str]) -> dict[str, str]:
    config = worker.vllm_config.model_config
    made: dict[str, Any] = {**made_now(), "vllm": _vllm_version()}
    if refused:
        made["not_recorded"] = list(refused)
    name = str(config.served_model_name or config.model)
    return first_notes(worker.get_model(), config.hf_config, name, made, counted=False)


def _vllm_version() -> str:
    import vllm

    return str(getattr(vllm, "__version__", "unknown"))


def _tokenizer(config: Any) -> Any:
    if config.skip_tokenizer_init:
        return None
    from vllm.tokenizers import cached_tokenizer_from_config

    return cached_tokenizer_from_config(config)


# ── answers; what cannot be done is told in words, since an error would end the worker ─────────


def _told(answer: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return answer()
    except Exception as error:  # noqa: BLE001  it is the caller's
        return {"error": in_words(error), "kind": type(error).__name__}


def regard_begin(self: Any, path: str, secret: str, budget: int, overwrite: bool) -> dict[str, Any]:
    """Requests with this secret are recorded in a new file."""

    def begin() -> dict[str, Any]:
        observer = observer_of(self)
        reason = why_not(self.worker.vllm_config) or observer.model.why_nothing
        if reason:
            return {"error": f"nothing can be recorded: {reason}", "kind": "InputError"}
        notes = _notes(self.worker, dict(observer.model.refused))
        observer.files[secret] = FileShelf(path, notes, budget, overwrite)
        return {"refused": dict(observer.model.refused)}

    return _told(begin)


def regard_end(self: Any, secret: str) -> dict[str, Any]:
    """The file is closed."""

    def end() -> dict[str, Any]:
        observer = observer_of(self)
        shelf = observer.files[secret]
        observer.finish(shelf)
        del observer.files[secret]
        path = shelf.close()
        return {
            "path": str(path), "delivered": shelf.delivered, "refused": shelf.refused,
            "failed": shelf.error,
        }  # fmt: skip

    return _told(end)


def regard_fetch(self: Any, request: str, secret: str) -> dict[str, Any]:
    """What became of a client's request: `MemoryShelf.fetch`."""
    return _told(lambda: observer_of(self).clients.fetch(request, secret))
