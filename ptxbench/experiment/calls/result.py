"""What calls took, and which of several functions takes less: the numbers, and how they are printed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ptxbench.analysis.statistics import Estimate
from ptxbench.core.status import Status
from ptxbench.experiment.calls.verdict import Judged, Verdict, moved_clock
from ptxbench.experiment.calls.window import CallWindow, mean_of, quantile

_PREFIXES = ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"))


@dataclass(frozen=True)
class Bench:
    """What a call of a function takes.

    Attributes:
        name: What is called.
        gpu: Name and index of the GPU.
        is_simulated: Whether its numbers are no measurements.
        windows: Calls back to back, one window a round.
        l2: "warm": what a call left in L2 is there for the next; "flushed": it is not; "": whole commands.
        objection: Why no power of it may be believed; "" where it may.
        notes: What else to know, a sentence each.
        wanted: Quantiles that were wanted.
    """

    name: str
    gpu: str
    is_simulated: bool
    windows: tuple[CallWindow, ...]
    l2: str = "warm"
    objection: str = ""
    notes: tuple[str, ...] = ()
    wanted: tuple[float, ...] = ()

    @property
    def counted(self) -> tuple[CallWindow, ...]:
        """Windows that count: their power had settled; none where the power may not be believed."""
        return () if self.objection else tuple(one for one in self.windows if one.counts)

    @property
    def settled_first(self) -> tuple[CallWindow, ...]:
        """Windows that count, or where none does those whose power is known at all."""
        known = tuple(one for one in self.windows if math.isfinite(one.power_w) and not self.objection)
        return self.counted or known

    @property
    def energy(self) -> Estimate:
        """Energy of a call, J, with its 95% interval; NaN where it is not known."""
        return self._mean(lambda one: one.energy_j, lambda one: one.error_j)

    @property
    def power(self) -> Estimate:
        """Mean power, W."""
        return self._mean(lambda one: one.power_w, lambda one: one.power_error_w)

    @property
    def time(self) -> Estimate:
        """Time of a call, s."""
        return mean_of([one.time_s for one in self.counted or self.windows])

    @property
    def clock(self) -> Estimate:
        """Mean SM clock, MHz."""
        return mean_of([one.clock_mhz for one in self.counted if math.isfinite(one.clock_mhz)])

    @property
    def energy_j(self) -> float:
        """Energy of a call, J."""
        return self.energy.mean

    @property
    def power_w(self) -> float:
        """Mean power while it is called back to back, W."""
        return self.power.mean

    @property
    def time_s(self) -> float:
        """Time of a call, s."""
        return self.time.mean

    @property
    def clock_mhz(self) -> float:
        """Mean SM clock, MHz; NaN where it was not read."""
        return self.clock.mean

    @property
    def interval_j(self) -> tuple[float, float]:
        """Low and high end of the 95% interval of the energy; the gain of the GPU's sensor is not in it."""
        return _ends(self.energy)

    @property
    def at_limit(self) -> bool:
        """Whether the power limit or heat held the clock down."""
        return any(one.at_limit for one in self.windows)

    @property
    def status(self) -> Status:
        """Validity."""
        if self.objection:
            return Status.SENSOR_IMPLAUSIBLE
        if not self.counted:
            return Status.IMPRECISE if any(one.at_limit for one in self.windows) else Status.UNEVEN_POWER
        return Status.CLOCK_DRIFT if moved_clock(self.windows) else Status.OK

    @property
    def reason(self) -> str:
        """Why the status is not "ok"."""
        if self.objection or self.status is Status.OK:
            return self.objection
        return moved_clock(self.windows) or next((one.reason for one in self.windows if one.reason), "")

    @property
    def quantiles(self) -> tuple[float, ...]:
        """The wanted quantiles of the energy over the windows, J."""
        values = [one.energy_j for one in self.counted]
        return tuple(quantile(values, share) for share in self.wanted)

    def _mean(self, value: Callable[[CallWindow], float], error: Callable[[CallWindow], float]) -> Estimate:
        return mean_of([value(one) for one in self.counted], [error(one) for one in self.counted])

    def cells(self) -> tuple[str, ...]:
        """Return name, energy, power, time, clock and what else there is to say, as they are printed."""
        said = f"{len(self.counted)} of {len(self.windows)} windows"
        if self.at_limit:
            said += ", at the power limit"
        energy = scaled(self.energy, "J")
        return (self.name, energy, scaled(self.power, "W"), scaled(self.time, "s"), _mhz(self.clock), said)

    def __str__(self) -> str:
        name, energy, power, time, clock, said = self.cells()
        text = f"{name}: {energy} a call, {power}, {time}, {clock} ({said})"
        return f"{text}: {self.status}: {self.reason}" if self.reason else text

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        numbers = {
            "energy_j": self.energy,
            "power_w": self.power,
            "time_s": self.time,
            "clock_mhz": self.clock,
        }
        return {
            "name": self.name,
            **{name: found.mean for name, found in numbers.items()},
            **{f"{name}_ci95": found.ci95 for name, found in numbers.items()},
            "status": str(self.status),
            "reason": self.reason,
            "at_limit": self.at_limit,
            "l2": self.l2,
            "windows": [
                {"round": one.round, "energy_j": one.energy_j, "power_w": one.power_w, "time_s": one.time_s,
                 "clock_mhz": one.clock_mhz, "at_limit": one.at_limit, "reason": one.reason}
                for one in self.windows
            ],
        }  # fmt: skip


