"""The build hook: the CPU kernels compiled and the page built, where the machine can.

Without a C compiler the wheel is still whole: the kernels are compiled on first use, or attention
runs on plain torch (`regard doctor` says which). A wheel made here is tagged for this system alone;
`tools/dist.py` makes those that can be published. Node comes from the machine or, where there is
none, from PyPI for the time of the build; without either everything but the page is there.
"""

from __future__ import annotations

import importlib.util
import platform
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNELS = Path("src/regard/engine/backends/cpu")
PAGE_TOOL = Path("tools/build_page.py")


class MakeParts(BuildHookInterface[Any]):
    """Runs for wheels, sdists and editable installs."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Asked before the build: Node, where the page must be built and the machine has none."""
        page = _load(Path(self.root) / PAGE_TOOL)
        return [] if page.is_current() or page.has_node() else [page.NODE_PACKAGE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make what is missing; an sdist carries the page, so that Node is needed only once."""
        self._build_page()
        if self.target_name == "wheel":
            self._compile_kernels(version, build_data)

    def _build_page(self) -> None:
        page = _load(Path(self.root) / PAGE_TOOL)
        if page.is_current():
            return
        try:
            page.build()
        except page.PageError as error:
            self.app.display_warning(f"regard: installed without its page ({error})")

    def _compile_kernels(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile beside the sources; older libraries there are stale and go."""
        folder = Path(self.root) / KERNELS
        compiler = _load(folder / "compile.py")
        made_for = _platform()
        machine = made_for.rpartition("-")[2]
        target = compiler.packaged(machine)
        for old in folder.glob("regard_cpu-*.so"):
            if old != target:
                old.unlink()
        if target is None:
            try:
                stem = f"regard_cpu-{compiler.source_key(machine)}"
                target = compiler.compile_library(folder, stem)
            except compiler.BuildError as error:
                self.app.display_warning(f"regard: CPU kernels not built ({error})")
                return
        if version == "editable":
            return  # found where it lies
        tag = made_for.replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{tag}"  # C, but nothing of Python's ABI
        build_data["force_include"][str(target)] = f"regard/engine/backends/cpu/{target.name}"


def _platform() -> str:
    """What the library is for: this machine, or the one that $_PYTHON_HOST_PLATFORM names, with a
    $CC that compiles for it. A library has one machine even where Python is built for two."""
    return sysconfig.get_platform().replace("universal2", platform.machine())


def _load(path: Path) -> Any:
    """A module by path: the package itself is not installed yet."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
