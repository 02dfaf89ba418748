"""The runs of many boards below one folder: found, compared, kept."""

from __future__ import annotations

from pathlib import Path

from ptxbench.analysis.board_spread import BoardRun
from ptxbench.analysis.fleet_spread import fleet_spread
from ptxbench.core.errors import InputError
from ptxbench.storage.document import write_document
from ptxbench.storage.fleet_file import FLEET_FILE, FleetFile
from ptxbench.storage.folder_kind import MANIFEST
from ptxbench.storage.known_rows import measured_rows
from ptxbench.storage.manifest import read_run_manifest
from ptxbench.storage.table import TABLE, read_table


def board_folder(folder: Path, board: str) -> Path:
    """Return where the run of one board goes.

    Args:
        folder: Folder of all boards.
        board: Hash of its UUID.
    """
    return folder / f"board-{board[:8]}"


def require_fleet_folder(folder: Path, *, resume: bool) -> None:
    """Refuse a folder that holds runs already, or that holds none to go on with.

    Raises:
        InputError: As said.
    """
    found = _run_folders(folder)
    if found and not resume:
        raise InputError(
            f"{folder} already holds runs; continue them with `resume`, or choose another folder"
        )
    if resume and not found:
        raise InputError(f"{folder} holds no run to continue; leave out `resume`")


def compare_runs(folder: Path) -> FleetFile:
    """Compare the boards of all runs below a folder.

    Raises:
        InputError: The folder holds no run, or a file cannot be read.
    """
    found = _run_folders(folder)
    if not found:
        raise InputError(f"{folder} holds no run: name the folder that holds the runs of several boards")
    return fleet_spread([_read(path) for path in found])


def gather(folder: Path) -> FleetFile:
    """Compare the boards of all runs below a folder of one's own, and write fleet.json there.

    Raises:
        InputError: The folder holds no run, or a file cannot be read.
    """
    document = compare_runs(folder)
    write_document(folder / FLEET_FILE, document)
    return document


def _run_folders(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob(f"*/{MANIFEST}"))


def _read(path: Path) -> BoardRun:
    # A run that was stopped before its first row has no table.
    rows = read_table(path / TABLE) if (path / TABLE).exists() else ()
    manifest = read_run_manifest(path)
    return BoardRun(path.name, manifest, measured_rows(rows, manifest))
