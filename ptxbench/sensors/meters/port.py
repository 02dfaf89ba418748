"""A serial port or a TCP connection, as bytes."""

from __future__ import annotations

import os
import re
import select
import socket

from ptxbench.core.errors import SensorError

ADDRESS = "PTXBENCH_METER"
_TCP = re.compile(r"tcp://([^:/\s]+|\[[0-9a-fA-F:]+\]):(\d{1,5})")
_SERIAL = re.compile(r"(/dev/[^:\s]+)(?::(\d+))?")
# A port that does not answer is refused; chosen.
_CONNECT_S = 5.0
_CHUNK = 1 << 16


class Port:
    """Bytes of a meter.

    Args:
        descriptor: An open file.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, timeout_s: float) -> bytes:
        """Return what has come, b"" where nothing came in time.

        Raises:
            OSError: The meter is gone.
        """
        ready, _, _ = select.select([self._descriptor], [], [], timeout_s)
        if not ready:
            return b""
        data = os.read(self._descriptor, _CHUNK)
        if not data:
            raise OSError("the meter closed the connection")
        return data

    def write(self, data: bytes) -> None:
        """Send bytes."""
        os.write(self._descriptor, data)

    def close(self) -> None:
        """Let the meter go."""
        os.close(self._descriptor)


def open_port(address: str) -> Port:
    """Open what an address names: "tcp://HOST:PORT", "/dev/ttyACM0" or "/dev/ttyUSB0:115200".

    Raises:
        SensorError: It names none, or nothing answers there.
    """
    tcp, serial = _TCP.fullmatch(address), _SERIAL.fullmatch(address)
    try:
        if tcp is not None:
            host = tcp[1].strip("[]")
            connection = socket.create_connection((host, int(tcp[2])), _CONNECT_S)
            return Port(connection.detach())
        if serial is not None:
            return Port(_open_serial(serial[1], serial[2]))
    except (OSError, OverflowError) as error:
        raise SensorError(f"{ADDRESS}={address}: no meter answers: {error}") from error
    raise SensorError(
        f"{ADDRESS} is {address!r}: give tcp://HOST:PORT, /dev/NAME or /dev/NAME:BAUD, such as /dev/ttyACM0"
    )


def _open_serial(path: str, baud: str | None) -> int:
    import termios

    descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY)
    try:
        settings = termios.tcgetattr(descriptor)
        # Raw bytes of 8 bits, no flow control, as the meters send them.
        settings[0] = settings[1] = settings[3] = 0
        settings[2] = termios.CS8 | termios.CLOCAL | termios.CREAD
        if baud is not None:
            speed = getattr(termios, f"B{baud}", None)
            if speed is None:
                raise SensorError(f"{ADDRESS}: {baud} is no speed of a serial port; give one such as 115200")
            settings[4] = settings[5] = speed
        termios.tcsetattr(descriptor, termios.TCSANOW, settings)
        termios.tcflush(descriptor, termios.TCIFLUSH)
    except termios.error as error:
        os.close(descriptor)
        raise OSError(f"{path} is no serial port") from error
    except SensorError:
        os.close(descriptor)
        raise
    return descriptor
