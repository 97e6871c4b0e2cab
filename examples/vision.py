"""Learning to see: which patches a model looks at while it names what is there.

A ViT learns to name the two handwritten digits on a canvas, and a LLaVA with the ViT's eyes to
write "three left of seven". Nobody tells them where the digits lie. Then both are recorded, and
every head is asked how much of its weight lies on the digits: of the class token's row in the ViT,
and in the captioner of the rows that write a digit's name.

Both models, canvases and recordings are left in a folder. The digits are scikit-learn's
(pip install '.[examples,torch,huggingface,vision]').

    python examples/vision.py                 five to ten minutes on two cores
    regard view digits/captioner.regard
    regard record digits/captioner --image digits/canvas-1.png --text "the picture shows" \
        --generate 6
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console
from rich.table import Table
from transformers.utils.logging import disable_progress_bar
from typer import Option

import regard
from digit_models import (
    PROMPT,
    captioner,
    captions,
    named,
    namer,
    reader,
    save,
    teach_captioner,
    teach_namer,
    token_ids,
)
from digit_models import pixels as pixels_of
from digit_scenes import Scene, Scenes
from regard.recording import Head, PromptView

TESTED = 1000  # held-out canvases by which models are judged
MEASURED = 64  # by which heads are
BEST = 4  # heads that are listed
BATCH = 200


@dataclass(frozen=True)
class Looked:
    """Where a head's rows look, in the mean: shares of their weight."""

    label: str
    there: float  # on the patches of the digits that are to be named
    elsewhere: float  # on the other digit's, where one is named at a time
    chance: float  # were all keys that the row sees alike


def map_of(head: Head, row: int) -> NDArray[np.float64]:
    """(8, 8): the weight of each patch in a row."""
    ((start, grid),) = head.key_axis.grids()
    return grid.lay(np.asarray(head[row, :])[start : start + grid.count])[0]


def class_looks(prompts: Sequence[PromptView], scenes: Sequence[Scene]) -> list[Looked]:
    """The class token's row of every head: how much lies on the two digits."""
    found = []
    for label in (head.label for head in prompts[0]):
        mass = [
            map_of(prompt[label], 0)[scene.patches(0) | scene.patches(1)].sum()
            for prompt, scene in zip(prompts, scenes, strict=True)
        ]
        keys = prompts[0][label].shape[1]
        found.append(Looked(label, float(np.mean(mass)), 0.0, 8 / keys))
    return sorted(found, key=lambda one: -one.there)


def word_looks(prompts: Sequence[PromptView], scenes: Sequence[Scene]) -> list[Looked]:
    """The rows that write a digit's name, in every head that reads words: how much lies on that
    digit's patches, and how much on the other's."""
    found = []
    for label in (head.label for head in prompts[0] if len(head.key_axis.parts) > 1):
        there, elsewhere, chance = [], [], []
        for prompt, scene in zip(prompts, scenes, strict=True):
            for which, row in enumerate(naming_rows(scene)):
                weights = map_of(prompt[label], row)
                there.append(weights[scene.patches(which)].sum())
                elsewhere.append(weights[scene.patches(1 - which)].sum())
                chance.append(4 / (row + 1))
        means = (float(np.mean(one)) for one in (there, elsewhere, chance))
        found.append(Looked(label, *means))
    return sorted(found, key=lambda one: -one.there)


def naming_rows(scene: Scene) -> tuple[int, int]:
    """The positions that write the two digits' names: the one before each."""
    first = 64 + len(PROMPT.split()) - 1
    return first, first + len(scene.caption.split()) - 1


@torch.inference_mode()
def watch_namer(model: Any, scenes: Sequence[Scene], path: Path | None = None) -> Any:
    """A recording of a ViT that sees these."""
    with regard.record(model, path, tokenizer=reader(model), overwrite=True) as rec:
        model(pixel_values=pixels_of(scenes, model))
    return rec


@torch.inference_mode()
def watch_captioner(model: Any, scenes: Sequence[Scene], path: Path | None = None) -> Any:
    """A recording of a captioner that reads these with their captions, a canvas a prompt."""
    with regard.record(model, path, tokenizer=reader(model), overwrite=True) as rec:
        for scene in scenes:
            ids = token_ids([scene], model)
            ids = ids[:, : 64 + len(PROMPT.split()) + len(scene.caption.split())]
            model(input_ids=ids, pixel_values=pixels_of([scene], model))
    return rec


