"""The raw record of one kernel run: every reading of every source, and the kernel's window."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ptxbench.sensors.base import SourceName, Unit
from ptxbench.sensors.sources import source_of

NS_PER_S = 1e9
Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """All readings of one source, in the order in which they were taken.

    Attributes:
        source: Which source.
        begin_ns: Host time just before each call, shape (n,).
        end_ns: Host time just after each call, shape (n,).
        value: In the unit of the source, NaN where the call failed, shape (n,).
        stamp_ns: The driver's own stamp moved to host time, -1 where there is none, shape (n,).
        code: nvmlReturn of each call, shape (n,).
    """

    source: SourceName
    begin_ns: Int64s
    end_ns: Int64s
    value: Float64s
    stamp_ns: Int64s
    code: Int64s

    @classmethod
    def unstamped(cls, source: SourceName, time_ns: Int64s, value: Float64s) -> Series:
        """Return readings that took no time and that no driver stamped."""
        none = np.full(len(value), -1, dtype=np.int64)
        return cls(source, time_ns, time_ns, value, none, np.zeros_like(none))

    def __len__(self) -> int:
        return len(self.value)

    @property
    def counts_energy(self) -> bool:
        """Whether its values are energy that is counted up, J, and not power."""
        return source_of(self.source).unit is Unit.JOULE

    @property
    def time_ns(self) -> Int64s:
        """Best time of each reading: the driver's stamp, or else the end of the call."""
        return np.where(self.stamp_ns >= 0, self.stamp_ns, self.end_ns)

    def good(self) -> Series:
        """Return the readings that succeeded and are finite."""
        return self.select((self.code == 0) & np.isfinite(self.value))

    def select(self, keep: npt.NDArray[np.bool_]) -> Series:
        """Return the readings where `keep`, shape (n,), is true."""
        return replace(
            self,
            begin_ns=self.begin_ns[keep],
            end_ns=self.end_ns[keep],
            value=self.value[keep],
            stamp_ns=self.stamp_ns[keep],
            code=self.code[keep],
        )


@dataclass(frozen=True)
class Trace:
    """Every reading of one recording.

    Attributes:
        begin_ns: Host time at which recording began.
        end_ns: Host time at which recording ended.
        series: One entry a source, no source twice.
    """

    begin_ns: int
    end_ns: int
    series: tuple[Series, ...]

    def of(self, source: SourceName) -> Series | None:
        """Return the readings of `source`, or None where it was not recorded."""
        return next((s for s in self.series if s.source == source), None)

    def with_series(self, series: Series) -> Trace:
        """Return the recording with other readings of one of its sources."""
        kept = tuple(series if s.source == series.source else s for s in self.series)
        return replace(self, series=kept)


@dataclass(frozen=True)
class KernelWindow:
    """When one kernel ran.

    Attributes:
        start_ns: First instruction, host time.
        end_ns: Last instruction, host time.
        elapsed_s: Duration by the GPU's own events.
        cycles: SM clock cycles between the first and the last instruction of a block, or -1: a mean over
            the later half of the blocks.
        globaltimer_ns: The same interval by %globaltimer, or -1.
        launch_times_s: Mean time of a launch in each of some equal stretches of launches back to back; ()
            where there was one launch, or where they were not timed.
    """

    start_ns: int
    end_ns: int
    elapsed_s: float
    cycles: int = -1
    globaltimer_ns: int = -1
    launch_times_s: tuple[float, ...] = ()

    def fault(self) -> str:
        """Return what no launch can be, for the reader of a file; "" where all is well."""
        bad = next((time_s for time_s in self.launch_times_s if not 0 < time_s < math.inf), None)
        return "" if bad is None else f"has a launch of {bad:g} s"

    @classmethod
    def spanning(cls, start_ns: int, end_ns: int) -> KernelWindow:
        """Return the window between two moments, host time, which lasts as long as that clock says."""
        return cls(start_ns, end_ns, (end_ns - start_ns) / NS_PER_S)

    @property
    def clock_mhz(self) -> float:
        """Mean SM clock while those blocks ran (cycles over %globaltimer), NaN where unknown."""
        if self.cycles < 0 or self.globaltimer_ns <= 0:
            return float("nan")
        return 1e3 * self.cycles / self.globaltimer_ns
