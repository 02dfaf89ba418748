"""The PTX, the machine code and the SASS of what ran, by hash.

While a run is written they are files of `kernels/`; a finished run has them in `kernels.zip`.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import shutil
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import InputError
from ptxbench.storage import atomic, codec
from ptxbench.storage.codec import Place
from ptxbench.storage.file_errors import read_bytes, reading, require_kept, writing
from ptxbench.storage.kernel_archive import LARGEST_MEMBER_BYTES, KernelArchive, write_archive

ARCHIVE = "kernels.zip"
INDEX = "index.json"
_FOLDER = "kernels"
_NAME_DIGITS = 16
# These files are soon packed together: the least that gzip can do takes a third of the time.
_QUICK_LEVEL = 1
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class KernelEntry:
    """One kernel of a run; its files are named by the first 16 hex digits of their hash.

    Attributes:
        name: What the kernel is; unique within the run together with the optimization level.
        opt_level: Optimization level that it was assembled at.
        ptx_sha256: Hex digest of the PTX text, `<digits>.ptx`.
        cubin_sha256: Hex digest of the machine code, `<digits>.sass` and `<digits>.cubin`.
        target: Such as "sm_90a".
        assembler: Who assembled it, with version.
    """

    name: str
    opt_level: OptLevel
    ptx_sha256: str
    cubin_sha256: str
    target: str
    assembler: str

    def fault(self) -> str:
        """Return what is no hash, as files are named by it; "" where all is well."""
        for digest in (self.ptx_sha256, self.cubin_sha256):
            if _SHA256.fullmatch(digest) is None:
                return f"names the hash {digest[:80]!r}, which is no SHA-256"
        return ""


@dataclass(frozen=True)
class KernelFiles:
    """What is kept of one kernel.

    Attributes:
        name: What the kernel is, such as "fma.rn.f32/throughput".
        ptx: Its PTX module.
        sass: The disassembly of `cubin`.
        cubin: The machine code.
    """

    name: str
    ptx: str
    sass: str
    cubin: Cubin


class KernelStore:
    """The kernels of one run.

    Args:
        run: The run's folder; its `kernels/` is made when the first kernel is added.

    Raises:
        InputError: The index cannot be read.
    """

    def __init__(self, run: Path) -> None:
        self._run = run
        self._folder = run / _FOLDER
        self._index = self._folder / INDEX
        self._archive = _archive_of(run)
        self.entries = _read_index(run, self._archive)
        # Of two entries of one text the first stands: they have the same machine code.
        self._by_ptx = {(e.ptx_sha256, e.opt_level): e for e in reversed(self.entries)}

    def add(self, name: str, ptx: str, sass: str, cubin: Cubin) -> None:
        """Keep one kernel; see `add_all`."""
        self.add_all([KernelFiles(name, ptx, sass, cubin)])

    def add_all(self, kernels: Iterable[KernelFiles]) -> None:
        """Keep kernels, and write the index once; the same one again is no change.

        Raises:
            InputError: The run holds other PTX under a name, or other machine code for its PTX.
            ValueError: The kernels are packed already.
        """
        if self._archive is not None:
            raise ValueError(f"{self._run / ARCHIVE} takes no more kernels")
        before = self.entries
        for files in kernels:
            self._add(files)
        if self.entries is not before:
            atomic.write_text(self._index, codec.to_text(self.entries))

    def pack(self) -> None:
        """Write all kernels into `kernels.zip`; `kernels/` stays, and is what counts, until `sweep`.

        Raises:
            InputError: A file is missing or damaged, or the disk is full.
        """
        index = _index_bytes(self._run, self._archive)
        if self._archive is not None or index is None:
            return
        members = {INDEX: index}
        for entry in self.entries:
            members[_member(entry.ptx_sha256, "ptx")] = self.ptx(entry).encode()
            members[_member(entry.cubin_sha256, "sass")] = self.sass(entry).encode()
            members[_member(entry.cubin_sha256, "cubin")] = self.cubin(entry).image
        write_archive(self._run / ARCHIVE, members)

    def sweep(self) -> None:
        """Remove `kernels/` of a finished run once its kernels are packed; the index goes first.

        Raises:
            InputError: It cannot be removed, or the packed file cannot be read.
        """
        if not (self._run / ARCHIVE).exists():
            return
        with writing(self._folder):
            if self._folder.exists():
                self._index.unlink(missing_ok=True)
                shutil.rmtree(self._folder)
        self._archive = _archive_of(self._run)

    def require_kept(self) -> None:
        """Refuse to go on without the kernels.

        Raises:
            InputError: They are not in the folder.
        """
        if not self._index.exists():
            require_kept(self._run / ARCHIVE, "kernels")

    def find(self, ptx: str, opt_level: OptLevel) -> KernelEntry | None:
        """Return the entry of this very PTX text at this optimization level, or None."""
        return self._by_ptx.get((sha256(ptx), opt_level))

    def cubin(self, entry: KernelEntry) -> Cubin:
        """Return the machine code that ran.

        Raises:
            InputError: Its file is missing or damaged.
        """
        name = _member(entry.cubin_sha256, "cubin")
        cubin = Cubin(self._read(name), entry.target, entry.opt_level, entry.assembler)
        if cubin.sha256 != entry.cubin_sha256:
            raise self._damaged(name)
        return cubin

    def ptx(self, entry: KernelEntry) -> str:
        """Return the PTX module.

        Raises:
            InputError: Its file is missing or damaged.
        """
        name = _member(entry.ptx_sha256, "ptx")
        data = self._read(name)
        if hashlib.sha256(data).hexdigest() != entry.ptx_sha256:
            raise self._damaged(name)
        return data.decode()

    def sass(self, entry: KernelEntry) -> str:
        """Return the disassembly.

        Raises:
            InputError: Its file is missing or damaged.
        """
        name = _member(entry.cubin_sha256, "sass")
        try:
            return self._read(name).decode()
        except UnicodeDecodeError as error:
            raise self._damaged(name) from error

    def _add(self, files: KernelFiles) -> None:
        """Keep one kernel's files; it counts once the index names it."""
        cubin = files.cubin
        ptx_sha256 = sha256(files.ptx)
        entry = KernelEntry(
            files.name, cubin.opt_level, ptx_sha256, cubin.sha256, cubin.target, cubin.assembler
        )
        if self._by_ptx.get((ptx_sha256, cubin.opt_level)) == entry:
            return
        if entry in self.entries:
            return
        self._require_same_code(entry)
        with writing(self._folder):
            self._folder.mkdir(exist_ok=True)
        self._keep(entry.ptx_sha256, "ptx", files.ptx.encode())
        self._keep(entry.cubin_sha256, "sass", files.sass.encode())
        self._keep(entry.cubin_sha256, "cubin", cubin.image)
        self.entries = (*self.entries, entry)
        self._by_ptx.setdefault((ptx_sha256, cubin.opt_level), entry)

    def _keep(self, digest: str, kind: str, data: bytes) -> None:
        """Write one file, compressed, unless the index, which makes a file count, names it already."""
        if any(digest in (e.ptx_sha256, e.cubin_sha256) for e in self.entries):
            return
        with atomic.durable(self._path(_member(digest, kind))) as file:
            # No time stamp in it: the same kernel gives the same file.
            file.write(gzip.compress(data, _QUICK_LEVEL, mtime=0))

    def _read(self, name: str) -> bytes:
        """Return the content of one file, packed or not."""
        if self._archive is not None:
            return self._archive.read(name)
        path = self._path(name)
        require_kept(path, "kernels")
        packed = read_bytes(path, cure="copy the run again")
        try:
            # A small file can unpack to more than the memory holds.
            data = gzip.GzipFile(fileobj=io.BytesIO(packed)).read(LARGEST_MEMBER_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise self._damaged(name) from error
        if len(data) > LARGEST_MEMBER_BYTES:
            raise InputError(
                f"{path} has more than {LARGEST_MEMBER_BYTES >> 20} MiB: it is no kernel; copy the run again"
            )
        return data

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.gz"

    def _damaged(self, name: str) -> InputError:
        path = self._path(name) if self._archive is None else f"{self._run / ARCHIVE}: {name}"
        return InputError(f"{path}: the file is damaged (its hash is another); copy the run again")

    def _require_same_code(self, new: KernelEntry) -> None:
        for old in self.entries:
            if old.opt_level != new.opt_level:
                continue
            if old.ptx_sha256 == new.ptx_sha256 and old.cubin_sha256 != new.cubin_sha256:
                what = f"{old.assembler} made other machine code of it than {new.assembler}"
            elif old.name == new.name and old.ptx_sha256 != new.ptx_sha256:
                what = "its PTX has changed"
            else:
                continue
            raise InputError(
                f"{self._run}: kernel {new.name} -{new.opt_level} is not the one that was measured "
                f"before ({what}); start a new run"
            )


def sha256(text: str) -> str:
    """Return the hex digest of a text in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def index_bytes(run: Path) -> bytes | None:
    """Return the index of a run's kernels as it is written, None where the run is kept without them.

    Args:
        run: The run's folder.

    Raises:
        InputError: It cannot be read.
    """
    return _index_bytes(run, _archive_of(run))


def _index_bytes(run: Path, archive: KernelArchive | None) -> bytes | None:
    if archive is not None:
        return archive.read(INDEX)
    path = run / _FOLDER / INDEX
    with reading(path):
        return read_bytes(path) if path.exists() else None


def _archive_of(run: Path) -> KernelArchive | None:
    """Return the packed kernels of a run; None where it has none, or its folder of kernels still counts."""
    packed = run / ARCHIVE
    with reading(packed):
        if (run / _FOLDER / INDEX).exists() or not packed.exists():
            return None
    return KernelArchive(packed)


def _member(digest: str, kind: str) -> str:
    return f"{digest[:_NAME_DIGITS]}.{kind}"


def _read_index(run: Path, archive: KernelArchive | None) -> tuple[KernelEntry, ...]:
    data = _index_bytes(run, archive)
    if data is None:
        return ()
    place = Place(run / (_FOLDER if archive is None else ARCHIVE) / INDEX)
    return codec.decode_list(KernelEntry, codec.parse(data, place), place)
