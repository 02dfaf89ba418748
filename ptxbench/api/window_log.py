"""The windows of an `EnergyMonitor` in a program that `ptxbench run` measures, for the run's report."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

# The folder in which the processes of a measured program write; `ptxbench run` sets it.
FOLDER_VARIABLE = "PTXBENCH_LAUNCHES"


def log_window(name: str, start_ns: int, end_ns: int) -> None:
    """Write down a window that is over, where `ptxbench run` measures this process; do nothing elsewhere.

    Args:
        name: Its name.
        start_ns: Its begin, host time.
        end_ns: Its end.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return
    line = json.dumps({"name": name, "start_ns": start_ns, "end_ns": end_ns}) + "\n"
    # A program must not fail because its measuring does.
    with suppress(OSError), (Path(folder) / f"{os.getpid()}.windows").open("a") as file:
        file.write(line)