def batches(scenes: Sequence[Scene]) -> Iterator[Sequence[Scene]]:
    """Some at a time."""
    return (scenes[at : at + BATCH] for at in range(0, len(scenes), BATCH))


def table(title: str, looked: Sequence[Looked], words: tuple[str, ...]) -> Table:
    """The heads that look most."""
    made = Table("head", *words, "chance", title=title, title_justify="left", box=None)
    for one in looked[:BEST]:
        numbers = (one.there, one.elsewhere, one.chance)
        shown = numbers if len(words) == 2 else (one.there, one.chance)
        made.add_row(one.label, *(f"{number:.1%}" for number in shown))
    return made


def write_canvases(scenes: Sequence[Scene], folder: Path) -> list[Path]:
    """As PNG files."""
    paths = [folder / f"canvas-{n + 1}.png" for n in range(len(scenes))]
    for path, scene in zip(paths, scenes, strict=True):
        Image.fromarray(scene.rgb).save(path)
    return paths


def main(
    folder: Annotated[Path, Option(help="For models, canvases and recordings.")] = Path("digits"),
    steps: Annotated[int, Option(min=1, help="Of the ViT's training.")] = 2500,
    caption_steps: Annotated[int, Option(min=1, help="Of the captioner's.")] = 2000,
    width: Annotated[int, Option(min=8, help="Of a patch's vector; a multiple of 8.")] = 64,
    tested: Annotated[int, Option(min=1, help="Held-out canvases for the test.")] = TESTED,
    canvases: Annotated[int, Option(min=1, help="That are written and recorded.")] = 6,
    seed: Annotated[int, Option(min=0, help="Of weights and canvases.")] = 0,
) -> None:
    """Train a ViT and a captioner on handwritten digits, and show where their heads look."""
    console, status = Console(highlight=False, markup=False), Console(stderr=True)
    if width % 8:
        raise typer.BadParameter("give a multiple of 8", param_hint="--width")
    folder.mkdir(parents=True, exist_ok=True)
    disable_progress_bar()  # of writing two small files
    test, measured, kept = (
        Scenes(seed + n, held_out=True).draw(count)
        for n, count in ((0, tested), (1, MEASURED), (3, canvases))
    )
    paths = write_canvases(kept, folder)

    torch.manual_seed(seed)
    began = time.perf_counter()
    eyes = namer(width)
    teach_namer(eyes, Scenes(seed), steps, status)
    save(eyes, folder / "namer")
    said = [digits for some in batches(test) for digits in named(eyes, some)]
    right = np.mean([digits == set(scene.digits) for digits, scene in zip(said, test, strict=True)])
    spent = time.perf_counter() - began
    console.print(f"ViT: {spent:.0f} s; both digits right on {right:.1%} of {tested} canvases")

    began = time.perf_counter()
    torch.manual_seed(seed)
    writer = captioner(eyes)
    teach_captioner(writer, Scenes(seed + 2), caption_steps, status)
    save(writer, folder / "captioner")
    texts = [text for some in batches(test) for text in captions(writer, some)]
    exact = np.mean([text == scene.caption for text, scene in zip(texts, test, strict=True)])
    spent = time.perf_counter() - began
    console.print(f"Captioner: {spent:.0f} s; caption right on {exact:.1%} of {tested} canvases\n")

    looked = class_looks(watch_namer(eyes, measured).prompts, measured)
    console.print(table("ViT: the class token looks", looked, ("at the digits",)))
    console.print()
    looked = word_looks(watch_captioner(writer, measured).prompts, measured)
    words = ("at the digit it names", "at the other")
    console.print(table("Captioner: the row that writes a digit looks", looked, words))

    watch_namer(eyes, kept, folder / "namer.regard")
    watch_captioner(writer, kept, folder / "captioner.regard")
    console.print()
    for path, text, scene in zip(paths, captions(writer, kept), kept, strict=True):
        console.print(f"{path}: {text}" + ("" if text == scene.caption else f" ({scene.caption})"))
    console.print(f"Next: regard view {folder / 'captioner.regard'}")


if __name__ == "__main__":
    typer.run(main)
