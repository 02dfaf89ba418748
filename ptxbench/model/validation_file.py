"""What runners/validate_kernels.py measured, on disk: whole kernels, with every power reading."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ptxbench.core.gpu_info import GpuInfo
from ptxbench.storage.folder_kind import Kind
from ptxbench.storage.manifest import Manifest, new_manifest, read_manifest

MEASURED = "measured.json"
COUNTS = "counts"


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
