"""What every picture shares: matplotlib where it is installed, the GPU in the title, the file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo, GpuKind

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width_in: float, height_in: float) -> Figure:
    """Return an empty figure.

    Raises:
        InputError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("plots need matplotlib; run 'pip install ptxbench[plot]'") from error
    return Figure(figsize=(width_in, height_in), layout="constrained")


def require_picture(path: Path) -> None:
    """Make sure that a picture can be written by this name, before anything is measured for it.

    Raises:
        InputError: matplotlib is not installed, or the format is not known.
    """
    known = new_figure(1, 1).canvas.get_supported_filetypes()
    if path.suffix.removeprefix(".").lower() not in known:
        raise InputError(f"{path} cannot be written as a picture: name it .png, .svg or .pdf")


def title(info: GpuInfo) -> str:
    """Return what a picture's numbers are of."""
    origin = info.name if info.kind is GpuKind.REAL else f"{info.name}: {info.kind.upper()}, no measurement"
    return f"{origin}, driver {info.driver}"


def save(figure: Figure, path: Path) -> None:
    """Write a figure; the ending of `path` says the format.

    Raises:
        InputError: The file cannot be written, or the format is not known.
    """
    try:
        figure.savefig(path, dpi=130)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be written as a picture: {error}") from error
