"""The PTX, the machine code and the SASS of what ran, by hash (kernels/)."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import InputError
from ptxbench.storage import atomic, codec
from ptxbench.storage.codec import Place
from ptxbench.storage.file_errors import reading, require_kept, writing

_NAME_DIGITS = 16
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class KernelEntry:
    """One kernel of a run; its files are named by the first 16 hex digits of their hash.

    Attributes:
        name: What the kernel is; unique within the run together with the level.
        opt_level: Level that it was assembled at.
        ptx_sha256: Hex digest of the PTX text, `<digits>.ptx.gz`.
        cubin_sha256: Hex digest of the machine code, `<digits>.sass.gz` and `<digits>.cubin.gz`.
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
        folder: `kernels/` of the run; made when the first kernel is added.

    Raises:
        InputError: The index cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._index = folder / "index.json"
        self.entries = _read_index(self._index)
        # Of two entries of one text the first stands: they have the same machine code.
        self._by_ptx = {(e.ptx_sha256, e.opt_level): e for e in reversed(self.entries)}

    def add(self, name: str, ptx: str, sass: str, cubin: Cubin) -> None:
        """Keep one kernel; see `add_all`."""
        self.add_all([KernelFiles(name, ptx, sass, cubin)])

    def add_all(self, kernels: Iterable[KernelFiles]) -> None:
        """Keep kernels, and write the index once; the same one again is no change.

        Raises:
            InputError: The run holds other PTX under a name, or other machine code for its PTX.
        """
        before = self.entries
        for files in kernels:
            self._add(files)
        if self.entries is not before:
            atomic.write_text(self._index, codec.to_text(self.entries))

    def require_kept(self) -> None:
        """Refuse to go on without the kernels.

        Raises:
            InputError: They are not in the folder.
        """
        require_kept(self._index, "kernels")

    def find(self, ptx: str, opt_level: OptLevel) -> KernelEntry | None:
        """Return the entry of this very PTX text at this level, or None."""
        return self._by_ptx.get((sha256(ptx), opt_level))

    def cubin(self, entry: KernelEntry) -> Cubin:
        """Return the machine code that ran.

        Raises:
            InputError: Its file is missing or damaged.
        """
        path = self._path(entry.cubin_sha256, "cubin.gz")
        require_kept(path, "kernels")
        with reading(path, cure="copy the run again"):
            data = path.read_bytes()
        try:
            image = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            image = b""
        cubin = Cubin(image, entry.target, entry.opt_level, entry.assembler)
        if cubin.sha256 != entry.cubin_sha256:
            raise InputError(f"{path}: the file is damaged (its hash is another); copy the run again")
        return cubin

    def ptx(self, entry: KernelEntry) -> str:
        """Return the PTX module."""
        return self._text(self._path(entry.ptx_sha256, "ptx.gz"))

    def sass(self, entry: KernelEntry) -> str:
        """Return the disassembly."""
        return self._text(self._path(entry.cubin_sha256, "sass.gz"))

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
        self._keep(entry.ptx_sha256, "ptx.gz", files.ptx.encode())
        self._keep(entry.cubin_sha256, "sass.gz", files.sass.encode())
        self._keep(entry.cubin_sha256, "cubin.gz", cubin.image)
        self.entries = (*self.entries, entry)
        self._by_ptx.setdefault((ptx_sha256, cubin.opt_level), entry)

    def _keep(self, digest: str, suffix: str, data: bytes) -> None:
        """Write one file, compressed, unless the index, which makes a file count, names it already."""
        if any(digest in (e.ptx_sha256, e.cubin_sha256) for e in self.entries):
            return
        with atomic.durable(self._path(digest, suffix)) as file:
            # No time stamp in it: the same kernel gives the same file.
            file.write(gzip.compress(data, mtime=0))

    def _path(self, digest: str, suffix: str) -> Path:
        return self._folder / f"{digest[:_NAME_DIGITS]}.{suffix}"

    def _text(self, path: Path) -> str:
        plain = path.with_suffix("")  # as runs were written at first
        with reading(path, cure="copy the run again"):
            if plain.exists():
                return plain.read_bytes().decode()
        require_kept(path, "kernels")
        with reading(path, cure="copy the run again"):
            return gzip.decompress(path.read_bytes()).decode()

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
                f"{self._folder.parent}: kernel {new.name} -{new.opt_level} is not the one that was measured "
                f"before ({what}); start a new run"
            )


def sha256(text: str) -> str:
    """Return the hex digest of a text in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def _read_index(path: Path) -> tuple[KernelEntry, ...]:
    with reading(path):
        if not path.exists():
            return ()
    plain = codec.read_json(path)
    if not isinstance(plain, list):
        raise Place(path).error("must be a list")
    return tuple(codec.decode(KernelEntry, item, Place(path).item(i)) for i, item in enumerate(plain))
