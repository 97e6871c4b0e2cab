"""What to type: the first commands of a newcomer, and examples for the help of every verb."""

from __future__ import annotations

from typing import Final

from regard.cli.terminal import again

START: Final = (
    ("regard play", "type a prompt, see its attention, switch heads off"),
    ('regard learn "The cat sat" --web', "attention step by step, every number editable"),
    (
        'regard record smollm2 --text "The capital of France is"',
        "what every head of a real model attends to",
    ),
    ("regard view run.regard", "the recording in the browser, down to single weights"),
    ("regard doctor", "what is installed, and what is missing"),
)

EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "learn": (
        'regard learn "The cat sat"',
        'regard learn "The bank of the river" --heads 2 --causal --web',
        "regard learn --exercise 7 --save exercise.md",
        "regard learn --exercise 1:30 --step softmax --save sheets/",
    ),
    "grade": (
        "regard grade working.md",
        "regard grade class/ --csv marks.csv",
        "regard grade class/ --statistics",
    ),
    "models": ("regard models", "regard models smollm2 --fetch"),
    "play": (
        "regard play",
        'regard play --text "The capital of France is"',
        "regard play minilm",
        "regard play --script talk.txt",
    ),
    "record": (
        'regard record smollm2 --text "The capital of France is" -o paris.regard',
        "regard record ./my-model --file essay.txt --generate 20 --budget 500MB",
        "regard record smollm2 --file book.txt --truncate 4096",
        "regard record minilm --documents texts/ -o texts",
        "regard record whisper-tiny.en --audio speech.wav",
    ),
    "show": (
        "regard show run.regard",
        "regard show run.regard L5H1 --row -1",
        "regard show run.regard L5H1 --rows 0:64 --keys 0:64",
    ),
    "view": ("regard view run.regard", "regard view before.regard after.regard"),
    "report": (
        "regard report run.regard",
        "regard report run.regard --causal --top 5",
        "regard report run.regard -o page.html",
    ),
    "diff": ("regard diff before.regard after.regard", "regard diff a.regard b.regard --rows 0"),
    "plot": (
        "regard plot run.regard L5H1 -o head.png",
        "regard plot run.regard --grid previous --dark",
    ),
    "export": (
        "regard export run.regard --to csv",
        "regard export run.regard --to npz --what weights --heads L5H1",
    ),
    "check": (
        "regard check smollm2",
        "regard check ./my-model --pad left",
        "regard check train.py:build --rule future --rule documents",
        "regard check my_package.model:build --batch batch.safetensors --json",
    ),
    "verify": ("regard verify run.regard", "regard verify run.regard --repair"),
    "bench": ("regard bench", "regard bench cpu --tokens 1024,4096"),
    "prepare": ("regard prepare", "regard prepare --dims 128 --training"),
    "doctor": ("regard doctor", "regard doctor --json"),
}


def start_lines() -> list[str]:
    """What `regard` alone says: five things to type, and the names of the rest."""
    tries = [line for command, what in START for line in (f"  {again(command)}", f"      {what}")]
    shown = {command.split()[1] for command, _ in START}
    more = f"  {' '.join(verb for verb in EXAMPLES if verb not in shown)}"
    end = f"{again('regard --help')} explains them all."
    return ["Attention you can see. Try:", *tries, "More:", more, end]


def example_lines(verb: str) -> list[str]:
    """The end of a verb's help."""
    return ["", "Examples:", *(f"  {command}" for command in EXAMPLES[verb])]
