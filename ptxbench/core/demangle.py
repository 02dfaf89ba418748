"""C++ names as they are written."""

from __future__ import annotations

import ctypes
import re
from functools import lru_cache

# A name by the Itanium C++ ABI (5.1.2): parts behind `_Z`, or behind `_ZN`, each after its length.
_MANGLED = re.compile(r"_Z(?:N[VK]*)?(?=\d)")
_LENGTH = re.compile(r"[1-9][0-9]{0,5}")


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
    if text == name:
        parts = _parts(name)
        return frozenset({name, "::".join(parts) or name, *parts[-1:]})
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


def _parts(name: str) -> list[str]:
    """Return namespaces and name that stand in a mangled name; they need no C++ library."""
    found, begin = [], _MANGLED.match(name)
    at = begin.end() if begin else len(name)
    while length := _LENGTH.match(name, at):
        at = length.end() + int(length[0])
        found.append(name[length.end() : at])
    return [part for part in found if not part.startswith("_GLOBAL__N")]
