"""The energy of a program's run by the methods of Arafa et al. (2020), beside the corrected one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ptxbench.attribute.program import ProgramEnergy
from ptxbench.attribute.recorded import RecordedProgram
from ptxbench.core.estimate import finite
from ptxbench.core.status import Status
from ptxbench.energy.methods import mtsm_j, papi_j, sma_j
from ptxbench.energy.reading import EnergyReading
from ptxbench.report.text_table import Column, Kind, render_table
from ptxbench.sensors.base import POWER_SOURCES, SourceName
from ptxbench.sensors.trace import KernelWindow, Series

METHODS: Mapping[str, Callable[[Series, KernelWindow], EnergyReading]] = {
    "SMA": sma_j,
    "PAPI-style": papi_j,
    "MTSM (Eq. 2)": mtsm_j,
}
_HEADINGS = ("GPU", "power source", "method", "J", "beside corrected", "readings")
_ABOUT = "the whole run by the methods of Arafa et al. (2020), and what each has more than the report:"
_NUMBERS = frozenset({"J", "beside corrected", "readings"})


@dataclass(frozen=True)
class MethodEnergy:
    """The energy of a whole run by one method from one power source.

    Attributes:
        gpu: Name and index of the GPU.
        source: The power source.
        method: The method, such as "PAPI-style".
        reading: Its energy, and why there is none.
        corrected_j: The energy that the report has, J.
    """

    gpu: str
    source: str
    method: str
    reading: EnergyReading
    corrected_j: float

    @property
    def difference(self) -> float:
        """What the method has more than the report, as a fraction of that."""
        return self.reading.energy_j / self.corrected_j - 1 if self.corrected_j else float("nan")


def method_energies(recorded: RecordedProgram, program: ProgramEnergy) -> tuple[MethodEnergy, ...]:
    """Return the energy of the run by each method, from each source of each GPU that gives watts.

    The readings are those of the run; SMA has those before and after it, too, as it does not know when a
    program runs.

    Args:
        recorded: The run.
        program: What the report says of it.
    """
    return tuple(_energies(recorded, program))


def _energies(recorded: RecordedProgram, program: ProgramEnergy) -> Iterator[MethodEnergy]:
    window = recorded.facts.window
    for board, gpu in zip(recorded.boards, program.gpus, strict=True):
        for series in board.series():
            if (
                series.source not in POWER_SOURCES
                or series.counts_energy
                or series.source == SourceName.MEMORY
            ):
                continue
            for name, method in METHODS.items():
                reading = method(series, window)
                yield MethodEnergy(gpu.energy.gpu, series.source, name, reading, gpu.energy.energy_j)


def method_lines(energies: Sequence[MethodEnergy], width: int | None) -> list[str]:
    """Return them as a table, a line each.

    Args:
        energies: Of the run.
        width: Columns of the terminal, None where there is none.
    """
    columns = [Column(heading, Kind.NUMBER if heading in _NUMBERS else Kind.TEXT) for heading in _HEADINGS]
    cells = list(map(_cells, energies))
    return [_ABOUT, *render_table(columns, cells, width).split("\n")] if cells else []


def _cells(one: MethodEnergy) -> tuple[str, ...]:
    reading = one.reading
    if reading.status is not Status.OK:
        return one.gpu, one.source, f"{one.method}: {reading.reason}", "-", "-", "0"
    energy, difference = f"{reading.energy_j:.5g}", f"{one.difference:+.1%}"
    return one.gpu, one.source, one.method, energy, difference, str(reading.readings)


def method_document(energies: Sequence[MethodEnergy]) -> list[dict[str, object]]:
    """Return them for JSON; what is not known is None."""
    return [
        {
            "gpu": one.gpu,
            "source": one.source,
            "method": one.method,
            "energy_j": finite(one.reading.energy_j),
            "readings": one.reading.readings,
            "status": str(one.reading.status),
            "reason": one.reading.reason,
        }
        for one in energies
    ]
