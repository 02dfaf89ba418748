"""The core voltage of a GPU as `nvidia-smi` prints it: NVML has no public query for it."""

from __future__ import annotations

import math
import re
import subprocess

_VOLTAGE = re.compile(rb"Graphics\s*:\s*([0-9.]{1,12}) mV")
# An nvidia-smi that hangs must not hold a sweep; chosen.
_LONGEST_S = 10.0


def core_voltage_mv(uuid: str) -> float:
    """Return the core voltage now, mV; NaN where `nvidia-smi` is missing or does not tell it.

    Args:
        uuid: UUID of the board.
    """
    words = ["nvidia-smi", "--query", "--display=VOLTAGE", f"--id={uuid}"]
    try:
        done = subprocess.run(words, capture_output=True, timeout=_LONGEST_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return math.nan
    found = _VOLTAGE.search(done.stdout)
    try:
        return float(found[1]) if found else math.nan
    except ValueError:
        return math.nan
