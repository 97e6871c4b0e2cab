"""A stand-in for the parts of vLLM 0.32 that regard's plug-in meets, with their names and shapes: a
scheduler's orders, either model runner, attention modules of each backend over one paged cache.

Its model has no weights: q, k and v of a token are drawn from its layer, its position and its id,
so that a token computed twice has the same ones, and `truth` needs no cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

HEADS, KEY_HEADS, DIM = 4, 2, 16
PAGE = 8  # tokens
PAGES = 64


def _numbers(layer: int, ids: list[int], start: int, heads: int, what: int) -> Tensor:
    """(tokens, heads, DIM)."""
    made = []
    for at, token in enumerate(ids, start):
        dice = torch.Generator().manual_seed(hash((layer, at, token, what)) % 2**31)
        made.append(torch.randn(heads, DIM, generator=dice))
    return torch.stack(made)


@dataclass(frozen=True)
class Rule:
    """What a layer's scores are made of, as vLLM's implementations have it."""

    window: int | None = None
    slopes: list[float] | None = None
    softcap: float | None = None
    sinks: Tensor | None = None


class Attention(nn.Module):
    """vLLM's module: by this name it is known."""

    def __init__(self, number: int, backend: str, rule: Rule, dtype: torch.dtype) -> None:
        super().__init__()
        self.number, self.rule = number, rule
        self.num_heads, self.num_kv_heads = HEADS, KEY_HEADS
        self.head_size = self.head_size_v = DIM
        self.attn_type, self.sliding_window = "decoder", rule.window
        self.attn_backend = SimpleNamespace(get_name=lambda: backend.partition("/")[0])
        self.kv_cache = make_cache(backend, dtype)
        if backend.startswith("CPU_ATTN"):
            self.isa = backend.partition("/")[2]
        self.impl = Implementation(self)

    def get_kv_cache_spec(self) -> Any:
        return SimpleNamespace(block_size=PAGE)


