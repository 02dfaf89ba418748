"""Call NVIDIA's nvJitLink, the assembler of the driver's JIT as a library, as one would call ptxas.

`python nvjitlink.py LIBRARY -arch=sm_90a -O3 module.ptx -o module.cubin` is a process of its own, which loads
nothing of ptxbench: a module that breaks the library, or never ends, ends that process alone.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

_PTX = 2  # NVJITLINK_INPUT_PTX


class _Link:
    """One call of the library (nvJitLink.h).

    Args:
        library: File of the library.
        options: Its options.
    """

    def __init__(self, library: str, options: list[str]) -> None:
        self._library = ctypes.CDLL(library)
        self._source = ""
        self._handle = ctypes.c_void_p()
        self._call("Create", len(options), (ctypes.c_char_p * len(options))(*map(str.encode, options)))

    def assemble(self, source: Path) -> bytes:
        """Return the cubin of a module."""
        ptx, self._source = source.read_bytes(), source.name
        self._call("AddData", _PTX, ptx + b"\0", ctypes.c_size_t(len(ptx) + 1), source.name.encode())
        self._call("Complete")
        return self._answer("LinkedCubin")

    def _answer(self, name: str) -> bytes:
        size = ctypes.c_size_t()
        self._function(f"Get{name}Size")(self._handle, ctypes.byref(size))
        answer = ctypes.create_string_buffer(size.value)
        self._function(f"Get{name}")(self._handle, answer)
        return answer.raw

    def _call(self, name: str, *arguments: object) -> None:
        handle = ctypes.byref(self._handle) if name == "Create" else self._handle
        code = self._function(name)(handle, *arguments)
        if code:
            log = self._answer("ErrorLog").rstrip(b"\0").decode(errors="replace") if self._handle else ""
            log = log.replace("ptxas application ptx input", f"ptxas {self._source}").strip()
            sys.exit(log or f"error   : nvJitLink{name} gave {code}")

    def _function(self, name: str) -> ctypes._NamedFuncPointer:
        return getattr(self._library, f"nvJitLink{name}")  # type: ignore[no-any-return]


def main(arguments: list[str]) -> None:
    """Assemble a module, or exit with the library's complaints.

    Args:
        arguments: Library, options, source, "-o" and what to write.
    """
    library, *options, source, _, written = arguments
    Path(written).write_bytes(_Link(library, options).assemble(Path(source)))


if __name__ == "__main__":
    main(sys.argv[1:])
