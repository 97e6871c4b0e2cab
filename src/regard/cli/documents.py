"""`regard record --documents`: many documents, several processes, a folder of files."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.terminal import again, recording_bar, show_lines, status, write, write_json
from regard.errors import FileError, InputError, RegardError

if TYPE_CHECKING:
    from regard.recorder.documents import CorpusRequest, Run
    from regard.recorder.jobs import Workers
    from regard.recorder.shards import ModelSpec, ShardRecorder

_PER_FILE = 16
_TOLD = 3  # documents that are left out


@dataclass(frozen=True)
class Many:
    """The options that are about many documents, as they were given."""

    documents: Path
    folder: Path
    jobs: int | None = None
    per_file: int | None = None
    field: str | None = None
    skip_bad: bool = False
    overwrite: bool = False


def record_documents(spec: ModelSpec, many: Many, plan_only: bool, as_json: bool) -> None:
    """Record what is not recorded yet, or only say what that would be."""
    from regard.recorder.documents import CorpusRequest, claimed, gather, prepare
    from regard.recorder.jobs import Workers

    jobs = 1 if many.jobs is None else many.jobs
    _check(many)
    asked = CorpusRequest(
        many.documents, many.folder, spec.options, per_file=many.per_file or _PER_FILE,
        field=many.field or "text", skip_bad=many.skip_bad, overwrite=many.overwrite,
    )  # fmt: skip
    found, bad = gather(asked)
    run: Run | None = None
    try:
        with (
            nullcontext() if plan_only else claimed(many.folder),
            status().status(f"{spec.model}: loading, and looking at the documents") as waiting,
            Workers(jobs, spec) as workers,
        ):
            run = prepare(asked, found, bad, workers)
            waiting.stop()
            _tell(run, spec.model, jobs)
            if not plan_only:
                _carry_out(run, asked, workers)
    except (KeyboardInterrupt, RegardError) as end:  # by now every worker has ended
        if run is not None and not plan_only:
            _tell_stopped(end, run, many.folder)
        raise
    if not plan_only:
        _finish(many.folder, run, as_json)
    elif as_json:
        write_json(_facts(run, jobs))


def _check(many: Many) -> None:
    if many.per_file is not None and many.per_file < 1:
        raise InputError(f"--documents-per-file {many.per_file}: give a number ≥ 1")
    if many.folder.exists() and not many.folder.is_dir():
        raise FileError(f"{many.folder}: is a file; --documents fills a folder, give one with -o")
    if not many.folder.parent.is_dir():
        raise FileError(f"{many.folder}: there is no folder {many.folder.parent}")


# ── before ───────────────────────────────────────────────────────────────────────────────────


def _tell(run: Run, name: str, jobs: int) -> None:
    """What there is to do, on stderr."""
    from regard.recorder.plan import human

    for bad in run.skipped[:_TOLD]:
        write(f"left out: {bad}", error=True)
    if len(run.skipped) > _TOLD:
        write(f"left out: {len(run.skipped) - _TOLD} more, see manifest.json", error=True)
    there = f", {run.done} of them there already" if run.done else ""
    write(f"{name}: {run.documents} documents in {run.files} files{there}", error=True)
    if run.todo:
        work = f"to do: {run.tokens} tokens, about {human(run.size)}"
        write(f"  {work}, about {duration(run.seconds / jobs)}", error=True)


def _facts(run: Run, jobs: int) -> dict[str, object]:
    return {
        "documents": run.documents, "files": run.files, "done": run.done,
        "skipped": [str(bad) for bad in run.skipped], "tokens": run.tokens, "bytes": run.size,
        "seconds": round(run.seconds / jobs, 1),
    }  # fmt: skip


def duration(seconds: float) -> str:
    """For people."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


# ── while it runs ────────────────────────────────────────────────────────────────────────────


def _carry_out(run: Run, asked: CorpusRequest, workers: Workers[ShardRecorder]) -> None:
    """With a bar of tokens and files."""
    from regard.recorder.documents import carry_out

    done = run.done
    with recording_bar("{task.fields[files]} · {task.completed:.0f}/{task.total} tokens") as bar:
        task = bar.add_task("", total=run.tokens, files=f"{done}/{run.files} files")
        for _ in carry_out(run, asked, workers, lambda tokens: bar.update(task, advance=tokens)):
            done += 1
            bar.update(task, files=f"{done}/{run.files} files")


def _tell_stopped(end: BaseException, run: Run, folder: Path) -> None:
    """What there is, and how to go on."""
    from regard.recording.shards import shard_files

    whole = len(shard_files(run.place)) if run.place.is_dir() else 0
    stopped = "regard: stopped; " if isinstance(end, KeyboardInterrupt) else ""
    if whole or stopped:
        words = f"{whole} of {run.files} files are whole in {run.place}"
        old = f"; the files in {folder} are as they were" if run.stale else ""
        write(f"{stopped}{words}{old}; the same command goes on from there", error=True)


# ── afterwards ───────────────────────────────────────────────────────────────────────────────


def _finish(folder: Path, run: Run, as_json: bool) -> None:
    """All heads over all documents at a glance, and where to go on."""
    import regard.recording
    from regard.draw.pages import many_lines
    from regard.views.findings import many_answer

    with regard.recording.open(folder) as found:
        merged = found.merged()
        if as_json:
            skipped = {"skipped": [str(bad) for bad in run.skipped]}
            write_json({**skipped, **many_answer(found, merged)})
            return
        show_lines(lambda paper: many_lines(found, merged, None, paper))
    write(f"written: {folder}; one document: {again('regard show')} {folder} --prompt 0")
