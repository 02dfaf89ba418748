"""From PTX text to a cubin, for machines without a GPU."""

from __future__ import annotations

from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.toolchain import assembler_name, run_tool, tool_folder


def assemble_ptx(ptx: str, target: str, opt_level: OptLevel) -> Cubin:
    """Assemble one PTX module.

    Args:
        ptx: Module text.
        target: Such as "sm_90a".
        opt_level: Optimization level.

    Raises:
        ToolError: The assembler is missing.
        RefusedModuleError: It refused the module.
    """
    with tool_folder() as folder:
        (folder / "module.ptx").write_text(ptx)
        arguments = [f"-arch={target}", f"-O{opt_level.number}", "module.ptx", "-o", "module.cubin"]
        run_tool("ptxas", arguments, folder)
        image = (folder / "module.cubin").read_bytes()
    return Cubin(image, target, opt_level, assembler_name())
