"""A session with a known truth: kernels, a meter with a clock of its own, and a sensor with hidden faults."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from fakes.run import manifest, record

from ptxbench.core.gpu_info import GpuKind
from ptxbench.meter.capture import MeterCapture
from ptxbench.meter.host import HostLog, Trial
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.trace import KernelWindow, Series, Trace
from ptxbench.storage.run_folder import RunFolder


@dataclass(frozen=True)
class Hidden:
    """What `meter validate` has to find; times in s."""

    gain: float = 0.94
    offset_w: float = 7.5
    lag_s: float = 0.080
    averaging_s: float = 0.0
    time_constant_s: float = 0.0
    refresh_s: float = 0.0
    clock_offset_s: float = 0.337
    drift_ppm: float = 42.0


@dataclass(frozen=True)
class Session:
    """What is measured; times in s."""

    hidden: Hidden = field(default_factory=Hidden)
    kernels: int = 24
    shortest_s: float = 0.25
    longest_s: float = 1.1
    gap_s: float = 0.5
    idle_w: float = 62.0
    busy_w: float = 311.0
    meter_hz: float = 2000.0
    call_s: float = 0.0113
    meter_noise_w: float = 1.5
    sensor_noise_w: float = 0.3
    epoch_ns: int = 1_700_000_000_000_000_000
    seed: int = 1

    def windows_s(self) -> np.ndarray:
        rng = np.random.default_rng(self.seed)
        lengths = rng.uniform(self.shortest_s, self.longest_s, self.kernels)
        gaps = rng.uniform(0.6, 1.4, self.kernels) * self.gap_s
        starts = rng.uniform(0.9, 1.1) + np.concatenate([[0.0], np.cumsum(lengths + gaps)[:-1]])
        return np.stack([starts, starts + lengths], axis=1)

    def power_w(self, time_s: np.ndarray) -> np.ndarray:
        """True power; the load of successive kernels differs."""
        edges = self.windows_s().ravel()
        inside = np.searchsorted(edges, time_s, side="right")
        level = self.busy_w * (1 + 0.1 * np.cos(inside))
        return np.where(inside % 2 == 1, level, self.idle_w)

    def end_s(self) -> float:
        return float(self.windows_s()[-1, 1]) + 1.5

    def read_w(self, time_s: np.ndarray) -> np.ndarray:
        """What the sensor shows at each time, before gain and offset."""
        h = self.hidden
        made_s = h.refresh_s * np.floor(time_s / h.refresh_s + 1e-9) if h.refresh_s else time_s
        newest_s = made_s - h.lag_s
        step_s = 1e-4
        grid_s = np.arange(-6.0, self.end_s() + 1.0, step_s)
        true_w = self.power_w(grid_s)
        if h.time_constant_s:
            kept = np.exp(-step_s / h.time_constant_s)
            filtered = np.empty_like(true_w)
            last = self.idle_w
            for i, power in enumerate(true_w.tolist()):
                last = kept * last + (1 - kept) * power
                filtered[i] = last
            return np.interp(newest_s, grid_s, filtered)
        if not h.averaging_s:
            return self.power_w(newest_s)
        energy = np.concatenate([[0.0], np.cumsum(true_w) * step_s])
        at_s = np.append(grid_s, grid_s[-1] + step_s)
        return (
            np.interp(newest_s, at_s, energy) - np.interp(newest_s - h.averaging_s, at_s, energy)
        ) / h.averaging_s

    def capture(self) -> MeterCapture:
        rng = np.random.default_rng(self.seed + 1)
        host_s = np.arange(0.0, self.end_s(), 1 / self.meter_hz)
        power_w = self.power_w(host_s) + rng.normal(0, self.meter_noise_w, len(host_s))
        h = self.hidden
        meter_ns = np.round(1e9 * (h.clock_offset_s + (1 + 1e-6 * h.drift_ppm) * host_s)).astype(np.int64)
        return MeterCapture(self.epoch_ns + meter_ns, power_w, ("board",), "simulated")

    def series(self) -> Series:
        rng = np.random.default_rng(self.seed + 2)
        time_s = np.arange(0.0, self.end_s(), self.call_s)
        h = self.hidden
        seen_w = self.read_w(time_s)
        noise_w = rng.normal(0, self.sensor_noise_w, len(time_s))
        if h.refresh_s:
            _, which = np.unique(np.floor(time_s / h.refresh_s + 1e-9), return_inverse=True)
            noise_w = noise_w[which]
        time_ns = self.epoch_ns + np.round(1e9 * time_s).astype(np.int64)
        count = len(time_ns)
        return Series(
            SourceName.USAGE,
            time_ns,
            time_ns,
            h.gain * seen_w + h.offset_w + noise_w,
            np.full(count, -1, dtype=np.int64),
            np.zeros(count, dtype=np.int64),
        )

    def log(self) -> HostLog:
        series = self.series()
        begin_ns, end_ns = int(series.time_ns[0]), int(series.time_ns[-1])
        edges_ns = self.epoch_ns + np.round(1e9 * self.windows_s()).astype(np.int64)
        whole = Trace(begin_ns, end_ns, (series,))
        trials = tuple(
            Trial(KernelWindow(a, b, (b - a) / 1e9), f"kernel{i % 3}", whole, whole)
            for i, (a, b) in enumerate(edges_ns.tolist())
        )
        return HostLog(trials, (), (series,), ((begin_ns, end_ns),), GpuKind.REAL)


def write_run(path: Path, session: Session) -> None:
    """A run folder whose trials are the kernels of a simulated session."""
    series = session.series()
    with RunFolder.create(path, manifest()) as run:
        for i, (a, b) in enumerate(session.windows_s().tolist()):
            start_ns, end_ns = (session.epoch_ns + round(1e9 * x) for x in (a, b))
            begin_ns, stop_ns = start_ns - 200_000_000, end_ns + 200_000_000
            mine = series.select((series.time_ns >= begin_ns) & (series.time_ns <= stop_ns))
            one = replace(
                record(i),
                start_ns=start_ns,
                end_ns=end_ns,
                elapsed_s=b - a,
                record_begin_ns=begin_ns,
                record_end_ns=stop_ns,
            )
            run.append(one, Trace(begin_ns, stop_ns, (mine,)))
