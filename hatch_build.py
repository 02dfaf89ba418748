"""Builds the library that `ptxbench run` injects into the wheel, so that nobody needs a compiler.

Without a compiler the wheel is one for all machines, and the library is built at the first run. With
PTXBENCH_INJECTOR=required that is an error, as for the wheels of a release; with PTXBENCH_INJECTOR=none
nothing is built.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_WHERE = "ptxbench/attribute"


class InjectorHook(BuildHookInterface[Any]):
    """Adds the library and its checksum to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build it, unless the installation is an editable one.

        Raises:
            RuntimeError: It is required, and cannot be built.
        """
        wanted = os.environ.get("PTXBENCH_INJECTOR", "")
        self._folder = Path(tempfile.mkdtemp(prefix="ptxbench-wheel-"))
        if version != "standard" or wanted == "none" or not sys.platform.startswith("linux"):
            return
        build = _injector_source(Path(self.root))
        try:
            files = build.write_library(self._folder)
        except build.NotBuiltError as error:
            if wanted == "required":
                raise RuntimeError(str(error)) from error
            self.app.display_warning(f"{error}: it is built at the first run")
            return
        for file in files:
            build_data["force_include"][str(file)] = f"{_WHERE}/native/{file.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-linux_{platform.machine()}"

    def finalize(self, *_: object) -> None:
        """Remove what was built."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _injector_source(root: Path) -> Any:
    """Return the module that builds it, which is not installed yet."""
    spec = importlib.util.spec_from_file_location("injector_source", root / _WHERE / "injector_source.py")
    assert spec is not None  # noqa: S101
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
