"""The driver's JIT: PTX to machine code at a given optimization level."""

from __future__ import annotations

import ctypes
from typing import Any

from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import LaunchError, RefusedModuleError
from ptxbench.devices.device_buffer import Call

# Of what the driver says of a refused kernel; chosen.
_LOG_BYTES = 8192


def jit_assemble(
    call: Call, driver: Any, ptx: str, opt_level: OptLevel, target: str, assembler: str
) -> Cubin:
    """Assemble a module at CU_JIT_OPTIMIZATION_LEVEL 0 or 3, in the context that is current.

    Args:
        call: Calls a function of the driver by name.
        driver: The module `cuda.bindings.driver`, for its types.
        ptx: The module.
        opt_level: O0 or O3.
        target: What it is assembled for, such as "sm_90a".
        assembler: Name and version of the driver's JIT, as in `Cubin`.

    Raises:
        RefusedModuleError: The JIT refused the module; the text is its first complaint.
        LaunchError: There is no JIT to be had.
    """
    option = driver.CUjit_option
    log = bytearray(_LOG_BYTES)
    options = [
        option.CU_JIT_OPTIMIZATION_LEVEL,
        option.CU_JIT_ERROR_LOG_BUFFER,
        option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ]
    state = call("cuLinkCreate", len(options), options, [opt_level.number, log, _LOG_BYTES])
    try:
        source = ptx.encode() + b"\0"
        kind = driver.CUjitInputType.CU_JIT_INPUT_PTX
        call("cuLinkAddData", state, kind, source, len(source), b"module.ptx", 0, [], [])
        address, size = call("cuLinkComplete", state)
        image = ctypes.string_at(int(address), size)
    except LaunchError as error:
        complaint = bytes(log).split(b"\0")[0].decode(errors="replace").strip().splitlines()
        raise RefusedModuleError(
            f"the driver's JIT failed: {complaint[0] if complaint else error}"
        ) from error
    finally:
        call("cuLinkDestroy", state)
    return Cubin(image, target, opt_level, assembler)
