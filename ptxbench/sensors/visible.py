"""Which GPUs a process may use, by CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ptxbench.core.errors import GpuError
from ptxbench.sensors.nvml import NvmlDevice, list_devices

_VARIABLE = "CUDA_VISIBLE_DEVICES"


def visible_uuids(library: Any = None, environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the UUIDs of the GPUs that this process may use, in the order in which CUDA counts them.

    Without the variable these are all GPUs. Indices are NVML's, which are CUDA's where all GPUs are alike or
    CUDA_DEVICE_ORDER is PCI_BUS_ID. As in CUDA, a UUID may be cut short, and what stands behind a name that
    is no GPU is not seen.

    Args:
        library: pynvml (None), or what stands in for it.
        environment: The environment (None: the process's).

    Raises:
        GpuError: There is no GPU, or the variable names a MIG instance or no GPU at all.
    """
    given = () if library is None else (library,)
    uuids = [_uuid(entry.index, *given) for entry in list_devices(*given)]
    text = (os.environ if environment is None else environment).get(_VARIABLE)
    if text is None:
        return tuple(uuids)
    chosen: list[str] = []
    for word in (part.strip() for part in text.split(",")):
        if word.startswith("MIG"):
            raise GpuError(
                f"{_VARIABLE} names the MIG instance {word}: NVML reads the power of whole boards only"
            )
        found = [uuid for uuid in uuids if word.startswith("GPU-") and uuid.startswith(word)]
        if word.isdecimal() and int(word) < len(uuids):
            found = [uuids[int(word)]]
        if len(found) != 1:
            break
        chosen += found
    if not chosen:
        raise GpuError(f"{_VARIABLE} is {text!r}, which shows none of this machine's {len(uuids)} GPUs")
    return tuple(chosen)


def _uuid(index: int, *library: Any) -> str:
    device = NvmlDevice(index, *library)
    try:
        return device.uuid
    finally:
        device.close()
