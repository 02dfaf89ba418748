"""A coded burst: a load that goes on and off in a pattern with no second place to fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.signal

from ptxbench.meter.alignment import MIN_CORRELATION, Basis, ClockAlignment, fit_edges
from ptxbench.meter.capture import MeterCapture
from ptxbench.meter.coarse import place_windows, sharpen
from ptxbench.sensors.trace import KernelWindow

# Windows farther apart are of two bursts; a pattern's longest pause is shorter.
_APART_S = 2.0
_NEAR_S = 0.5
# How far two clocks may drift apart.
_MAX_DRIFT = 200e-6
_REACH_S = 0.025


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
        return tuple(KernelWindow.spanning(first, last) for first, last in edges_ns)


def burst_pattern(order: int = 6, chip_s: float = 0.06) -> BurstPattern:
    """Return a maximum-length sequence.

    Its circular autocorrelation is 1 at lag 0 and -1 / n elsewhere (S. Golomb, Shift Register
    Sequences, 1967), so that no period of it passes for another, as those of a square
    wave do.

    Args:
        order: Bits of the shift register; the pattern has 2^order - 1 chips.
        chip_s: Length of a chip; several samples of the meter.
    """
    sequence, _ = scipy.signal.max_len_seq(order)
    return BurstPattern(sequence.astype(np.bool_), round(chip_s * 1e9))


def align_by_bursts(
    capture: MeterCapture, marks: Sequence[KernelWindow], reference_ns: int
) -> ClockAlignment | None:
    """Find the meter's clock by bursts: the offset by each, the drift by the time between first and last.

    Whatever ran between the bursts does not enter.

    Args:
        capture: The meter's capture.
        marks: Windows of all bursts, host time, in order.
        reference_ns: Host time at which the offset is to hold.

    Returns:
        The alignment; None where fewer than two bursts stand clear in the capture.
    """
    placement = place_windows(capture, marks, (-np.inf, np.inf), _NEAR_S)
    if placement is None or placement.correlation < MIN_CORRELATION:
        return None
    length_s = (marks[-1].end_ns - marks[0].start_ns) / 1e9
    wide = replace(placement, reach_s=_REACH_S + _MAX_DRIFT * length_s)
    found = []
    for burst in _apart(marks):
        middle_ns = (burst[0].start_ns + burst[-1].end_ns) // 2
        one = fit_edges(capture, burst, sharpen(capture, burst, wide), middle_ns)
        if one is not None and one.edges >= len(burst):
            found.append(one)
    if len(found) < 2:
        return None
    first, last = found[0], found[-1]
    apart_ns = last.reference_ns - first.reference_ns
    drift = (last.offset_ns - first.offset_ns) / apart_ns
    # The two offsets are known independently, and the line through them is linear in both.
    share = (reference_ns - first.reference_ns) / apart_ns
    spread_ns = np.array([(1 - share) * first.offset_uncertainty_ns, share * last.offset_uncertainty_ns])
    drift_spread = np.hypot(first.offset_uncertainty_ns, last.offset_uncertainty_ns) / apart_ns
    return ClockAlignment(
        reference_ns,
        first.offset_ns + round(share * (last.offset_ns - first.offset_ns)),
        float(np.hypot(*spread_ns)),
        drift,
        float(drift_spread),
        placement.correlation,
        placement.rivals,
        sum(one.edges for one in found),
        Basis.WINDOWS,
    )


def _apart(marks: Sequence[KernelWindow]) -> list[list[KernelWindow]]:
    """Return the windows of each burst."""
    bursts: list[list[KernelWindow]] = []
    for window in marks:
        if not bursts or (window.start_ns - bursts[-1][-1].end_ns) / 1e9 > _APART_S:
            bursts.append([])
        bursts[-1].append(window)
    return bursts
