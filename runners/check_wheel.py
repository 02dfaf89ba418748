"""Check that an installed wheel has the library that `ptxbench run` injects, and that it loads.

python runners/check_wheel.py
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

# The installed package, not the checkout.
sys.path[:] = [entry for entry in sys.path if Path(entry or os.curdir).resolve() != Path.cwd()]


def main() -> int:
    """Load the library; exit code 1 where it is none of the wheel."""
    from ptxbench.attribute.injector import build_injector
    from ptxbench.attribute.injector_source import NATIVE

    path = build_injector(compiler="no-compiler")
    ctypes.CDLL(str(path)).InitializeInjection  # noqa: B018 - it is looked up
    print(path)
    return 0 if path.parent == NATIVE else 1


if __name__ == "__main__":
    sys.exit(main())
