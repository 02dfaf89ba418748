"""What runners/validate_kernels.py measured and counted: whole kernels, with every power reading."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np

from ptxbench.analysis.statistics import estimate
from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.model.ncu import ProfiledLaunch, read_launches, work_of
from ptxbench.model.opcode_energies import RANDOM
from ptxbench.model.work import KernelWork
from ptxbench.sensors.kernel_run import POWER_CAP
from ptxbench.storage.folder_kind import Kind
from ptxbench.storage.manifest import Manifest, new_manifest, read_manifest

MEASURED = "measured.json"
COUNTS = "counts"
_MARKER = "ptxbench_case_"


class Purpose(StrEnum):
    """What a kernel's measurement may be used for."""

    JUDGED = "judged"
    FIT = "fit"
    STATIC = "static"


@dataclass(frozen=True)
class KernelCase:
    """One kernel on one kind of operands.

    Attributes:
        number: Its number, by which a profile names it.
        name: Kernel and size.
        operands: "random" or "zeros".
        purpose: What its measurement may be used for.
        failure: Why it could not be run, or "".
    """

    number: int
    name: str
    operands: str
    purpose: Purpose
    failure: str = ""


@dataclass(frozen=True)
class KernelTrial:
    """One kernel called again and again for about a second.

    Attributes:
        case: Number of its case.
        repeat: Round that it ran in.
        calls: Calls in the measured window.
        elapsed_s: Length of the measured window, by events.
        power_w: Steady power over it.
        power_error_w: Its standard error.
        counter_w: The same by the energy counter.
        temperature_c: Mean GPU temperature in it.
        sm_clock_mhz: Mean SM clock in it, as NVML gives it.
        memory_clock_mhz: Memory clock at its end.
        throttle_reasons: Bitwise or of NVML's clocks event reasons in it.
        other_processes: Foreign compute processes, -1 where NVML does not tell.
        reason: Why there is no power, or "".
        reading_s: Time of each power reading after the window's start.
        reading_w: The readings, of the session's first source.
    """

    case: int
    repeat: int
    calls: int
    elapsed_s: float
    power_w: float
    power_error_w: float
    counter_w: float
    temperature_c: float
    sm_clock_mhz: float
    memory_clock_mhz: float
    throttle_reasons: int
    other_processes: int
    reason: str
    reading_s: tuple[float, ...]
    reading_w: tuple[float, ...]

    @property
    def time_s(self) -> float:
        """Time of one call."""
        return self.elapsed_s / self.calls

    @property
    def energy_j(self) -> float:
        """Energy of one call, static power included; NaN where there is no power."""
        return self.power_w * self.time_s


@dataclass(frozen=True, kw_only=True)
class KernelsPart:
    """What only a session of measured kernels on one board has.

    Attributes:
        source: The source of `power_w`.
        libraries: Versions of what brought the kernels.
        cases: Every case, also those that failed.
        trials: In the order in which they ran.
    """

    source: str
    libraries: tuple[str, ...]
    cases: tuple[KernelCase, ...]
    trials: tuple[KernelTrial, ...] = ()


KernelSession = Manifest[KernelsPart]


def kernel_session(
    gpu: GpuInfo,
    source: str,
    libraries: tuple[str, ...],
    cases: tuple[KernelCase, ...],
    trials: tuple[KernelTrial, ...] = (),
) -> KernelSession:
    """Return a session that begins now."""
    part = KernelsPart(source=source, libraries=libraries, cases=cases, trials=trials)
    return new_manifest(Kind.KERNELS, part, (gpu,))


def read_session(folder: Path) -> KernelSession:
    """Read `measured.json`.

    Raises:
        InputError: It is missing, or does not fit.
    """
    return read_manifest(folder / MEASURED, KernelSession, Kind.KERNELS)


@dataclass(frozen=True)
class MeasuredKernel:
    """One case, its trials taken together.

    Attributes:
        case: The case.
        energy_j: Mean energy of a call.
        ci95_j: Half-width of its 95% interval over the rounds; NaN for a single one.
        time_s: Mean time of a call.
        power_w: Mean power.
        temperature_c: Mean temperature.
        clock_ratio: Mean SM clock over the highest.
        capped: Whether the power cap was on in any round.
    """

    case: KernelCase
    energy_j: float
    ci95_j: float
    time_s: float
    power_w: float
    temperature_c: float
    clock_ratio: float
    capped: bool


def measured_kernels(session: KernelSession) -> tuple[MeasuredKernel, ...]:
    """Return every case that has at least one trial with a power, by number."""
    trials: dict[int, list[KernelTrial]] = defaultdict(list)
    for trial in session.part.trials:
        if math.isfinite(trial.power_w):
            trials[trial.case].append(trial)
    return tuple(
        _measured(session, case, trials[case.number]) for case in session.part.cases if trials[case.number]
    )


def _measured(session: KernelSession, case: KernelCase, trials: Sequence[KernelTrial]) -> MeasuredKernel:
    energy = estimate([trial.energy_j for trial in trials])
    return MeasuredKernel(
        case=case,
        energy_j=energy.mean,
        ci95_j=energy.ci95,
        time_s=float(np.mean([t.time_s for t in trials])),
        power_w=float(np.mean([t.power_w for t in trials])),
        temperature_c=float(np.mean([t.temperature_c for t in trials])),
        clock_ratio=float(np.mean([t.sm_clock_mhz for t in trials])) / session.gpu.max_sm_clock_mhz,
        capped=any(t.throttle_reasons & POWER_CAP for t in trials),
    )


def read_works(folder: Path, session: KernelSession) -> tuple[Mapping[int, KernelWork], list[str]]:
    """Return what each case executes, and a sentence for each file that cannot be read.

    A case that was not profiled itself executes what the same kernel does on random operands.

    Args:
        folder: Folder of ncu's CSV files.
        session: Names the cases.
    """
    launches, problems = launches_by_case(folder)
    names = {case.number: case for case in session.part.cases}
    works: dict[int, KernelWork] = {}
    for number, of_case in launches.items():
        try:
            works[number] = work_of(of_case, names[number].name, folder)
        except (InputError, KeyError) as error:
            problems.append(str(error))
    by_name = {names[n].name: work for n, work in works.items() if names[n].operands == RANDOM}
    for case in session.part.cases:
        if case.number not in works and case.name in by_name:
            works[case.number] = by_name[case.name]
    return works, problems


def launches_by_case(folder: Path) -> tuple[Mapping[int, list[ProfiledLaunch]], list[str]]:
    """Return the launches of each profiled case, and a sentence for each file that cannot be read.

    Args:
        folder: Folder of ncu's CSV files.
    """
    launches: dict[int, list[ProfiledLaunch]] = {}
    problems = []
    for path in sorted(folder.glob("*.csv")):
        try:
            launches |= _by_case(read_launches(path))
        except InputError as error:
            problems.append(str(error))
    return launches, problems


def _by_case(launches: Iterable[ProfiledLaunch]) -> dict[int, list[ProfiledLaunch]]:
    """Return the launches behind each marker kernel, by the number in the marker's name."""
    found: dict[int, list[ProfiledLaunch]] = {}
    number = -1
    for launch in launches:
        if launch.kernel.startswith(_MARKER):
            number = int(
                "".join(c for c in launch.kernel.removeprefix(_MARKER).partition("(")[0] if c.isdigit())
            )
            found[number] = []
        elif number >= 0:
            found[number].append(launch)
    return {number: of_case for number, of_case in found.items() if of_case}
