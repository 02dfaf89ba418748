"""`stream`: an external meter that sends lines "t,w" over a serial port or TCP (`PTXBENCH_METER`)."""

from __future__ import annotations

from functools import cache

from ptxbench.sensors.base import Figures, PowerSource, Unit
from ptxbench.sensors.meters.decoders import LineDecoder
from ptxbench.sensors.meters.live import MeterReader


@cache
def _reader() -> MeterReader:
    """Return the reader of this process: the bytes of a port come once."""
    return MeterReader("stream", LineDecoder())


SOURCE = PowerSource(
    unit=Unit.WATT,
    rank=7,
    # The meter's own averaging is not known here: `ptxbench doctor sensor` measures it.
    documented=lambda _capability: Figures(averaging_s=0.001, refresh_s=0.001),
    reader=lambda _library, _handle: _reader(),
    is_stamped=True,
    is_external=True,
)
