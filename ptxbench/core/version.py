"""The version of this package, and where it is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

try:
    VERSION = version("ptxbench")
except PackageNotFoundError:
    VERSION = "0+unknown"
# The checkout that holds this package, where it is one.
CHECKOUT = Path(__file__).parents[2]
