"""What a row rests on, for the page: the power of its repeats, and one launch with its readings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ptxbench.core.errors import InputError
from ptxbench.core.status import Status
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.trace import Series
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import Role, TrialRecord

# More points than these are not seen in a plot of this size.
_MOST_POINTS = 80
_NS_PER_MS = 1e6


@dataclass(frozen=True)
class RowTrials:
    """The launches of one row's target kernel.

    Attributes:
        powers_w: Steady power of each valid repeat, in order.
        source: Power source of these and of the readings.
        duration_ms: Duration of the launch that is shown, the last valid one.
        time_ms: When each reading of it was taken, after the kernel's start.
        power_w: What it said.
        energies_j: The launch's energy by each method that answered, by name.
    """

    powers_w: tuple[float, ...]
    source: str
    duration_ms: float
    time_ms: tuple[float, ...]
    power_w: tuple[float, ...]
    energies_j: Mapping[str, float]


def row_trials(folder: RunFolder) -> dict[str, RowTrials]:
    """Return what each row of a run rests on, by `TableRow.subject`; nothing where the run has no readings.

    Args:
        folder: The run.
    """
    launches: dict[str, list[TrialRecord]] = defaultdict(list)
    try:
        records = folder.records()
    except InputError:
        return {}
    for record in sorted(records, key=lambda one: one.order):
        if record.role is Role.TARGET and record.repeat >= 0 and record.status is Status.OK:
            launches[record.subject].append(record)
    found = {}
    # In the order of the file, which is read a part at a time.
    for subject, of_row in sorted(launches.items(), key=lambda item: item[1][-1].order):
        try:
            found[subject] = _of_row(folder, of_row)
        except InputError:
            return {}
    return found


def _of_row(folder: RunFolder, launches: list[TrialRecord]) -> RowTrials:
    last = launches[-1]
    series = folder.trace(last.trial_id).of(SourceName(last.source))
    time_ms, power_w = _points(series, last.start_ns) if series is not None else ((), ())
    energies_j = {
        "MTSM": last.mtsm_j,
        "PAPI-style": last.papi_j,
        "SMA": last.sma_j,
        "counter": last.counter_j,
        "steady power": last.steady_power_w * last.elapsed_s,
    }
    return RowTrials(
        tuple(record.steady_power_w for record in launches),
        last.source,
        (last.end_ns - last.start_ns) / _NS_PER_MS,
        time_ms,
        power_w,
        energies_j,
    )


def _points(series: Series, start_ns: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return when readings were taken, and what they said; of a counter the power between two of them."""
    good = series.good()
    if not len(good):
        return (), ()
    fresh = np.flatnonzero(np.concatenate(([True], np.diff(good.value) != 0)))
    time_ms, value = (good.time_ns[fresh] - start_ns) / _NS_PER_MS, good.value[fresh]
    if series.counts_energy:
        value = np.diff(value) / np.diff(time_ms) * 1e3
        time_ms = time_ms[1:]
    step = max(1, -(-len(value) // _MOST_POINTS))
    return tuple(map(float, time_ms[::step])), tuple(map(float, value[::step]))