def make_cache(backend: str, dtype: torch.dtype) -> Tensor:
    """(pages, Hkv, size, 2 D); what was never written is NaN. `…/NHD` keeps tokens before heads,
    `…/small` has pages of half the size."""
    size, pages = (PAGE // 2, PAGES * 2) if backend.endswith("small") else (PAGE, PAGES)
    if backend.endswith("NHD"):
        return torch.full((pages, size, KEY_HEADS, 2 * DIM), torch.nan, dtype=dtype).transpose(1, 2)
    return torch.full((pages, KEY_HEADS, size, 2 * DIM), torch.nan, dtype=dtype)


class Implementation:
    """Writes keys and values by its backend's layout; its output is not of interest."""

    def __init__(self, module: Attention) -> None:
        rule = module.rule
        self.scale, self.logits_soft_cap = DIM**-0.5, rule.softcap or 0
        self.alibi_slopes = None if rule.slopes is None else torch.tensor(rule.slopes)
        self.sinks = rule.sinks
        self.calls = 0

    def forward(
        self, layer: Any, query: Tensor, key: Tensor, value: Tensor, kv_cache: Tensor,
        attn_metadata: Any, output: Tensor, output_scale: Any = None,
    ) -> Tensor:  # fmt: skip
        self.calls += 1
        if attn_metadata is not None:
            write(layer, kv_cache, attn_metadata, key, value)
            output.copy_(query)
        return output


def write(layer: Any, cache: Tensor, slots: Tensor, key: Tensor, value: Tensor) -> None:
    size = cache.shape[2]
    if hasattr(layer, "isa"):  # keys column by column, then values row by row
        flat = cache.view(*cache.shape[:2], -1)
        keys = flat[..., : size * DIM].view(*cache.shape[:2], DIM, size)
        values = flat[..., size * DIM :].view(*cache.shape[:2], size, DIM)
        keys[slots // size, :, :, slots % size] = key
        values[slots // size, :, slots % size] = value
    else:
        cache[slots // size, :, slots % size] = torch.cat([key, value], -1)


@dataclass
class Live:
    """A request as the scheduler knows it."""

    id: str
    prompt: list[int]
    total: int  # tokens it will have
    asked: str | None
    computed: int = 0
    pages: list[int] = field(default_factory=list)
    was_scheduled: bool = False

    @property
    def ids(self) -> list[int]:
        """The model writes 1000, 1001, … behind any prompt."""
        return [*self.prompt, *range(1000, 1000 + self.total - len(self.prompt))]

    @property
    def params(self) -> Any:
        extra = None if self.asked is None else {"regard": self.asked}
        wanted = self.total - len(self.prompt) + 1
        return SimpleNamespace(extra_args=extra, max_tokens=wanted)


class Engine:
    """Requests, pages and steps, ordered by the test."""

    def __init__(
        self,
        backend: str = "CPU_ATTN/vec",
        *,
        layers: int = 2,
        rules: Mapping[int, Rule] | None = None,
        runner: str = "first",
        dtype: torch.dtype = torch.float32,
        wrapper: type | None = None,
    ) -> None:
        from regard.vllm.worker import install

        self.rules = {n: (rules or {}).get(n, Rule()) for n in range(layers)}
        self.modules: dict[str, Any] = {
            f"model.layers.{n}.self_attn.attn": Attention(n, backend, rule, dtype)
            for n, rule in self.rules.items()
        }
        self.dtype, self.runner_kind = dtype, runner
        self.free = list(range(1, PAGES))
        self.live: dict[str, Live] = {}
        self.finished: set[str] = set()
        self.worker = wrapper_class() if wrapper is None else wrapper
        install(self.worker)
        self.wrapper = self.worker(self)

    # ── what the plug-in reads ───────────────────────────────────────────────────────────────

    @cached_property
    def config(self) -> Any:
        """VllmConfig."""
        return SimpleNamespace(
            compilation_config=SimpleNamespace(static_forward_context=self.modules),
            model_config=SimpleNamespace(
                max_model_len=512, model="stand-in", served_model_name="stand-in",
                skip_tokenizer_init=True,
                hf_config=SimpleNamespace(model_type="stand-in", num_hidden_layers=len(self.rules)),
            ),
            parallel_config=SimpleNamespace(world_size=1),
            speculative_config=None,
            device_config=SimpleNamespace(device_type="cpu"),
            additional_config={},
        )  # fmt: skip

    @cached_property
    def model_runner(self) -> Any:
        """GPUModelRunner, of either kind."""
        group = SimpleNamespace(
            layer_names=list(self.modules), kv_cache_spec=SimpleNamespace(block_size=PAGE)
        )
        made = SimpleNamespace(kv_cache_config=SimpleNamespace(kv_cache_groups=[group]))
        if self.runner_kind == "first":
            made.input_batch = SimpleNamespace(req_ids=[])
            made.input_ids = SimpleNamespace(gpu=torch.zeros(0, dtype=torch.int32))
        else:
            made.prepare_inputs = lambda order, ids: SimpleNamespace(req_ids=order, input_ids=ids)
        return made

    # ── what a test orders ───────────────────────────────────────────────────────────────────

    def add(self, id: str, prompt: list[int], total: int, asked: str | None = None) -> None:
        self.live[id] = Live(id, prompt, total, asked)

    def preempt(self, id: str) -> None:
        """Its pages are for others."""
        one = self.live[id]
        self.free += one.pages
        one.pages, one.computed = [], 0

    def end(self, id: str) -> None:
        """Finished or aborted."""
        self.free += self.live.pop(id).pages
        self.finished.add(id)

    def step(self, **counts: int) -> None:
        """So many tokens of each; a request has as many pages as it needs."""
        new, cached = [], {"ids": [], "resumed": set(), "blocks": [], "computed": []}
        for id, count in counts.items():
            one = self.live[id]
            begins = not one.pages
            wanted = -(-(one.computed + count) // PAGE) - len(one.pages)
            more = [self.free.pop(0) for _ in range(max(wanted, 0))]
            one.pages += more
            again = begins and one.was_scheduled
            if not one.was_scheduled or (again and self.runner_kind == "second"):
                new.append(self._new(one))
            else:
                cached["ids"].append(id)
                cached["computed"].append(one.computed)
                cached["blocks"].append((more,) if more else None)
                if again:
                    cached["resumed"].add(id)
            one.was_scheduled = True
        order = SimpleNamespace(
            scheduled_new_reqs=new,
            scheduled_cached_reqs=SimpleNamespace(
                req_ids=cached["ids"], resumed_req_ids=cached["resumed"],
                new_block_ids=cached["blocks"], num_computed_tokens=cached["computed"],
            ),
            num_scheduled_tokens=counts, finished_req_ids=self.finished,
        )  # fmt: skip
        self.finished = set()
        with torch.inference_mode():
            self.wrapper.execute_model(order)
        for id, count in counts.items():
            self.live[id].computed += count

    def _new(self, one: Live) -> Any:
        return SimpleNamespace(
            req_id=one.id, prompt_token_ids=one.prompt, sampling_params=one.params,
            block_ids=(list(one.pages),), num_computed_tokens=one.computed,
        )  # fmt: skip

    def run(self, order: Any) -> None:
        """A worker's execute_model: the runner has an order of its own."""
        counts = order.num_scheduled_tokens
        ids = sorted(counts, key=lambda id: (counts[id], id))
        parts = [self.live[id] for id in ids]
        spans = [(one.computed, one.computed + counts[one.id]) for one in parts]
        tokens = [n for one, (a, b) in zip(parts, spans, strict=True) for n in one.ids[a:b]]
        given = torch.tensor([*tokens, 0, 0], dtype=torch.int32)  # padded
        if self.runner_kind == "first":
            self.model_runner.input_batch.req_ids = ids
            self.model_runner.input_ids.gpu = given
        else:
            self.model_runner.prepare_inputs(ids, given)
        if not tokens:
            return
        slots = torch.tensor(
            [
                one.pages[at // PAGE] * PAGE + at % PAGE
                for one, span in zip(parts, spans, strict=True)
                for at in range(*span)
            ]
        )
        for module in self.modules.values():
            if isinstance(module, Attention):
                self._attend(module, parts, spans, slots)

    def _attend(self, module: Attention, parts: list[Live], spans: Any, slots: Tensor) -> None:
        drawn = [
            torch.cat([
                _numbers(module.number, one.ids[a:b], a, heads, what)
                for one, (a, b) in zip(parts, spans, strict=True)
            ]).to(self.dtype)
            for what, heads in enumerate((HEADS, KEY_HEADS, KEY_HEADS))
        ]  # fmt: skip
        output = torch.empty_like(drawn[0])
        module.impl.forward(module, *drawn, module.kv_cache, slots, output=output)

    def truth(self, layer: int, ids: list[int]) -> Tensor:
        """(HEADS, n, n): the weights, by the definition."""
        rule, n = self.rules[layer], len(ids)
        q, k = (
            _numbers(layer, ids, 0, heads, what).to(self.dtype).double().transpose(0, 1)
            for what, heads in enumerate((HEADS, KEY_HEADS))
        )
        score = q @ k.repeat_interleave(HEADS // KEY_HEADS, 0).mT * DIM**-0.5
        if rule.softcap:
            score = rule.softcap * torch.tanh(score / rule.softcap)
        ahead = torch.arange(n)[None] - torch.arange(n)[:, None]  # key − query
        if rule.slopes is not None:
            score = score + torch.tensor(rule.slopes).double()[:, None, None] * ahead
        hidden = ahead > 0
        if rule.window is not None:
            hidden = hidden | (ahead <= -rule.window)
        score = score.masked_fill(hidden, -torch.inf)
        if rule.sinks is not None:
            sink = rule.sinks.double()[:, None, None].expand(HEADS, n, 1)
            return torch.cat([score, sink], -1).softmax(-1)[..., :-1]
        return score.softmax(-1)


def wrapper_class() -> type:
    """vLLM's WorkerWrapperBase, new for each engine: the plug-in changes the class."""

    class WorkerWrapperBase:
        def __init__(self, engine: Engine) -> None:
            self.worker = SimpleNamespace(
                vllm_config=engine.config, model_runner=engine.model_runner,
                get_model=lambda: nn.Linear(1, 1), run=engine.run,
            )  # fmt: skip

        def execute_model(self, scheduler_output: Any) -> None:
            self.worker.run(scheduler_output)

    return WorkerWrapperBase


class LLM:
    """vllm.LLM: `generate` of requests by token ids, four tokens of each in a step."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._count = 0

        def add_request(request_id: str, prompt: list[int], params: Any) -> None:
            asked = (params.extra_args or {}).get("regard")
            total = len(prompt) + params.max_tokens - 1
            engine.add(f"{request_id}-0badcafe", prompt, total, asked)

        self.llm_engine = _Adding(add_request)

    def collective_rpc(self, method: str, args: tuple[Any, ...] = ()) -> list[Any]:
        return [getattr(self.engine.wrapper, method)(*args)]

    def generate(self, prompts: list[list[int]], tokens: int = 6) -> None:
        for prompt in prompts:
            params = SimpleNamespace(extra_args=None, max_tokens=tokens)
            self.llm_engine.add_request(str(self._count), prompt, params)
            self._count += 1
        while self.engine.live:
            left = {one.id: one.total - one.computed for one in self.engine.live.values()}
            self.engine.step(**{id: min(count, 4) for id, count in left.items()})
            for id in [id for id, one in self.engine.live.items() if one.computed == one.total]:
                self.engine.end(id)


class _Adding:
    def __init__(self, add: Callable[..., None]) -> None:
        self._add = add

    def add_request(self, request_id: str, prompt: Any, params: Any) -> None:
        self._add(request_id, prompt, params)


@contextmanager
def recording(engine: Engine, path: Any, **options: Any) -> Iterator[tuple[LLM, Any]]:
    """`regard.vllm.record` around a stand-in."""
    from regard.vllm import record

    llm = LLM(engine)
    with record(llm, path, **options) as rec:
        yield llm, rec
