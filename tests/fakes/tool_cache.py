"""ptxas and nvdisasm, each run once for the same input."""

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from ptxbench.core import toolchain

_REAL_RUN = subprocess.run
_RESULT = "module.cubin"


class ToolCache:
    """Keeps what a tool printed and the cubin that it wrote, by the tool, arguments and input.

    Complaints are not kept. Where a test stands in for the tools' processes nothing is read back.
    """

    def __init__(self, folder: Path) -> None:
        """Keep the results in a folder, which other processes may share."""
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def run_tool(self, tool: str, arguments: list[str], folder: Path | None = None) -> str:
        """Do as `ptxbench.core.toolchain.run_tool` does."""
        inputs = [] if folder is None else [folder / name for name in arguments if (folder / name).is_file()]
        if not inputs or subprocess.run is not _REAL_RUN:
            return toolchain.run_tool(tool, arguments, folder)
        toolchain.tool_path(tool)  # a tool that is missing is still missed
        key = hashlib.sha256(repr((tool, toolchain.tool_version(tool), arguments)).encode())
        for path in inputs:
            key.update(path.read_bytes())
        kept = self._folder / key.hexdigest()
        result = folder / _RESULT
        if not kept.exists():
            printed = toolchain.run_tool(tool, arguments, folder)
            if result not in inputs:
                _write(kept.with_suffix(".cubin"), result.read_bytes())
            _write(kept, printed.encode())
            return printed
        if result not in inputs:
            result.write_bytes(kept.with_suffix(".cubin").read_bytes())
        return kept.read_text()


def _write(path: Path, data: bytes) -> None:
    """Write a file that others see whole or not at all."""
    # A name of its own: threads of one process may write the same result at the same time.
    descriptor, part = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    Path(part).replace(path)
