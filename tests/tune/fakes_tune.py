"""Trials that a test writes down, a small GEMM, and a GPU that computes what a test wants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ptxbench.core.errors import LaunchError
from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.devices.base import Bytes, Launch
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.sensors.kernel_run import KernelRun
from ptxbench.tune.candidate import DEFAULT_SETTINGS
from ptxbench.tune.check import Correct
from ptxbench.tune.estimate import OpcodeCount, Work
from ptxbench.tune.kernel import Kernel, build_kernel
from ptxbench.tune.model_energy import EnergyRange
from ptxbench.tune.outcome import TrialStatus
from ptxbench.tune.trial import Trial
from ptxbench.tune.variant import DType, Problem, Variant

SMALL = Problem(DType.F32, 256, 256, 256)
VARIANT = Variant(DType.F32, 16, 16, 64, 64, 16, 4, 16, 4, 2, 4, 1)
_KINDS = {DType.F32: np.float32, DType.F64: np.float64, DType.F16: np.float16}

# A dozen kernels of little code, which are built fast.
TINY = """
[f32]
dim_m = [8]
dim_n = [8, 16]
blk_m = [32]
blk_n = [32, 64]
blk_k = [4, 8]
a_k = [1, 2]
b_n = [8]
vector = [4]
buffers = [1, 2]
pad = [0, 4]
min_blocks = [1]
[f32.bounds]
min_occupancy = 0.1
min_fma_per_byte = 1.0
min_tile = 16
max_tile = 64
max_aspect = 4
max_unrolled = 256
"""


def variant(blk_k: int) -> Variant:
    return Variant(DType.F32, 16, 16, 64, 64, blk_k, 4, 16, 4, 2, 4, 1)


def trial(number: int, time_s: float = 1e-3, energy_j: float = 0.5, **change: object) -> Trial:
    """A trial that counts; `number` makes its variant's name its own."""
    plain: dict[str, object] = {
        "variant": variant(number),
        "status": TrialStatus.OK,
        "reason": "",
        "correct": Correct.YES,
        "executed": (OpcodeCount("FFMA", 10**9), OpcodeCount("LDS.128", 10**8)),
        "l2_bytes": 1e6,
        "dram_bytes": 1e5,
        "time_s": time_s,
        "steady_s": time_s,
        "power_w": energy_j / time_s,
        "energy_j": energy_j,
        "timing_wall_s": 0.01,
        "power_wall_s": 0.4,
        "build_wall_s": 0.1,
        "check_wall_s": 0.005,
        "temperature_c": 40.0,
    }
    return Trial(**(plain | change))  # type: ignore[arg-type]


class FlatModel:
    """10 pJ an instruction and 100 W, whatever it is."""

    def energy_j(
        self, work: Work, time_s: float, temperature_c: float, settings: GpuSettings = DEFAULT_SETTINGS
    ) -> EnergyRange:
        energy_j = sum(one.count for one in work.executed) * 10e-12 + 100 * time_s
        return EnergyRange(energy_j, 0.9 * energy_j, 1.1 * energy_j, time_s)


class ComputingGpu(SimulatedGpu):
    """A simulated GPU whose products are numpy's, times `factor`; it refuses the calls that a test names."""

    factor = 1.0
    beta = 0.0
    off = 0.0
    refuses = False

    def compute(self, launch: Launch) -> Bytes | None:
        if self.refuses:
            raise LaunchError("cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
        m, n, k = launch.scalars
        a, b, *source = (data.view(np.float32).astype(float) for data in launch.operands)
        product = self.factor * (a.reshape(m, k) @ b.reshape(k, n))
        if source:
            product += self.beta * source[0].reshape(m, n)
        product[-1, -1] += self.off
        product = product.astype(np.float32)
        return product.view(np.uint8).ravel()


class CallableGpu(ComputingGpu):
    """One that a library can use, too: a call takes as long as a kernel of a product of 2048 cubed."""

    ordinal = 0

    def time_calls_s(self, call: Callable[[], object], times: int) -> float:
        call()
        return self.time_s(self._standing_in(times))

    def run_calls(self, call: Callable[[], object], times: int) -> KernelRun:
        call()
        return self.run(self._standing_in(times))

    def _standing_in(self, times: int) -> Launch:
        built = build_kernel(VARIANT, self.info.target)
        assert isinstance(built, Kernel)
        problem = Problem(DType.F32, 2048, 2048, 2048)
        empty = np.zeros(0, np.uint8)
        return replace(built.launch(problem, (empty, empty)), times=times)
