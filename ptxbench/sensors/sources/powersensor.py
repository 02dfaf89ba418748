"""`powersensor`: a PowerSensor3 on a serial port (`PTXBENCH_METER=/dev/ttyACM0`)."""

from __future__ import annotations

from functools import cache

from ptxbench.sensors.base import Figures, PowerSource, Unit
from ptxbench.sensors.meters.decoders import PowerSensor3Decoder
from ptxbench.sensors.meters.live import MeterReader


@cache
def _reader() -> MeterReader:
    """Return the reader of this process: the bytes of a port come once."""
    return MeterReader("powersensor", PowerSensor3Decoder())


SOURCE = PowerSource(
    unit=Unit.WATT,
    rank=8,
    # 20 kHz, averaged over a millisecond here.
    documented=lambda _capability: Figures(averaging_s=0.001, refresh_s=0.001),
    reader=lambda _library, _handle: _reader(),
    is_stamped=True,
    is_external=True,
)
