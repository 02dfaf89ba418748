"""From PTX text to a cubin, for machines without a GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import InputError, RefusedModuleError
from ptxbench.core.toolchain import assembler_name, run_tool, tool_folder

_NEWER = re.compile(r"Unsupported \.version ([\d.]+); current version is '([\d.]+)'")
_LINE = re.compile(r"^\s*\.loc\s", re.MULTILINE)
_VERSION = re.compile(r"^(\s*\.version\s+)[\d.]+", re.MULTILINE)


def assemble_ptx(
    ptx: str, target: str, opt_level: OptLevel, lines: bool = False, options: Sequence[str] = ()
) -> Cubin:
    """Assemble one PTX module.

    Args:
        ptx: Module text.
        target: Such as "sm_90a".
        opt_level: Optimization level.
        lines: Whether the cubin keeps the source lines that the PTX has.
        options: Further ones of ptxas.

    Raises:
        ToolError: The assembler is missing.
        RefusedModuleError: It refused the module.
    """
    with tool_folder() as folder:
        (folder / "module.ptx").write_text(ptx)
        known = [f"-arch={target}", f"-O{opt_level.number}", *(["-lineinfo"] if lines else [])]
        run_tool("ptxas", [*known, *options, "module.ptx", "-o", "module.cubin"], folder)
        image = (folder / "module.cubin").read_bytes()
    return Cubin(image, target, opt_level, assembler_name())


def assemble_any_version(ptx: str, what: str, target: str, opt_level: OptLevel) -> tuple[Cubin, str]:
    """Assemble one PTX module, as an older version of PTX where the assembler does not know its own.

    Args:
        ptx: Module text.
        what: Where it comes from, for messages.
        target: Such as "sm_90a".
        opt_level: Optimization level.

    Returns:
        The machine code, and a sentence where the version was lowered, else "".

    Raises:
        ToolError: The assembler is missing.
        InputError: It refused the module, or that uses what only its newer version of PTX has.
    """
    lines = _LINE.search(ptx) is not None
    try:
        return assemble_ptx(ptx, target, opt_level, lines), ""
    except RefusedModuleError as error:
        newer = _NEWER.search(str(error))
        if newer is None:
            raise InputError(f"{what}: {error}") from error
    own, known = newer.groups()
    try:
        cubin = assemble_ptx(_VERSION.sub(rf"\g<1>{known}", ptx, count=1), target, opt_level, lines)
    except RefusedModuleError as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"{what} is PTX {own} and uses what the assembler, which knows PTX {known}, lacks ({reason});"
            " give the cubin, or install a newer ptxas: pip install -U nvidia-cuda-nvcc"
        ) from error
    return cubin, f"PTX {own} is assembled as PTX {known}, the newest that the assembler knows"
