"""C++ names as they are written."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable
from functools import lru_cache

# A name by the Itanium C++ ABI (5.1.2): parts behind `_Z`, or behind `_ZN`, each after its length.
_MANGLED = re.compile(r"_Z(?:N[VK]*)?(?=\d)")
_LENGTH = re.compile(r"[1-9][0-9]{0,5}")
# Characters of a short name.
LONGEST_NAME = 56
_ARGUMENTS = re.compile(r"<[^<>]*>")
_NAMESPACES = re.compile(r"^(?:\(anonymous namespace\)::|[A-Za-z_]\w*::)+")
# What a template of many uses computes: the last name like these among its arguments; those that only wrap
# another are passed over.
_COMPUTED = re.compile(r"\b(\w+(?:Functor|Functor\w+|Ops|_kernel_cuda|_kernel_impl|_kernel))\b")
_WRAPPERS = re.compile(r"(?:Unary|Binary|BUnary|AUnary|Compare)Functor|gpu_kernel\w*|\w*elementwise_kernel")
_ENDINGS = re.compile(r"(?:_kernel)?(?:_cuda|_impl)?$")


def shortened(name: str, longest: int) -> str:
    """Return a demangled name of at most so many characters."""
    text = demangled(name)
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def short_name(name: str, longest: int = LONGEST_NAME) -> str:
    """Return a name without its result, namespaces, parameters and the arguments of templates.

    Where the arguments say what is computed, that stands behind it. What else tells two kernels apart is in
    the whole name, which JSON has; the table has the launch shape.
    """
    short = demangled(name).replace("(anonymous namespace)::", "")
    opening, closing = short.find("<"), short.rfind(">(")
    arguments = short[opening:closing] if 0 <= opening < closing else ""
    while _ARGUMENTS.search(short):
        short = _ARGUMENTS.sub("", short)
    short = re.sub(r"\(.*\)(?: const)?$", "", short).removeprefix("void ").strip()
    short = _NAMESPACES.sub("", short) or name
    found = [one for one in _COMPUTED.findall(arguments) if not _WRAPPERS.fullmatch(one)]
    if found:
        short = f"{short}: {_ENDINGS.sub('', found[-1])}"
    return short if len(short) <= longest else f"{short[: longest - 3]}..."


def distinct_names(names: Iterable[str], longest: int = LONGEST_NAME) -> dict[str, str]:
    """Return a short name for each; of those that are alike in short the second has a "(2)" behind it."""
    given: dict[str, str] = {}
    times: dict[str, int] = {}
    for name in names:
        if name not in given:
            short = short_name(name, longest)
            times[short] = times.get(short, 0) + 1
            given[name] = short if times[short] == 1 else f"{short} ({times[short]})"
    return given


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
