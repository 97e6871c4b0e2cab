"""vLLM's plug-in entry point (`vllm.general_plugins`), called in each of its processes.

Nothing changes for requests that do not ask: a worker looks at the parameters of each new request,
and its layers are hooked only while one that asked is running.
"""

from __future__ import annotations

import warnings
from functools import wraps
from typing import Any

from regard.errors import InputError, RegardWarning

TESTED = "0.32"  # of vLLM


def register() -> None:
    """Put regard into this process of vLLM."""
    from vllm.v1.request import Request
    from vllm.v1.worker.worker_base import WorkerWrapperBase

    import vllm
    from regard.vllm.worker import install

    check_version(str(vllm.__version__))
    install(WorkerWrapperBase)
    read_whole_prompts(Request)


def check_version(found: str) -> None:
    """Warn about a version that this was not tested with."""
    if found.split(".")[:2] != TESTED.split("."):
        warnings.warn(
            f"regard.vllm was tested with vLLM {TESTED}, and this is {found}: compare a recording "
            "with `regard.record` before you rely on it",
            RegardWarning,
            stacklevel=2,
        )


def read_whole_prompts(request: Any) -> None:
    """Requests that ask compute all their rows, unless they say `prefix_cache`: those of a cached
    prefix would be missing. `request` is vLLM's class of requests."""
    skips = request.get_skip_reading_prefix_cache
    if hasattr(skips, "__wrapped__"):
        return

    @wraps(skips)
    def get_skip_reading_prefix_cache(self: Any) -> bool:
        from regard.vllm.ask import Ask, asked_in

        asked = asked_in(self.sampling_params)
        if asked is None:
            return bool(skips(self))
        try:
            return bool(skips(self)) or not Ask.of(asked).prefix_cache
        except InputError:  # the worker says so to whoever fetches it
            return bool(skips(self))

    request.get_skip_reading_prefix_cache = get_skip_reading_prefix_cache
