"""A folder of sheets: all of them or none."""

from __future__ import annotations

import pytest

from regard.errors import InputError
from regard.learn.worksheets import make_sheet, save_sheets, seeds_of


@pytest.mark.parametrize(("text", "seeds"), [("7", [7]), ("1:3", [1, 2, 3]), (" 0:0 ", [0])])
def test_seeds(text, seeds):
    assert seeds_of(text) == seeds


@pytest.mark.parametrize("text", ["", "-1", "x", "3:1", "1:", "1:99999999", "1.5", "1-3"])
def test_what_is_no_range_is_refused(text):
    with pytest.raises(InputError, match=r"--exercise .*as in --exercise"):
        seeds_of(text)


def save(folder, seeds=(1, 2), overwrite=False, make=make_sheet, **more):
    return save_sheets(folder, list(seeds), make, name="exercise", overwrite=overwrite, **more)


def test_sheets_and_keys_are_numbered(tmp_path):
    seen = []
    assert save(tmp_path / "a" / "s", range(9, 12), advance=lambda *n: seen.append(n)) == 3
    names = ["exercise-009.md", "exercise-010.md", "exercise-011.md"]
    folder = tmp_path / "a" / "s"
    assert sorted(path.name for path in folder.glob("*.md")) == names
    assert sorted(path.name for path in (tmp_path / "a" / "s-keys").iterdir()) == names
    assert (
        (folder / "exercise-010.md")
        .read_text("utf-8")
        .startswith("# Attention by hand, exercise 10")
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["s", "s-keys"]
    assert not (folder / "keys").exists(), "the folder can be handed out as it is"


def test_the_name_of_a_file_is_no_folder(tmp_path):
    with pytest.raises(InputError, match=r"x\.md: 2 sheets need a folder, .* give --save .*x$"):
        save(tmp_path / "x.md")
    assert list(tmp_path.iterdir()) == []


def test_keys_that_are_there_already_are_not_replaced(tmp_path):
    save(tmp_path / "s")
    for sheet in (tmp_path / "s").iterdir():
        sheet.unlink()
    with pytest.raises(InputError, match="s-keys: exists already"):
        save(tmp_path / "s")


def test_a_folder_with_files_is_refused_or_kept(tmp_path):
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="exists already and is not empty; give another folder"):
        save(folder)
    save(folder, overwrite=True)
    assert (folder / "mine.txt").read_text() == "mine" and (folder / "exercise-001.md").exists()
    with pytest.raises(InputError, match="is a file"):
        save(folder / "mine.txt", overwrite=True)


@pytest.mark.parametrize("there", [False, True])
def test_an_interruption_leaves_nothing(tmp_path, there):
    folder = tmp_path / "s"
    if there:
        folder.mkdir()

    def make(seed):
        if seed == 3:
            raise KeyboardInterrupt
        return make_sheet(seed)

    with pytest.raises(KeyboardInterrupt):
        save(folder, range(1, 5), make=make)
    assert list(tmp_path.iterdir()) == ([folder] if there else [])
    assert not there or list(folder.iterdir()) == []
