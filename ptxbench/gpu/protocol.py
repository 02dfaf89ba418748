"""The border between ptxbench and whatever runs its kernels."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ptxbench.clock import Clock
from ptxbench.power.sensor import SensorDescription
from ptxbench.power.trace import KernelWindow, Trace


class GpuKind(StrEnum):
    """Whether numbers from this GPU are measurements."""

    REAL = "real"
    SIMULATED = "simulated"
    REPLAYED = "replayed"


class OptLevel(StrEnum):
    """Optimization level of the PTX assembler (CU_JIT_OPTIMIZATION_LEVEL, ptxas -O)."""

    O0 = "O0"
    O3 = "O3"

    @property
    def number(self) -> int:
        """The level as the assembler takes it."""
        return int(self.value[1:])


@dataclass(frozen=True)
class GpuInfo:
    """What a GPU is; everything here goes into the manifest.

    Attributes:
        index: NVML index, or -1 where there is no device.
        kind: Real, simulated or replayed.
        name: Marketing name.
        uuid_hash: First 12 hex digits of the UUID's SHA-256; names the board without revealing it.
        target: PTX and SASS target, such as "sm_90a".
        sm_count: Streaming multiprocessors.
        max_threads_per_sm: Resident threads that fill one.
        power_limit_w: Enforced power limit, NaN where NVML does not tell.
        max_sm_clock_mhz: Highest SM clock, NaN where NVML does not tell.
        driver: Driver version.
        cuda: CUDA version that the driver implements.
        vbios: VBIOS version.
        clocks_locked: Whether application clocks are set; None where NVML does not tell.
    """

    index: int
    kind: GpuKind
    name: str
    uuid_hash: str
    target: str
    sm_count: int
    max_threads_per_sm: int
    power_limit_w: float
    max_sm_clock_mhz: float
    driver: str
    cuda: str
    vbios: str
    clocks_locked: bool | None = None

    @property
    def title(self) -> str:
        """Its name, and where it is no real one that its numbers are no measurement."""
        if self.kind is GpuKind.REAL:
            return self.name
        return f"{self.name} ({self.kind.upper()}, no measurement)"

    @property
    def slug(self) -> str:
        """Folder name of this GPU, such as "nvidia-h200"."""
        words = "".join(c if c.isalnum() else " " for c in self.name.lower()).split()
        return "-".join(words)


@dataclass(frozen=True)
class Cubin:
    """Machine code that was assembled from one PTX module.

    Attributes:
        image: The ELF image.
        target: Such as "sm_90a".
        opt_level: Level that it was assembled at.
        assembler: Who assembled it, with version: "ptxas 13.0.88" or "driver 580.159.04 (CUDA 13.0)".
    """

    image: bytes
    target: str
    opt_level: OptLevel
    assembler: str

    @cached_property
    def sha256(self) -> str:
        """Hex digest of the image."""
        return hashlib.sha256(self.image).hexdigest()


@dataclass(frozen=True)
class Launch:
    """One kernel launch, recorded as one trial.

    Every kernel of ptxbench takes five parameters: the addresses (u64) of input, output (8 bytes
    a thread), scratch and stamps (four u64 a block: its %globaltimer and %clock64 at begin and
    end), and iterations (u32).

    Attributes:
        trial_id: Identity of the trial within its run; a replay finds the record by it.
        cubin: Module that holds the kernel.
        kernel: Entry name.
        grid: Blocks.
        block: Threads a block.
        iterations: Loop count.
        operands: Contents of the input buffer, uint8, shape (bytes,).
        pattern: Name of the operand pattern ("random", "zeros").
        scratch_bytes: Memory that the instruction itself works on.
        before_s: Seconds recorded before the launch.
        after_s: Seconds recorded after the end.
        output_bytes: How much of the output buffer to return (0: none).
    """

    trial_id: str
    cubin: Cubin
    kernel: str
    grid: int
    block: int
    iterations: int
    operands: npt.NDArray[np.uint8]
    pattern: str
    scratch_bytes: int = 0
    before_s: float = 0.0
    after_s: float = 0.0
    output_bytes: int = 0


@dataclass(frozen=True)
class Telemetry:
    """The GPU's state at one moment; NaN or -1 where NVML does not tell.

    Attributes:
        temperature_c: GPU temperature.
        sm_clock_mhz: SM clock.
        memory_clock_mhz: Memory clock.
        throttle_reasons: Bit mask of nvmlDeviceGetCurrentClocksEventReasons.
        other_processes: Compute processes on the GPU besides this one.
    """

    temperature_c: float
    sm_clock_mhz: float
    memory_clock_mhz: float
    throttle_reasons: int
    other_processes: int


@dataclass(frozen=True)
class KernelRun:
    """What one launch gave.

    Attributes:
        window: When the kernel ran.
        trace: Power readings over the recording, which holds the window.
        before: State just before the launch.
        after: State just after the end.
        throttle_reasons: Bitwise or of every poll during the window.
        output: First bytes of the output buffer, uint8, shape (output_bytes,).
    """

    window: KernelWindow
    trace: Trace
    before: Telemetry
    after: Telemetry
    throttle_reasons: int
    output: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class SequenceRun:
    """What several launches within one recording gave.

    Attributes:
        windows: When each kernel ran, in order, at least one.
        trace: Power readings over the recording, which holds every window.
        before: State just before the first launch.
        after: State just after the last end.
        throttle_reasons: Bitwise or of every poll during each window, one a launch.
        output: First bytes of the output buffer after the last launch, uint8, shape (output_bytes,).
    """

    windows: tuple[KernelWindow, ...]
    trace: Trace
    before: Telemetry
    after: Telemetry
    throttle_reasons: tuple[int, ...]
    output: npt.NDArray[np.uint8]


class Gpu(Protocol):
    """Something that runs kernels while it records power."""

    @property
    def info(self) -> GpuInfo:
        """What this GPU is."""
        ...

    @property
    def clock(self) -> Clock:
        """The host clock that windows and readings are in."""
        ...

    @property
    def sensors(self) -> tuple[SensorDescription, ...]:
        """The power sources that answer on this GPU, best for steady power first."""
        ...

    def assemble(self, ptx: str, opt_level: OptLevel) -> Cubin:
        """Turn one PTX module into machine code for this GPU.

        Raises:
            RefusedModuleError: The assembler refused the module.
            ToolError: The assembler is missing or was stopped.
        """
        ...

    def blocks_per_sm(self, cubin: Cubin, kernel: str, block: int) -> int:
        """Return how many blocks of `block` threads one SM holds at once."""
        ...

    def run(self, launch: Launch) -> KernelRun:
        """Launch once and record power over the window.

        Raises:
            LaunchError: The kernel could not be loaded or did not end.
            GpuError: The GPU stopped answering.
        """
        ...

    def run_sequence(
        self, launches: Sequence[Launch], gaps_s: Sequence[float], poll_interval_s: float | None = None
    ) -> SequenceRun:
        """Launch one after the other within one recording of power.

        Args:
            launches: At least one. `before_s` of the first and `after_s` of the last count; operands
                that are not the very array of the launch before are copied within the gap.
            gaps_s: Wait between the end of each launch and the begin of the next, shape (n - 1,), s.
            poll_interval_s: Time between two polls of the power sources, kept exactly; None: the GPU's own,
                on the mean, so that polls are in step with no sensor.

        Raises:
            LaunchError: A kernel could not be loaded or did not end.
            GpuError: The GPU stopped answering.
            ValueError: There is no launch, or not one gap between each two.
        """
        ...

    def telemetry(self) -> Telemetry:
        """Read the GPU's state now."""
        ...

    def close(self) -> None:
        """Release the GPU."""
        ...
