"""Constant memory of a kernel as its cubin says: where parameters stand, and the banks that it fills."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from ptxbench.core.errors import RefusedModuleError
from ptxbench.sass.resources import OF_KERNEL, attributes, sections

_BANK = re.compile(r"\.nv\.constant(\d+)(?:\.(.+))?$")
# Attributes of .nv.info.KERNEL: where parameters begin, and place and size of each.
_PARAMETER_BANK, _PARAMETER = 0x0A, 0x17
# Bank 0 is the launch's own.
_LAUNCH = 0


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel.

    Attributes:
        offset: Where it stands in bank 0, bytes.
        size: Bytes.
    """

    offset: int
    size: int


@dataclass(frozen=True)
class ConstantMemory:
    """What a cubin says of a kernel's constant memory.

    Attributes:
        parameters: In order.
        size: Bytes of bank 0 up to the end of the parameters.
        banks: What other banks hold, by number.
    """

    parameters: tuple[Parameter, ...]
    size: int
    banks: Mapping[int, bytes]


def constant_memory(image: bytes, kernel: str) -> ConstantMemory:
    """Return what a cubin says of a kernel's constant memory.

    Args:
        image: The cubin.
        kernel: Its entry.

    Raises:
        RefusedModuleError: The image is no cubin, or does not say where parameters stand.
    """
    try:
        found = sections(image)
        info = next((s.data for s in found if s.name == f"{OF_KERNEL}{kernel}"), b"")
        begin, end = 0, 0
        places: dict[int, tuple[int, int]] = {}
        for attribute, data in attributes(info):
            if attribute == _PARAMETER_BANK:
                begin, size = struct.unpack_from("<HH", data, 4)
                end = begin + size
            elif attribute == _PARAMETER:
                _, ordinal, offset, shape = struct.unpack_from("<IHHI", data)
                places[ordinal] = offset, shape >> 18
    except (struct.error, IndexError, ValueError) as error:
        raise RefusedModuleError("the cubin does not say what its kernels take (.nv.info)") from error
    if not end and places:
        raise RefusedModuleError(f"the cubin does not say where the parameters of {kernel} stand (.nv.info)")
    banks = {
        int(match[1]): s.data
        for s in found
        if (match := _BANK.match(s.name)) and int(match[1]) != _LAUNCH and match[2] in (None, kernel)
    }
    parameters = tuple(Parameter(begin + places[n][0], places[n][1]) for n in sorted(places))
    return ConstantMemory(parameters, end, banks)
