"""A fake GPU whose settings outlive the process, as a real one's do; run as a script it sets them and waits.

python -m fakes.kept_nvml STATE_FILE
"""

import json
import sys
from pathlib import Path

from fakes.nvml import FakeDevice, FakeNvml

from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.devices.settings import applied
from ptxbench.sensors.nvml import SettableDevice


def open_kept(state: Path, **change) -> SettableDevice:
    """Open the GPU whose settings are in a file."""

    def keep(device: FakeDevice) -> None:
        locked = [device.locked_mhz, device.locked_memory_mhz] if device.locks else []
        state.write_text(json.dumps([*device.application_mhz, device.limit_mw, *locked]))

    sm_mhz, memory_mhz, limit_mw, *locked = json.loads(state.read_text())
    if locked:
        change |= {"locks": True, "locked_mhz": locked[0], "locked_memory_mhz": locked[1]}
    device = FakeDevice(application_mhz=(sm_mhz, memory_mhz), limit_mw=limit_mw, changed=keep, **change)
    return SettableDevice(0, FakeNvml(device))


def main() -> None:
    gpu = open_kept(Path(sys.argv[1]))
    with applied(gpu, GpuSettings(1005, None, 500_000), lambda text: print(text, flush=True), allowed=True):
        sys.stdin.readline()


if __name__ == "__main__":
    main()
