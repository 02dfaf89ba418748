"""A GPU that computes what the reference says of its PTX, or of other PTX that a test puts in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

import numpy as np
from fakes.measuring import WatchedGpu

from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.devices.base import Bytes, Launch
from ptxbench.emulator.bits import Bits
from ptxbench.emulator.kernel import expected_results


@lru_cache(maxsize=256)
def _computed(ptx: str, entry: str, operands: bytes, threads: int, iterations: int, block: int) -> Bits:
    """Return what the reference says, which many tests ask of the same kernels."""
    return expected_results(ptx, entry, np.frombuffer(operands, np.uint8), threads, iterations, block)


class ComputingGpu(WatchedGpu):
    """The simulated GPU, which says that it is real and returns results where they are asked for.

    Args:
        runs: What it runs in place of the PTX that it assembled.
    """

    # Of all such GPUs: a resumed run does not assemble again.
    _ptx: ClassVar[dict[str, str]] = {}

    def __init__(self, runs: Callable[[str], str] = lambda ptx: ptx) -> None:
        super().__init__()
        self._runs = runs

    @property
    def info(self) -> GpuInfo:
        return replace(super().info, kind=GpuKind.REAL)

    @property
    def checks(self) -> list[Launch]:
        """The launches whose results were asked for."""
        return [launch for launch in self.launched if launch.result_bytes]

    def assemble(self, ptx: str, opt_level: OptLevel) -> Cubin:
        cubin = super().assemble(ptx, opt_level)
        self._ptx[cubin.sha256] = ptx
        return cubin

    def compute(self, launch: Launch) -> Bytes:
        super().compute(launch)
        ptx = self._runs(self._ptx[launch.cubin.sha256])
        operands, threads = launch.operands[0].tobytes(), launch.grid * launch.block
        results = _computed(ptx, launch.kernel, operands, threads, launch.iterations, launch.block)
        return results.astype(np.uint64).view(np.uint8)
