"""What the sensors of a board make of the numbers that other tools give: lines of `ptxbench doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptxbench.analysis.source_reach import ACCEPTED
from ptxbench.energy.predicted_error import seen_shares
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.characterize.probe import SensorCharacterization
from ptxbench.sensors.description import SensorDescription
from ptxbench.storage.doctor_file import State, Verdict

# Windows that people take, and how often tools poll.
_WINDOWS_S = (0.3, 1.0, 10.0)
_POLL_S = 0.1  # nvidia-smi -lms 100, and collectors (`ptxbench.energy.methods.collector_j`)
# From here on a reading is a mean over a while and not of the moment.
_LONG_MEAN_S = 0.5
# A counter is renewed every 0.1 s where it was measured.
_SLOW_REFRESH_S = 0.15


def other_tool_verdicts(probes: Sequence[SensorCharacterization]) -> Iterator[Verdict]:
    """Yield a line for each kind of other tool whose numbers the board's sensors distort.

    Args:
        probes: What was measured about each source.
    """
    followed = {one.sensor.source: one for one in probes if one.needed_s == one.needed_s}
    usage, counter = followed.get(SourceName.USAGE), followed.get(SourceName.COUNTER)
    if usage is not None and usage.sensor.averaging_s >= _LONG_MEAN_S:
        yield _running_mean(usage)
    if counter is not None:
        yield _counter(counter.sensor)


def _running_mean(probe: SensorCharacterization) -> Verdict:
    """Return how low the mean of polled readings is, for windows after idle time."""
    sensor = probe.sensor
    idle = probe.idle_w.value / (probe.idle_w.value + probe.step_w.value)
    parts = []
    for length_s in _WINDOWS_S:
        low, high = seen_shares(sensor, length_s, _POLL_S)
        parts.append(f"{100 * (1 - idle) * (1 - (low + high) / 2):.0f}% for {length_s:g} s")
    text = (
        f"power.draw of nvidia-smi, field 155 of DCGM and nvmlDeviceGetPowerUsage are means over"
        f" {sensor.averaging_s:.3g} s: their mean in a window after idle time is low by {', '.join(parts)};"
        " `ptxbench audit` says so of files"
    )
    return Verdict("other tools", State.NOTE, text)


def _counter(sensor: SensorDescription) -> Verdict:
    """Return from which window on the counter's difference is right, and whether it stands still too long."""
    least_s = (sensor.refresh_s + sensor.lag_s) / ACCEPTED
    text = (
        f"Zeus and codecarbon take the counter's difference: it is renewed every {sensor.refresh_s:.3g} s, so"
        f" that windows below {least_s:.2g} s may be off by more than {ACCEPTED:.0%}"
    )
    if sensor.refresh_s <= _SLOW_REFRESH_S:
        return Verdict("other tools", State.NOTE, text)
    return Verdict(
        "other tools", State.NOTE, f"{text}; that is longer than elsewhere (0.1 s): a stale counter"
    )
