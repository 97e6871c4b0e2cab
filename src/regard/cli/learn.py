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
    sentence: str | None = typer.Argument(None, help='Words between blanks, as "The cat sat".'),
    token: str | None = typer.Option(
        None, help="The row to spell out: a word, or a position from 1. Default: the first."
    ),
    projections: str = typer.Option(
        "identity", help="w_q, w_k, w_v: identity, random:SEED, or a JSON file."
    ),
    embeddings: Path | None = typer.Option(
        None, help="JSON: a map from word to vector, or one vector per token."
    ),
    d_k: int | None = typer.Option(None, "--d-k", help="Width of queries and keys."),
    d_v: int | None = typer.Option(None, "--d-v", help="Width of values, hence of the output."),
    heads: int | None = typer.Option(None, help="Number of heads, each with its projections."),
    no_scale: bool = typer.Option(False, "--no-scale", help="Leave out the division by √d_k."),
    causal: bool = typer.Option(False, "--causal", help="A token sees itself and those before."),
    positions: bool = typer.Option(False, "--positions", help="Add sinusoids for the places."),
    block: bool = typer.Option(False, "--block", help="Go on: residual, layer norm, MLP."),
    as_json: bool = typer.Option(False, "--json", help="Every intermediate as JSON on stdout."),
    save: Path | None = typer.Option(
        None, help="Write FILE.html (the page), FILE.md or FILE.json instead."
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace a file that exists."),
    web: bool = typer.Option(
        False, "--web", help="The page in the browser, every number editable."
    ),
    port: int = typer.Option(0, help="Where --web listens on 127.0.0.1; 0 picks a free port."),
    open_page: bool = typer.Option(
        True, "--open/--no-open", help="With --web: open the browser, or only print the address."
    ),
    exercise: int | None = typer.Option(
        None, metavar="SEED", help="An exercise to work by hand, another one for each seed."
    ),
    key: bool = typer.Option(False, "--key", "--answers", help="The exercise's answers instead."),
) -> None:
    """Show attention on a sentence, step by step, with every number.

    In the terminal, as a file, or with --web as a page on which every number can be changed.
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
