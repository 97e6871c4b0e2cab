"""`regard play` in processes that start at once, and can be killed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from forked import context

__all__ = ["playing"]


@contextmanager
def playing(model: str = "", port: int = 0, script: Sequence[Any] = ()) -> Iterator[str]:
    """A server and its address, with a real model or, without a name, the tiny one of tests/play;
    the process is killed at the end."""
    ours, theirs = context.Pipe()
    child = context.Process(target=_serve, args=(theirs, model, port, script), daemon=True)
    child.start()
    theirs.close()
    try:
        assert ours.poll(120), "the server did not start"
        yield ours.recv()
    finally:
        child.kill()
        child.join()


def _serve(pipe: Any, model: str, port: int, script: Sequence[Any]) -> None:
    from play.tiny import make_session
    from regard.play.serve import play, prepare

    play(prepare(model) if model else make_session(), port, say=pipe.send, script=script)
