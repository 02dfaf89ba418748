"""How many of a unit, such as a token, a program has made: for the energy of one."""

from __future__ import annotations

import atexit
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock

from ptxbench.api.window_log import FOLDER_VARIABLE
from ptxbench.core.errors import InputError

# Between two writes of the totals; chosen.
_EVERY_S = 0.5


class Counts:
    """Totals of a process; where `ptxbench run` measures it, they are written down for its report."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._totals: dict[str, float] = {}
        self._written_s = -_EVERY_S

    def add(self, unit: str, n: float) -> None:
        """Add to a total."""
        with self._lock:
            self._totals[unit] = self._totals.get(unit, 0) + n
            if time.monotonic() >= self._written_s + _EVERY_S:
                self._write()

    @property
    def totals(self) -> Mapping[str, float]:
        """How many of each unit there were so far."""
        with self._lock:
            return dict(self._totals)

    def write(self) -> None:
        """Write the totals down, where `ptxbench run` measures this process."""
        with self._lock:
            self._write()

    def forget(self) -> None:
        """Begin anew: a child process has made nothing of what its parent made."""
        self._lock = Lock()
        self._totals = {}

    def _write(self) -> None:
        folder = os.environ.get(FOLDER_VARIABLE)
        self._written_s = time.monotonic()
        if not folder or not self._totals:
            return
        # A program must not fail because its measuring does.
        with suppress(OSError):
            path = Path(folder) / f"{os.getpid()}.counts"
            whole = path.with_suffix(".counts-new")
            whole.write_text(json.dumps(self._totals))
            whole.replace(path)


COUNTS = Counts()
atexit.register(COUNTS.write)
os.register_at_fork(after_in_child=COUNTS.forget)


def count(unit: str, n: float = 1) -> None:
    """Say that so many of a unit are done, for the energy of one of them.

        for batch in batches:
            generate(batch)
            ptxbench.count("token", batch.tokens)

    `ptxbench run` then reports joules a token for the whole program, and a window of `EnergyMonitor` for what
    was counted within it (`WindowEnergy.per`). It may be called often; elsewhere it does nothing.

    Args:
        unit: What is counted, such as "token".
        n: How many; not negative.

    Raises:
        InputError: The unit has no name, or `n` is negative or no number.
    """
    if not unit:
        raise InputError("unit must have a name, such as 'token'")
    if not 0 <= n < float("inf"):
        raise InputError(f"n must say how many of {unit!r} are done, not {n!r}")
    COUNTS.add(unit, n)


def read_counts(folder: Path) -> dict[str, float]:
    """Return what all processes of a measured program counted together; a damaged file is left out."""
    totals: dict[str, float] = {}
    for path in sorted(folder.glob("*.counts")):
        try:
            found = json.loads(path.read_text())
            parts = {str(unit): float(n) for unit, n in found.items() if float(n) >= 0}
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            continue
        for unit, n in parts.items():
            totals[unit] = totals.get(unit, 0) + n
    return totals
