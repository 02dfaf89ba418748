"""A load of known timing: one kernel that keeps the chip as busy, and for as long, as requested."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ptxbench.analysis.throttling import describe_throttling
from ptxbench.catalogue.load import find_instruction
from ptxbench.codegen.operands import operand_bytes
from ptxbench.core.condition import OptLevel, Pattern
from ptxbench.core.errors import LaunchError
from ptxbench.core.target import find_target
from ptxbench.devices.base import Gpu, Launch
from ptxbench.experiment.kernel import MAX_ITERATIONS
from ptxbench.experiment.launch_configuration import BLOCK, SHARES
from ptxbench.sass.module import Module, build_module
from ptxbench.storage.schema import Role

# Full rate on random operands: well above idle on every GPU, and under the power cap of most.
INSTRUCTION = "fma.rn.f32"
_SEED = 1
# Passes of the first launch; what its time is told by; launches until then; and how long the load is tried,
# to see whether it meets the power limit. Chosen.
_FIRST_ITERATIONS = 200
_CALIBRATION_S = 0.05
_MAX_GUESSES = 8
_TRIAL_S = 1.0


@dataclass(frozen=True)
class Load:
    """The kernel, calibrated.

    Attributes:
        module: What is run: the throughput form at O3, on random operands.
        template: A launch on `sm_count` SMs, to be given its loop count.
        sm_count: SMs that run it at full load.
        per_pass_s: Time of one pass of the loop.
    """

    module: Module
    template: Launch
    sm_count: int
    per_pass_s: float

    def launch(self, label: str, duration_s: float, share: float = 1.0) -> Launch:
        """Return a launch of about `duration_s` on a share of the SMs."""
        iterations = max(1, min(round(duration_s / self.per_pass_s), MAX_ITERATIONS))
        grid = max(1, round(share * self.sm_count))
        return replace(self.template, trial_id=label, iterations=iterations, grid=grid)


def prepare_load(gpu: Gpu) -> Load:
    """Build the load for a GPU and find how long one pass of its loop takes.

    It fills every SM; where the GPU throttles within a second, fewer.

    Raises:
        LaunchError: The kernel did not run, or the GPU throttles even on a quarter of its SMs.
        ToolError: The assembler or the disassembler is missing or refused the module.
    """
    load = full_load(gpu, INSTRUCTION)
    throttling = ""
    for share in SHARES:
        lighter = replace(load, sm_count=max(1, round(share * gpu.info.sm_count)))
        throttling = describe_throttling(gpu.run(lighter.launch("calibration", _TRIAL_S)).throttle_reasons)
        if not throttling:
            return lighter
    raise LaunchError(f"the GPU slows down even on a quarter of its SMs ({throttling}); let it cool first")


def full_load(gpu: Gpu, name: str) -> Load:
    """Build the load of one instruction on every SM, whether the GPU throttles or not.

    Args:
        gpu: The GPU.
        name: Catalogue name of the instruction.

    Raises:
        LaunchError: The kernel did not run.
        ToolError: The assembler or the disassembler is missing or refused the module.
        InputError: There is no such instruction.
    """
    instruction = find_instruction(name)
    form = instruction.forms(OptLevel.O3)[-1]
    module = build_module(instruction, find_target(gpu.info.target), OptLevel.O3, form, gpu.assemble)
    template = Launch(
        trial_id="calibration",
        cubin=module.cubin,
        kernel=Role.TARGET,
        grid=gpu.info.sm_count,
        block=BLOCK,
        iterations=_FIRST_ITERATIONS,
        operands=(operand_bytes(instruction, Pattern.RANDOM, _SEED),),
        pattern=Pattern.RANDOM,
    )
    per_pass_s = pass_time_s(lambda launch: gpu.run(launch).window.elapsed_s, template, _CALIBRATION_S)
    return Load(module, template, gpu.info.sm_count, per_pass_s)


def pass_time_s(time_s: Callable[[Launch], float], launch: Launch, aim_s: float) -> float:
    """Return the time of one pass of a kernel's loop, from ever longer launches.

    Args:
        time_s: Runs a launch; returns how long it took.
        launch: The first of them.
        aim_s: How long the last one is to take; half of that will do.

    Raises:
        LaunchError: The kernel did not run.
    """
    for _ in range(_MAX_GUESSES):
        elapsed_s = time_s(launch)
        if not elapsed_s > 0:
            raise LaunchError("the kernel took no time")
        per_pass_s = elapsed_s / launch.iterations
        if elapsed_s >= aim_s / 2:
            break
        launch = replace(launch, iterations=min(int(aim_s / per_pass_s) + 1, MAX_ITERATIONS))
    return per_pass_s
