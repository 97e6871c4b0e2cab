"""`regard learn`: the notes' lesson on any sentence, in the terminal or as one file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.cli.terminal import ascii_only, in_ascii, results, status, write, write_json
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.learn import Lesson


def learn(
    sentence: str | None = typer.Argument(
        None, help='Words separated by spaces, such as "The cat sat".'
    ),
    token: str | None = typer.Option(
        None, help="Row to work through: a word, or its position from 1. Default: the first."
    ),
    projections: str = typer.Option(
        "identity", help="w_q, w_k, w_v: identity, random:SEED, or a JSON file."
    ),
    embeddings: Path | None = typer.Option(
        None, help="JSON: a map from word to vector, or one vector per token."
    ),
    d_k: int | None = typer.Option(None, "--d-k", help="Width of queries and keys."),
    d_v: int | None = typer.Option(None, "--d-v", help="Width of values and of the output."),
    heads: int | None = typer.Option(None, help="Number of heads, each with its own projections."),
    no_scale: bool = typer.Option(False, "--no-scale", help="Do not divide by √d_k."),
    causal: bool = typer.Option(False, "--causal", help="Use a causal mask."),
    positions: bool = typer.Option(False, "--positions", help="Add sinusoidal position encodings."),
    block: bool = typer.Option(
        False, "--block", help="Continue with residual, layer norm and MLP."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print every intermediate as JSON."),
    save: Path | None = typer.Option(
        None, help="Write FILE.html (the page), FILE.md or FILE.json instead."
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace an existing file."),
    web: bool = typer.Option(
        False, "--web", help="Open the lesson in the browser, with every number editable."
    ),
    port: int = typer.Option(0, help="Port for --web on 127.0.0.1; 0 picks a free one."),
    open_page: bool = typer.Option(
        True, "--open/--no-open", help="With --web: open the browser, or only print the address."
    ),
    exercise: int | None = typer.Option(
        None, metavar="SEED", help="Create an exercise to solve by hand; each seed gives another."
    ),
    key: bool = typer.Option(
        False, "--key", "--answers", help="Show the exercise's answers instead."
    ),
) -> None:
    """Show attention on a sentence, step by step, with every number.

    Prints to the terminal, writes a file, or opens a page with editable numbers (--web).
    """
    from regard.learn import Options, make_lesson

    if exercise is not None:
        _exercise(exercise, sentence, save, key=key, as_json=as_json, overwrite=overwrite)
        return
    if key:
        raise InputError("--key shows the answers of an exercise; give --exercise SEED with it")
    if sentence is None:
        raise InputError('no sentence was given; give one, as in: regard learn "The cat sat"')
    if save is not None:
        _check_suffix(save, ".html", ".md", ".json")
    if web and (as_json or save is not None):
        raise InputError("--web shows the page; give --save or --json without it")
    options = Options(
        sentence=sentence, token=token, projections=projections, embeddings=embeddings,
        d_k=d_k, d_v=d_v, heads=heads, scaled=not no_scale, causal=causal, positions=positions,
        block=block,
    )  # fmt: skip
    lesson = make_lesson(options)
    if web:
        _serve(lesson, port, open_page)
    else:
        _show(lesson, as_json=as_json, save=save, overwrite=overwrite)


def _show(lesson: Lesson, *, as_json: bool, save: Path | None, overwrite: bool) -> None:
    """To a file, as JSON, or on the terminal."""
    if save is not None:
        text = _written(lesson, save.suffix.lower())
        _save({save: text}, quiet_stdout=as_json, overwrite=overwrite)
    if as_json:
        write_json(lesson.as_dict())
    elif save is None:
        from regard.learn.render import print_document
        from regard.learn.story import narrate

        document, console = narrate(lesson), results()
        print_document(document.rewritten(in_ascii) if ascii_only(console) else document, console)


def _serve(lesson: Lesson, port: int, open_page: bool) -> None:
    """The page on this machine until Ctrl-C."""
    from regard.viewer.notebook import lesson_page
    from regard.viewer.one_page import serve_page

    def say(address: str) -> None:
        write("the lesson is at this address; Ctrl-C ends it", error=True)
        write(address)
        sys.stdout.flush()  # whoever reads it through a pipe waits for it

    serve_page(lesson_page(lesson), port, open_page, say)


def _written(lesson: Lesson, suffix: str) -> str:
    """The lesson as the text of a file of that kind."""
    import json

    if suffix == ".json":
        return json.dumps(lesson.as_dict(), ensure_ascii=False, allow_nan=False) + "\n"
    if suffix == ".html":
        from regard.viewer.notebook import lesson_page

        return lesson_page(lesson)
    from regard.learn.render import markdown_page
    from regard.learn.story import narrate

    return markdown_page(narrate(lesson))


def _exercise(
    seed: int, sentence: str | None, save: Path | None, *, key: bool, as_json: bool, overwrite: bool
) -> None:
    """Print an exercise or its key, or save both side by side."""
    if seed < 0:
        raise InputError(f"--exercise {seed}: give a seed ≥ 0, as in --exercise 7")
    from regard.learn.grading import exercise_key, exercise_markdown

    if sentence is not None:
        status().print("an exercise brings its own sentence; the one given is not used")
    if save is not None:
        _check_suffix(save, ".md")
        answers = save.with_suffix(f".key{save.suffix}")
        both = {save: exercise_markdown(seed), answers: exercise_key(seed)}
        _save(both, quiet_stdout=as_json, overwrite=overwrite)
    if as_json:
        write_json({"seed": seed, "exercise": exercise_markdown(seed), "key": exercise_key(seed)})
    elif save is None:
        write(exercise_key(seed) if key else exercise_markdown(seed))


def _check_suffix(path: Path, *known: str) -> None:
    from regard.files import shown

    if path.suffix.lower() not in known:
        raise InputError(
            f"--save {shown(path)}: not a kind of file this writes; give a name that ends "
            f"in {' or '.join(known)}"
        )


def _save(texts: dict[Path, str], *, quiet_stdout: bool, overwrite: bool) -> None:
    """Write each file whole and say where it is; stdout may be reserved for JSON."""
    from regard.files import check_free, write_text

    for path in texts:
        check_free(path, overwrite=overwrite)  # all of them, before one is written
    for path, text in texts.items():
        write_text(path, text, "--save", overwrite=overwrite)
        write(f"written: {path}", error=quiet_stdout)
