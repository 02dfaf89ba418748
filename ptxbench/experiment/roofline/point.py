"""What is run for one point of the roofline, and the folder that keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.experiment.roofline.kernel import INTENSITIES, KINDS, IntensityKernel
from ptxbench.storage import codec, journal
from ptxbench.storage.recording import RecordingFolder

PURPOSE = "roofline"
KERNELS = "kernels.jsonl"
SLEEP = "sleep"


@dataclass(frozen=True)
class PointKernel:
    """One kernel as it was launched; its readings are the recording of the same name.

    Attributes:
        name: Such as "f32-dram-0.125-random-132".
        kind: Kind of its flops; "" for the kernel that sleeps.
        level: Memory level that it loads from: "dram" or "l2"; "" for the kernel that sleeps.
        pattern: Operand pattern.
        sms: SMs that it ran on.
        flops: Flops of one launch.
        bytes_moved: Bytes of one launch from `level`.
        launches: Launches back to back within the window.
    """

    name: str
    kind: str
    level: str
    pattern: str
    sms: int
    flops: float
    bytes_moved: float
    launches: int


@dataclass(frozen=True)
class RooflineOptions:
    """What is measured.

    Attributes:
        kinds: Kinds of flop.
        levels: Memory levels.
        patterns: Operand patterns.
        sms: Numbers of SMs; none stand for all, and for an eighth of them, which meets no power limit and
            tells constant power apart.
        intensities: Intensities that are wanted, flop/byte.
        window_s: Time for which each kernel runs; 0: as the sensor needs.
        seed: Of the order.
    """

    kinds: tuple[str, ...] = ("f32", "f64")
    levels: tuple[str, ...] = ("dram",)
    patterns: tuple[str, ...] = ("random",)
    sms: tuple[int, ...] = ()
    intensities: tuple[float, ...] = ()
    window_s: float = 0.0
    seed: int = 0

    def kernels(self) -> tuple[IntensityKernel, ...]:
        """Return the kernels of every kind; with no intensities named, those that a kind can reach.

        Raises:
            InputError: An intensity cannot be reached.
        """
        if self.intensities:
            return tuple(IntensityKernel(KINDS[kind], i) for kind in self.kinds for i in self.intensities)
        made = []
        for kind in self.kinds:
            for intensity in INTENSITIES:
                try:
                    made.append(IntensityKernel(KINDS[kind], intensity))
                except InputError:
                    continue
        return tuple(made)


def read_kernels(folder: RecordingFolder) -> tuple[PointKernel, ...]:
    """Return the kernels of a folder that have readings, in order.

    Raises:
        InputError: The folder has none, or a line does not fit.
    """
    path = folder.path / KERNELS
    held = {recording.name for recording in folder.recordings}
    lines = journal.read(path) if path.exists() else ()
    kernels = {k.name: k for k in (codec.decode(PointKernel, plain, place) for place, plain in lines)}
    return tuple(kernel for name, kernel in kernels.items() if name in held)


def open_folder(path: Path) -> RecordingFolder:
    """Open a folder of `ptxbench roofline run`.

    Raises:
        InputError: It is none.
    """
    return RecordingFolder.open(path, PURPOSE)
