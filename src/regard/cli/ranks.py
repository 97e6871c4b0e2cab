"""`torchrun … -m regard record`: one long prompt over several processes, a folder of files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import typer

from regard.cli.terminal import again, show_lines, status, write, write_json
from regard.errors import FileError, InputError, RegardError

if TYPE_CHECKING:
    from regard.models import Loaded
    from regard.recorder.over_ranks import Reading
    from regard.recorder.shards import ModelSpec
    from regard.recorder.tokens import Encoded
    from regard.recording import Recording

_PATIENCE = timedelta(minutes=30)  # that a rank waits for another, layer by layer

_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this one is."""

    rank: int
    world: int
    local: int  # on this machine

    @classmethod
    def here(cls) -> Ranks | None:
        """As torchrun (or whoever started the processes) says; None where this is the only one."""
        said = [os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")]
        if not (said[0].isdigit() and said[1].isdigit() and int(said[1]) > 1):
            return None
        return cls(int(said[0]), int(said[1]), int(said[2]) if said[2].isdigit() else 0)


def record_over_ranks(
    ranks: Ranks,
    spec: ModelSpec,
    prompts: Callable[[], list[str]],
    folder: Path,
    overwrite: bool,
    plan_only: bool,
    as_json: bool,
) -> None:
    """Record one prompt, each rank some of its tokens. `prompts` reads what was given."""
    from regard.recorder.over_ranks import read

    with _group(ranks, spec) as device:
        if not plan_only:  # before a model is loaded
            _first(ranks, lambda: _check_folder(folder, overwrite))
        mine = replace(spec, device=device)
        loaded, one, reading = _alike(ranks, lambda: _prepared(ranks, mine, prompts))
        if ranks.rank == 0:
            _tell(spec.model, one, reading)
        if plan_only:
            if as_json and ranks.rank == 0:
                write_json(reading.plan.to_dict() | {"tokens": reading.before.shards.lengths})
            return
        heard = 0
        with status().status("reading") as line:

            def watcher() -> None:
                nonlocal heard
                heard += 1
                if ranks.rank == 0:
                    line.update(f"reading: {heard} of {reading.plan.places} attention layers")

            read(
                loaded.model, one.ids, folder, reading, tokenizer=loaded.tokenizer,
                name=loaded.name, title=one.title, bos=one.bos, overwrite=overwrite,
                watcher=watcher,
            )  # fmt: skip
        _wait()
        if ranks.rank == 0:
            _finish(folder, ranks.world, as_json)


@contextmanager
def _group(ranks: Ranks, spec: ModelSpec) -> Iterator[str | None]:
    """A process group while it lasts; the device of this rank's model."""
    import torch
    import torch.distributed as dist

    device = spec.device
    if device == "cuda":
        device = f"cuda:{ranks.local}"
    on_gpu = device is not None and device.startswith("cuda")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo", timeout=_PATIENCE)
    try:
        yield device
    finally:
        dist.destroy_process_group()


def _alike(ranks: Ranks, act: Callable[[], _Found]) -> _Found:
    """What every rank does. Where one cannot, all end, and the first one tells."""
    import torch.distributed as dist

    found, mistake = None, None
    try:
        found = act()
    except RegardError as error:
        mistake = error
    said: list[tuple[int, str] | None] = [None] * ranks.world
    dist.all_gather_object(said, mistake and (mistake.exit_code, str(mistake)))
    wrong = [(rank, *words) for rank, words in enumerate(said) if words is not None]
    if not wrong:
        return cast("_Found", found)
    rank, status, text = wrong[0]
    if ranks.rank == 0:
        raise mistake or RegardError(f"rank {rank}: {text}")
    raise typer.Exit(status)


def _first(ranks: Ranks, act: Callable[[], None]) -> None:
    """What the first rank does for all."""
    _alike(ranks, act if ranks.rank == 0 else lambda: None)


def _prepared(
    ranks: Ranks, spec: ModelSpec, prompts: Callable[[], list[str]]
) -> tuple[Loaded, Encoded, Reading]:
    """Model, prompt and plan."""
    from regard.recorder.over_ranks import prepare
    from regard.recorder.tokens import check_reads_text

    options, texts = spec.options, prompts()
    if len(texts) > 1:
        raise InputError(f"{len(texts)} prompts; over several ranks give one, a long one")
    if options.generate or options.queries is not None:
        raise InputError("--generate and --queries are not offered over several ranks")
    loaded = spec.load(ranks.local)
    check_reads_text(loaded.model, spec.model)
    one = options.encode(loaded, texts[0])
    return loaded, one, prepare(loaded.model, one.ids, options.choice(), options.budget)


def _check_folder(folder: Path, overwrite: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder}: is a file; several ranks fill a folder, give one with -o")
    if not folder.parent.is_dir():
        raise FileError(f"{folder.parent}: no such folder; make it first, or give another -o")
    old = _files(folder)
    if old and not overwrite:
        raise FileError(f"{folder}: holds {old[0].name} already; give another -o, or --overwrite")


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("rank-*.regard"))


def _tell(name: str, one: Encoded, reading: Reading) -> None:
    parts = ", ".join(str(n) for n in reading.before.shards.lengths)
    write(
        f"{name}: {one.tokens} tokens over {reading.before.peers.world} ranks ({parts})", error=True
    )
    for line in reading.plan.lines():
        write(f"  {line}", error=True)


def _wait() -> None:
    """Until every rank's file is whole."""
    import torch.distributed as dist

    from regard.parallel import Peers
    from regard.parallel.transport import reporting_lost_rank

    peers = Peers.of()
    with reporting_lost_rank(peers, None, "waiting for all files"):
        dist.barrier()


def _finish(folder: Path, world: int, as_json: bool) -> None:
    """All heads at a glance, and where to go on."""
    from regard.draw.pages import overview_lines
    from regard.recorder.plan import human
    from regard.recording import open as open_recording
    from regard.views.overview import first_head, whole_overview

    size = sum(file.stat().st_size for file in _files(folder))
    found: Recording
    with open_recording(folder) as found:
        if as_json:
            facts = {"folder": str(folder), "bytes": size, "ranks": world}
            write_json({**facts, **whole_overview(found)})
            return
        show_lines(lambda paper: overview_lines(found, 0, None, paper))
        head = first_head(found)
    closer = f"{again('regard show')} {folder} {head}"
    write(f"written: {folder}, {world} files, {human(size)}; look closer: {closer}")
