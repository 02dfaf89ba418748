"""`stream`: an external meter that sends lines "t,w" over a serial port or TCP (`PTXBENCH_METER`)."""

from __future__ import annotations

from ptxbench.sensors.meters.decoders import LineDecoder
from ptxbench.sensors.meters.live import meter_source

SOURCE = meter_source("stream", LineDecoder, rank=7)
