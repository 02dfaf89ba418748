"""What kernels are expected to draw: by a measured table and counts of ncu, or by an earlier replay."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ptxbench.attribute.powers import Expected
from ptxbench.attribute.program import energy_of
from ptxbench.attribute.recorded import RUN, RecordedProgram, load
from ptxbench.attribute.replay.of_program import program_profiles
from ptxbench.attribute.replay.plan import SETTINGS
from ptxbench.attribute.replay.profile import Profile, ProfileRow, profile_of
from ptxbench.attribute.replay.replayed import ProfileFolder
from ptxbench.core.demangle import demangled
from ptxbench.core.errors import InputError
from ptxbench.core.status import Status

# The injector's name of a graph that is timed as a whole.
WHOLE_GRAPH = "(a CUDA graph)"
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
        whole_j = sum(part.energy_j for part in found.parts)
        parts = {part.name: part.energy_j / whole_j for part in found.parts if part.energy_j > 0}
        expected[name] = Expected(found.power_w, error_w, parts=parts)
    return expected


def load_replays(folder: Path) -> tuple[Profile, ...]:
    """Return what was launched again in a run of `ptxbench run --replay`, or in one of `ptxbench.profile`.

    Raises:
        InputError: The folder is no such run, or nothing was launched again in it.
    """
    if not (folder / RUN).exists():
        return (profile_of(ProfileFolder.open(folder)),)
    recorded = load(folder)
    found = program_profiles(recorded, energy_of(recorded))
    if not found:
        raise InputError(
            f"nothing was launched again in {folder}: name a run of `ptxbench run --replay --out`"
        )
    return found


def replayed_powers(recorded: RecordedProgram, profiles: Iterable[Profile]) -> dict[str, Expected]:
    """Return what kernels drew when they were launched again, by name.

    In a program they may draw otherwise, as rows that add up to it within 5% do.

    Args:
        recorded: The run whose kernels they are.
        profiles: What was launched again.

    Raises:
        InputError: It was launched again on another GPU.
    """
    rows: dict[str, list[ProfileRow]] = {}
    differs = SETTINGS.closure
    models = {_model(board.facts.name) for board in recorded.boards}
    for profile in profiles:
        if _model(profile.gpu) not in models and not recorded.facts.is_simulated:
            raise InputError(f"`replayed` is of {profile.gpu}, and the run is of {', '.join(sorted(models))}")
        differs = max(differs, abs(profile.closure - 1))
        for row in profile.rows:
            if row.kind is not None and row.status is Status.OK and row.time_s > 0:
                rows.setdefault(row.kind.node.name, []).append(row)
    if not rows:
        return {}
    expected = {name: _together(found, differs) for name, found in rows.items()}
    whole = _together([row for found in rows.values() for row in found], differs)
    times_s = {name: _time_s(found) for name, found in rows.items()}
    kernels = {name: time_s / sum(times_s.values()) for name, time_s in times_s.items()}
    return {**expected, WHOLE_GRAPH: replace(whole, kernels=kernels)}


def _together(rows: Sequence[ProfileRow], differs: float) -> Expected:
    """Return what some rows drew together; `differs` is by how much a program may draw otherwise."""
    time_s = _time_s(rows)
    power_w, half_w = sum(row.energy_j for row in rows) / time_s, sum(row.half_j for row in rows) / time_s
    return Expected(power_w, math.hypot(half_w, differs * power_w), is_replayed=True)


def _time_s(rows: Sequence[ProfileRow]) -> float:
    return sum(row.time_s for row in rows)


def _model(name: str) -> str:
    """Return the name of a GPU without its number."""
    return re.sub(r"^GPU \d+ \((.*)\)$", r"\1", name)


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
        for text, one_s, number in zip(launches.names, each_s.tolist(), each.tolist(), strict=True):
            time_s[text] = time_s.get(text, 0.0) + one_s
            calls[text] = calls.get(text, 0) + number
    return {name: one_s / max(calls[name], 1) for name, one_s in time_s.items()}
