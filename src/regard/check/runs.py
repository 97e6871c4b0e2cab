"""A model run on changed batches, and left as it was: weights, buffers, mode, hooks, generators."""

from __future__ import annotations

import copy
import inspect
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import keystr, tree_flatten_with_path

from regard.check.batch import GivenBatch
from regard.errors import InputError

EXACT = 1e-12  # of the scale: what right models stay below in double precision
CACHES = ("past_key_values", "cache_params", "cache")  # arguments that hold what was read before
_OUTPUTS = ("logits", "prediction_logits", "last_hidden_state")
_WRAPPERS = (nn.DataParallel, nn.parallel.DistributedDataParallel)


class KeepDouble(TorchFunctionMode):
    """Doubles stay doubles where a model asks for float32. Norms, rotary embeddings, routers and
    softmaxes do; what is rounded there would be taken for a leak, or hide one."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        first = args[0] if args else kwargs.get("input")
        if function is torch.Tensor.float and isinstance(first, Tensor) and not first.is_complex():
            return first if first.dtype == torch.float64 else first.double()
        if isinstance(first, Tensor) and first.dtype == torch.float64:
            if function in (torch.Tensor.to, torch.Tensor.type):
                args = (first, *(torch.float64 if x is torch.float32 else x for x in args[1:]))
            if kwargs.get("dtype") is torch.float32:
                kwargs = {**kwargs, "dtype": torch.float64}
        return function(*args, **kwargs)


def generators() -> Callable[[], None]:
    """What sets every generator back to the state that it has now."""
    own, of_python = torch.random.get_rng_state(), random.getstate()
    has_cuda = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    of_cuda = torch.cuda.get_rng_state_all() if has_cuda else []
    numpy = sys.modules.get("numpy")
    of_numpy = numpy.random.get_state() if numpy else None

    def restore() -> None:
        torch.random.set_rng_state(own)
        random.setstate(of_python)
        if of_cuda:
            torch.cuda.set_rng_state_all(of_cuda)
        if numpy:
            numpy.random.set_state(of_numpy)

    return restore


@contextmanager
def untouched(model: Any) -> Iterator[Callable[[], None]]:
    """Whatever runs within, also where it ends in an exception or Ctrl-C, leaves the model and the
    generators as they were."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    modules = [each for each in modules if not isinstance(each, torch.jit.ScriptModule)]
    kept = [(module, dict(vars(module)), dict(module._buffers)) for module in modules]
    restore = generators()
    try:
        with _buffers_kept(model):
            yield restore
    finally:
        restore()
        for module, attributes, own in kept:
            vars(module).clear()
            vars(module).update(attributes)
            module._buffers.clear()
            module._buffers.update(own)


@contextmanager
def _buffers_kept(model: Any) -> Iterator[None]:
    """Buffers have their numbers of before again, as those of batch norm in training."""
    every = model.buffers() if isinstance(model, nn.Module) else ()
    buffers = [(buffer, buffer.detach().clone()) for buffer in every]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                if not torch.equal(buffer, before):
                    buffer.copy_(before)


def plain(model: Any) -> Any:
    """The module itself, of one that is compiled or copied to many devices."""
    while isinstance(model, nn.Module):
        inner = getattr(model, "module" if isinstance(model, _WRAPPERS) else "_orig_mod", None)
        if inner is None:
            break
        model = inner
    return model


def is_shared(model: Any) -> bool:
    """Whether a wrapper sends its inputs or buffers to other devices."""
    return isinstance(model, nn.Module) and any(isinstance(m, _WRAPPERS) for m in model.modules())


def is_compiled(model: Any) -> bool:
    """As a whole, or any module in it."""
    return isinstance(model, nn.Module) and any(
        hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None
        for module in model.modules()
    )


def arguments(model: Any) -> list[str]:
    """Names that a module's forward takes; [] of another callable."""
    if not isinstance(model, nn.Module):
        return []
    forward = plain(model).forward
    if hasattr(forward, "schema"):  # of a script
        return [each.name for each in forward.schema.arguments[1:]]
    known = inspect.signature(forward).parameters.values()
    return [each.name for each in known if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]


