"""What a specification says of how its source is compiled: options, folders, standard, macros, templates."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ptxbench.core.demangle import short_names
from ptxbench.core.errors import InputError, RefusedModuleError

# Keys of [kernel] that say how nvcc compiles.
COMPILED_BY = ("options", "include", "std", "defines")
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*\Z")
# What names a kernel in C++: namespaces and arguments of templates, and no more of a source.
_EXPRESSION = re.compile(r"[A-Za-z_:][\w:<>,.&*+\-/%|^!=?() ]{0,400}\Z")
_STANDARD = re.compile(r"(c\+\+|gnu\+\+)?\d\d\Z")
_DEFINED = re.compile(r"[\w.+\-]*\Z")
# Options that say what comes out, where, or for which GPU: that is decided here.
_DECIDED = re.compile(
    r"-(o|ptx|cubin|fatbin|c|E|M\w*|arch.*|code.*|gencode.*|run|keep|odir.*|optf.*|dryrun|link|lib|x)(=.*)?\Z"
    r"|--(output.*|ptx|cubin|fatbin|compile|preprocess|generate.*|gpu-.*|run|keep.*|options-file.*|dryrun|link"
    r"|lib|dependency.*)(=.*)?\Z"
)
_REGISTERS = re.compile(r"--?maxrregcount=(.+)\Z")
_TO_PTXAS = re.compile(r"--?(?:Xptxas|ptxas-options)=(.+)\Z")
_REPEATED = re.compile(r"S[0-9A-Z]*_")
_VALUE = re.compile(r"\{(\w+)\}")
# A kernel whose mangled name holds that of the kernel which the expression names.
_MARKER = "ptxbench_entry_of"


def compiler_options(
    kernel: Mapping[str, Any], place: str, path: Path, folder: Path, includes: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what nvcc and what ptxas is told.

    Args:
        kernel: The table [kernel].
        place: What to call it in messages.
        path: The source.
        folder: Folder of the specification.
        includes: Whether the source includes files that may be beside it.

    Raises:
        InputError: Something in it does not fit.
    """
    is_cuda = ".cu" in path.suffixes
    given = list(_texts(kernel, "options", place))
    for_ptxas = [option for one in given for option in _ptxas(one)]
    for_nvcc = [one for one in given if not _ptxas(one)]
    wrong = next((one for one in given if not one.startswith("-") or _DECIDED.match(one)), None)
    if wrong is not None:
        raise InputError(
            f"{place}: option {wrong!r} is none of the compiler, or says what is decided here: what comes"
            " out, and for which GPU; write one with a value as -option=value"
        )
    for name in _texts(kernel, "include", place):
        at = (folder / name).resolve()
        if not at.is_dir():
            raise InputError(f"{place}: include {name!r} is no folder")
        for_nvcc.append(f"-I{at}")
    if "std" in kernel:
        standard = str(kernel["std"])
        if not _STANDARD.match(standard):
            raise InputError(f"{place}: std must be such as 'c++17', not {standard!r}")
        for_nvcc.append(f"-std={standard if '+' in standard else f'c++{standard}'}")
    for_nvcc += _defines(kernel.get("defines", {}), place)
    if for_nvcc and not is_cuda and any(key in kernel for key in COMPILED_BY) and path.suffix != ".cubin":
        raise InputError(f"{place}: {for_nvcc[0]} is for nvcc, and {path.name} is no CUDA source")
    if includes and is_cuda:
        for_nvcc.append(f"-I{path.parent.resolve()}")
    return tuple(for_nvcc), tuple(for_ptxas)


def with_values(options: Sequence[str], values: Mapping[str, object]) -> list[str]:
    """Return options with the value of each {NAME}.

    Raises:
        InputError: There is no such name.
    """

    def value(found: re.Match[str]) -> str:
        if found[1] not in values:
            raise InputError(f"option names {found[0]}, and there is no {found[1]}")
        return str(values[found[1]])

    return [_VALUE.sub(value, one) for one in options]


def known_options(options: Sequence[str], names: Collection[str]) -> tuple[str, ...]:
    """Return the options that name no other values than these."""
    return tuple(one for one in options if set(_VALUE.findall(one)) <= set(names))


def require_entry(name: str, file: str, place: str) -> None:
    """Refuse what names no kernel.

    Raises:
        InputError: It is none.
    """
    if _PLAIN_NAME.match(name):
        return
    if not _EXPRESSION.match(name):
        raise InputError(f"{place}: name = {name!r} is no name of a kernel")
    if not file.endswith((".cu", ".cu.j2")):
        raise InputError(f"{place}: name = {name!r} is one of C++, and {file} is no CUDA source")


def named_in(code: bytes, entry: str) -> bytes:
    """Return a CUDA source that makes the kernel which an expression names, and says which that is."""
    if _PLAIN_NAME.match(entry):
        return code
    return (
        code
        + (
            f"\ntemplate <auto> __global__ void {_MARKER}() {{}}\n"
            f"extern const void* const {_MARKER}_named[];\n"
            f"const void* const {_MARKER}_named[] =\n"
            f"{{(const void*)&{entry}, (const void*){_MARKER}<&{entry}>}};\n"
        ).encode()
    )


def find_entry(name: str, entries: Sequence[str]) -> str:
    """Return the kernel that is called so: by its plain name, as C++ writes it, or by an expression.

    Args:
        name: Its name.
        entries: The kernels of the code.

    Raises:
        RefusedModuleError: There is none, or several.
    """
    if name in entries:
        return name
    if _PLAIN_NAME.match(name):
        found = [one for one in entries if name in short_names(one)]
    else:
        markers = [one for one in entries if one.startswith(f"_Z{len(_MARKER)}{_MARKER}")]
        found = [one for one in entries if one not in markers and _is_marked(one, markers)]
    if len(found) != 1:
        own = [one for one in entries if _MARKER not in one]
        if found:
            raise RefusedModuleError(f"the code has several kernels {name}; take one of {', '.join(found)}")
        raise RefusedModuleError(f"the code has no kernel {name}, only {', '.join(own)}")
    return found[0]


def _is_marked(entry: str, markers: Sequence[str]) -> bool:
    """Return whether a marker holds a kernel's name; numbers of what a name repeats are others in it."""
    name = _REPEATED.sub("S_", f"L{entry}E")
    return any(name in _REPEATED.sub("S_", marker) for marker in markers)


def _texts(kernel: Mapping[str, Any], key: str, place: str) -> tuple[str, ...]:
    found = kernel.get(key, ())
    if not isinstance(found, list | tuple) or not all(isinstance(one, str) and one for one in found):
        raise InputError(f"{place}: {key} must be a list of texts")
    return tuple(found)


def _ptxas(option: str) -> list[str]:
    """Return what ptxas is told by an option of nvcc: here nvcc only makes PTX."""
    if found := _REGISTERS.match(option):
        return [f"-maxrregcount={found[1]}"]
    if found := _TO_PTXAS.match(option):
        return found[1].split(",")
    return []


def _defines(plain: object, place: str) -> Iterator[str]:
    if not isinstance(plain, Mapping):
        raise InputError(f"{place}: defines must be a table, such as {{ USE_FAST = 1 }}")
    for name, value in plain.items():
        text = str(int(value) if isinstance(value, bool) else value)
        if not _PLAIN_NAME.match(name) or not _DEFINED.match(text):
            raise InputError(
                f"{place}: defines {name} = {value!r} must be a name, and a number or plain word"
            )
        yield f"-D{name}={text}" if text else f"-D{name}"