@dataclass(frozen=True)
class Against:
    """A function beside the first one.

    Attributes:
        bench: What a call of it takes.
        judged: Whether it takes less energy, and how much.
        wrong: How its results differ from those of the first; "" where they do not, or none were compared.
    """

    bench: Bench
    judged: Judged
    wrong: str = ""

    @property
    def less_energy(self) -> str:
        """Whether it takes less energy: "yes", "no", "undecided" or "refused"; "wrong" if its results are."""
        return "wrong" if self.wrong else str(self.judged.verdict)

    @property
    def takes_more(self) -> bool:
        """Whether it takes more energy, or computes something else."""
        return bool(self.wrong) or self.judged.verdict is Verdict.MORE

    def __str__(self) -> str:
        if self.wrong:
            return f"{self.bench.name}: wrong: {self.wrong}"
        at_95 = " at 95%" if self.judged.verdict is Verdict.UNDECIDED else ""
        reason = f"; {self.judged.reason}" if self.judged.reason else ""
        return (
            f"{self.bench.name}: less energy: {self.less_energy}{at_95}, {self.judged.energy.change};"
            f" time {self.judged.time.change}{reason}"
        )


@dataclass(frozen=True)
class Comparison:
    """Functions compared with the first one.

    Attributes:
        first: What a call of the first takes.
        others: The others, in the order in which they were given.
        checked: Whether results were compared.
        notes: What else to know, a sentence each.
    """

    first: Bench
    others: tuple[Against, ...]
    checked: bool
    notes: tuple[str, ...] = ()

    @property
    def benches(self) -> tuple[Bench, ...]:
        """What a call of each takes."""
        return self.first, *(one.bench for one in self.others)

    @property
    def less_energy(self) -> str:
        """The verdict of the only other function, or of each, by commas."""
        return ", ".join(one.less_energy for one in self.others)

    @property
    def takes_more(self) -> bool:
        """Whether one takes more energy than the first, or computes something else."""
        return any(one.takes_more for one in self.others)

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.benches, *self.others, *self.notes)))

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "gpu": self.first.gpu,
            "simulated": self.first.is_simulated,
            "checked": self.checked,
            "first": self.first.document(),
            "others": [
                {
                    **one.bench.document(),
                    "less_energy": one.less_energy,
                    "energy_ratio": [one.judged.energy.value, one.judged.energy.low, one.judged.energy.high],
                    "time_ratio": [one.judged.time.value, one.judged.time.low, one.judged.time.high],
                    "rounds": one.judged.rounds,
                    "why": one.wrong or one.judged.reason,
                }
                for one in self.others
            ],
            "notes": list(self.notes),
        }


def scaled(found: Estimate, unit: str) -> str:
    """Return a number with its interval, such as "1.234 mJ (1.23 to 1.24)"."""
    if not math.isfinite(found.mean):
        return f"? {unit}"
    size = abs(found.mean)
    factor, prefix = next((one for one in _PREFIXES if size >= one[0]), _PREFIXES[-1])
    value = f"{found.mean / factor:.4g} {prefix}{unit}"
    if not math.isfinite(found.ci95):
        return value
    low, high = (end / factor for end in _ends(found))
    return f"{value} ({low:.4g} to {high:.4g})"


def _ends(found: Estimate) -> tuple[float, float]:
    """Return both ends of an interval, the low one from 0 on: two windows may say less."""
    return max(found.mean - found.ci95, 0.0), found.mean + found.ci95


def _mhz(found: Estimate) -> str:
    return f"{found.mean:.0f} MHz" if math.isfinite(found.mean) else "? MHz"


def notes_of(benches: Sequence[Bench], *more: str) -> tuple[str, ...]:
    """Return what is said below results: each sentence once."""
    sentences = [note for bench in benches for note in bench.notes]
    return tuple(dict.fromkeys(filter(None, (*more, *sentences))))
