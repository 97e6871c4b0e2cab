"""The build hook: compiles the CPU kernels into the wheel where there is a C compiler.

Without one the wheel is still whole: the kernels are compiled on first use, or attention runs on
plain torch (`regard doctor` says which).
"""

from __future__ import annotations

import importlib.util
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("src/regard/engine/cpu")


class CompileKernels(BuildHookInterface[Any]):
    """Runs for wheels and editable installs."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile beside the sources; older libraries there are stale and go."""
        if self.target_name != "wheel":
            return
        folder = Path(self.root) / FOLDER
        compiler = _load(folder / "compile.py")
        target = compiler.packaged()
        for old in folder.glob("regard_cpu-*.so"):
            if old != target:
                old.unlink()
        if not target.exists():
            try:
                compiler.compile_library(target)
            except compiler.BuildError as error:
                self.app.display_warning(f"regard: CPU kernels not built ({error})")
                return
        if version == "editable":
            return  # found where it lies
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"  # C, but nothing of Python's ABI
        build_data["force_include"][str(target)] = f"regard/engine/cpu/{target.name}"


def _load(path: Path) -> Any:
    """A module by path: the package itself is not installed yet."""
    spec = importlib.util.spec_from_file_location("compile_kernels", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
