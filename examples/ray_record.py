"""Documents recorded by Ray Data actors, on one machine or on many.

Each actor loads the model once and turns batches of documents into files, as
`regard record --documents` does with processes of one machine. The folder must be one that every
machine reaches. Afterwards all files together are one recording, and its statistics are exact over
all documents.

    pip install "ray[data]"
    python examples/ray_record.py documents.jsonl out --model smollm2 --actors 4

A second run goes on where the first was stopped, as long as documents come in the same batches:
the same input, the same --batch, and an order that is kept, as below.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from typer import Argument, Option

import regard
from regard.recorder import BatchRecorder
from regard.recorder.shards import read_corpus
from regard.study import outliers


def record(source: Path, folder: Path, model: str, actors: int, batch: int) -> list[dict[str, Any]]:
    """One row for each file and head."""
    import ray

    ray.data.DataContext.get_current().execution_options.preserve_order = True
    documents, bad = read_corpus(source, "text")
    if bad:
        raise regard.errors.InputError(str(bad[0]))
    where = str(Path(model).resolve()) if Path(model).exists() else model
    rows = [{"name": one.name, "text": one.text()} for one in documents]
    found = ray.data.from_items(rows).map_batches(
        BatchRecorder,
        fn_constructor_args=(where, str(folder.resolve())),
        fn_constructor_kwargs={"names": "name"},
        batch_size=batch,
        concurrency=actors,
    )
    return list(found.take_all())


def show(folder: Path, rows: list[dict[str, Any]]) -> None:
    """What came of it: files, and the heads that stand out over all documents."""
    console = Console(highlight=False)
    with regard.open(folder) as rec:
        merged = rec.merged()
        files = {str(row["file"]) for row in rows}
        console.print(f"{merged.documents} documents, {merged.tokens} tokens, {len(files)} files")
        console.print(f"mean entropy of a row: {np.nanmean(merged.grid('entropy')):.3f} nats")
        for one in outliers(merged):
            console.print(one.sentence)


def main(
    source: Annotated[Path, Argument(help="A folder of text files, or a JSONL.")],
    folder: Annotated[Path, Argument(help="Where the files go.")],
    model: Annotated[str, Option(help="A name of `regard models`, or a folder.")] = "smollm2",
    actors: Annotated[int, Option(min=1, help="How many, each with the model.")] = 2,
    batch: Annotated[int, Option(min=1, help="Documents a file.")] = 16,
) -> None:
    """Record documents with Ray Data."""
    show(folder, record(source, folder, model, actors, batch))


if __name__ == "__main__":
    typer.run(main)
