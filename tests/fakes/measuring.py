"""Trials that a test writes down, a GPU that is watched, and quick runs on the simulated GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fakes import run as fake
from fakes.modules import built

from ptxbench.analysis.overhead import overhead_loops
from ptxbench.analysis.subject import Subject
from ptxbench.codegen.operands import operand_bytes
from ptxbench.core.condition import DYNAMIC, Condition, OptLevel, Pattern
from ptxbench.core.errors import LaunchError
from ptxbench.core.status import Status
from ptxbench.devices.base import Bytes, Launch
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import H200
from ptxbench.devices.simulated.profile import Profile
from ptxbench.experiment.built_kernels import BuiltKernels
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.run_options import RunOptions
from ptxbench.experiment.sensor_choice import choose_sensor
from ptxbench.experiment.session import start_run
from ptxbench.experiment.trial import Runner
from ptxbench.sensors.kernel_run import KernelRun
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import Role, TableRow, TrialRecord

SMS, BLOCK, COPIES = 132, 1024, 64
THREADS = SMS * BLOCK
STATIC_W = 120.0


def prepared(name: str = "fma.rn.f32", protocol: str = DYNAMIC) -> BuiltKernels:
    module = built(name)
    row, level = module.instruction, module.opt_level
    loops = overhead_loops(row, module.kernels)
    condition = Condition(level, protocol, Pattern.RANDOM)
    subject = Subject(row, condition, module.loop_check, tuple(loops.items()))
    return BuiltKernels(subject, module.cubin, operand_bytes(row, Pattern.RANDOM, 1))


def subject(name: str = "fma.rn.f32", protocol: str = DYNAMIC) -> Subject:
    return prepared(name, protocol).subject


def trial(role: Role, repeat: int = 0, **change: object) -> TrialRecord:
    """A valid trial of `subject()`, 1 s long."""
    double = role in (Role.TARGET_2N, Role.OVERHEAD_2N)
    plain = replace(
        fake.record(0),
        trial_id=f"fma.rn.f32/O3/dynamic/random/{role}/{repeat}",
        role=role,
        repeat=repeat,
        grid=SMS,
        block=BLOCK,
        copies=2 * COPIES if double else COPIES,
        iterations=1_000_000,
        elapsed_s=1.0,
        steady_power_w=STATIC_W,
        temperature_c=40.0,
        sm_clock_mhz=1980.0,
        throttle_reasons=0,
        status=Status.OK,
        reason="",
    )
    return replace(plain, **change)


def hot_trial(role: Role, thread_pass_pj: float, repeat: int = 0, **change: object) -> TrialRecord:
    """A trial whose loop adds `thread_pass_pj` to static power with each pass of each thread."""
    plain = trial(role, repeat, **change)
    dynamic_j = thread_pass_pj * 1e-12 * plain.grid * plain.block * plain.iterations
    return replace(plain, steady_power_w=STATIC_W + dynamic_j / plain.elapsed_s)


class WatchedGpu(SimulatedGpu):
    """The simulated GPU with a list of what was launched; it fails where a test wants it to."""

    def __init__(self, profile: Profile = H200, poll_s: float = 0.02) -> None:
        # The sensors' own refresh sets what is seen; polling less often only takes less time.
        super().__init__(profile, poll_interval_s=poll_s)
        self.launched: list[Launch] = []
        self.fails: Callable[[Launch], bool] = lambda _: False

    @property
    def trials(self) -> list[str]:
        """Launches less the warm-ups."""
        return [launch.trial_id for launch in self.launched if "warm-up" not in launch.trial_id]

    @property
    def warm_ups(self) -> list[str]:
        return [launch.trial_id for launch in self.launched if "warm-up" in launch.trial_id]

    def run(self, launch: Launch) -> KernelRun:
        self._watch(launch)
        return super().run(launch)

    def compute(self, launch: Launch) -> Bytes | None:
        self._watch(launch)
        return super().compute(launch)

    def _watch(self, launch: Launch) -> None:
        self.launched.append(launch)
        if self.fails(launch):
            raise LaunchError("cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS")


def asked(*instructions: str, **change: object) -> RunOptions:
    """A small dynamic run at O3."""
    small = RunOptions(
        instructions=instructions,
        opt_levels=(OptLevel.O3,),
        protocols=(DYNAMIC,),
        min_repeats=2,
        max_repeats=2,
        seed=1,
    )
    return replace(small, **change)


def measured(gpu: object, path: Path, what: RunOptions, **callbacks: object) -> tuple[TableRow, ...]:
    """Measure into a new folder."""
    with start_run(gpu, what, path) as folder:
        return measure_table(gpu, folder, **callbacks)


def opened_runner(gpu: object, path: Path) -> tuple[Runner, RunFolder]:
    folder = start_run(gpu, asked("fma.rn.f32"), path)
    return Runner(gpu, folder, choose_sensor(gpu, None)), folder
