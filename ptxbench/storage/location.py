"""Where runs go."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.storage.file_errors import writing
from ptxbench.storage.folder_kind import MANIFEST

_MEASURED = "results"
_OTHER = "runs"


def default_run_path(gpu: GpuInfo, now: datetime, root: Path | None = None, prefix: str = "") -> Path:
    """Return where a run that begins now goes: `<root>/<gpu>/<prefix><run id>`.

    Args:
        gpu: The GPU.
        now: The time, with its zone.
        root: None for "results", or "runs" for what is no measurement.
        prefix: What the run's name begins with, such as "sensor-".
    """
    if root is None:
        root = Path(_MEASURED if gpu.kind is GpuKind.REAL else _OTHER)
    # The random end keeps two runs of one minute apart.
    return root / gpu.slug / f"{prefix}{now.astimezone(UTC):%Y-%m-%dT%H%MZ}-{secrets.token_hex(2)}"


def require_place(path: Path, kind: GpuKind) -> None:
    """Keep what is no measurement out of results/.

    Raises:
        InputError: `path` lies below a folder named results, and the run is not of a real GPU.
    """
    if kind is not GpuKind.REAL and _MEASURED in path.resolve().parts:
        raise InputError(
            f"{path} is below {_MEASURED}/, which is for real GPUs; "
            f"write a {kind} run elsewhere, such as {_OTHER}/"
        )


def require_outside(run: Path, *written: Path | None) -> None:
    """Keep what is written about a run out of its folder, which stays as it was measured.

    Args:
        run: The folder.
        written: Where something is to be written; None: nothing is.

    Raises:
        InputError: One of them lies in the folder.
    """
    for path in written:
        if path is not None and path.resolve().is_relative_to(run.resolve()):
            raise InputError(f"{path} lies in {run}, which stays as it is; write elsewhere")


def require_no_run(path: Path) -> None:
    """Refuse a folder that holds a run.

    Raises:
        InputError: It does.
    """
    if (path / MANIFEST).exists():
        raise InputError(f"{path} already holds a run; continue it with `resume`, or choose another folder")


def require_free(path: Path, kind: GpuKind) -> None:
    """Require that a folder is new or empty, before the work whose result it is for.

    Args:
        path: The folder.
        kind: Kind of the GPU.

    Raises:
        InputError: The folder holds something, cannot be read, or is not for this kind of GPU.
    """
    require_place(path, kind)
    with writing(path):
        if not path.is_dir() or not any(path.iterdir()):
            return
        require_no_run(path)
    raise InputError(f"{path} is not empty; choose a new folder for the run")


def make_place(path: Path, kind: GpuKind) -> None:
    """Make a new folder for what a GPU of some kind gives, or use an empty one.

    Args:
        path: The folder.
        kind: Kind of the GPU.

    Raises:
        InputError: The folder holds something, cannot be written, or is not for this kind of GPU.
    """
    require_free(path, kind)
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
