"""Waiting for another thread's file."""

import time
from pathlib import Path

_LOOKS = 8


def wait_for(path: Path) -> None:
    """Wait until a file that is written has not grown for some looks, 20 s at most."""
    size, same, until_s = 0, 0, time.monotonic() + 20
    while same < _LOOKS and time.monotonic() < until_s:
        time.sleep(0.05)
        before, size = size, path.stat().st_size if path.exists() else 0
        same = same + 1 if size == before > 0 else 0
