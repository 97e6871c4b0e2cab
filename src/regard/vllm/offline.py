"""`regard.vllm.record(llm, path)`: every request of an offline engine becomes a prompt of a
recording."""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from regard import errors, recording
from regard.display import as_html
from regard.errors import FileError, InputError, RegardWarning
from regard.recorder.plan import TOP, parse_budget
from regard.recording import Recording
from regard.vllm.ask import KEY, Ask


def record(
    llm: Any,
    path: str | os.PathLike[str],
    *,
    layers: Iterable[int] | int | str | None = None,
    heads: Iterable[int] | int | str | None = None,
    top: int = TOP,
    exact: bool = True,
    prefix_cache: bool = False,
    budget: str | int = "2GB",
    overwrite: bool = False,
) -> ServedRecorder:
    """Record the attention of every request of a vLLM engine inside the `with` block.

        with regard.vllm.record(llm, "run.regard") as rec:
            llm.generate(prompts, sampling_params)
        rec.prompt(0)["L5H1"].top(5)

    llm           vllm.LLM, of which regard's plug-in is part (it is installed beside vLLM)
    path          the file to write, on the machine of vLLM's worker
    layers        which layers, such as [0, 5] or "0,5-10"; all by default
    heads         which heads of each layer
    top           heaviest keys of each row
    exact         keep q and k of the layers that fit the budget, for exact zoom
    prefix_cache  let requests read the prefix cache: rows of a cached prefix are then missing, and
                  `received` counts the other queries alone
    budget        bytes of all requests together; those beyond it are not recorded, with a warning
    overwrite     replace an existing file

    Prompts are numbered in the order in which requests are first scheduled; with n > 1 each sample
    is one. The file holds every request that has finished, whatever happens afterwards.
    """
    ask = Ask(secrets.token_hex(16), _plain(layers), _plain(heads), top)
    ask = replace(ask, exact=exact, prefix_cache=prefix_cache)
    return ServedRecorder(llm, path, Ask.of(ask.to_text()), parse_budget(budget), overwrite)


def _plain(given: Iterable[int] | int | str | None) -> list[int] | int | str | None:
    """As JSON has it."""
    return given if given is None or isinstance(given, int | str) else list(given)


class ServedRecorder:
    """A recording in progress; after the block it can be used like the recording itself."""

    def __init__(
        self, llm: Any, path: str | os.PathLike[str], ask: Ask, budget: int, overwrite: bool
    ) -> None:
        if not hasattr(llm, "collective_rpc") or not hasattr(llm, "llm_engine"):
            raise InputError(f"llm is a {type(llm).__name__}; give a vllm.LLM")
        self._llm, self._path, self._ask = llm, Path(path).absolute(), ask
        self._budget, self._overwrite = budget, overwrite
        self._written: Path | None = None
        self._recording: Recording | None = None

    def __enter__(self) -> ServedRecorder:
        self._call("regard_begin", str(self._path), self._ask.secret, self._budget, self._overwrite)
        engine = self._llm.llm_engine
        add = engine.add_request

        def add_request(request_id: str, prompt: Any, params: Any, *args: Any, **more: Any) -> Any:
            return add(request_id, prompt, _asking(params, self._ask), *args, **more)

        engine.add_request = add_request
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        del self._llm.llm_engine.add_request
        try:
            told = self._call("regard_end", self._ask.secret)
        except Exception:
            if kind is not None:  # a worker that died told so already; the file has what finished
                return
            raise
        self._written = Path(told["path"])
        self._tell(told, quiet=kind is not None)

    def _tell(self, told: dict[str, Any], quiet: bool) -> None:
        """What was not recorded, and why; `quiet`: another error is on its way."""
        refused: dict[str, str] = told["refused"]
        if told["failed"]:
            if not quiet:
                raise FileError(
                    f"{told['failed']}; {told['delivered']} requests are in {told['path']}"
                )
        elif not told["delivered"] and not quiet:
            reason = next(iter(refused.values()), "no request ran inside the block")
            raise InputError(f"nothing was recorded: {reason}")
        elif refused:
            first, reason = next(iter(refused.items()))
            count = len(refused)
            warnings.warn(
                f"not recorded: {count} of {count + told['delivered']} requests; {first}: {reason}",
                RegardWarning,
                stacklevel=3,
            )

    def _call(self, method: str, *args: Any) -> dict[str, Any]:
        try:
            answers = self._llm.collective_rpc(method, args=args)
        except (AttributeError, NotImplementedError) as error:
            raise _no_plugin() from error
        told: dict[str, Any] = answers[0]
        if "error" in told:
            raise getattr(errors, told["kind"], errors.RegardError)(told["error"])
        return told

    # ── after the block ──────────────────────────────────────────────────────────────────────

    @property
    def recording(self) -> Recording:
        """The finished recording, open for reading."""
        if self._written is None:
            raise InputError("the recording is being made; ask after the with block")
        if self._recording is None:
            self._recording = recording.open(self._written)
        return self._recording

    def __getitem__(self, which: Any) -> Any:
        """A head of the first prompt: rec["L5H1"]."""
        return self.recording[which]

    def __getattr__(self, name: str) -> Any:
        """Everything else the finished recording answers."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.recording, name)

    def _repr_html_(self) -> str | None:
        return None if self._written is None else as_html(self.recording)


def _asking(params: Any, ask: Ask) -> Any:
    """SamplingParams that ask; those of pooling are left alone."""
    if not hasattr(params, "extra_args") or not hasattr(params, "max_tokens"):
        return params
    asking = copy(params)
    asking.extra_args = {**(params.extra_args or {}), KEY: ask.to_text()}
    return asking


def _no_plugin() -> InputError:
    return InputError(
        "vLLM's workers do not know regard; install regard[vllm] in vLLM's environment, and where "
        "VLLM_PLUGINS is set, name regard in it"
    )
