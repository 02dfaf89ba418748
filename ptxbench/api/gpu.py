"""A GPU that is open for measuring."""

from __future__ import annotations

from ptxbench.core.closing import Closing
from ptxbench.core.errors import ArgumentError, InputError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.devices import base, select


class Gpu(Closing):
    """A GPU that is open; `open_gpu` makes it, and the end of its `with` block closes it.

    Attributes:
        info: Name, board, target, power limit, driver, and whether it is real.
    """

    def __init__(self, device: base.Gpu) -> None:
        self._device = device
        self.info: GpuInfo = device.info

    @property
    def name(self) -> str:
        """Marketing name."""
        return self.info.name

    @property
    def is_real(self) -> bool:
        """Whether its numbers are measurements: not of the simulated GPU, nor of a recorded run."""
        return self.info.kind == "real"

    def sleep(self, duration_s: float) -> None:
        """Wait by the GPU's own clock: real time, or the virtual time of the simulated GPU."""
        self._device.clock.sleep_s(duration_s)

    def close(self) -> None:
        """Release the GPU."""
        self._device.close()

    def __repr__(self) -> str:
        return f"<Gpu {self.info.title}>"


def open_gpu(gpu: int | str | None = None) -> Gpu:
    """Open a GPU to measure instructions on.

        with ptxbench.open_gpu() as gpu:
            print(gpu.name)

    Nothing that ptxbench does changes a setting of the GPU.

    Args:
        gpu: An index as NVML counts (`ptxbench gpus` lists them), a UUID, "simulated", "simulated:PROFILE"
            for a GPU that runs anywhere and whose numbers are no measurements, or "replay:RUN" for a run
            folder. None: the first GPU that CUDA sees.

    Raises:
        GpuError: There is no such GPU, or the driver does not work.
        InputError: `gpu` is no index, UUID, profile or run.
    """
    return Gpu(_opened(gpu))


def closed(gpu: Gpu | int | str) -> str:
    """Return the name of a GPU that another process can open.

    Raises:
        ArgumentError: It is open in this one.
    """
    if isinstance(gpu, Gpu):
        raise ArgumentError(
            "isolate", "opens the GPU in another process: give `gpu` as an index, UUID or name, not open"
        )
    return str(gpu)


def _opened(gpu: int | str | None) -> base.Gpu:
    if gpu is None:
        return select.open_first()
    if isinstance(gpu, bool) or not isinstance(gpu, int | str):
        raise InputError(f"gpu must be an index, a UUID or a name, not {gpu!r}")
    return select.open_gpu(str(gpu))
