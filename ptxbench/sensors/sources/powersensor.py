"""`powersensor`: a PowerSensor3 on a serial port (`PTXBENCH_METER=/dev/ttyACM0`)."""

from __future__ import annotations

from ptxbench.sensors.meters.decoders import PowerSensor3Decoder
from ptxbench.sensors.meters.live import meter_source

# 20 kHz, averaged over a millisecond here.
SOURCE = meter_source("powersensor", PowerSensor3Decoder, rank=8)
