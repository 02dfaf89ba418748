"""Calibrate the terms of an estimate on a board."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ptxbench.api.calibrate_options import CalibrationSettings
from ptxbench.api.gpu import Gpu, open_gpu
from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.option import takes
from ptxbench.devices import base
from ptxbench.experiment import calibrate as measuring
from ptxbench.model.calibration import Calibration
from ptxbench.model.default_table import default_table
from ptxbench.storage.recording import CALIBRATION, RecordingFolder

REPLAY = "replay:"


@dataclass(frozen=True)
class CalibrateOptions(CalibrationSettings):
    """What is calibrated on which GPU.

    Attributes:
        gpu: An open GPU, or what `open_gpu` takes.
    """

    gpu: Gpu | int | str


@takes(CalibrateOptions)
def calibrate(options: CalibrateOptions) -> Calibration:
    """Measure the terms of an estimate on a board: bytes, tensor opcodes, active chip, clock, scale.

        found = ptxbench.calibrate(0, out="runs/mine")
        kernel = ptxbench.estimate_kernel("saxpy.ptx", grid=1056, block=256, table="runs/mine")

    Some forty kernels run for a second or two each. `estimate_kernel(table=...)` takes the folder in the
    place of a table. No setting of the GPU is changed. `replay:FOLDER` fits a calibration's readings again.

    Returns:
        What each term was by the table and is on this board with its 95% interval (`found`), how far the
        kernels are from the fit (`residuals`), and what stays as it was (`kept`).

    Raises:
        InputError: The table is not of this kind of GPU or lacks the rows that are needed, the time is too
            short or was spent before all kernels had run, or the folder does not fit.
        GpuError: There is no such GPU, or it stopped answering.
        ToolError: The assembler or the disassembler is missing.
    """
    if isinstance(options.gpu, str) and options.gpu.startswith(REPLAY):
        return calibrate_again(options.gpu, options)[1]
    with ExitStack() as stack:
        gpu = options.gpu if isinstance(options.gpu, Gpu) else stack.enter_context(open_gpu(options.gpu))
        path, found = calibrate_on(gpu._device, options)
    if found is None:
        raise InputError(f"the time given is spent: continue {path} with `resume`")
    return found


def calibrate_on(
    gpu: base.Gpu, settings: CalibrationSettings, show: Callable[[int, int, str], None] = lambda *_: None
) -> tuple[Path, Calibration | None]:
    """Calibrate a GPU that is open; return the folder, and None where kernels are missing."""
    return measuring.calibrate(
        gpu,
        _table(settings, gpu.info),
        None if settings.out is None else Path(settings.out),
        resume=settings.resume,
        show=show,
        budget_s=60 * settings.budget_minutes,
    )


def calibrate_again(spec: str, settings: CalibrationSettings) -> tuple[Path, Calibration]:
    """Fit a calibration again that `replay:FOLDER` names; return the folder of the copy."""
    run = Path(spec.removeprefix(REPLAY))
    table = _table(settings, RecordingFolder.open(run, CALIBRATION).manifest.gpu)
    return measuring.calibrate_again(run, table, None if settings.out is None else Path(settings.out))


def _table(settings: CalibrationSettings, info: GpuInfo) -> str | Path:
    if settings.table is not None:
        return settings.table
    return default_table(lambda: (info.name, info.target))[0]
