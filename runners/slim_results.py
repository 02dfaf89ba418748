"""Take kernels or readings of most runs out of results/, and pack what stays. Needs no GPU.

    python runners/slim_results.py kernels
    python runners/slim_results.py readings
    python runners/slim_results.py recompress

A clone keeps of every run its table, manifest and solved quantities, and what `result_files.is_kept` says.
What is taken out stays in the history of this repository: results/ARCHIVE.csv says at which commit, with a
hash, and `runners/archive_readings.py` puts it back. The files must be committed as they are. Commit the
removal by itself. `recompress` makes the kernels and traces of the kept runs smaller and leaves their content
as it is. Exit codes: 0 done, 2 bad input.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from result_files import (
    ARCHIVE,
    KEPT_WHOLE,
    ROOT,
    Archived,
    Kind,
    is_kept,
    kind_of,
    listed_hash,
    read_archive,
    to_csv,
)

from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.storage import traces
from ptxbench.storage.atomic import write_bytes, write_text
from ptxbench.storage.kernel_archive import KernelArchive, write_archive
from ptxbench.storage.kernels import ARCHIVE as KERNELS
from ptxbench.storage.table import TABLE

READINGS = "traces.parquet"
RECOMPRESS = "recompress"


def main() -> int:
    """Take out what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    stages = [*map(str, Kind), RECOMPRESS]
    parser.add_argument("stage", choices=stages, help="what is taken out, or that the rest is packed")
    stage = parser.parse_args().stage
    if stage == RECOMPRESS:
        print(f"{recompress(ROOT) / 1e6:.1f} MB fewer; commit the files")
        return 0
    found = slim(ROOT, Kind(stage))
    files, size = sum(one.files for one in found), sum(one.bytes for one in found)
    print(f"{files} files of {len(found)} runs, {size / 1e6:.1f} MB, are in the archive; commit the removal")
    return 0


def slim(root: Path, kind: Kind) -> list[Archived]:
    """Remove one kind of files of every run that is not kept whole.

    Args:
        root: Root of the repository.
        kind: Which files.

    Returns:
        What was removed, one entry a run.

    Raises:
        InputError: A file is not committed as it is, or a table has no solved.json to go on with.
    """
    runs: dict[str, list[str]] = defaultdict(list)
    for path in git(root, "ls-files", "-z", "results").split("\0"):
        of = kind_of(path)
        if of is not None and of[1] is kind and not is_kept(of[0]):
            runs[of[0]].append(path)
    changed = git(root, "status", "--porcelain", "results")
    if changed:
        raise InputError(f"results/ is not as committed ({changed.splitlines()[0].strip()}); commit it first")
    for run in sorted(runs):
        # A roofline and other recordings have their results in files that stay.
        if (root / run / TABLE).exists() and not (root / run / "solved.json").exists():
            cure = f"{run} has no solved.json; write it by `ptxbench report --opcodes {run} --store`"
            if kind is Kind.READINGS:
                raise InputError(cure)
            print(f"slim_results: {cure} once its kernels are back", file=sys.stderr)
    commit = git(root, "rev-parse", "HEAD").strip()
    found = [_entry(root, run, kind, commit, paths) for run, paths in sorted(runs.items())]
    ledger = root / ARCHIVE.relative_to(ROOT)
    write_text(ledger, to_csv([*read_archive(ledger), *found]))
    for paths in runs.values():
        for path in paths:
            (root / path).unlink()
    return found


def recompress(root: Path) -> int:
    """Write kernels.zip and traces.parquet of the runs that are kept whole again, as small as they get.

    Args:
        root: Root of the repository.

    Returns:
        How many bytes fewer they have. A file that is small already stays as it is.

    Raises:
        InputError: A file cannot be read or written.
    """
    saved = 0
    for run in sorted(KEPT_WHOLE):
        kernels, readings = root / run / KERNELS, root / run / READINGS
        if kernels.exists() and not (archive := KernelArchive(kernels)).is_lzma:
            before = kernels.stat().st_size
            write_archive(kernels, {name: archive.read(name) for name in archive.names}, small=True)
            saved += before - kernels.stat().st_size
        if readings.exists():
            packed = io.BytesIO()
            traces.write(packed, traces.row_groups(readings))
            fewer = readings.stat().st_size - packed.tell()
            if fewer > 0:
                write_bytes(readings, packed.getvalue())
                saved += fewer
    return saved


def _entry(root: Path, run: str, kind: Kind, commit: str, paths: list[str]) -> Archived:
    contents = [(path, (root / path).read_bytes()) for path in paths]
    size = sum(len(data) for _, data in contents)
    return Archived(run, kind, commit, len(paths), size, listed_hash(contents))


def git(root: Path, *arguments: str) -> str:
    """Return what git prints.

    Raises:
        InputError: git is missing or refuses.
    """
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],  # noqa: S607
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        text = getattr(error, "stderr", "") or str(error)
        raise InputError(f"git {arguments[0]}: {' '.join(text.split())}") from error
    return done.stdout


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"slim_results: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
