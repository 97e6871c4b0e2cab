"""`regard learn`: the notes' lesson on any sentence, in the terminal or as one file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.cli.exercises import Asked, check_suffix, give_exercise, save_texts
from regard.cli.terminal import ascii_only, in_ascii, results, status, write, write_json
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.learn import Lesson


def learn(
    context: typer.Context,
    sentence: str | None = typer.Argument(
        None, help='Words separated by spaces, such as "The cat sat".'
    ),
    token: str | None = typer.Option(
        None, help="Row to work through: a word, or its position from 1. Default: the first."
    ),
    projections: str = typer.Option(
        "identity",
        help="w_q, w_k, w_v: identity, random:SEED, by-hand (two heads for features), or a file.",
    ),
    vectors: str = typer.Option(
        "notes", help="The words' vectors: notes, features (made by hand) or smollm2 (a model's)."
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
    next_word: bool = typer.Option(
        False, "--next", help="Continue to the next word (with --block)."
    ),
    temperature: float = typer.Option(
        1.0, help="With --next: below 1 favours the likeliest words, 0 takes the first."
    ),
    language: str | None = typer.Option(
        None, help="en, de or zh. Default: English; a page follows the browser."
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
    exercise: str | None = typer.Option(
        None,
        metavar="SEED|FROM:TO",
        help="Create an exercise to solve by hand; each seed gives another. A range, with --save "
        "FOLDER, gives one each.",
    ),
    step: str | None = typer.Option(
        None,
        metavar="NAME|list",
        help="The exercise asks for one step; those before it are filled in.",
    ),
    key: bool = typer.Option(
        False, "--key", "--answers", help="Show the exercise's answers instead."
    ),
) -> None:
    """Show attention on a sentence, step by step, with every number.

    Prints to the terminal, writes a file, or opens a page with editable numbers (--web).
    """
    from regard.learn import Options, make_lesson

    is_exercise = exercise is not None or step is not None
    _check_options(_given(context), is_exercise=is_exercise, next_word=next_word, web=web)
    if is_exercise:
        asked = Asked(exercise, step, language or "en")
        if sentence is not None:
            status().print("an exercise brings its own sentence; the one given is not used")
        give_exercise(asked, save, key=key, as_json=as_json, overwrite=overwrite)
        return
    if key:
        raise InputError("--key shows the answers of an exercise; give --exercise SEED with it")
    if sentence is None:
        raise InputError('no sentence was given; give one, as in: regard learn "The cat sat"')
    if save is not None:
        check_suffix(save, ".html", ".md", ".json")
    if web and (as_json or save is not None):
        raise InputError("--web shows the page; give --save or --json without it")
    options = Options(
        sentence=sentence, token=token, projections=projections, vectors=vectors,
        embeddings=embeddings, d_k=d_k, d_v=d_v, heads=heads, scaled=not no_scale, causal=causal,
        positions=positions, block=block, next=next_word, temperature=temperature,
        language=language,
    )  # fmt: skip
    lesson = make_lesson(options)
    if web:
        _serve(lesson, port, open_page)
    else:
        _show(lesson, as_json=as_json, save=save, overwrite=overwrite)


_OF_EXERCISES = {"sentence", "exercise", "step", "key", "language", "as_json", "save",
                 "overwrite"}  # fmt: skip


def _given(context: typer.Context) -> dict[str, str]:
    """The options on the command line, each with its spelling."""
    names = {param.name: param.opts[0] for param in context.command.params if param.name}
    found = ((name, context.get_parameter_source(name)) for name in names)
    return {name: names[name] for name, source in found if source and source.name == "COMMANDLINE"}


def _check_options(given: dict[str, str], *, is_exercise: bool, next_word: bool, web: bool) -> None:
    """InputError for an option that would change nothing."""
    others = [spelt for name, spelt in given.items() if name not in _OF_EXERCISES]
    if is_exercise and others:
        raise InputError(
            f"{', '.join(others)}: an exercise has its own numbers; leave out what is not about it"
        )
    if "temperature" in given and not next_word:
        raise InputError("--temperature belongs to the next word; give --next with it")
    for name in ("port", "open_page"):
        if name in given and not web:
            spelt = "--open and --no-open" if name == "open_page" else given[name]
            raise InputError(f"{spelt}: for the page in the browser; give --web with it")


def _show(lesson: Lesson, *, as_json: bool, save: Path | None, overwrite: bool) -> None:
    """To a file, as JSON, or on the terminal."""
    if save is not None:
        text = _written(lesson, save.suffix.lower())
        save_texts({save: text}, quiet_stdout=as_json, overwrite=overwrite)
    if as_json:
        write_json(lesson.as_dict())
    elif save is None:
        from regard.learn.render import print_document
        from regard.learn.story import narrate

        console = results()
        if ascii_only(console) and lesson.say.code != "en":
            raise InputError(
                f"--language {lesson.say.code}: this terminal shows ASCII alone; use a UTF-8 one "
                "(LC_ALL=C.UTF-8), or --save lesson.md"
            )
        document = narrate(lesson)
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
