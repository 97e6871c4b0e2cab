"""What is published: built from the sdist without Node, installed where there is neither compiler
nor Node, used there. auditwheel, twine and zig are `make dist`'s alone (zig is 400 MB): here the
kernels are compiled and linked by this machine's compiler."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from regard.engine.backends.cpu.compile import source_key
from tools import dist, wheel_cc

LIBRARY = "regard/engine/backends/cpu/regard_cpu-x-{}.so"
PAGE = ("index.html", "page.js", "page.css", "widget.js")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("dist")


@pytest.fixture(scope="module")
def sdist(folder) -> Path:
    return dist.build("sdist", dist.ROOT, folder)


@pytest.fixture(scope="module")
def source(sdist, folder) -> Path:
    """What is in the sdist, and nothing else of this checkout."""
    return dist.unpack(sdist, folder / "unpacked")


@pytest.fixture(scope="module")
def path_without_node(folder) -> Iterator[str]:
    """A PATH on which each Node and npm is one that must not be asked for anything but its name."""
    asked = folder / "asked"
    (programs := folder / "programs").mkdir()
    for name in ("node", "npm"):
        (programs / name).write_text(f"#!/bin/sh\necho {name} $@ >> {asked}\nexit 1\n")
        (programs / name).chmod(0o755)
    yield os.pathsep.join([str(programs), os.environ["PATH"]])
    assert not asked.exists(), asked.read_text()


@pytest.fixture(scope="module")
def wheel(source, folder, path_without_node) -> Path:
    """With the kernels of this machine."""
    (into := folder / "kernels").mkdir()
    return dist.build("wheel", source, into, PATH=path_without_node)


@pytest.fixture(scope="module")
def plain_wheel(source, folder, path_without_node, wheel) -> Path:
    """Without kernels, built beside a library that must not come along."""
    (into := folder / "plain").mkdir()
    return dist.wheel_without_kernels(source, into)


def test_an_sdist_has_the_page_and_nothing_compiled(sdist):
    assert dist.faults(sdist) == []
    assert sdist.stat().st_size < 10e6


def test_a_wheel_serves_every_python_of_one_machine(wheel):
    assert wheel.name.endswith(f"-py3-none-linux_{platform.machine()}.whl")
    assert dist.faults(wheel) == [
        f"its platform is linux_{platform.machine()}, not manylinux_2_17_…"
    ]
    assert wheel.stat().st_size < 3e6


def test_a_wheel_brings_its_kernels(wheel, tmp_path):
    said = dist.use(dist.install(wheel, tmp_path))
    assert said.endswith("kernels, built with the package")
    assert not (tmp_path / "cache").exists()  # nothing was compiled


def test_a_wheel_for_any_machine_works_without_a_compiler_too(plain_wheel, tmp_path):
    assert plain_wheel.name.endswith("-py3-none-any.whl") and dist.faults(plain_wheel) == []
    assert dist.use(dist.install(plain_wheel, tmp_path)) == "no kernels"


def test_a_wheel_for_another_machine(source, tmp_path):
    """Cross-compiled, as setuptools and cibuildwheel ask for it."""
    compiler = tmp_path / "my cc"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done; printf half > "$2"\n')
    compiler.chmod(0o755)
    (into := tmp_path / "out").mkdir()
    settings = {"CC": f"'{compiler}'", "_PYTHON_HOST_PLATFORM": "linux-riscv64"}
    made = dist.build("wheel", source, into, **settings)
    assert made.name.endswith("-py3-none-linux_riscv64.whl")
    assert dist.faults(made) == ["its platform is linux_riscv64, not manylinux_2_17_…"]
    names = zipfile.ZipFile(made).namelist()
    (library,) = (name for name in names if name.endswith(".so"))
    assert f"regard_cpu-{source_key('riscv64')}-" in library


# ── what must not be published ───────────────────────────────────────────────────────────────


def made_wheel(folder: Path, tag: str, *names: str, library: bytes = b"") -> Path:
    """A wheel of empty files, with a page and perhaps a library."""
    page = [f"regard/viewer/static/{name}" for name in PAGE]
    path = folder / f"regard-1.0-py3-none-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in (*page, "regard-1.0.dist-info/RECORD", *names):
            archive.writestr(name, library if name.endswith(".so") else b"")
    return path


MANY = "manylinux2014_x86_64.manylinux_2_17_x86_64"
NAMED = LIBRARY.format(hashlib.sha256(b"library").hexdigest()[:32])


def test_fine_wheels(tmp_path):
    assert dist.faults(made_wheel(tmp_path, "any")) == []
    assert dist.faults(made_wheel(tmp_path, MANY, NAMED, library=b"library")) == []


@pytest.mark.parametrize(
    ("tag", "names", "fault"),
    [
        ("manylinux_2_34_x86_64", (NAMED,), "its platform is manylinux_2_34_x86_64, not many"),
        ("linux_x86_64", (NAMED,), "its platform is linux_x86_64, not manylinux_2_17_"),
        ("any", (NAMED,), "there are 1 libraries"),
        (MANY, (), "there are 0 libraries"),
        (MANY, (LIBRARY.format("0" * 32),), "was changed after it was named"),
        ("any", ("regard/__pycache__/api.cpython-311.pyc",), "api.cpython-311.pyc is junk"),
        ("any", ("tests/test_api.py",), "tests does not belong into a wheel"),
    ],
)
def test_faulty_wheels(tmp_path, tag, names, fault):
    (said,) = dist.faults(made_wheel(tmp_path, tag, *names, library=b"library"))
    assert fault in said


def test_archives_without_their_page(tmp_path):
    path = tmp_path / "regard-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("regard/api.py", "")
    assert dist.faults(path) == [f"regard/viewer/static/{name} is missing" for name in PAGE]
    path = tmp_path / "regard-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("web/node_modules/x.js", "src/regard/kernels.so", "README.md"):
            archive.addfile(tarfile.TarInfo(f"regard-1.0/{name}"))
    missing = [f"src/regard/viewer/static/{name} is missing" for name in PAGE]
    junk = ["web/node_modules/x.js is junk"]
    assert dist.faults(path) == [*junk, *missing, "src/regard/kernels.so is compiled"]


def test_other_systems_are_turned_away(tmp_path, monkeypatch):
    monkeypatch.setattr(dist.platform, "machine", lambda: "abacus")
    with pytest.raises(dist.DistError, match=r"on Linux on x86-64 with gcc; this is .* on abacus"):
        dist.main(tmp_path / "dist")
    assert not (tmp_path / "dist").exists()


def test_a_command_that_fails_is_named_with_what_it_said():
    with pytest.raises(dist.DistError, match=r"sh -c 'echo why; exit 3' failed:\nwhy"):
        dist._run(["sh", "-c", "echo why; exit 3"])


# ── the compiler of wheels ───────────────────────────────────────────────────────────────────

ASKED = ["-O3", "-shared", "-fPIC", "a b.c", "-o", "/tmp/x/made.so", "-lm"]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_an_object_then_a_library_for_an_old_glibc(machine):
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu.2.17"]
    compiler = ["gcc"] if machine == "x86_64" else zig
    library = ["-shared", "-pthread", "-s", "/tmp/x/made.o", "-o", "/tmp/x/made.so", "-lm"]
    assert wheel_cc.commands(machine, ASKED) == [
        [*compiler, "-O3", "-fPIC", "a b.c", "-c", "-o", "/tmp/x/made.o"],
        [*zig, *library],
    ]


def test_a_compiler_that_fails_ends_it(monkeypatch, tmp_path):
    (tmp_path / "gcc").write_text(f"#!/bin/sh\necho once >> {tmp_path}/ran; exit 4\n")
    (tmp_path / "gcc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(SystemExit) as ended:
        wheel_cc.main("x86_64", *ASKED)
    assert ended.value.code == 4 and (tmp_path / "ran").read_text() == "once\n"
