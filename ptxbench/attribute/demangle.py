"""C++ names as they are written."""

from __future__ import annotations

import ctypes
from functools import lru_cache


def shortened(name: str, longest: int) -> str:
    """Return a demangled name of at most so many characters."""
    text = demangled(name)
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


@lru_cache(maxsize=4096)
def demangled(name: str) -> str:
    """Return a C++ name as it is written, where the C++ library is there; else as it is."""
    if not name.startswith("_Z"):
        return name
    try:
        library = ctypes.CDLL("libstdc++.so.6")
        libc = ctypes.CDLL(None)
    except OSError:
        return name
    library.__cxa_demangle.restype = ctypes.c_void_p
    status = ctypes.c_int()
    found = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if status.value != 0 or not found:
        return name
    text = ctypes.string_at(found).decode(errors="replace")
    libc.free(ctypes.c_void_p(found))
    return text
