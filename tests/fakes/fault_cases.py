"""Faults of a board's sensors, in kinds and strengths, and what became of each in a consumer of readings."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from fakes import distorters as d
from fakes.faults import Fault
from fakes.troubled import NO_TROUBLE, Trouble

from ptxbench.energy.gate.verdict import UNJUDGED
from ptxbench.sensors.base import SourceName

S = SourceName
BOARDS: dict[str, tuple[SourceName, ...]] = {
    "samples + counter": (S.SAMPLES, S.COUNTER),
    "counter + instant": (S.COUNTER, S.INSTANT),
    "samples alone": (S.SAMPLES,),
    "usage alone": (S.USAGE,),
}
VERDICTS = ("held", "said", "unchecked", "silent")
# What is said where no second source can tell.
_UNCHECKED = re.compile(f"nothing checks|too little ran to compare|{re.escape(UNJUDGED.note)}")
# The simulated counter's gain is 1.001, and no interval holds a gain.
_GAIN = 0.0011
# What no user would call wrong.
_OFF = 0.03


@dataclass(frozen=True)
class Case:
    """What a consumer said of one energy.

    Attributes:
        name: Of what.
        truth_j: The truth.
        energy_j: What was given; NaN where nothing was.
        interval_j: Its 95% interval.
        said: Notes, and the reason of a status that is not ok.
    """

    name: str
    truth_j: float
    energy_j: float
    interval_j: tuple[float, float]
    said: tuple[str, ...]

    @property
    def is_checked(self) -> bool:
        """Whether a second source was read, or what is said is more than that there was none."""
        return not self.said or not all(_UNCHECKED.search(text) for text in self.said)

    @property
    def is_held(self) -> bool:
        """Whether the interval holds the truth; no number is no wrong one."""
        return self.is_within(1.0)

    @property
    def is_off(self) -> bool:
        """Whether the energy is wrong by more than its interval and by more than 3%."""
        return not self.is_held and abs(self.energy_j / self.truth_j - 1) > _OFF

    def is_within(self, factor: float) -> bool:
        """Whether the truth is within so many half-widths of the interval's middle."""
        if not np.isfinite(self.energy_j):
            return True
        low_j, high_j = self.interval_j
        allowed_j = factor * (high_j - low_j) / 2 + _GAIN * self.truth_j
        return abs(self.truth_j - (low_j + high_j) / 2) <= allowed_j


def verdict(found: Sequence[Case]) -> str:
    """Return which of `VERDICTS` what a consumer gave in one case is: that of its worst number."""
    wrong = [one for one in found if one.is_off]
    missing = [one for one in found if not np.isfinite(one.energy_j)]
    if any(not one.said for one in wrong + missing):
        return "silent"
    if any(not one.is_checked for one in wrong):
        return "unchecked"
    return "said" if wrong or missing else "held"


def _power(change: Callable[[float, float], float]) -> Callable[[], Fault]:
    return partial(d.changed_in_time, change)


def _every(n: int, change: Callable[[float], float]) -> Callable[[], Fault]:
    return partial(d.fresh_counted, n, change)


def _counter(change: Callable[[float, float], float]) -> Callable[[], Fault]:
    return partial(d.of_counter, change)


def kinds(mid_s: float) -> dict[str, list[Trouble]]:
    """Return the kinds of faults, each in several strengths.

    Args:
        mid_s: Middle of a consumer's measurement, where some of them begin.
    """
    return _levels() | _over_time(mid_s) | _stamps(mid_s) | _counters(mid_s) | _others(mid_s)


def _levels() -> dict[str, list[Trouble]]:
    """Return what is wrong with values all the time."""
    return {
        "none": [NO_TROUBLE],
        "unit": [
            Trouble("mW", _power(lambda _, w: 1000 * w)),
            Trouble("kW", _power(lambda _, w: w / 1000)),
        ],
        "zeros": [Trouble(f"every {n}", _every(n, lambda _: 0.0)) for n in (2, 3, 7, 20)],
        "negative": [Trouble(f"every {n}", _every(n, lambda w: -w)) for n in (2, 3, 7, 20)],
        "late": [Trouble(f"{s:g} s", late_s=s) for s in (0.1, 0.2, 0.5, 1.0, 2.0)],
        "lost": [
            *(Trouble(f"{x:.0%}", partial(d.missing, x)) for x in (0.1, 0.3, 0.5, 0.7, 0.9)),
            *(Trouble(f"failed {x:.0%}", partial(d.lost, x)) for x in (0.3, 0.9)),
        ],
        "gain": [
            Trouble(f"{x:g}", _power(lambda _, w, x=x: x * w))
            for x in (0.6, 0.8, 0.9, 0.95, 1.05, 1.1, 1.2, 1.3)
        ],
        "offset": [Trouble(f"{x:+g} W", _power(lambda _, w, x=x: w + x)) for x in (-30, 20, 60)],
        "compressed": [
            Trouble(f"from {x:g} W", _power(lambda _, w, x=x: min(w, x) + 0.4 * max(w - x, 0.0)))
            for x in (250.0, 350.0, 450.0)
        ],
        "clipped": [
            Trouble(f"at {x:g} W", _power(lambda _, w, x=x: min(w, x))) for x in (250.0, 350.0, 450.0)
        ],
    }


