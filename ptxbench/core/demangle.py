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


def short_names(name: str) -> frozenset[str]:
    """Return what a kernel may be called, such as "scale", "ns::scale" and "ns::scale<float, 64>"."""
    text = demangled(name).replace("(anonymous namespace)::", "")
    depth, begin, end, bare = 0, 0, len(text), ""
    for at, sign in enumerate(text):
        if sign == "(" and depth == 0:
            end = at
            break
        depth += (sign == "<") - (sign == ">")
        if depth == 0 and sign == " ":
            begin, bare = at + 1, ""
        elif depth == 0 and sign != ">":
            bare += sign
    return frozenset({name, text[begin:end], bare, bare.rpartition("::")[2]})
