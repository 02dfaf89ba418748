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
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.storage import codec
from ptxbench.storage.atomic import write_bytes
from ptxbench.storage.codec import Place
from ptxbench.storage.file_errors import read_bytes
from ptxbench.storage.folder_kind import MANIFEST, Kind
from ptxbench.storage.kernels import KernelEntry, index_bytes
from ptxbench.storage.manifest import TableManifest, read_manifest, with_part
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import TableRow
from ptxbench.storage.table import TABLE, read_table

SOLVED = "solved.json"
KERNELS = "kernels.json"
SUMS = "sha256.json"
# In this order, so that one run gives one file.
_CONTENT = (MANIFEST, TABLE, SOLVED, KERNELS)
MEMBERS = (*_CONTENT, SUMS)
# A whole table has 1 MB.
_LARGEST_MEMBER = 32 * 2**20
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


@dataclass(frozen=True)
class Pack:
    """What a pack holds.

    Attributes:
        path: The file.
        manifest: Manifest of the run.
        rows: Its table.
        kernels: Hashes of the machine code that ran.
        files: Files of the run's folder: name and content.
    """

    path: Path
    manifest: TableManifest
    rows: tuple[TableRow, ...]
    kernels: tuple[KernelEntry, ...]
    files: Mapping[str, bytes]

    @property
    def measured_code(self) -> frozenset[tuple[str, str]]:
        """Instruction and optimization level of which the machine code that ran is named."""
        return frozenset((kernel.name.partition("/")[0], kernel.opt_level) for kernel in self.kernels)

    @property
    def is_solved(self) -> bool:
        """Whether its solved quantities were made from its table."""
        place = Place(self.path, SOLVED)
        solved = codec.parse(self.files[SOLVED], place)
        made_from = solved.get("made_from", ()) if isinstance(solved, dict) else ()
        own = {"name": TABLE, "sha256": hashlib.sha256(self.files[TABLE]).hexdigest()}
        return any(isinstance(one, dict) and own.items() <= one.items() for one in made_from)


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
        _require_no_path(run / name, data)
    sums = [MemberSum(name, hashlib.sha256(data).hexdigest()) for name, data in content.items()]
    place = out or run.resolve().with_suffix(".tar")
    write_bytes(place, _tar({**content, SUMS: codec.to_text(sums).encode()}))
    return place


def read_pack(path: Path) -> Pack:
    """Read a pack that a stranger made: it is checked as a whole, and nothing of it becomes a path.

    Raises:
        InputError: It is no pack, a member is missing, foreign, too large or other than its hash says, holds
            the path of a folder, or does not fit.
    """
    content = _members(path)
    sums = codec.decode_list(MemberSum, codec.parse(content[SUMS], Place(path, SUMS)), Place(path, SUMS))
    known = {one.name: one.sha256 for one in sums}
    for name in _CONTENT:
        if known.get(name) != hashlib.sha256(content[name]).hexdigest():
            raise InputError(f"{path}: {name} is not as it was packed; pack the run again")
        _require_no_path(path / name, content[name])
    files = {name: content[name] for name in (MANIFEST, TABLE, SOLVED)}
    place = Place(path, KERNELS)
    kernels = codec.decode_list(KernelEntry, codec.parse(content[KERNELS], place), place)
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            Path(folder, name).write_bytes(data)
        try:
            # Not `read_run_manifest`: instructions of a stranger's own do not join the catalogue.
            manifest = read_manifest(Path(folder, MANIFEST), TableManifest, Kind.TABLE)
            rows = read_table(Path(folder, TABLE))
        except InputError as error:
            raise InputError(str(error).replace(folder, str(path))) from None
    if manifest.part.catalogue or manifest.command or manifest.host:
        raise InputError(f"{path}: its manifest is not one that `ptxbench pack` writes; pack the run again")
    return Pack(path, manifest, rows, kernels, files)


def _members(path: Path) -> dict[str, bytes]:
    """Return the members of a tar, each a plain file of a known name."""
    if path.is_file() and path.stat().st_size > len(MEMBERS) * _LARGEST_MEMBER:
        raise InputError(f"{path} is too large for a pack of a run")
    content: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(read_bytes(path)), mode="r:") as tar:
            for member in tar:
                if member.name not in MEMBERS or not member.isreg() or member.name in content:
                    raise InputError(f"{path}: {member.name!r} has no place in a pack of a run")
                if member.size > _LARGEST_MEMBER:
                    raise InputError(f"{path}: {member.name} has more than {_LARGEST_MEMBER >> 20} MiB")
                file = tar.extractfile(member)
                content[member.name] = file.read() if file else b""
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise InputError(
            f"{path} is no pack of a run ({error}); make one with `ptxbench pack RUN`"
        ) from error
    missing = [name for name in MEMBERS if name not in content]
    if missing:
        raise InputError(f"{path} lacks {', '.join(missing)}; make it with `ptxbench pack RUN`")
    return content


def _tar(content: Mapping[str, bytes]) -> bytes:
    """Return a tar without times, owners and modes of their own."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in content.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def _require_no_path(where: Path, data: bytes) -> None:
    found = _PATH.search(data.decode(errors="replace"))
    if found:
        raise InputError(f"{where} holds the path {found[0][:80]!r}, which tells of its owner; take it out")
