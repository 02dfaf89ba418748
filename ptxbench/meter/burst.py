"""A coded burst: a load that goes on and off in a pattern with no second place to fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.signal

from ptxbench.clock import Clock
from ptxbench.errors import InputError
from ptxbench.meter.alignment import MIN_CORRELATION, ClockAlignment, fit_edges
from ptxbench.meter.capture import MeterCapture
from ptxbench.meter.coarse import place_windows, sharpen
from ptxbench.power.trace import KernelWindow

_ORDERS = (3, 12)


@dataclass(frozen=True)
class BurstPattern:
    """Chips of equal length, on or off.

    Attributes:
        chips: Whether each is on, shape (n,).
        chip_ns: Length of one.
    """

    chips: npt.NDArray[np.bool_]
    chip_ns: int

    def windows(self, start_ns: int) -> tuple[KernelWindow, ...]:
        """Return the times of load, neighbouring chips joined, of a burst that begins at `start_ns`."""
        steps = np.flatnonzero(np.diff(self.chips.astype(np.int8), prepend=0, append=0))
        edges_ns = (start_ns + self.chip_ns * steps).reshape(-1, 2).tolist()
        return tuple(KernelWindow(first, last, (last - first) / 1e9) for first, last in edges_ns)


def burst_pattern(order: int = 6, chip_s: float = 0.06) -> BurstPattern:
    """Return a maximum-length sequence.

    Its circular autocorrelation is 1 at lag 0 and -1 / n elsewhere (S. Golomb, Shift Register
    Sequences, 1967), so that no period of it passes for another, as those of a square
    wave do.

    Args:
        order: Bits of the shift register; the pattern has 2^order - 1 chips.
        chip_s: Length of a chip; several samples of the meter.

    Raises:
        InputError: An order or a length that makes no pattern.
    """
    if not _ORDERS[0] <= order <= _ORDERS[1]:
        raise InputError(f"the order of a burst is {_ORDERS[0]} to {_ORDERS[1]}, not {order}")
    if not 1e-3 <= chip_s <= 60:
        raise InputError(f"a chip of a burst lasts 0.001 to 60 s, not {chip_s:g}")
    sequence, _ = scipy.signal.max_len_seq(order)
    return BurstPattern(sequence.astype(np.bool_), round(chip_s * 1e9))


def emit_burst(
    pattern: BurstPattern, load: Callable[[float], None], clock: Clock
) -> tuple[KernelWindow, ...]:
    """Play a burst before measuring.

    Args:
        pattern: What to play.
        load: Keeps the GPU busy for as many seconds as it is given, and returns then.
        clock: Host clock.

    Returns:
        When the load really ran, host time: these windows align the clocks.
    """
    start_ns = clock.now_ns()
    ran = []
    for planned in pattern.windows(start_ns):
        clock.sleep_s(max(0.0, (planned.start_ns - clock.now_ns()) / 1e9))
        begin_ns = clock.now_ns()
        load(max(0.0, (planned.end_ns - begin_ns) / 1e9))
        end_ns = clock.now_ns()
        ran.append(KernelWindow(begin_ns, end_ns, (end_ns - begin_ns) / 1e9))
    return tuple(ran)


def find_burst(capture: MeterCapture, windows: tuple[KernelWindow, ...]) -> ClockAlignment:
    """Find a burst in a meter's capture, at any offset of the clocks.

    Args:
        capture: The meter's capture.
        windows: When the load ran, host time.

    Returns:
        The alignment, its offset given at the burst's begin.

    Raises:
        InputError: The capture does not hold the burst.
    """
    placement = place_windows(capture, windows, (-np.inf, np.inf))
    if placement is None or placement.correlation < MIN_CORRELATION:
        raise InputError("the meter's capture does not hold the burst")
    found = fit_edges(capture, windows, sharpen(capture, windows, placement), windows[0].start_ns)
    if found is None:
        raise InputError("the burst does not step clear of the meter's noise")
    return found
