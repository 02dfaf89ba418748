"""External meters that are read live: recorded bytes, a fake port, and a terminal for a serial one."""

import os
import struct
import time

import numpy as np
import pytest
from fakes.nvml import FakeDevice, FakeNvml

from ptxbench.core.errors import SensorError
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.meters.decoders import LineDecoder, PowerSensor3Decoder
from ptxbench.sensors.meters.live import MeterReader
from ptxbench.sensors.meters.port import ADDRESS, open_port
from ptxbench.sensors.nvml import NvmlDevice, available_sources, silent_sources
from ptxbench.sensors.sources import nvml_sources

VOLTS = 3.3
# Two pairs in use: 1.65 V is 0 A, 0.12 V an ampere; a volt is a tenth of a volt.
CURRENT, VOLTAGE = (1.65, 0.12, True), (0.0, 0.1, True)
SETTINGS = [CURRENT, VOLTAGE, CURRENT, VOLTAGE, *[(0.0, 0.0, False)] * 4]


def frame(at_us, levels):
    """Return the bytes of a frame as the firmware makes them."""
    pairs = [(7, 1, at_us % 1024), *((sensor, 0, level) for sensor, level in enumerate(levels))]
    return b"".join(
        bytes([0x80 | sensor << 4 | level >> 6, mark << 6 | level & 0x3F]) for sensor, mark, level in pairs
    )


def level(value, settings):
    reference_v, sensitivity, _ = settings
    return round((value * sensitivity + reference_v) * 1023 / VOLTS)


def levels(amperes):
    return [
        level(amperes, CURRENT),
        level(12.0, VOLTAGE),
        level(1.0, CURRENT),
        level(12.0, VOLTAGE),
        0,
        0,
        0,
        0,
    ]


class FakePort:
    """A PowerSensor3 that answers: settings, then frames of 5 A and 1 A at 12 V, 20 kHz."""

    def __init__(self, settings=SETTINGS, amperes=5.0):
        self.sent, self.waiting, self.at_us = b"", b"", 0
        self.settings, self.amperes, self.left = settings, amperes, []
        self.is_streaming = False

    def write(self, data):
        self.sent += data
        for one in data:
            if one == ord("R"):
                packed = [struct.pack("<16s16sff?", b"", b"", *setting) for setting in self.settings]
                self.left = [*packed[1:], b"D"]
                self.waiting += packed[0]
            elif one == ord("s"):
                self.waiting += self.left.pop(0)
            elif one in b"ST":
                self.is_streaming = one == ord("S")

    def read(self, _timeout_s):
        if self.is_streaming:
            self.waiting += b"".join(frame(self.at_us + 50 * i, levels(self.amperes)) for i in range(100))
            self.at_us += 5000
        found, self.waiting = self.waiting, b""
        return found

    def close(self):
        self.is_streaming = False


def decoded(decoder, data, chunk):
    parts = [decoder.feed(data[i : i + chunk]) for i in range(0, len(data), chunk)]
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


@pytest.mark.parametrize("chunk", [1, 7, 18, 10_000])
def test_frames_are_read_however_their_bytes_come(chunk):
    decoder, port = PowerSensor3Decoder(), FakePort()
    decoder.begin(port)
    amperes = np.linspace(0, 10, 60)
    data = b"".join(frame(1000 + 50 * i, levels(one)) for i, one in enumerate(amperes))
    time_s, power_w = decoded(decoder, data, chunk)
    assert np.diff(time_s) == pytest.approx(50e-6)
    # A level is 3.2 mV, which is 0.3 W at 12 V.
    assert power_w == pytest.approx(12.0 * (amperes + 1.0), abs=1.0)
    assert port.is_streaming
    decoder.end(port)
    assert not port.is_streaming


def test_a_byte_that_is_lost_costs_its_frame_alone():
    decoder = PowerSensor3Decoder()
    decoder.begin(FakePort())
    frames = [frame(50 * i, levels(5.0)) for i in range(20)]
    frames[7] = frames[7][:5] + frames[7][6:]
    time_s, power_w = decoded(decoder, b"".join(frames), 11)
    assert len(time_s) == 19
    assert power_w == pytest.approx(72.0, abs=1.0)
    # The time goes on: the lost frame leaves a gap.
    assert time_s[-1] - time_s[0] == pytest.approx(19 * 50e-6)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ([(0.0, 0.0, False)] * 8, "no pair of sensors in use"),
        ([(1.65, 0.0, True), *SETTINGS[1:]], "no calibration"),
    ],
)
def test_a_powersensor_that_is_not_set_up_is_said(settings, words):
    with pytest.raises(SensorError, match=words):
        PowerSensor3Decoder().begin(FakePort(settings))


