"""`regard learn --exercise`: a sheet and its key, on stdout, as files, or one for each of many."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.terminal import advancing, write, write_json
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.learn.worksheets import Sheet


@dataclass(frozen=True)
class Asked:
    """Which exercise: seeds, and the step it is about."""

    seeds: str | None
    step: str | None
    language: str

    @property
    def name(self) -> str:
        """What files of a whole folder are called."""
        return "exercise" if self.step in (None, "all") else self.step

    def sheet(self, seed: int) -> Sheet:
        """The sheet of one seed."""
        from regard.learn.worksheets import make_sheet

        return make_sheet(seed, step=self.step or "all", code=self.language)


def give_exercise(
    asked: Asked, save: Path | None, *, key: bool, as_json: bool, overwrite: bool
) -> None:
    """Print an exercise or its key, save both side by side, or fill a folder."""
    from regard.learn.worksheets import seeds_of

    if asked.step == "list":
        _list(asked.language)
        return
    _check(asked)
    seeds = seeds_of(str(asked.seeds))
    if len(seeds) > 1:
        _many(asked, seeds, save, as_json=as_json, overwrite=overwrite)
        return
    sheet = asked.sheet(seeds[0])
    if save is not None:
        check_suffix(save, ".md")
        answers = save.with_suffix(f".key{save.suffix}")
        both = {save: sheet.text, answers: sheet.key}
        save_texts(both, quiet_stdout=as_json, overwrite=overwrite)
    if as_json:
        write_json({"seed": seeds[0], "exercise": sheet.text, "key": sheet.key})
    elif save is None:
        write(sheet.key if key else sheet.text)


def _check(asked: Asked) -> None:
    from regard.learn.worksheets import check_step

    check_step(asked.step or "all")
    if asked.seeds is None:
        option = f"--step {asked.step}"
        raise InputError(f"{option}: which exercise? Give a seed, as in --exercise 7 {option}")


def _list(code: str) -> None:
    """Every step with its title."""
    from regard.learn.worksheets import STEPS, title_of

    width = max(map(len, STEPS))
    for step in STEPS:
        write(f"{step:<{width}}  {title_of(step, code)}")


def _many(
    asked: Asked, seeds: list[int], folder: Path | None, *, as_json: bool, overwrite: bool
) -> None:
    from regard.learn.worksheets import keys_of, save_sheets

    if folder is None or as_json:
        raise InputError(
            f"--exercise {asked.seeds}: {len(seeds):,} sheets need a folder; give --save FOLDER"
            + (" without --json" if as_json else "")
        )
    with advancing("sheets") as advance:
        count = save_sheets(
            folder, seeds, asked.sheet, name=asked.name, overwrite=overwrite, advance=advance
        )
    write(f"written: {count} sheets in {folder}, their keys in {keys_of(folder)}")


def check_suffix(path: Path, *known: str) -> None:
    """InputError where a file of this name is of no kind that is written."""
    from regard.files import shown

    if path.suffix.lower() not in known:
        raise InputError(
            f"--save {shown(path)}: not a kind of file this writes; give a name that ends "
            f"in {' or '.join(known)}"
        )


def save_texts(texts: dict[Path, str], *, quiet_stdout: bool, overwrite: bool) -> None:
    """Write each file whole and say where it is; stdout may be reserved for JSON."""
    from regard.files import check_free, write_text

    for path in texts:
        check_free(path, overwrite=overwrite)  # all of them, before one is written
    for path, text in texts.items():
        write_text(path, text, "--save", overwrite=overwrite)
        write(f"written: {path}", error=quiet_stdout)
