"""Whether what a power source gave during a kernel can be true."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxbench.energy.steady import Bools, PowerReading, fresh, settled_mask
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import Float64s, KernelWindow, Series

# A driver stamps a reading before the call that returns it ends: in 16,000 recordings on H200s by 0.16 ms at
# the least. The offset between the two clocks is known better than this.
_FUTURE_NS = 5_000_000
# Transients on H200s reached 1.26 times the power limit.
_LIMITS = 1.3
# Settled readings of one kernel lie within a few percent of each other.
_FACTOR = 1.5
# So large a share of readings may be wrong and the others believed.
_WRONG_SHARE = 0.2
# H200s repeated a value for up to 7 readings under a steady load. More are not one value to the last digit,
# unless the source is coarse. What stands still for less shows between trials (`analysis.flat_power`).
_FLAT_READINGS = 12
# Where the value is from before the kernel, fewer are enough: in 64,000 trials on H100s and H200s (results/)
# no settled reading repeated such a value.
_FLAT_FROM_BEFORE = 5
_FINE = 1e-3


@dataclass(frozen=True)
class Believed:
    """The readings of a source that can be true.

    Attributes:
        series: What is left of them.
        note: Which readings were set aside, "" for none.
        objection: Why none of them can be believed, "" where they can.
        doubt: Why none can be believed of a kernel whose power is even, "" where they can.
    """

    series: Series
    note: str = ""
    objection: str = ""
    doubt: str = ""


def believed(
    series: Series, window: KernelWindow, sensor: SensorDescription, power_limit_w: float
) -> Believed:
    """Set aside readings that cannot be true, or object to the source where they are too many.

    A time stamp may not lie after the end of the call that returned it. Power is between 0 and 1.3 times the
    GPU's limit. Within the settled part of a kernel no reading is half as much again as their median, and
    fine readings are not all one value. Readings that are too low are kept if they are few: power falls where
    SMs run out of work. Of a counter only the power between its steps can be judged (`impossible_power`).

    Args:
        series: Readings of one source, shape (n,).
        window: The kernel's window.
        sensor: What that source is like.
        power_limit_w: The GPU's power limit, NaN where it is not known.
    """
    good = series.good()
    late_ns = (good.stamp_ns - good.end_ns)[good.stamp_ns >= 0]
    if len(late_ns) and late_ns.max() > _FUTURE_NS:
        late_ms = late_ns.max() / 1e6
        return Believed(
            series, objection=f"{series.source} is stamped {late_ms:.3g} ms after the call that returned it"
        )
    if series.counts_energy:
        return Believed(series)
    highest_w = _LIMITS * power_limit_w
    settled = settled_mask(series, window, sensor) & (series.code == 0) & np.isfinite(series.value)
    # A GPU that runs a kernel draws power.
    impossible = (series.value <= 0) | (series.value > highest_w)
    wrong = int((settled & impossible).sum())
    if wrong > _WRONG_SHARE * settled.sum():
        return Believed(series, objection=_outside(series.select(settled), highest_w, wrong))
    possible = settled & ~impossible
    if not possible.any():
        return Believed(series)
    value_w = series.value
    median_w = float(np.median(value_w[possible]))
    high = possible & (value_w > _FACTOR * median_w)
    low_w, high_w = np.quantile(value_w[possible], [_WRONG_SHARE, 1 - _WRONG_SHARE])
    if high_w > _FACTOR * low_w:
        return Believed(series, doubt=f"{series.source} reads from {low_w:.4g} to {high_w:.4g} W in turn")
    objection = _flat(series, possible & ~high, window, sensor)
    dropped = wrong + int(high.sum())
    note = f"{dropped} of {settled.sum()} readings of {series.source} set aside: the others contradict them"
    return Believed(series.select(~(impossible | high)), note if dropped else "", objection)


def impossible_power(power: PowerReading, source: str, power_limit_w: float) -> str:
    """Return a sentence where the power of a kernel cannot be true, else "".

    Args:
        power: Over the settled part of the kernel.
        source: Where it is from.
        power_limit_w: The GPU's power limit, NaN where it is not known.
    """
    if power.power_w < 0 or power.power_w > _LIMITS * power_limit_w:
        return f"{source} gives {power.power_w:.4g} W, and the GPU's limit is {power_limit_w:.4g} W"
    return ""


def _flat(series: Series, settled: Bools, window: KernelWindow, sensor: SensorDescription) -> str:
    """Return a sentence where the settled readings, with those around them, are one value for too long."""
    values_w: Float64s = series.value[settled]
    if not len(values_w) or np.ptp(values_w) > 0 or sensor.quantum > _FINE * values_w[0]:
        return ""
    flat_w = values_w[0]
    number, first = np.arange(len(series)), int(np.argmax(settled))
    other = number[(series.value != flat_w) & (series.code == 0)]
    begin, end = other[other < first].max(initial=-1), other[other > first].min(initial=len(series))
    held = fresh(series.select((begin < number) & (number < end)), sensor.refresh_s)
    from_before = held.time_ns[0] < window.start_ns + round(sensor.delay_s * 1e9)
    times = len(held)
    if times < (_FLAT_FROM_BEFORE if from_before else _FLAT_READINGS):
        return ""
    return (
        f"{series.source} gave {flat_w:.6g} W {times} times over: it stands still or is at the"
        " end of its range; if it is that coarse, measure it by `ptxbench sensor` and give --sensor"
    )


def _outside(in_kernel: Series, highest_w: float, wrong: int) -> str:
    low_w, high_w = in_kernel.value.min(), in_kernel.value.max()
    return (
        f"{wrong} of {len(in_kernel)} readings of {in_kernel.source} are not between 0 and {highest_w:.4g} W,"
        f" which is {_LIMITS} times the GPU's limit: they go from {low_w:.4g} to {high_w:.4g} W"
    )
