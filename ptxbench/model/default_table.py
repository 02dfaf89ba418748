"""The table that is taken where none is named: that of the GPU at hand."""

from __future__ import annotations

from collections.abc import Callable

from ptxbench.core.errors import ArgumentError, GpuError
from ptxbench.core.target import digits
from ptxbench.storage.manifest import read_run_manifest
from ptxbench.storage.shipped import SHIPPED

# The table where no GPU is at hand.
ELSEWHERE = "h200"


def default_table(at_hand: Callable[[], tuple[str, str]] | None = None) -> tuple[str, str]:
    """Return the name of a table that comes with ptxbench, and a sentence that says why it is this one.

    Args:
        at_hand: Returns name and target of the first visible GPU, such as "sm_90"; None: asks NVML.

    Raises:
        ArgumentError: The GPU at hand has another compute capability than those of all tables.
    """
    tables = {name: read_run_manifest(folder).gpu for name, folder in SHIPPED.items()}
    try:
        gpu, target = (at_hand or _first_visible)()
    except GpuError:
        return ELSEWHERE, f"no GPU is at hand: the table is {ELSEWHERE}, of an {tables[ELSEWHERE].name}"
    own = [name for name, known in tables.items() if known.name == gpu]
    alike = [name for name, known in tables.items() if digits(known.target) == digits(target)]
    if own:
        return own[0], f"the table is {own[0]}, that of the GPU at hand"
    if alike:
        return alike[0], (
            f"no table of an {gpu} comes with ptxbench: the table is {alike[0]}, of an"
            f" {tables[alike[0]].name}, which has the same compute capability"
        )
    raise ArgumentError(
        "table",
        f"must be named: the GPU at hand is an {gpu} ({target}), and those that come with ptxbench"
        f" ({', '.join(SHIPPED)}) are of another compute capability; measure one with `ptxbench table`",
    )


def _first_visible() -> tuple[str, str]:
    from ptxbench.devices.visible import Machine
    from ptxbench.sensors.nvml import NvmlDevice

    device = NvmlDevice(Machine().usable()[0].spec)
    try:
        return device.name, device.target
    finally:
        device.close()
