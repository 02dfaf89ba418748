"""Which command made a folder of recordings; light, for commands that take folders of several kinds."""

from __future__ import annotations

from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.storage import codec

ROOFLINE = "roofline"


def purpose_of(folder: Path) -> str:
    """Return the command that made a folder of recordings, "" for any other folder."""
    try:
        plain = codec.read_json(folder / "manifest.json")
    except (InputError, OSError):
        return ""
    return str(plain.get("purpose", "")) if isinstance(plain, dict) else ""