def takes_names(model: Any, given: Any) -> bool:
    """Whether a mapping's entries are arguments of the model, rather than the mapping itself."""
    names = arguments(model)
    is_whole = len(names) == 1 and isinstance(given, Mapping) and names[0] not in given
    return isinstance(model, nn.Module) and isinstance(given, Mapping) and not is_whole


def cache_of(model: Any) -> str:
    """The argument that holds a cache, if there is one."""
    return next((name for name in CACHES if name in arguments(model)), "")


@dataclass(frozen=True, eq=False)
class Feed:
    """What a model is given: a batch, with embeddings times a factor, or in parts on a cache."""

    batch: GivenBatch
    factors: Tensor | None = None  # (B, L) of embeddings; 1 leaves one as it is
    sizes: tuple[int, ...] = ()  # of the parts


@dataclass
class Runner:
    """A model in one precision and mode."""

    model: Any
    restore: Callable[[], None]  # of generators
    exact: bool = False  # in double precision throughout
    training: bool = False
    compiled: bool = False  # in parts or as a whole
    switched: list[str] = field(default_factory=list)  # calls that changed the copy
    forwards: int = 0  # for rules of the whole model; those on a cache apart
    begins: str = "None"  # an empty cache, as Python
    hands: str = "cache"  # the cache that a call hands on, as Python
    embeds: list[str] = field(default_factory=list)  # modules that embed tokens, as seen
    output: Any = None  # of the last call
    pick: str = ""  # how its rows are taken from it
    ndim: int = 0  # of the tensor that holds them

    def rows(self, run: Feed, watched: Any = None) -> Tensor:
        """(B, L, F) of the output; of parts on a cache the last call alone is `watched`."""
        watched = watched or nullcontext()
        if run.sizes:
            return torch.cat(list(self._parts(run, watched)), 1)
        self.forwards += 1
        with self._embedding(run), watched:
            return self._called(run.batch)

    def stacked(self, runs: list[Feed]) -> Tensor:
        """(n, B, L, F) of runs of one shape, in one forward."""
        first, many = runs[0].batch, len(runs)
        batch = first.repeated(many) if many > 1 else first
        batch = batch.with_tokens(torch.cat([run.batch.tokens for run in runs]))
        if batch.key == "decoder_input_ids" and "input_ids" in batch.entries:
            source = torch.cat([run.batch.entries["input_ids"] for run in runs])
            batch = replace(batch, entries={**batch.entries, "input_ids": source})
        ones = torch.ones(first.shape, device=first.real.device)
        factors = torch.cat([ones if run.factors is None else run.factors for run in runs])
        is_scaled = any(run.factors is not None for run in runs)
        rows = self.rows(Feed(batch, factors if is_scaled else None))
        return rows.view(many, -1, *rows.shape[1:])

    def _called(self, batch: GivenBatch, **more: Any) -> Tensor:
        if isinstance(self.model, nn.Module):
            self.model.train(self.training)
        given = in_double(batch).given if self.exact else batch.given
        self.restore()
        with ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            if self.exact:
                stack.enter_context(KeepDouble())
            if self.training:
                stack.enter_context(_buffers_kept(self.model))
            if self.compiled and (self.exact or self.training):  # as it is in its own mode alone
                stack.enter_context(torch.compiler.set_stance("force_eager"))
            if takes_names(self.model, given):
                fixed = {"use_cache": False} if "use_cache" in arguments(self.model) else {}
                self.output = self.model(**{**fixed, **given, **more})
            else:
                self.output = self.model(given, **more)
        rows, self.pick, self.ndim = rows_of(self.output, *batch.shape)
        if rows is None:
            raise InputError(
                f"the model returns {type(self.output).__name__} without a tensor of "
                f"{batch.shape[0]} × {batch.shape[1]} rows"
            )
        return rows

    def _parts(self, run: Feed, watched: Any) -> Iterator[Tensor]:
        """The rows of one part after the other, on a cache that each hands on, as generate does."""
        name, text, start = cache_of(self.model), run.batch, 0
        uses = {"use_cache": True} if "use_cache" in arguments(self.model) else {}
        for size in run.sizes:
            stop = start + size
            part = text.part(0, start, stop)
            if part.key:
                without = (*CACHES, *(text.shows if start else ()))
                given = {n: x for n, x in part.entries.items() if n not in without}
                if text.positions and not text.shows:  # it counts those of pictures itself
                    given[text.positions] = torch.arange(start, stop).to(text.real.device)[None]
                if text.mask_name and name != "cache_params":  # state spaces take none later on
                    given[text.mask_name] = text.mask_of(text.real[:, :stop])
                part = replace(part, entries=given)
            with watched if stop == sum(run.sizes) else nullcontext():
                if start == 0:
                    rows, cache = self._begun(part, name, uses)
                else:
                    rows = self._called(part, **uses, **{name: cache})
                    cache = self._handed_on(name, cache)
            yield rows
            start = stop

    def _begun(self, part: GivenBatch, name: str, uses: dict[str, bool]) -> tuple[Tensor, Any]:
        """The rows of the first part, and the cache that holds it."""
        for begins, empty in self._empty_caches():
            self.begins = begins
            rows = self._called(part, **uses, **{name: empty})
            cache = self._handed_on(name, empty)
            if cache is not None:
                return rows, cache
        raise ValueError(f"it takes {name} and returns none")

    def _empty_caches(self) -> Iterator[tuple[str, Any]]:
        """As Python, and as they are: the model's, the one that it makes itself, and the one that
        transformers' generate makes."""
        if hasattr(self.model, "new_cache"):
            yield "twin.new_cache()", self.model.new_cache()
            return
        yield "None", None
        transformers = sys.modules.get("transformers")
        if transformers and isinstance(self.model, transformers.PreTrainedModel):
            config = self.model.config.get_text_config(decoder=True)
            yield (
                "transformers.DynamicCache(config=twin.config.get_text_config(decoder=True))",
                transformers.DynamicCache(config=config),
            )

    def _handed_on(self, name: str, given: Any) -> Any:
        """The cache that the last call returned, by its name or as what else a tuple holds; else
        the one that it was given."""
        output = self.output
        if isinstance(output, tuple) and not hasattr(output, name):
            others = [n for n in range(len(output)) if not self.pick.startswith(f"[{n}]")]
            known = {f"output[{n}]": output[n] for n in others if len(others) == 1}
        elif isinstance(output, Mapping):
            known = {f'output["{name}"]': output.get(name)}
        else:
            known = {f"output.{name}": getattr(output, name, None)}
        known["cache"] = given
        self.hands = next((words for words, cache in known.items() if cache is not None), "None")
        return known.get(self.hands)

    @contextmanager
    def _embedding(self, run: Feed) -> Iterator[None]:
        """What embeds the batch's ids gives scaled embeddings. Ids stay, and what is derived from
        them: masks and positions."""
        batch, factors = run.batch, run.factors

        def hook_of(name: str) -> Any:
            def embed(module: nn.Module, args: Any, output: Any) -> Any:
                ids = args[0] if args else None
                if not isinstance(ids, Tensor) or ids.numel() != batch.tokens.numel():
                    return None
                is_batch = torch.equal(ids.reshape(batch.tokens.shape), batch.tokens)
                if not is_batch or not _is_lookup(module, ids, output):
                    return None
                self.embeds = list(dict.fromkeys([*self.embeds, name]))
                if factors is None:
                    return None
                return _scaled(output.view(*batch.shape, -1), factors, batch.real).view_as(output)

            return embed

        with ExitStack() as stack:
            is_eager = self.exact or self.training or not self.compiled  # else compiled anew
            has_any = isinstance(self.model, nn.Module) and batch.are_ids and is_eager
            for name, module in self.model.named_modules() if has_any else ():
                if isinstance(module, nn.Embedding):
                    stack.callback(module.register_forward_hook(hook_of(name)).remove)
            yield


