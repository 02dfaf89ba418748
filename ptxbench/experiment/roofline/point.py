"""What is run for one point of the roofline, and the folder that keeps it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from ptxbench.experiment.roofline.kinds import CHASE
from ptxbench.storage.journal import Lines
from ptxbench.storage.recording import ROOFLINE, RecordingFolder

PURPOSE = ROOFLINE
KERNELS = "kernels.jsonl"
SLEEP = "sleep"


@dataclass(frozen=True)
class PointKernel:
    """One kernel as it was launched; its readings are the recording of the same name.

    Attributes:
        name: Such as "f32-dram-0.125-random-132".
        kind: Kind of its flops, that of `CHASE` for a pointer chase; "" for kernels that sleep or copy.
        level: Memory level that it loads from, such as "dram"; "" for kernels that sleep, or load nothing in
            their loop.
        pattern: Operand pattern.
        sms: SMs that it ran on.
        flops: Flops of one launch.
        bytes_moved: Bytes of one launch from `level`.
        launches: Launches back to back within the window.
        counting_instructions: What threads execute in the loop of one launch to count and branch; NaN in runs
            that did not count it.
        mixing_instructions: What they execute to take in elements that no multiply-add takes; NaN likewise.
        other_processes: Other programs on the GPU before or after it; its power is not its own then.
    """

    name: str
    kind: str
    level: str
    pattern: str
    sms: int
    flops: float
    bytes_moved: float
    launches: int
    counting_instructions: float = math.nan
    mixing_instructions: float = math.nan
    other_processes: int = 0

    @property
    def sleeps(self) -> bool:
        """Whether it does nothing, so that its power is static."""
        return not self.kind and not self.level

    @property
    def is_peak(self) -> bool:
        """Whether it is a kernel that the others are held against: multiply-adds alone, or a copy."""
        return not self.sleeps and not (self.kind and self.level)

    @property
    def intensity(self) -> float:
        """Flops over bytes from its level, flop/byte."""
        return self.flops / self.bytes_moved

    @property
    def chases(self) -> bool:
        """Whether it is a pointer chase: its loads give the addresses of the next, and it does no flop."""
        return self.kind == CHASE.name

    @property
    def is_regressed(self) -> bool:
        """Whether it computes on what it loads, and so is a point of the roofline."""
        return bool(self.kind and self.level) and not self.chases


@dataclass(frozen=True)
class MeasuredPoint:
    """One kernel with what was read of it.

    Attributes:
        kernel: What ran.
        time_s: Time of one launch, s.
        power_w: Its mean power, W.
        power_error_w: Standard error of the power, W.
        temperature_c: Mean temperature while power was read, degrees C.
        slowed: Whether the GPU lowered its clocks meanwhile.
        settled: Whether its clock and power had settled.
        note: What must be said of its power; "" for nothing.
        fault: Why its power is not believed, "" where it is.
    """

    kernel: PointKernel
    time_s: float
    power_w: float
    power_error_w: float
    temperature_c: float
    slowed: bool
    settled: bool = True
    note: str = ""
    fault: str = ""

    @property
    def flops_per_s(self) -> float:
        """Achieved speed, flop/s."""
        return self.kernel.flops / self.time_s

    @property
    def bytes_per_s(self) -> float:
        """Achieved bandwidth, byte/s."""
        return self.kernel.bytes_moved / self.time_s


def read_kernels(folder: RecordingFolder) -> tuple[PointKernel, ...]:
    """Return the kernels of a folder that have readings, in order.

    Raises:
        InputError: The folder has none, or a line does not fit.
    """
    held = {recording.name for recording in folder.recordings}
    return tuple(one for name, one in kernel_lines(folder).by_name.items() if name in held)


def kernel_lines(folder: RecordingFolder) -> Lines[PointKernel, str]:
    """Return what a folder keeps of its kernels.

    Raises:
        InputError: A line does not fit.
    """
    return Lines(folder.path / KERNELS, PointKernel, lambda kernel: kernel.name)


def open_folder(path: Path) -> RecordingFolder:
    """Open a folder of `ptxbench roofline run`.

    Raises:
        InputError: It is none.
    """
    return RecordingFolder.open(path, PURPOSE)
