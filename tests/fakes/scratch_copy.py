"""A copy of ptxbench that a test adds to, as a contributor would."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def scratch_copy(path: Path) -> Path:
    """Copy what makes ptxbench into a folder, which is returned."""
    for package in ("ptxbench", "ptx_templates"):
        shutil.copytree(ROOT / package, path / package, ignore=shutil.ignore_patterns("__pycache__"))
    return path


def printed_by(copy: Path, *lines: str) -> str:
    """Run command lines of a copy, all in one process, and return what they print."""
    code = f"from ptxbench.cli.main import run\nfor line in {lines}: assert run(line.split()) == 0"
    # The copy comes before the installation on the path.
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
