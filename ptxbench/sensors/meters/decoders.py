"""What the bytes of a meter mean: lines of time and power, or the frames of a PowerSensor3."""

from __future__ import annotations

import math
import struct
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ptxbench.core.errors import SensorError
from ptxbench.sensors.meters.port import Port
from ptxbench.sensors.trace import Float64s

Bytes = npt.NDArray[np.uint8]
# A line without an end is no sample, and a meter that says nothing so long does not answer; chosen.
_LONGEST_LINE = 4096
_WAIT_S = 2.0


class Decoder(Protocol):
    """Makes samples of bytes as they come."""

    def begin(self, port: Port) -> None:
        """Ask the meter for its samples.

        Raises:
            SensorError: It does not answer as such a meter does.
        """
        ...

    def end(self, port: Port) -> None:
        """Let the meter stop."""
        ...

    def feed(self, data: bytes) -> tuple[Float64s, Float64s]:
        """Return the times (s, by the meter's clock) and powers (W) of whole samples, shape (n,) each."""
        ...


class LineDecoder:
    """Lines "t,w": seconds by any clock of the meter, and watts; what is no such line is passed over."""

    def __init__(self) -> None:
        self._rest = b""

    def begin(self, port: Port) -> None:
        """Ask for nothing: the meter sends by itself."""

    def end(self, port: Port) -> None:
        """Tell it nothing."""

    def feed(self, data: bytes) -> tuple[Float64s, Float64s]:
        """Return the samples of whole lines; see `Decoder`."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest if len(rest) <= _LONGEST_LINE else b""
        pairs = [pair for line in lines if (pair := _pair(line)) is not None]
        table = np.array(pairs, dtype=np.float64).reshape(-1, 2)
        return table[:, 0], table[:, 1]


def _pair(line: bytes) -> tuple[float, float] | None:
    cells = line.replace(b";", b",").replace(b"\t", b",").split(b",")
    try:
        time_s, power_w = (float(cell) for cell in cells)
    except ValueError:
        return None
    return (time_s, power_w) if math.isfinite(time_s) and math.isfinite(power_w) else None


class PowerSensor3Decoder:
    """The frames of a PowerSensor3 (nlesc-recruit/PowerSensor3, firmware and host library 1.6).

    "R" makes it send the settings of its eight sensors, one by one, each after any byte, and "D" at the end:
    type and name of the pair (16 bytes each), reference voltage and sensitivity (float), whether it is in
    use. "S" makes it stream, "T" ends that. A frame is nine pairs of bytes, 1SSSLLLL 0MLLLLLL: a level L of
    10 bits of sensor S. The first has S = 7, M = 1 and the time in us, of which 10 bits are kept. A sensor's
    value is (3.3 V x L / 1023 - reference) / sensitivity; sensors 2k and 2k + 1 are current and voltage of
    pair k.
    """

    _SENSORS = 8
    _SETTINGS = struct.Struct("<16s16sff?")
    _FRAME = 2 * (_SENSORS + 1)
    _VOLTS, _LEVELS = 3.3, 1023
    _WRAP_US = 1024

    def __init__(self) -> None:
        self._reference_v = np.zeros(self._SENSORS)
        self._sensitivity = np.ones(self._SENSORS)
        self._in_use = np.zeros(self._SENSORS, dtype=bool)
        self._rest = b""
        self._last_us: int | None = None
        self._elapsed_us = 0

    def begin(self, port: Port) -> None:
        """Read the settings, and let it stream; see `Decoder`."""
        port.write(b"T")
        while port.read(0.05):
            pass  # what was still on its way
        port.write(b"R")
        for sensor in range(self._SENSORS):
            self._set(sensor, _exactly(port, self._SETTINGS.size))
            port.write(b"s")
        if _exactly(port, 1) != b"D":
            raise SensorError("no PowerSensor3 answers: its settings do not end")
        if not self._pairs().any():
            raise SensorError("this PowerSensor3 has no pair of sensors in use; set them up by psconfig")
        port.write(b"S")

    def end(self, port: Port) -> None:
        """Let it stop streaming."""
        port.write(b"T")

    def feed(self, data: bytes) -> tuple[Float64s, Float64s]:
        """Return the samples of whole frames; see `Decoder`."""
        raw = np.frombuffer(self._rest + data, dtype=np.uint8)
        times_s, powers_w = [np.zeros(0)], [np.zeros(0)]
        while len(raw) >= self._FRAME:
            is_first = (raw[:-1] & 0xF0 == 0xF0) & (raw[1:] & 0xC0 == 0x40)
            starts = np.flatnonzero(is_first)
            if not len(starts):
                raw = raw[-1:]
                break
            raw = raw[starts[0] :]
            frames = raw[: len(raw) // self._FRAME * self._FRAME].reshape(-1, self._FRAME)
            if not len(frames):
                break
            whole = int(np.argmin(np.append(_are_whole(frames), False)))
            if not whole:
                # A byte was lost: the next frame is looked for behind this one's begin.
                raw = raw[2:]
                continue
            levels = ((frames[:whole, 0::2] & 0x0F).astype(np.int64) << 6) | (frames[:whole, 1::2] & 0x3F)
            times_s.append(self._times_s(levels[:, 0]))
            powers_w.append(self._powers_w(levels[:, 1:]))
            raw = raw[whole * self._FRAME :]
        self._rest = raw.tobytes()
        return np.concatenate(times_s), np.concatenate(powers_w)

    def _set(self, sensor: int, data: bytes) -> None:
        _, _, reference_v, sensitivity, in_use = self._SETTINGS.unpack(data)
        if in_use and not (math.isfinite(reference_v) and math.isfinite(sensitivity) and sensitivity):
            raise SensorError(
                f"sensor {sensor} of this PowerSensor3 has no calibration; set it up by psconfig"
            )
        self._in_use[sensor] = in_use
        if in_use:
            self._reference_v[sensor], self._sensitivity[sensor] = reference_v, sensitivity

    def _pairs(self) -> npt.NDArray[np.bool_]:
        return self._in_use[0::2] & self._in_use[1::2]

    def _times_s(self, stamp_us: npt.NDArray[np.int64]) -> Float64s:
        last_us = int(stamp_us[0]) if self._last_us is None else self._last_us
        steps_us = np.diff(stamp_us, prepend=last_us) % self._WRAP_US
        elapsed_us = self._elapsed_us + np.cumsum(steps_us)
        self._last_us, self._elapsed_us = int(stamp_us[-1]), int(elapsed_us[-1])
        return np.asarray(elapsed_us * 1e-6, dtype=np.float64)

    def _powers_w(self, levels: npt.NDArray[np.int64]) -> Float64s:
        value = (self._VOLTS * levels / self._LEVELS - self._reference_v) / self._sensitivity
        pairs = self._pairs()
        return np.asarray((value[:, 0::2] * value[:, 1::2])[:, pairs].sum(axis=1), dtype=np.float64)


def _are_whole(frames: Bytes) -> npt.NDArray[np.bool_]:
    """Return which frames have the marks of a first pair and of the sensors 0 to 7 behind it, shape (n,)."""
    ok = ((frames[:, 0::2] & 0x80) == 0x80).all(axis=1) & ((frames[:, 1::2] & 0x80) == 0).all(axis=1)
    ok &= (frames[:, 0] & 0xF0 == 0xF0) & (frames[:, 1] & 0xC0 == 0x40)
    return np.asarray(ok & (((frames[:, 2::2] >> 4) & 0x07) == np.arange(8)).all(axis=1))


def _exactly(port: Port, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = port.read(_WAIT_S)
        if not more:
            raise SensorError("no PowerSensor3 answers: it sent too little in 2 s")
        data += more
    if len(data) > size:
        raise SensorError("no PowerSensor3 answers: it sent more than its settings")
    return data