def _is_lookup(module: Any, ids: Tensor, output: Tensor) -> bool:
    """Whether an embedding gives the rows of these ids, times a number perhaps; those of positions
    may be given ids as well, for their shape."""
    if ids.max() >= len(module.weight):
        return False
    rows = nn.functional.embedding(ids, module.weight)
    if rows.shape != output.shape or not rows.any():
        return False
    times = float((output * rows).sum() / (rows * rows).sum())
    return times != 0 and torch.allclose(output, rows * times, rtol=0.1, atol=1e-3 * abs(times))


def _scaled(x: Tensor, factors: Tensor, real: Tensor) -> Tensor:
    """(B, L, D) embeddings times the factors of their positions; at padding, where they may be 0,
    those of a real token."""
    donor = x[torch.arange(len(x)), real.long().argmax(1)][:, None]
    changed = torch.where(real[..., None], x, donor) * factors[..., None].to(x)
    return torch.where((factors == 1)[..., None], x, changed)


def in_double(batch: GivenBatch) -> GivenBatch:
    """The same in double precision."""
    return replace(batch, entries={name: as_double(x) for name, x in batch.entries.items()})


def as_double(x: Any) -> Any:
    """Numbers with a point in double precision, whatever else as it is."""
    return x.double() if isinstance(x, Tensor) and x.is_floating_point() else x


