"""From a cubin to its SASS, by nvdisasm."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress

from ptxbench.core.cache import Cache
from ptxbench.core.errors import RefusedModuleError
from ptxbench.core.toolchain import run_tool, tool_folder, tool_version
from ptxbench.sass.program import SassInstruction, SassKernel

_SECTION = re.compile(r"^\.text\.(\S+):$")
_LABEL = re.compile(r"^\s*(\S+):$")
_INSTRUCTION = re.compile(
    r"^\s*/\*(?P<address>[0-9a-f]{4,})\*/\s+(?P<predicate>@!?U?P[T\d]+\s+)?(?P<opcode>[A-Z][A-Za-z0-9_.]*)"
    r"\s*(?P<operands>[^;]*);"
)

_SOURCE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)(?! inlined)')
_ENTRY = re.compile(r'^\s*\.other\s+(\S+?),\s*@"STO_CUDA_ENTRY', re.MULTILINE)

_LISTINGS = Cache("listings")


def disassemble(image: bytes, lines: bool = False) -> str:
    """Return nvdisasm's listing of a cubin (`-c`: code sections, with labels).

    nvdisasm takes 0.25 s to start, so listings are kept in the user's cache folder.

    Args:
        image: The cubin.
        lines: Whether it shows source lines, too (`-gi`), where the cubin has them.

    Raises:
        ToolError: nvdisasm is missing.
        RefusedModuleError: nvdisasm refused the image.
    """
    options = ["-c", "-gi"] if lines else ["-c"]
    name = _kept_as(image + b"-gi" * lines)
    held = _LISTINGS.get(name)
    if held is not None:
        with suppress(zlib.error, UnicodeDecodeError):
            return zlib.decompress(held).decode()
    with tool_folder() as folder:
        (folder / "module.cubin").write_bytes(image)
        listing = run_tool("nvdisasm", [*options, "module.cubin"], folder)
    _LISTINGS.put(name, zlib.compress(listing.encode()))
    return listing


def _kept_as(image: bytes) -> str:
    key = hashlib.sha256(tool_version("nvdisasm").encode() + image).hexdigest()
    return f"{key[:2]}/{key}"


def parse_listing(text: str, only: str = "") -> dict[str, SassKernel]:
    """Parse nvdisasm's listing into one `SassKernel` an entry, by entry name.

    Args:
        text: The listing.
        only: The one entry that is wanted, "" for all.

    Raises:
        RefusedModuleError: The listing holds no code, or a line of code that does not parse.
    """
    kernels = {}
    for name, lines in _sections(text):
        if only in ("", name):
            kernels[name] = _parse_section(name, lines)
    if not kernels:
        raise RefusedModuleError("nvdisasm's listing holds no kernel")
    return kernels


def entry_names(text: str) -> frozenset[str]:
    """Return the names of the code sections of a listing that a launch can name; the others are functions."""
    return frozenset(_ENTRY.findall(text))


def source_lines(text: str, section: str) -> dict[int, str]:
    """Return the source line of each instruction of a code section, such as "/tmp/scale.cu:12".

    Of inlined code it is the line that the outermost function has.

    Args:
        text: A listing with source lines.
        section: Name of the section.
    """
    found: dict[int, str] = {}
    for name, lines in _sections(text):
        place = ""
        for line in lines if name == section else ():
            if source := _SOURCE.match(line):
                place = f"{source[1]}:{source[2]}"
            elif place and (code := _INSTRUCTION.match(line)):
                found[int(code["address"], 16)] = place
    return found


def _sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each code section's name and lines."""
    name: str | None = None
    lines: list[str] = []
    for line in text.splitlines():
        # Most lines are indented: a look at how one begins costs less than a match.
        begin = _SECTION.match(line) if line.startswith(".text.") else None
        if begin or line.startswith("//------"):
            if name is not None:
                yield name, lines
            name, lines = (begin.group(1) if begin else None), []
        else:
            lines.append(line)
    if name is not None:
        yield name, lines


def _parse_section(name: str, lines: list[str]) -> SassKernel:
    instructions: list[SassInstruction] = []
    labels: list[tuple[str, int]] = []
    pending: list[str] = []
    for line in lines:
        code = _INSTRUCTION.match(line)
        if code:
            at, predicate, opcode, operands = code.groups()
            address = int(at, 16)
            labels += [(label, address) for label in pending]
            pending = []
            instructions.append(
                SassInstruction(address, (predicate or "").strip(), opcode, operands.rstrip())
            )
        elif label := _LABEL.match(line):
            pending.append(label.group(1))
        elif "/*" in line and ";" in line:
            raise RefusedModuleError(
                f"nvdisasm's listing of {name} has a line that does not parse: {line.strip()}"
            )
    return SassKernel(name, tuple(instructions), tuple(labels))