def _over_time(mid_s: float) -> dict[str, list[Trouble]]:
    """Return what goes wrong with values in the course of time."""
    burst = (0.8 * mid_s, 0.8 * mid_s + 0.03)
    return {
        "frozen": [
            *(Trouble(f"from {x:.0%}", partial(d.frozen_from, 2 * x * mid_s)) for x in (0.0, 0.25, 0.5)),
            Trouble("at 310 W", partial(d.frozen_values, 310.0)),
        ],
        "gain step": [
            Trouble(f"to {x:g}", _power(lambda t, w, x=x: w * (x if t > mid_s else 1)))
            for x in (0.7, 0.9, 1.05, 1.1, 1.3)
        ],
        "slow drift": [
            Trouble(f"{x:+g}/s", _power(lambda t, w, x=x: w * (1 + x * t)))
            for x in (0.002, 0.01, -0.01, 0.03, -0.03)
        ],
        "spikes": [
            Trouble("1.2 MW once", _power(lambda t, w: 1.2e6 if burst[0] < t < burst[1] else w)),
            *(
                Trouble(f"x {x:g}, every {n}", _every(n, lambda w, x=x: x * w))
                for x, n in ((3.0, 20), (2.0, 8), (1.6, 7), (1.3, 5))
            ),
        ],
    }


def _stamps(mid_s: float) -> dict[str, list[Trouble]]:
    """Return what is wrong with time stamps, where a source has some."""
    boards = tuple(name for name, sources in BOARDS.items() if S.SAMPLES in sources)
    return {
        "stamps alike": [
            Trouble(f"every {n}", partial(d.stamps_of_another, n), boards=boards) for n in (2, 5, 20)
        ],
        "stamps of the future": [
            Trouble(f"{s:g} s", partial(d.future_stamps, s), boards=boards) for s in (0.05, 1.0)
        ],
        "clock step": [
            Trouble(f"{s:+g} s", partial(d.clock_set_back, mid_s, -s), boards=boards)
            for s in (-2.0, -0.5, -0.1, 0.1, 0.5, 2.0)
        ],
    }


def _counters(mid_s: float) -> dict[str, list[Trouble]]:
    """Return what is wrong with an energy counter, where there is one."""
    boards = tuple(name for name, sources in BOARDS.items() if S.COUNTER in sources)
    changes = {
        "counter wrapped": {
            "once": lambda t, j: j if t < mid_s else j - 250_000.0,
            "each 1000 J": lambda _, j: j % 1000.0,
        },
        "counter reset": {"": lambda t, j: j if t < mid_s else max(j - 250_000.0 - 200.0 * mid_s, 0.0)},
        "counter scaled": {f"{x:g}": lambda _, j, x=x: x * j for x in (0.5, 0.9, 0.95, 1.05, 1.1, 2.0)},
        "counter negative": {"": lambda _, j: -j},
    }
    found = {
        kind: [Trouble(strength, _counter(change), boards=boards) for strength, change in strengths.items()]
        for kind, strengths in changes.items()
    }
    frozen = [
        Trouble(f"from {x:.0%}", partial(d.frozen_from, 2 * x * mid_s, S.COUNTER), boards=boards)
        for x in (0.0, 0.5)
    ]
    return found | {"counter frozen": frozen}


def _others(mid_s: float) -> dict[str, list[Trouble]]:
    """Return what is wrong with the board, not with its sensors."""
    return {
        "another process": [
            Trouble("idle", others=1),
            Trouble("80 W at times", partial(d.another_process, 80.0), others=1),
            Trouble("80 W at times, not listed", partial(d.another_process, 80.0)),
        ],
        "thermal slowdown": [
            Trouble(name, reasons=reasons, slow_mhz=1500, slow_from_s=mid_s)
            for name, reasons in (("software", 0x20), ("hardware", 0x40), ("without a reason", 0))
        ],
    }