def doubled(model: nn.Module) -> tuple[nn.Module, list[str]]:
    """A copy in double precision, and what is switched in it: implementations of attention and
    experts that refuse doubles."""
    twin, switched = copy.deepcopy(model), []
    has_experts = any("Experts" in type(module).__name__ for module in model.modules())
    if has_experts and callable(getattr(twin, "set_experts_implementation", None)):
        switched.append("set_experts_implementation('eager')")
        twin.set_experts_implementation("eager")  # type: ignore[operator]
    if any(kernel in implementation(model) for kernel in ("flash", "flex")):
        switched.append("set_attn_implementation('sdpa')")
        twin.set_attn_implementation("sdpa")  # type: ignore[operator]
    return twin.double(), switched


def implementation(model: Any) -> str:
    """Of attention, by transformers' name."""
    return str(getattr(getattr(plain(model), "config", None), "_attn_implementation", "") or "")


def rows_of(output: Any, count: int, length: int) -> tuple[Tensor | None, str, int]:
    """(B, L, F) rows of what a model returns, (B, 1, F) where it has others, or one a sequence; how
    they are taken from it, and the axes that they had."""
    named = is_dataclass(output) and not isinstance(output, Mapping)
    members = {f".{name}": x for name, x in vars(output).items()} if named else {"": output}
    leaves = [(f"{name}{keystr(path)}", x) for name, member in members.items()
              for path, x in tree_flatten_with_path(member)[0]]  # fmt: skip
    tensors = [(how, x) for how, x in leaves
               if isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex())]  # fmt: skip
    order = {name: n for n, name in enumerate(_OUTPUTS)}
    tensors.sort(key=lambda each: order.get(each[0].strip("[].'"), len(order)))
    for how, x in tensors:
        rows = as_rows(x, count, length)
        if rows is not None:
            real = torch.view_as_real(rows).flatten(2) if rows.is_complex() else rows
            return real, how, x.ndim
    tensors.sort(key=lambda each: each[1].shape == (count, count))  # every pair of sequences
    for how, x in tensors:
        if x.ndim > 1 and x.shape[0] == count:
            return x.reshape(count, 1, -1), how, x.ndim
    return None, "", 0


def as_rows(x: Tensor, count: int, length: int) -> Tensor | None:
    """(B, L, F) of a tensor with an axis of positions: (B, L, …), (B·L, …), (L, B, …), (B, H, L, d)
    or (B, D, L); else None."""
    shape = tuple(x.shape)
    if shape[:2] == (count, length) or (len(shape) > 1 and shape[0] == count * length):
        return x.reshape(count, length, -1)
    if len(shape) > 2 and shape[:2] == (length, count):
        return x.transpose(0, 1).reshape(count, length, -1)
    for axis in (2, 3) if shape[:1] == (count,) else ():
        if len(shape) > axis and shape[axis] == length:
            return x.movedim(axis, 1).reshape(count, length, -1)
    return None


def distance(rows: Tensor, others: Tensor, scale: float) -> Tensor:
    """(…) the largest difference of each row; 0 only where every bit is the same."""
    far = (rows.double() - others.double()).abs()
    same = (rows == others) | (rows.isnan() & others.isnan())
    far = torch.where(same, 0.0, far.nan_to_num(nan=float("inf")).clamp_min(1e-300))
    return far.amax(-1) / scale
