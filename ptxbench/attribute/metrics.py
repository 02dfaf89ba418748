"""A program's energy as metrics: of each GPU, and of each kernel that the readings can tell apart."""

from __future__ import annotations

from collections.abc import Iterator

from ptxbench.attribute.attribution import NO_KERNEL
from ptxbench.attribute.program import ProgramEnergy
from ptxbench.core.demangle import demangled
from ptxbench.report.metrics import CALLS, ENERGY, HIGH, KERNEL, LOW, POWER, TIME, Sample


def program_samples(program: ProgramEnergy) -> Iterator[Sample]:
    """Yield what a program took; a label says where a GPU is simulated.

    Kernels that the readings cannot tell apart are one, with all of their names.

    Args:
        program: What was measured.
    """
    about = {"simulated": "true"} if program.is_simulated else {}
    for gpu in program.gpus:
        labels = {"hw.id": gpu.energy.gpu, "hw.type": "gpu", **about}
        yield Sample(ENERGY, labels, gpu.energy.energy_j)
        for metric, value in zip((LOW, HIGH), gpu.energy.interval_j, strict=True):
            yield Sample(metric, labels, value)
        if program.time_s > 0:
            yield Sample(POWER, labels, gpu.energy.energy_j / program.time_s)
        yield Sample(TIME, labels, program.time_s)
        for share in gpu.kernels:
            name = " | ".join(demangled(one) for one in share.names)
            of_kernel = labels | {"kernel": name}
            yield Sample(KERNEL, of_kernel, share.energy_j)
            if share.names != (NO_KERNEL,) and share.calls is not None:
                yield Sample(CALLS, of_kernel, float(share.calls))