def test_lines_of_time_and_power_are_read_and_others_passed_over():
    text = b"time_s,power_w\n0.5,100\n1.0;200.5\r\n1.5\t300\nnan,1\n2.0,4,4\n2.5,40"
    time_s, power_w = decoded(LineDecoder(), text, 3)
    assert list(time_s) == [0.5, 1.0, 1.5]
    assert list(power_w) == [100, 200.5, 300]


@pytest.mark.hostile
@pytest.mark.parametrize("decoder", [LineDecoder, PowerSensor3Decoder])
def test_any_bytes_are_no_error(decoder):
    rng = np.random.default_rng(3)
    made = decoder()
    for _ in range(50):
        time_s, power_w = made.feed(rng.integers(0, 256, 300).astype(np.uint8).tobytes())
        assert len(time_s) == len(power_w)


def test_samples_are_averaged_and_have_the_time_at_which_they_were_made():
    """The meter's clock began at 7 s; bytes arrive 2 to 30 ms late."""
    now_ns = 10**18
    reader = MeterReader("stream", LineDecoder(), epoch_ns=lambda: now_ns)
    rng = np.random.default_rng(1)
    at_s = np.arange(0.0, 2.0, 1e-4)
    late_s = rng.uniform(0.002, 0.03, size=200)
    for part, late in zip(np.array_split(at_s, 200), late_s, strict=True):
        now_ns = 10**18 + round((part[-1] + late) * 1e9)
        reader.take(b"".join(f"{7 + t:.4f},{100 + 50 * t:.3f}\n".encode() for t in part))
    found = list(reader._kept)
    stamp_s = np.array([one.stamp_epoch_ns - 10**18 for one in found]) / 1e9
    assert len(found) > 1400
    assert (np.diff(stamp_s) > 0).all()
    # A reading's time is right to what the quickest bytes were late by.
    assert (np.array([one.value for one in found]) - 100) / 50 == pytest.approx(stamp_s, abs=0.004)


def test_a_fake_powersensor_is_a_power_source():
    port = FakePort()
    reader = MeterReader("powersensor", PowerSensor3Decoder(), port)
    found = []
    for _ in range(2000):
        found += reader.read()
        if len(found) > 20:
            break
        time.sleep(0.001)
    assert reader.name is SourceName.POWERSENSOR
    assert np.mean([one.value for one in found]) == pytest.approx(72.0, abs=1.0)
    assert all(one.code == 0 and one.stamp_epoch_ns > 0 for one in found)
    reader._stopped.set()
    reader._thread.join(1)


def test_a_meter_that_is_gone_is_a_failed_reading():
    class Gone(FakePort):
        def read(self, _timeout_s):
            raise OSError("gone")

    reader = MeterReader("stream", LineDecoder(), Gone())
    reader.read()
    reader._thread.join(1)
    (reading,) = reader.read()
    assert reading.code != 0
    assert np.isnan(reading.value)


def test_a_serial_port_is_read():
    """A pseudo-terminal stands in for it."""
    master, slave = os.openpty()
    port = open_port(os.ttyname(slave))
    os.write(master, b"1,250.5\n")
    data = b""
    while not data.endswith(b"\n"):
        data += port.read(1.0)
    assert LineDecoder().feed(data)[1] == [250.5]
    port.close()
    os.close(master)
    os.close(slave)


@pytest.mark.parametrize(
    "address", ["", "COM3", "tcp://nowhere", "tcp://127.0.0.1:1", "/dev/null", "/dev/there_is_none:115200"]
)
def test_an_address_that_is_none_is_one_line(address):
    with pytest.raises(SensorError, match=ADDRESS):
        open_port(address)


def test_without_a_meter_named_none_is_looked_for(monkeypatch):
    monkeypatch.delenv(ADDRESS, raising=False)
    device = NvmlDevice(0, FakeNvml(FakeDevice()))
    names = {source.name for source in available_sources(device)} | set(silent_sources(device))
    assert names == set(nvml_sources())
    monkeypatch.setenv(ADDRESS, "tcp://127.0.0.1:1")
    assert set(silent_sources(device)) >= {SourceName.STREAM, SourceName.POWERSENSOR}
    device.close()
