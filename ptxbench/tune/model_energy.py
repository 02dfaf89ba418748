"""The estimator on the energy model of a measured run (docs/model.md)."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.core.threads import LINE_BYTES
from ptxbench.model.atlas import open_atlas
from ptxbench.model.clocks.law import VoltageLaw
from ptxbench.model.code_spread import widened
from ptxbench.model.estimate import Conditions, Machine, estimate
from ptxbench.model.opcode_energies import RANDOM, ZEROS, OpcodeEnergies, OpcodeEnergy
from ptxbench.model.terms import Terms
from ptxbench.model.work import Access, Activity, KernelWork, Level
from ptxbench.tune.candidate import DEFAULT_SETTINGS
from ptxbench.tune.estimate import Work


class _CachedOpcodeEnergies(OpcodeEnergies):
    """Opcode energies that are looked up once: a search asks for the same opcodes thousands of times."""

    def __init__(self, opcode_energies: OpcodeEnergies) -> None:
        super().__init__(opcode_energies.random, opcode_energies.zeros, opcode_energies)
        self._held: dict[tuple[str, float], OpcodeEnergy] = {}

    def beside(self, levels: Collection[Level]) -> OpcodeEnergies:
        """Return the opcode energies without that of the bytes of some memory levels, cached."""
        return self._remembered if super().beside(levels) is not self else self

    @cached_property
    def _remembered(self) -> _CachedOpcodeEnergies:
        return _CachedOpcodeEnergies(self._without_bytes)

    def energy(self, opcode: str, activity: float) -> OpcodeEnergy:
        """Return an opcode's energy at an activity between 0 (zeros) and 1 (random)."""
        key = opcode, activity
        if key not in self._held:
            self._held[key] = super().energy(opcode, activity)
        return self._held[key]


@dataclass(frozen=True)
class EnergyRange:
    """An estimated energy.

    Attributes:
        energy_j: Energy.
        low_j: Lower end of its 95% interval.
        high_j: Upper end.
        time_s: Time that it is for: longer than requested where the power cap lowers the clock.
    """

    energy_j: float
    low_j: float
    high_j: float
    time_s: float


class ModelEnergy:
    """Energy of work, from the solved run of a GPU.

    Args:
        machine: Energies of its opcodes and bytes, static power and power limit.
        pattern: Operand pattern of the kernels: "random" or "zeros".
        full_mhz: SM clock when nothing slows it, NaN where it is not known: then no clock can be set.
    """

    def __init__(self, machine: Machine, pattern: str = "random", full_mhz: float = math.nan) -> None:
        self._machine = replace(machine, opcode_energies=_CachedOpcodeEnergies(machine.opcode_energies))
        self._activity = _activity(machine.terms, pattern)
        self._full_mhz = full_mhz

    @property
    def machine(self) -> Machine:
        """What it estimates by."""
        return self._machine

    def energy_j(
        self, work: Work, time_s: float, temperature_c: float, settings: GpuSettings = DEFAULT_SETTINGS
    ) -> EnergyRange:
        """Return the energy of one launch; where the power cap holds the clock down, at that clock.

        Raises:
            InputError: The run has no static power, or the clock that is set is above the full one.
        """
        ratio, machine = self._ratio(settings), self._machine
        if settings.power_limit_mw is not None:
            machine = replace(machine, limit_w=settings.power_limit_mw / 1000)
        opcodes = tuple((one.opcode, float(one.count)) for one in work.executed)
        # The time that the work would take at the full clock, from which a lower one stretches it.
        counted = KernelWork("kernel", opcodes, _moved(work), time_s * ratio, accesses=_requests(work))
        conditions = Conditions(self._activity, temperature_c, set_ratio=ratio)
        found = estimate(counted, machine, conditions)
        if not counted.bytes_moved:
            found = widened(found, counted, self._machine.terms, modelled_time=False)
        return EnergyRange(found.energy_j, found.low_j, found.high_j, found.time_s)

    def _ratio(self, settings: GpuSettings) -> float:
        if settings.sm_clock_mhz is None:
            return 1.0
        if not settings.sm_clock_mhz <= self._full_mhz:
            raise InputError(
                f"an SM clock of {settings.sm_clock_mhz} MHz cannot be estimated: the table's GPU has"
                f" {self._full_mhz:.0f} MHz at most"
            )
        return settings.sm_clock_mhz / self._full_mhz


def _moved(work: Work) -> tuple[tuple[Level, float], ...]:
    """Return bytes by memory level, as ncu counts them where the model's terms are fitted.

    Global reads and writes pass L1; L2 is touched by them and by what memory fills it with.
    """
    counts = (
        (Level.L1, work.l2_bytes),
        (Level.SHARED, work.shared_bytes),
        (Level.CROSSBAR, work.read_bytes),
        (Level.L2, work.l2_bytes + work.dram_bytes),
        (Level.DRAM, work.dram_bytes),
    )
    return tuple((level, count) for level, count in counts if math.isfinite(count))


def _requests(work: Work) -> tuple[tuple[Access, float], ...]:
    """Return accesses as ncu counts them: requests to L2 by SMs, and by its other half for what it lacks.

    The others move whole lines, which is what an estimate takes of those that are not named.
    """
    requested = work.read_requests + (work.written_bytes + work.dram_bytes) / LINE_BYTES
    return ((Access.L2_REQUEST, requested),) if math.isfinite(requested) else ()


def _activity(terms: Terms, pattern: str) -> Activity:
    return {RANDOM: terms.random, ZEROS: terms.zeros}[pattern]


def model_name(path: Path, gpu: GpuInfo) -> str:
    """Return what a report calls the estimator of a run: its folder, and its GPU where that is another model.

    Raises:
        InputError: The folder is no run.
    """
    measured = open_atlas(path).gpu.name
    return f"table {path.name}" + ("" if measured == gpu.name else f" of {measured}")


def open_model(path: Path, gpu: GpuInfo, pattern: str = "random", samples: Path | None = None) -> ModelEnergy:
    """Return the estimator of a run; one of another model of GPU ranks, where both have the same target.

    Args:
        path: The run's folder.
        gpu: What kernels are tuned for.
        pattern: Operand pattern of the kernels.
        samples: CSV file of power at several clocks, whose voltage curve stands in for the run's power law.

    Raises:
        InputError: The folder is no run, is of another target, or tells no energies.
    """
    table = open_atlas(path)
    if table.gpu.target != gpu.target:
        raise InputError(
            f"{path} is a table of {table.gpu.name} ({table.gpu.target}), and this GPU is {gpu.name}"
            f" ({gpu.target}); name one of its own"
        )
    machine = table.machine
    if samples is not None:
        machine = replace(machine, set_law=VoltageLaw.read(samples, machine.limit_w, gpu.max_sm_clock_mhz))
    return ModelEnergy(machine, pattern, gpu.max_sm_clock_mhz)
