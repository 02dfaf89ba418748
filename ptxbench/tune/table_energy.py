"""Energy of a kernel straight from the rows of a measured table: the estimator that needs no other fit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ptxbench.errors import InputError
from ptxbench.gpu.protocol import GpuInfo
from ptxbench.status import Status
from ptxbench.store.run_folder import RunFolder
from ptxbench.store.schema import Protocol, TableRow
from ptxbench.tune.estimate import EnergyRange, Work

_PICO = 1e-12
_THREADS = {"thread": 1, "warp": 32, "warpgroup": 128}


class TableEnergy:
    """E = sum of executions x energy of the opcode + P_static x time.

    An opcode that no row of the table isolates costs what its base opcode does with other modifiers, or
    else the median of the table. Bytes beyond what the instructions themselves cost are not charged, and
    the interval is not known.

    Args:
        rows: A run's rows; its dynamic energies on random operands are used.

    Raises:
        InputError: No row gives an opcode's energy.
    """

    def __init__(self, rows: Sequence[TableRow]) -> None:
        valid = [r for r in rows if r.protocol is Protocol.DYNAMIC and r.status is Status.OK]
        self._opcodes_pj = _opcode_energies_pj([r for r in valid if r.operands == "random"])
        statics_w = [r.static_w for r in valid if math.isfinite(r.static_w)]
        if not self._opcodes_pj or not statics_w:
            raise InputError("the table has no valid dynamic energy on random operands to estimate by")
        self._static_w = float(np.median(statics_w))
        self._any_pj = float(np.median(list(self._opcodes_pj.values())))

    def energy_j(self, work: Work, time_s: float, temperature_c: float) -> EnergyRange:  # noqa: ARG002
        """Return the energy of one launch; the table's own temperature stands for the GPU's."""
        dynamic_pj = sum(one.count * self._energy_pj(one.opcode) for one in work.executed)
        return EnergyRange(dynamic_pj * _PICO + self._static_w * time_s, math.nan, math.nan)

    def _energy_pj(self, opcode: str) -> float:
        if opcode in self._opcodes_pj:
            return self._opcodes_pj[opcode]
        base = opcode.partition(".")[0]
        alike = [pj for other, pj in self._opcodes_pj.items() if other.partition(".")[0] == base]
        return float(np.median(alike)) if alike else self._any_pj


def open_table_energy(path: Path, gpu: GpuInfo) -> TableEnergy:
    """Return the estimator of a run.

    Args:
        path: The run's folder.
        gpu: What kernels are tuned for.

    Raises:
        InputError: The folder is no finished run, is of another model of GPU, or has no usable row.
    """
    folder = RunFolder.open(path)
    measured = folder.manifest.gpu
    if measured.name != gpu.name:
        raise InputError(
            f"{path} is a table of {measured.name}, and this GPU is {gpu.name}; name one of its own"
        )
    return TableEnergy(folder.rows())


def _opcode_energies_pj(rows: Sequence[TableRow]) -> Mapping[str, float]:
    """Return what one opcode costs one thread, of rows that became that opcode alone; -O3 wins."""
    energies_pj: dict[str, float] = {}
    for row in sorted(rows, key=lambda r: r.opt_level):
        opcode, _, count = row.sass.partition("*")
        if " " not in row.sass and math.isfinite(row.dynamic_pj):
            threads = _THREADS.get(row.unit, 1)
            energies_pj[opcode] = row.dynamic_pj / float(count or 1) / threads
    return energies_pj
