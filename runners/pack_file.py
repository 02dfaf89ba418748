"""What `ptxbench pack` wrote, read again: a stranger made it, and nothing of it becomes a path."""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.storage import codec
from ptxbench.storage.codec import Place
from ptxbench.storage.file_errors import read_bytes
from ptxbench.storage.folder_kind import MANIFEST, Kind
from ptxbench.storage.kernels import KernelEntry
from ptxbench.storage.manifest import TableManifest, read_manifest
from ptxbench.storage.pack import CONTENT, KERNELS, MEMBERS, SOLVED, SUMS, MemberSum, require_no_path
from ptxbench.storage.schema import TableRow
from ptxbench.storage.table import TABLE, read_table

# A whole table has 1 MB.
_LARGEST_MEMBER = 32 * 2**20


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


def read_pack(path: Path) -> Pack:
    """Read a pack that a stranger made: it is checked as a whole, and nothing of it becomes a path.

    Raises:
        InputError: It is no pack, a member is missing, foreign, too large or other than its hash says, holds
            the path of a folder, or does not fit.
    """
    content = _members(path)
    sums = codec.decode_list(MemberSum, codec.parse(content[SUMS], Place(path, SUMS)), Place(path, SUMS))
    known = {one.name: one.sha256 for one in sums}
    for name in CONTENT:
        if known.get(name) != hashlib.sha256(content[name]).hexdigest():
            raise InputError(f"{path}: {name} is not as it was packed; pack the run again")
        require_no_path(path / name, content[name])
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
