"""The driver's JIT: PTX to machine code at a given optimization level."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import LaunchError, RefusedModuleError
from ptxbench.devices.device_buffer import Call

_LOG_BYTES = 8192


@dataclass(frozen=True)
class Jit:
    """The assembler of a CUDA driver.

    Attributes:
        call: Calls a function of the driver by name.
        driver: The module `cuda.bindings.driver`, for its types.
        target: What it assembles for, such as "sm_90a".
        assembler: Its name and version, as in `Cubin`.
    """

    call: Call
    driver: Any
    target: str
    assembler: str

    def assemble(self, ptx: str, opt_level: OptLevel) -> Cubin:
        """Assemble a module at CU_JIT_OPTIMIZATION_LEVEL 0 or 3, in the context that is current.

        Raises:
            RefusedModuleError: The JIT refused the module; the text is its first complaint.
            LaunchError: There is no JIT to be had.
        """
        option = self.driver.CUjit_option
        log = bytearray(_LOG_BYTES)
        options = [
            option.CU_JIT_OPTIMIZATION_LEVEL,
            option.CU_JIT_ERROR_LOG_BUFFER,
            option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ]
        state = self.call("cuLinkCreate", len(options), options, [opt_level.number, log, _LOG_BYTES])
        try:
            source = ptx.encode() + b"\0"
            kind = self.driver.CUjitInputType.CU_JIT_INPUT_PTX
            self.call("cuLinkAddData", state, kind, source, len(source), b"module.ptx", 0, [], [])
            address, size = self.call("cuLinkComplete", state)
            image = ctypes.string_at(int(address), size)
        except LaunchError as error:
            complaint = bytes(log).split(b"\0")[0].decode(errors="replace").strip().splitlines()
            raise RefusedModuleError(
                f"the driver's JIT failed: {complaint[0] if complaint else error}"
            ) from error
        finally:
            self.call("cuLinkDestroy", state)
        return Cubin(image, self.target, opt_level, self.assembler)
