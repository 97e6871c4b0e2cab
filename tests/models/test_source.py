"""What a name stands for: a known model, a folder, a file, or something on a hub."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import FileError, InputError
from regard.models.source import find_source, one_line, unknown


@pytest.fixture
def hub(monkeypatch):
    """What a hub answers from now on; the names it was asked for come back."""
    import huggingface_hub

    asked = []

    def answer(error: Exception | None) -> list[str]:
        class Api:
            def model_info(self, name, timeout):
                asked.append(name)
                if error:
                    raise error

        monkeypatch.setattr(huggingface_hub, "HfApi", Api)
        return asked

    return answer


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder that could hold a model, below the current one."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mine"


def test_a_known_name_is_the_cached_folder(toy, folder):
    (folder.parent / "toy").mkdir()  # a folder of this name is ./toy
    source = find_source("toy")
    assert (source.name, source.where, source.is_folder) == ("toy", str(toy.place), True)
    assert source.options == {"local_files_only": True}


@pytest.mark.parametrize("given", ["mine", "./mine", "mine/"])
def test_a_folder(folder, given):
    source = find_source(given)
    assert source.name == "mine" and source.is_folder
    assert Path(source.where).resolve() == folder.resolve()


def test_a_folder_without_a_configuration(folder):
    (folder / "config.json").unlink()
    with pytest.raises(FileError, match=r"mine: no config.json; a folder with a model holds"):
        find_source("mine")


def test_a_file(folder):
    (folder / "a.gguf").touch()
    source = find_source("mine/a.gguf")
    assert (source.name, source.where, source.is_folder) == ("a", "mine", False)
    assert source.options["gguf_file"] == "a.gguf"
    with pytest.raises(FileError, match=r"config\.json: not a model; give a folder"):
        find_source("mine/config.json")


@pytest.mark.parametrize("given", ["./none", "/none/none", "a/b/c", "~/none/none", "two words"])
def test_what_can_only_be_a_path_is_not_asked_for(hub, given):
    asked = hub(None) if " " not in given else []
    with pytest.raises(InputError) as caught:
        find_source(given)
    assert str(caught.value) == str(unknown(given))
    assert asked == []


def test_what_a_hub_has(hub):
    asked = hub(None)
    source = find_source("some/model")
    assert (source.where, source.options, source.remark) == ("some/model", {}, "")
    assert asked == ["some/model"] and not source.is_folder


def test_without_an_answer_only_what_was_downloaded_before_counts(hub):
    from huggingface_hub.errors import HTTPError

    for error in (HTTPError("no network"), OSError("no network")):
        hub(error)
        source = find_source("some/model")
        assert source.options == {"local_files_only": True}
        assert source.remark == "no network"


@pytest.mark.parametrize("given", ["~nobody-of-this-name/x", "x" * 5000])
def test_what_the_system_cannot_look_up(given):
    with pytest.raises(FileError, match="cannot be read"):
        find_source(given)


def test_the_error_names_what_would_work():
    assert str(unknown("x")) == (
        "no model called 'x': known names are smollm2, minilm, whisper-tiny.en, or give a folder"
    )
    assert str(unknown("x", "silence")).endswith("or give a folder (a hub was asked too: silence)")


def test_other_peoples_messages_are_one_line():
    assert one_line(ValueError("a\n  b\n")) == "a b"
    assert one_line(KeyError()) == "KeyError"
    assert len(one_line(ValueError("x" * 1000))) == 241
