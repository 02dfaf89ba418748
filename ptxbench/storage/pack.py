"""A finished run as one file to hand on: what it found, without its readings and without where it was made.

The file is a tar of plain members, the same bytes for the same run: manifest, table, solved quantities,
hashes of the machine code that ran, and the SHA-256 of each of these. The manifest leaves out the command,
the host and the folder's name, which tell of their owner.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.storage import codec
from ptxbench.storage.atomic import write_bytes
from ptxbench.storage.file_errors import read_bytes
from ptxbench.storage.folder_kind import MANIFEST
from ptxbench.storage.kernels import index_bytes
from ptxbench.storage.manifest import with_part
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.table import TABLE

SOLVED = "solved.json"
KERNELS = "kernels.json"
SUMS = "sha256.json"
# In this order, so that one run gives one file.
CONTENT = (MANIFEST, TABLE, SOLVED, KERNELS)
MEMBERS = (*CONTENT, SUMS)
# An absolute path of two names or more, a home folder, a drive of Windows.
_PATH = re.compile(r"(?<![\w.\-/+*])(?:/[\w.+\-]+){2,}|(?<!\w)~/|\b[A-Za-z]:\\")


@dataclass(frozen=True)
class MemberSum:
    """The hash of a member.

    Attributes:
        name: The member.
        sha256: Hex digest.
    """

    name: str
    sha256: str


def write_pack(run: Path, out: Path | None = None) -> Path:
    """Write a finished run of `ptxbench table` as one file, and return where it is.

    Args:
        run: Folder of the run, with its kernels.
        out: The file; None: beside the folder, with the ending .tar.

    Raises:
        InputError: The run is not finished or lacks a file, has instructions of its owner's own, holds the
            path of a folder, or the file cannot be written.
    """
    with RunFolder.open(run) as folder:
        manifest = folder.manifest
        if not folder.finished:
            raise InputError(f"{run} is not finished; continue it with `ptxbench table --resume --out {run}`")
    if manifest.part.catalogue:
        raise InputError(f"{run} holds instructions of a file of your own; measure it without `catalogue`")
    kernels = index_bytes(run)
    if kernels is None:
        raise InputError(f"{run} is kept without its kernels, whose hashes a pack holds; put them back first")
    handed_on = with_part(
        replace(manifest, command=(), host=None), run_id=f"board-{manifest.gpu.uuid_hash[:4]}"
    )
    content = {
        MANIFEST: codec.to_text(handed_on).encode(),
        TABLE: read_bytes(run / TABLE),
        SOLVED: read_bytes(run / SOLVED, cure="`ptxbench report --opcodes RUN --store` makes it"),
        KERNELS: kernels,
    }
    for name, data in content.items():
        require_no_path(run / name, data)
    sums = [MemberSum(name, hashlib.sha256(data).hexdigest()) for name, data in content.items()]
    place = out or run.resolve().with_suffix(".tar")
    write_bytes(place, _tar({**content, SUMS: codec.to_text(sums).encode()}))
    return place


def _tar(content: Mapping[str, bytes]) -> bytes:
    """Return a tar without times, owners and modes of their own."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in content.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def require_no_path(where: Path, data: bytes) -> None:
    """Refuse a member that holds the path of a folder.

    Args:
        where: Its name, for the error.
        data: Its content.

    Raises:
        InputError: It holds one.
    """
    found = _PATH.search(data.decode(errors="replace"))
    if found:
        raise InputError(f"{where} holds the path {found[0][:80]!r}, which tells of its owner; take it out")
