"""How the injected library is built, for the wheel and where none came with it.

It needs the standard library alone: `hatch_build.py` loads this file by its path, as nothing is installed yet
when a wheel is built.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

NATIVE = Path(__file__).parent / "native"
# Beside the library that comes with a wheel; `sha256sum -c` reads it.
CHECKSUM = "injector.sha256"
_PARTS = ("injector.c", "launch_timer.c", "replay.c")
_FLAGS = ("-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
_LIBRARIES = ("-ldl", "-lpthread")
# A compiler that takes longer hangs; chosen.
_TIMEOUT_S = 60


class NotBuiltError(Exception):
    """The library could not be built; the message is one line."""


def source(native: Path = NATIVE) -> str:
    """Return the injector's C source."""
    return "".join((native / part).read_text() for part in _PARTS)


def library_name(text: str) -> str:
    """Return the file name of the library that a source becomes on this machine; each source has another."""
    digest = hashlib.sha256("\0".join((text, platform.machine(), *_FLAGS)).encode()).hexdigest()
    return f"injector-{digest[:16]}.so"


def compiled(text: str, compiler: str = "cc") -> bytes:
    """Compile the injector.

    Args:
        text: Its source.
        compiler: The C compiler.

    Raises:
        NotBuiltError: There is no compiler, or it refused the source.
    """
    found = shutil.which(compiler)
    if found is None:
        raise NotBuiltError(f"there is no C compiler ({compiler}) to build the injector with")
    with tempfile.TemporaryDirectory(prefix="ptxbench-") as folder:
        try:
            built = subprocess.run(
                (found, *_FLAGS, "-x", "c", "-", "-o", "injector.so", *_LIBRARIES),
                input=text,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
                cwd=folder,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotBuiltError(f"the injector cannot be built: {error}") from error
        if built.returncode != 0:
            lines = built.stderr.strip().splitlines() or [f"exit code {built.returncode}"]
            raise NotBuiltError(f"{compiler} refused the injector: {lines[0]}")
        return (Path(folder) / "injector.so").read_bytes()


def write_library(to: Path, native: Path = NATIVE) -> tuple[Path, Path]:
    """Build the library into a folder, with its checksum beside it, and return both files.

    Raises:
        NotBuiltError: It cannot be built.
        OSError: The folder cannot be written.
    """
    text = source(native)
    library, checksum = to / library_name(text), to / CHECKSUM
    library.write_bytes(compiled(text))
    checksum.write_text(f"{hashlib.sha256(library.read_bytes()).hexdigest()}  {library.name}\n")
    return library, checksum


def shipped_library(name: str, native: Path = NATIVE) -> Path | None:
    """Return the library that came with the wheel; None without one of this name, or where it was changed.

    Args:
        name: Its file name, by `library_name`.
        native: Where it lies.
    """
    path = native / name
    try:
        expected = (native / CHECKSUM).read_text().split()
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, UnicodeDecodeError):
        return None
    return path if expected == [digest, name] else None
