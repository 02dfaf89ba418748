"""Which files of results/ a clone keeps, and which are in the archive of measured readings."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from enum import StrEnum
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.storage.file_errors import reading
from ptxbench.storage.kernels import ARCHIVE as KERNELS

ROOT = Path(__file__).resolve().parents[1]
ARCHIVE = ROOT / "results" / "ARCHIVE.csv"
# The repeat of the README's table, and one small run of each other kind that tests or docs read.
KEPT_WHOLE = frozenset(
    {
        "results/nvidia-h100/doctor-224e/counter",
        "results/nvidia-h100/doctor-224e/sensor",
        "results/nvidia-h100/doctor-b6a0/counter",
        "results/nvidia-h100/profiles/convolution",
        "results/nvidia-h100/profiles/cupy",
        "results/nvidia-h100/profiles/decode",
        "results/nvidia-h100/profiles/mix",
        "results/nvidia-h100/profiles/three",
        "results/nvidia-h100/profiles/train",
        "results/nvidia-h100/roofline/f32",
        "results/nvidia-h100/roofline/f32-levels",
        "results/nvidia-h100/roofline/f32-zeros",
        "results/nvidia-h100/roofline/mma-f16",
        "results/nvidia-h200/law-439f/lanes",
        "results/nvidia-h200/levels",
        "results/nvidia-h200/operands",
        "results/nvidia-h200/profiles/decode",
        "results/nvidia-h200/repeat-1",
        "results/nvidia-h200/roofline/f32",
        "results/nvidia-h200/roofline/f32-levels",
        "results/nvidia-h200/roofline/f32-zeros",
        "results/nvidia-h200/roofline/f64",
        "results/nvidia-h200/roofline/mma-f16",
        "results/nvidia-h200/roofline/mma-f64",
        "results/nvidia-h200/roofline/mma-tf32",
        "results/nvidia-h200/sensor",
        "results/nvidia-h200/table-6eda-repeat",
    }
)


class Kind(StrEnum):
    """What is taken out of a run in one stage."""

    KERNELS = "kernels"
    READINGS = "readings"


_READINGS = frozenset({"records.parquet", "traces.parquet"})


@dataclass(frozen=True)
class Archived:
    """Files of one run that a clone does not hold.

    Attributes:
        run: The run's folder, from the root of the repository.
        kind: Which of its files.
        commit: Commit of this repository that has them.
        files: How many there are.
        bytes: Their size together.
        sha256: Hash of the sorted lines `SHA-256 of the file, two spaces, path from the root`.
    """

    run: str
    kind: Kind
    commit: str
    files: int
    bytes: int
    sha256: str


def kind_of(path: str) -> tuple[str, Kind] | None:
    """Return of which run and kind a file of results/ is, or None where it is always kept.

    Args:
        path: From the root of the repository, with forward slashes.
    """
    folder, _, name = path.rpartition("/")
    if not path.startswith("results/"):
        return None
    if folder.endswith("/kernels"):  # as the history has them
        return folder.removesuffix("/kernels"), Kind.KERNELS
    if name == KERNELS:
        return folder, Kind.KERNELS
    return (folder, Kind.READINGS) if name in _READINGS else None


def is_kept(run: str) -> bool:
    """Return whether a clone holds all files of a run."""
    return run in KEPT_WHOLE


def listed_hash(files: Iterable[tuple[str, bytes]]) -> str:
    """Return the hash of the sorted list of files by hash and path.

    Args:
        files: Path and content of each.
    """
    lines = sorted(f"{hashlib.sha256(data).hexdigest()}  {path}" for path, data in files)
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def to_csv(entries: Sequence[Archived]) -> str:
    """Return ARCHIVE.csv, by run and kind."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(Archived)])
    writer.writerows(sorted(map(astuple, entries)))
    return text.getvalue()


def read_archive(path: Path = ARCHIVE) -> list[Archived]:
    """Read ARCHIVE.csv; a repository from which nothing was taken has none.

    Raises:
        InputError: It does not fit.
    """
    with reading(path, cure="restore it from git"):
        text = path.read_text(encoding="utf-8") if path.exists() else ""
    try:
        return [
            Archived(
                row["run"],
                Kind(row["kind"]),
                row["commit"],
                int(row["files"]),
                int(row["bytes"]),
                row["sha256"],
            )
            for row in csv.DictReader(io.StringIO(text))
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} does not fit ({error}); restore it from git") from error
