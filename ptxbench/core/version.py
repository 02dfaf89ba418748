"""The version of this package, which pyproject.toml reads here, and where it is."""

from __future__ import annotations

from pathlib import Path

VERSION = "0.3.0.dev0"
# The checkout that holds this package, where it is one.
CHECKOUT = Path(__file__).parents[2]
