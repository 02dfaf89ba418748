"""Any measured kernels on a roofline: their intensity and flops per joule, beside what its arch line says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.core.printable import render_csv
from ptxbench.experiment.roofline.result import RooflineResult, fitted_machine
from ptxbench.model.roofline.equations import Algorithm, RooflineMachine
from ptxbench.model.roofline.kernels import DRAM
from ptxbench.report.timed_kernels import TimedKernel, timed_kernels


@dataclass(frozen=True)
class PlacedKernel:
    """One kernel on the roofline of the kind of flop that it does most of.

    Attributes:
        name: Kernel.
        kind: That kind of flop.
        intensity: Flops of every kind over bytes of DRAM, flop/byte.
        gflops: Its speed, Gflop/s.
        power_w: Its mean power, W.
        gflops_per_w: Measured flops per joule, Gflop/J.
        line_gflops_per_w: What the arch line has at its intensity.
        capped: Whether the power limit was on.
    """

    name: str
    kind: str
    intensity: float
    gflops: float
    power_w: float
    gflops_per_w: float
    line_gflops_per_w: float
    capped: bool

    @property
    def of_line(self) -> float:
        """Measured flops per joule over those of the line."""
        return self.gflops_per_w / self.line_gflops_per_w


def placed_kernels(
    result: RooflineResult, source: Path, counts: Path | None = None
) -> tuple[PlacedKernel, ...]:
    """Return kernels whose flops the roofline has an energy for, by intensity.

    Args:
        result: The roofline.
        source: A file as `timed_kernels` reads.
        counts: CSV of ncu with launches of these kernels; None: as the file says.

    Raises:
        InputError: There are no such kernels, they have no counts, or none fits the roofline.
    """
    kernels = timed_kernels(source, counts)
    machines = {
        one.kind: fitted_machine(result, one.kind, one.level)[0]
        for one in result.machines
        if one.level == DRAM
    }
    found = [placed for one in kernels if (placed := _placed(one, machines)) is not None]
    if not found:
        raise InputError(f"no kernel of {source} does flops of {', '.join(machines) or 'any kind'} on DRAM")
    return tuple(sorted(found, key=lambda one: one.intensity))


def _placed(one: TimedKernel, machines: Mapping[str, RooflineMachine]) -> PlacedKernel | None:
    """Return a kernel on its roofline; None where it does mostly other flops, or moves no bytes of DRAM."""
    work = one.work
    flops = sum(work.flops.values())
    kind = max(work.flops, key=lambda name: work.flops[name], default="")
    if kind not in machines or not (math.isfinite(work.intensity) and flops > 0):
        return None
    line_j = machines[kind].energy_j(Algorithm(flops, work.bytes_moved[DRAM]))
    return PlacedKernel(
        name=one.name,
        kind=kind,
        intensity=work.intensity,
        gflops=flops / one.time_s / 1e9,
        power_w=one.energy_j / one.time_s,
        gflops_per_w=flops / one.energy_j / 1e9,
        line_gflops_per_w=flops / line_j / 1e9,
        capped=one.capped,
    )


def points_csv(results: Sequence[RooflineResult]) -> str:
    """Return every kernel of some rooflines, one a line."""
    columns = (
        "gpu", "kernel", "kind", "level", "operands", "sms", "flop_per_byte", "time_s", "power_w",
        "temperature_c", "flops_per_s", "bytes_per_s", "slowed", "settled",
    )  # fmt: skip
    rows: list[Sequence[object]] = [columns]
    for result in results:
        for point in result.points:
            kernel = point.kernel
            rows.append((
                result.gpu.name, kernel.name, kernel.kind, kernel.level, kernel.pattern, kernel.sms,
                kernel.intensity, point.time_s, point.power_w, point.temperature_c,
                point.flops_per_s, point.bytes_per_s, point.slowed, point.settled,
            ))  # fmt: skip
    return render_csv(rows)


def kernels_csv(kernels: Sequence[PlacedKernel]) -> str:
    """Return kernels on a roofline, one a line."""
    names = [field.name for field in fields(PlacedKernel)]
    return render_csv([names, *(asdict(one).values() for one in kernels)])
