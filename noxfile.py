"""The tests with other versions of Python, torch and transformers, with Ray, and whether pip can
install regard beside the packages it is used with: the rows of docs/versions.md.

    nox --list
    nox -s "transformers(5.4)" python-3.13 "beside(peft)" -- -x

Each row has an environment of its own in `.nox`: gigabytes for each torch; `-r` uses it again.
"""

from __future__ import annotations

import nox

EXTRAS = "torch,huggingface,parquet,plot,audio,vision,tensorboard,view,notebook,dev"
ENGINE = ("tests/each", "tests/engine", "--ignore=tests/engine/backends/gpu")
READING = ("tests/learn", "tests/mask", "tests/recording", "tests/study", "tests/huggingface")
TRANSFORMERS = ("5.0", "5.2", "5.4", "5.8", "5.17", "newest")
TORCH = ("2.7", "2.11", "2.13", "newest")
PEERS = (
    "kvpress", "vllm", "transformer-lens", "nnsight", "inseq", "trl", "axolotl", "llamafactory",
    "verl", "peft", "diffusers", "sentence-transformers", "lightning",
)  # fmt: skip
nox.options.sessions = ()  # rows are asked for by name


def _test(session: nox.Session, tests: tuple[str, ...], *pins: str) -> None:
    session.install("--editable", f".[{EXTRAS}]", *pins)
    session.run("pip", "freeze")
    command = ("pytest", "-n", "auto", "--dist", "worksteal", *tests, *session.posargs)
    session.run(*command, env={"OMP_NUM_THREADS": "1"})


def _pin(package: str, version: str) -> str:
    return package if version == "newest" else f"{package}=={version}.*"


@nox.session
@nox.parametrize("version", TRANSFORMERS, ids=TRANSFORMERS)
def transformers(session: nox.Session, version: str) -> None:
    """The models of transformers."""
    # the configurations of 5.4 declare flags as int, and later releases take no bool for one
    older = ("huggingface_hub<1.9",) if version == "5.4" else ()
    _test(session, ("tests/huggingface",), _pin("transformers", version), *older)


@nox.session
@nox.parametrize("version", TORCH, ids=TORCH)
def torch(session: nox.Session, version: str) -> None:
    """The engine without the GPU kernels."""
    _test(session, ENGINE, _pin("torch", version))


@nox.session(python=["3.12", "3.13", "3.14"])
def python(session: nox.Session) -> None:
    """The lane `fast` of what reads, and of the engine."""
    _test(session, ("--lane", "fast", *READING, *ENGINE[1:]))


@nox.session
def ray(session: nox.Session) -> None:
    """Ray Data with two local workers."""
    tests = "tests/examples/test_ray_record.py", "tests/recorder/test_documents.py"
    _test(session, tests, "ray[data]")


@nox.session
@nox.parametrize("peer", PEERS, ids=PEERS)
def beside(session: nox.Session, peer: str) -> None:
    """Resolved by pip, not installed."""
    session.run("pip", "install", "--dry-run", "--ignore-installed", ".[all]", peer)
