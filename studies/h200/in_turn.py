"""What scripts that launch kernels in turn share: a launch that lasts as asked, and what it draws."""

from __future__ import annotations

from dataclasses import replace

from ptxbench.catalogue.model import Instruction
from ptxbench.codegen.operands import operand_bytes
from ptxbench.core.condition import OptLevel, Pattern
from ptxbench.core.errors import GpuError
from ptxbench.core.target import find_target
from ptxbench.devices.base import Gpu, Launch
from ptxbench.energy.steady import steady_power_w
from ptxbench.experiment.launch_configuration import BLOCK, WAVES
from ptxbench.sass.module import build_module
from ptxbench.sensors.kernel_run import KernelRun
from ptxbench.storage.schema import Role

SEED = 1

_FIRST_ITERATIONS = 50
_CALIBRATIONS = 3


def calibrated_launch(
    gpu: Gpu, instruction: Instruction, level: OptLevel, role: Role, kernel_s: float
) -> Launch:
    """Return the launch of one kernel, on the operands of `SEED`.

    Args:
        gpu: Where it is calibrated.
        instruction: Catalogue row; its throughput form, where it has one.
        level: Optimization level of the assembler.
        role: Which of its kernels.
        kernel_s: How long it shall last.
    """
    form = instruction.forms(level)[-1]
    module = build_module(instruction, find_target(gpu.info.target), level, form, gpu.assemble)
    grid, block = WAVES * gpu.info.sm_count, instruction.block or BLOCK
    launch = Launch(
        trial_id=f"{instruction.name}/{level}/{role}",
        cubin=module.cubin,
        kernel=role,
        grid=grid,
        block=block,
        iterations=_FIRST_ITERATIONS,
        operands=(operand_bytes(instruction, Pattern.RANDOM, SEED),),
        pattern=Pattern.RANDOM,
        scratch_bytes=instruction.scratch * grid * block,
    )
    for _ in range(_CALIBRATIONS):
        elapsed_s = gpu.run(launch).window.elapsed_s
        launch = replace(launch, iterations=max(1, round(launch.iterations * kernel_s / elapsed_s)))
    return launch


def settled_w(gpu: Gpu, run: KernelRun) -> float:
    """Return the settled power of a run by the GPU's best source, W.

    Raises:
        GpuError: That source was not read.
    """
    sensor = gpu.sensors[0]
    series = run.trace.of(sensor.source)
    if series is None:
        raise GpuError(f"no reading of {sensor.source}")
    return steady_power_w(series, run.window, sensor).power_w
