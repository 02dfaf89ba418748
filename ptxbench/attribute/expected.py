"""What a measured table expects kernels to draw, from their counts by Nsight Compute."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ptxbench.attribute.demangle import demangled
from ptxbench.attribute.powers import Expected
from ptxbench.attribute.recorded import RecordedProgram
from ptxbench.core.errors import InputError

# What stands before a function's name, and the arguments behind it.
_RETURNED = re.compile(r"^(?:void|auto|int|float|double)\s+")


def expected_powers(recorded: RecordedProgram, table: Path, counts: Path) -> dict[str, Expected]:
    """Return the expected power of each kernel of a run that a CSV of ncu has, by its name.

    The time of a call is the one that was measured in the run: ncu runs kernels at another clock.

    Args:
        recorded: The run.
        table: A measured table of the same GPU.
        counts: CSV of `ncu --csv --page raw`.

    Raises:
        InputError: The table or the CSV cannot be read, the table is of another GPU, or a count is missing.
    """
    from ptxbench.api.kernel import estimate_kernel
    from ptxbench.api.table import load_table
    from ptxbench.model.ncu import read_launches

    measured = load_table(table)
    others = [board.facts.name for board in recorded.boards if measured.gpu.name not in board.facts.name]
    if others and not recorded.facts.is_simulated:
        raise InputError(f"`table` {table} is of {measured.gpu.name}, and the run is of {others[0]}")
    profiled = [launch.kernel for launch in read_launches(counts)]
    by_plain = {_plain(kernel): kernel for kernel in profiled}
    expected = {}
    for name, mean_s in _mean_times_s(recorded).items():
        kernel = by_plain.get(_plain(demangled(name)))
        # A name that is a part of another one cannot be asked for.
        if kernel is None or mean_s <= 0 or any(kernel in one for one in profiled if one != kernel):
            continue
        calls = profiled.count(kernel)
        found = estimate_kernel(kernel, table=measured, ncu=counts, time_s=mean_s * calls)
        error_w = (found.high_j - found.low_j) / 2 / found.time_s
        expected[name] = Expected(found.power_w, error_w)
    return expected


def _plain(name: str) -> str:
    """Return a kernel's name without what it returns and without its arguments."""
    return _RETURNED.sub("", name).partition("(")[0].strip()


def _mean_times_s(recorded: RecordedProgram) -> Mapping[str, float]:
    """Return the mean time of a call of each kernel name, s."""
    time_s: dict[str, float] = {}
    calls: dict[str, int] = {}
    for launches in recorded.log.by_gpu.values():
        lengths_s = (launches.end_ns - launches.start_ns) / 1e9
        count = len(launches.names)
        each_s = np.bincount(launches.name, lengths_s, count)
        each = np.bincount(launches.name, minlength=count)
        for name, one_s, number in zip(launches.names, each_s.tolist(), each.tolist(), strict=True):
            time_s[name] = time_s.get(name, 0.0) + one_s
            calls[name] = calls.get(name, 0) + number
    return {name: one_s / max(calls[name], 1) for name, one_s in time_s.items()}
