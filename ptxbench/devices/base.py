"""The border between ptxbench and whatever runs its kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ptxbench.core.clock import Clock
from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.threads import WARP
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.kernel_run import ConcurrentRun, KernelRun, SequenceRun, Telemetry

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel that says all of its own: an array or a number.

    Attributes:
        operand: Index of the array in `Launch.operands`; -1: a number.
        written: Whether the kernel writes the array.
        kind: Type of the number: "i8" to "i64", "u8" to "u64", "f32" or "f64".
        value: The number.
    """

    operand: int = -1
    written: bool = False
    kind: str = "u32"
    value: float = 0


@dataclass(frozen=True, eq=False)
class Launch:
    """One kernel, the shape of its launch, and what it is given.

    A kernel of ptxbench's own (`scalars` is None) takes five parameters: the addresses (u64) of input,
    output (8 bytes a thread), scratch and stamps (four u64 a block: its %globaltimer and %clock64 at begin
    and end), and `iterations` (u32). Any other kernel takes the addresses of its inputs and of its output, in
    that order, and then its scalars (u32).
    `parameters`, where it is given, says instead what a kernel takes, in order.

    Attributes:
        trial_id: Identity of the trial within its run; a replay finds the record by it.
        cubin: Module that holds the kernel.
        kernel: Entry name.
        grid: Blocks along x.
        block: Threads a block, along x.
        iterations: How often a thread goes through the kernel's one loop.
        operands: Contents of each input buffer, uint8, shape (bytes,): one for a kernel of ptxbench's own.
            A GPU does not copy the very same array again to a kernel with scalars: do not change it.
        pattern: Name of the operand pattern ("random", "zeros").
        scratch_bytes: Memory that the instruction itself works on.
        before_s: Seconds recorded before the launch.
        after_s: Seconds recorded after the end.
        scalars: Parameters behind the addresses; None: a kernel of ptxbench's own.
        result_bytes: How much of the output `Gpu.compute` returns; of a kernel with scalars, its size.
        grid_y: Blocks along y.
        shared_bytes: Dynamic shared memory a block.
        times: How often it is launched, back to back, within one window.
        grid_z: Blocks along z.
        block_y: Threads of a block along y.
        block_z: Threads of a block along z.
        parameters: Every parameter of a kernel with `scalars`, in order; None: as above.
        executed: How often a thread executes each opcode, where the caller counted it. It is what the
            simulated GPU charges for a kernel with `parameters`.
        lanes: Active lanes of each warp; the kernel itself lets the others leave.
    """

    trial_id: str
    cubin: Cubin
    kernel: str
    grid: int
    block: int
    iterations: int
    operands: tuple[Bytes, ...]
    pattern: str
    scratch_bytes: int = 0
    before_s: float = 0.0
    after_s: float = 0.0
    scalars: tuple[int, ...] | None = None
    result_bytes: int = 0
    grid_y: int = 1
    shared_bytes: int = 0
    times: int = 1
    grid_z: int = 1
    block_y: int = 1
    block_z: int = 1
    parameters: tuple[Parameter, ...] | None = None
    executed: tuple[tuple[str, float], ...] = ()
    lanes: int = WARP

    @property
    def blocks(self) -> int:
        """Blocks of one launch."""
        return self.grid * self.grid_y * self.grid_z

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block * self.block_y * self.block_z


class ObservedGpu(Protocol):
    """Something whose power and state can be read."""

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

    def telemetry(self) -> Telemetry:
        """Read the GPU's state now."""
        ...


class Gpu(ObservedGpu, Protocol):
    """Something that runs kernels while it records power."""

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

    def run_concurrently(self, launches: Sequence[Launch], rounds: int = 1) -> ConcurrentRun:
        """Launch kernels at once, each in a stream of its own, and record power over the window.

        Args:
            launches: Kernels with `parameters`; each is launched once a round, in this order.
            rounds: A round begins when every kernel of the one before has ended.

        Raises:
            LaunchError: A kernel could not be loaded or did not end.
            GpuError: The GPU stopped answering.
            ReplayError: The GPU replays a run.
        """
        ...

    def time_s(self, launch: Launch) -> float:
        """Launch without a recording; return how long all `times` of it took by the GPU's own events, s.

        Raises:
            LaunchError: The kernel could not be loaded or did not end.
            GpuError: The GPU stopped answering.
            ReplayError: The GPU replays a run.
        """
        ...

    def compute(self, launch: Launch) -> Bytes | None:
        """Launch a kernel, without a recording, into an output of which every byte was 0xFF; return it.

        A kernel with `parameters` gets its arrays as `operands` holds them.

        Returns:
            The output, uint8, shape (result_bytes,), or the arrays that `parameters` says are written, one
            after the other; None on a GPU that computes nothing.

        Raises:
            LaunchError: The kernel could not be loaded or did not end.
            GpuError: The GPU stopped answering.
            ReplayError: The GPU replays a run.
        """
        ...

    def close(self) -> None:
        """Release the GPU."""
        ...
