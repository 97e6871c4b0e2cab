"""Eight requests that vLLM serves at once, on its CPU backend: what being observed costs.

vllm          the plug-in taken out again
silent        the plug-in, and nobody asks
one of eight  one request asks for the statistics of every row, all layers
eight         all ask for them
everything    all are recorded in a file, with q and k
eager         transformers with eager attention and output_attentions: every weight of every step

Times are of one step, that is a token of each request, the prompts' share included. All run in one
process and take turns. Run it in the environment of `make test-vllm`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import regard
from regard.bench.results import Result, WrongResultError, timed
from regard.bench.timing import Samples, take_turns
from regard.errors import MissingExtraError

_REQUESTS, _PROMPT = 8, 32  # tokens a prompt
_PEER = "vllm"


@dataclass(frozen=True)
class _Served:
    """An engine in this process, and eight prompts for it."""

    llm: Any
    prompts: list[dict[str, list[int]]]
    tokens: int

    def write(self, asking: int, **asked: Any) -> list[list[int]]:
        """What the model writes; the first `asking` requests ask."""
        from regard.vllm.ask import KEY, Ask
        from vllm import SamplingParams

        usual = {"max_tokens": self.tokens, "temperature": 0, "ignore_eos": True}
        ask = {KEY: Ask("a secret of the bench", **asked).to_text()}
        params = [
            SamplingParams(**usual, extra_args=ask if n < asking else None)
            for n in range(len(self.prompts))
        ]
        outputs = self.llm.generate(self.prompts, params, use_tqdm=False)
        self.llm.llm_engine.step()  # in which the worker is told who has finished
        return [list(one.outputs[0].token_ids) for one in outputs]

    def bare(self) -> list[list[int]]:
        """Without the plug-in."""
        from vllm.v1.worker.worker_base import WorkerWrapperBase

        hooked = WorkerWrapperBase.execute_model
        WorkerWrapperBase.execute_model = hooked.__wrapped__
        try:
            return self.write(0)
        finally:
            WorkerWrapperBase.execute_model = hooked

    def recorded(self, folder: str) -> list[list[int]]:
        """Into a file."""
        with regard.vllm.record(self.llm, Path(folder) / "run.regard", overwrite=True):
            return self.write(0)


def measure(name: str, tokens: int, seconds: float = 2.0) -> list[Result]:
    """All write the same tokens, or nothing is timed."""
    served, model = _engine(name, tokens), _eager(name)
    with TemporaryDirectory() as folder:
        contenders: dict[str, Callable[[], list[list[int]]]] = {
            _PEER: served.bare,
            "silent": lambda: served.write(0),
            "one of eight": lambda: served.write(1, exact=False),
            "eight": lambda: served.write(_REQUESTS, exact=False),
            "everything": lambda: served.recorded(folder),
            "eager": lambda: _written(model, served),
        }
        _check(contenders)
        taken = take_turns(contenders, seconds=seconds, warm=False)
    return [_result(model.config, name, tokens, what, taken) for what in taken]


def _engine(name: str, tokens: int) -> _Served:
    os.environ |= {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
    }  # fmt: skip
    try:
        from vllm import LLM
    except ImportError:
        raise MissingExtraError("python -m bench vllm", "vllm", "vllm") from None
    from regard.models.fetch import folder

    llm = LLM(
        model=str(folder(name)), dtype="float32", enforce_eager=True, max_num_seqs=_REQUESTS,
        max_model_len=_PROMPT + tokens + 32, enable_prefix_caching=False,
    )  # fmt: skip
    prompts = [
        {"prompt_token_ids": [100 + 37 * n + 11 * i for i in range(_PROMPT)]}
        for n in range(_REQUESTS)
    ]
    return _Served(llm, prompts, tokens)


def _eager(name: str) -> Any:
    model = regard.models.load(name, attn_implementation="eager").model
    model.generation_config.eos_token_id = None
    return model


def _written(model: Any, served: _Served) -> list[list[int]]:
    import torch

    ids = torch.tensor([one["prompt_token_ids"] for one in served.prompts])
    with torch.inference_mode():
        found = model.generate(
            ids, attention_mask=torch.ones_like(ids), pad_token_id=0, do_sample=False,
            max_new_tokens=served.tokens, min_new_tokens=served.tokens, output_attentions=True,
            return_dict_in_generate=True,
        )  # fmt: skip
    written: list[list[int]] = found.sequences[:, ids.shape[1] :].tolist()
    return written


def _check(contenders: dict[str, Callable[[], list[list[int]]]]) -> None:
    right = contenders[_PEER]()
    for what, run in contenders.items():
        if run() != right:
            raise WrongResultError(f"{what} writes other tokens than {_PEER}; no time is reported")


def _result(config: Any, name: str, tokens: int, what: str, taken: dict[str, Samples]) -> Result:
    each = Samples([seconds / tokens for seconds in taken[what].seconds])
    return timed(
        each, 2, taken[what].ratio_to(taken[_PEER]), suite=f"vllm {name}", what=what,
        implementation="eager" if what == "eager" else "CPU_ATTN", tokens=tokens,
        dim=config.hidden_size, heads=config.num_attention_heads, causal=True, dtype="float32",
        peer=_PEER, batch=_REQUESTS,
    )  # fmt: skip
