"""Put archived readings and kernels of results/ back, or pack them for a data release. Needs no GPU.

    python runners/archive_readings.py restore results/nvidia-h200/table-cba9
    python runners/archive_readings.py restore --all
    python runners/archive_readings.py pack readings.tar.gz

results/ARCHIVE.csv names the commit of this repository that holds the files of each run, and a hash, which is
checked. `restore` writes a run's files into the working tree, where git shows them as new: do not commit them
again. Kernels come back as one file, kernels.zip, whatever form the history has them in. `pack` writes one
archive of all of them with the same bytes at each call, and its SHA-256 beside it. A shallow clone gets the
history first: `git fetch --unshallow`. Exit codes: 0 done, 2 bad input.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from result_files import ARCHIVE, ROOT, Archived, Kind, kind_of, listed_hash, read_archive

from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.storage.atomic import replacing, write_bytes, write_text
from ptxbench.storage.kernel_archive import write_archive
from ptxbench.storage.kernels import ARCHIVE as PACKED


def main() -> int:
    """Do what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tasks = parser.add_subparsers(dest="task", required=True)
    task = tasks.add_parser("restore", help="put the files of runs back into the working tree")
    task.add_argument("runs", type=Path, nargs="*", metavar="RUN", help="folder of a run in results/")
    task.add_argument("--all", action="store_true", help="every run that ARCHIVE.csv names")
    task = tasks.add_parser("pack", help="write one archive of all runs for a data release")
    task.add_argument("out", type=Path, help="file that ends in .tar.gz")
    arguments = parser.parse_args()
    if arguments.task == "pack":
        print(f"{pack(ROOT, arguments.out)}  {arguments.out}")
        return 0
    if bool(arguments.runs) is arguments.all:
        raise InputError("name the folders of runs, or give --all")
    for one in _chosen(ROOT, None if arguments.all else arguments.runs):
        restore(ROOT, one)
        print(f"{one.run}: {one.files} files of {one.kind}, {one.bytes / 1e6:.1f} MB")
    return 0


def restore(root: Path, one: Archived) -> None:
    """Write one run's archived files into the working tree.

    Args:
        root: Root of the repository.
        one: Which.

    Raises:
        InputError: This clone lacks the commit, or the files are not those that were noted.
    """
    files = archived_files(root, one)
    (root / one.run).mkdir(parents=True, exist_ok=True)
    if one.kind is Kind.KERNELS and PACKED not in {Path(path).name for path, _ in files}:
        write_archive(root / one.run / PACKED, unpacked(files))
        return
    for path, data in files:
        write_bytes(root / path, data)


def unpacked(files: Sequence[tuple[str, bytes]]) -> dict[str, bytes]:
    """Return the content of the files of a folder kernels/, by name, without their compression.

    Args:
        files: Path and content of each, some of them `.gz`.
    """
    return {
        Path(path).name.removesuffix(".gz"): gzip.decompress(data) if path.endswith(".gz") else data
        for path, data in files
    }


def pack(root: Path, out: Path) -> str:
    """Write all archived files as one .tar.gz, and its checksum beside it; return the SHA-256.

    Owners, times and order are fixed, so that the same files give the same bytes.

    Raises:
        InputError: There is nothing in the archive, or a file cannot be read or written.
    """
    if not out.name.endswith(".tar.gz"):
        raise InputError(f"{out} must end in .tar.gz")
    entries = _chosen(root, None)
    with (
        replacing(out) as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for one in entries:
            for path, data in archived_files(root, one):
                member = tarfile.TarInfo(path)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    with out.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    write_text(out.with_name(f"{out.name}.sha256"), f"{digest}  {out.name}\n")
    return digest


def archived_files(root: Path, one: Archived) -> list[tuple[str, bytes]]:
    """Return path and content of one run's archived files, from the history of this repository.

    Raises:
        InputError: This clone lacks the commit, or the files are not those that were noted.
    """
    names = _git(root, "ls-tree", "-r", "-z", "--name-only", one.commit, "--", one.run).decode()
    paths = [path for path in names.split("\0") if kind_of(path) == (one.run, one.kind)]
    request = "".join(f"{one.commit}:{path}\n" for path in paths).encode()
    found = list(zip(paths, _contents(_git(root, "cat-file", "--batch", given=request)), strict=True))
    if len(found) != one.files or listed_hash(found) != one.sha256:
        raise InputError(
            f"{one.run}: the {one.kind} at commit {one.commit} are not those that {ARCHIVE.name} notes;"
            " get the repository anew"
        )
    return found


def _contents(batch: bytes) -> Iterator[bytes]:
    """Yield each object of `git cat-file --batch`, which prints a line that ends in its size before it."""
    at = 0
    while at < len(batch):
        end = batch.index(b"\n", at)
        size = int(batch[at:end].rpartition(b" ")[2])
        yield batch[end + 1 : end + 1 + size]
        at = end + 1 + size + 1


def _chosen(root: Path, runs: Sequence[Path] | None) -> list[Archived]:
    """Return the entries of some runs, or of all.

    Raises:
        InputError: One has no entry.
    """
    entries = read_archive(root / ARCHIVE.relative_to(ROOT))
    if runs is None:
        if not entries:
            raise InputError(f"{ARCHIVE.name} names no run: nothing was taken out of results/")
        return entries
    chosen = []
    for run in runs:
        place = run.resolve()
        name = place.relative_to(root).as_posix() if place.is_relative_to(root) else str(run)
        of_run = [one for one in entries if one.run == name]
        if not of_run:
            raise InputError(f"{run}: {ARCHIVE.name} names no such run; it has {len(entries)} entries")
        chosen += of_run
    return chosen


def _git(root: Path, *arguments: str, given: bytes | None = None) -> bytes:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],  # noqa: S607
            input=given,
            capture_output=True,
            check=True,
        )
    except OSError as error:
        raise InputError(f"git cannot be run ({error})") from error
    except subprocess.CalledProcessError as error:
        text = " ".join(error.stderr.decode(errors="replace").split())
        raise InputError(f"{text}; where the clone is shallow, run `git fetch --unshallow` first") from error
    return done.stdout


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"archive_readings: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
