"""Notes of a valid row on trials and loops that did not go as they should."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from ptxbench.analysis.drift import Drift
from ptxbench.analysis.loop_energy import LoopEnergy
from ptxbench.analysis.operating_point import OTHER_CLOCK
from ptxbench.analysis.statistics import Estimate
from ptxbench.core.status import Status
from ptxbench.storage.schema import COUNTS_AS_AT, OVERHEAD_AT, TrialRecord

# N and 2N may differ by this much, or by what their intervals allow, before the row has a note.
_LINEARITY = 0.02
# By more than this no reading of the row is its energy; on H200s valid rows reached 0.11.
_NOT_LINEAR = 0.15
# A power that changes by so much between two rounds at one clock, and stays, is reported.
_STEP = 0.015


def left_out_note(faults: Mapping[str, tuple[Status, str]]) -> str:
    """Return how many trials were left out and why, "" where there is none.

    Args:
        faults: Status and reason of every trial that does not count, by trial id.
    """
    if not faults:
        return ""
    counts = Counter(status for status, _ in faults.values()).most_common()
    first = dict(list(faults.values())[::-1])
    causes = "; ".join(f"{count} {status}: {first[status]}" for status, count in counts)
    return f"{len(faults)} trial{'s' if len(faults) > 1 else ''} left out ({causes})"


def set_aside_note(unsure: int, kept: int) -> str:
    """Return how many valid trials ran at an unknown operating point, "" where as many or more count."""
    return f"excluded trials: {unsure} at an unknown drift level" if unsure > kept else ""


def fewer_sms_note(records: Sequence[TrialRecord], sm_count: int) -> str:
    """Return on how many SMs a subject was measured where the GPU throttled on more, else "".

    Args:
        records: All trials of the subject, of every attempt.
        sm_count: Streaming multiprocessors of the GPU.
    """
    grids = {r.grid for r in records}
    if len(grids) < 2:
        return ""
    return f"on {min(grids)} of {sm_count} SMs, because the GPU throttled on more"


def lost_readings_note(trials: Sequence[TrialRecord]) -> str:
    """Return in how many of a kernel's valid trials readings were left out, and which, else "".

    Args:
        trials: Valid trials of one kernel.
    """
    notes = [r.reason for r in trials if r.reason]
    return f"in {len(notes)} of {len(trials)} trials: {notes[0]}" if notes else ""


def linearity_note(single: Estimate, double: Estimate) -> str:
    """Return a sentence where N and 2N copies disagree by more than their intervals, else "".

    Args:
        single: Energy of one instruction from N copies, pJ.
        double: The same from 2N copies, pJ.
    """
    gap_pj = abs(double.mean - single.mean)
    if not gap_pj > max(_LINEARITY * abs(single.mean), math.hypot(single.ci95, double.ci95)):
        return ""
    return f"2N copies give {double.mean:.4g} pJ, {100 * (double.mean / single.mean - 1):+.1f}%"


def is_linear(single: Estimate, double: Estimate) -> bool:
    """Tell whether N and 2N copies agree well enough for either to be the energy of an instruction.

    Args:
        single: Energy of one instruction from N copies, pJ.
        double: The same from 2N copies, pJ; NaN where they were not measured.
    """
    gap_pj = abs(double.mean - single.mean)
    return not gap_pj > max(_NOT_LINEAR * abs(single.mean), math.hypot(single.ci95, double.ci95))


def clock_note(target: LoopEnergy, overhead: LoopEnergy) -> str:
    """Return a sentence where both ran at different, known SM clocks, else ""."""
    if not target.trials or not overhead.trials:
        return ""
    if not abs(target.clock_mhz / overhead.clock_mhz - 1) > OTHER_CLOCK:
        return ""
    return f"the target ran at {target.clock_mhz:.0f} MHz, {OVERHEAD_AT} {overhead.clock_mhz:.0f}"


def other_clock_note(target: LoopEnergy) -> str:
    """Return a sentence where trials of the target ran at another clock than the energy is for, else ""."""
    clocks_mhz = [round(t.sm_clock_mhz) for t in target.trials if math.isfinite(t.sm_clock_mhz)]
    other_mhz = sorted({mhz for mhz in clocks_mhz if abs(mhz - target.clock_mhz) > 0.5})
    if not target.clock_shift or not other_mhz:
        return ""
    span = " to ".join(f"{mhz}" for mhz in dict.fromkeys((other_mhz[0], other_mhz[-1])))
    count = sum(mhz in other_mhz for mhz in clocks_mhz)
    return f"{count} of {len(target.trials)} trials ran at {span} MHz, {COUNTS_AS_AT} {target.clock_mhz:.0f}"


def step_note(target: LoopEnergy, drift: Drift) -> str:
    """Return a sentence where the power changed from one round to the next and stayed, else ""."""
    power_w = np.array([drift.power_w(r) for r in sorted(target.trials, key=lambda r: r.start_ns)])
    if len(power_w) < 4:
        return ""
    splits = range(2, len(power_w) - 1)
    gaps = [power_w[n:].mean() / power_w[:n].mean() - 1 for n in splits]
    best = int(np.argmax(np.abs(gaps)))
    before, after = power_w[: splits[best]], power_w[splits[best] :]
    if abs(gaps[best]) < _STEP or max(np.ptp(before), np.ptp(after)) > abs(gaps[best]) / 2 * power_w.mean():
        return ""
    return f"the power stepped by {100 * gaps[best]:+.1f}% between two rounds, and stayed"
