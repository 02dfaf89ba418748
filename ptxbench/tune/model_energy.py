"""The estimator on the energy model of a measured run (docs/model.md)."""

from __future__ import annotations

from pathlib import Path

from ptxbench.errors import InputError
from ptxbench.gpu.protocol import GpuInfo
from ptxbench.model.estimate import Conditions, Machine, estimate
from ptxbench.model.machine import read_table
from ptxbench.model.work import Activity, KernelWork, Level
from ptxbench.tune.estimate import EnergyRange, Work

_ACTIVITY = {"random": Activity(), "zeros": Activity(data=0.0)}


class ModelEnergy:
    """Prices work by what a run says of its GPU.

    Args:
        machine: Energies of its opcodes and bytes, static power and power limit.
        pattern: Operand pattern of the kernels: "random" or "zeros".
    """

    def __init__(self, machine: Machine, pattern: str = "random") -> None:
        self._machine = machine
        self._activity = _ACTIVITY[pattern]

    def energy_j(self, work: Work, time_s: float, temperature_c: float) -> EnergyRange:
        """Return the energy of one launch; where the power cap holds the clock down, at that clock.

        Raises:
            InputError: The run has no static power.
        """
        opcodes = tuple((one.opcode, float(one.count)) for one in work.executed)
        moved = ((Level.L2, work.l2_bytes), (Level.DRAM, work.dram_bytes))
        found = estimate(
            KernelWork("gemm", opcodes, moved, time_s),
            self._machine,
            Conditions(self._activity, temperature_c),
        )
        return EnergyRange(found.energy_j, found.low_j, found.high_j, found.time_s)


def open_model(path: Path, gpu: GpuInfo, pattern: str = "random") -> ModelEnergy:
    """Return the estimator of a run.

    Args:
        path: The run's folder.
        gpu: What kernels are tuned for.
        pattern: Operand pattern of the kernels.

    Raises:
        InputError: The folder is no run, is of another model of GPU, or tells no energies.
    """
    table = read_table(path)
    if table.gpu.name != gpu.name:
        raise InputError(
            f"{path} is a table of {table.gpu.name}, and this GPU is {gpu.name}; name one of its own"
        )
    return ModelEnergy(table.machine, pattern)
