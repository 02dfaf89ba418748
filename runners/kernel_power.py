"""Power and time of anything that a Python call launches on the GPU."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from validation_file import KernelTrial

from ptxbench.core.clock import HostClock
from ptxbench.energy.steady import fresh, steady_power_w
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.known_sensors import sensor_for
from ptxbench.sensors.nvml import NvmlDevice, available_sources
from ptxbench.sensors.sampler import Sampler, SamplerThread
from ptxbench.sensors.sources import source_of
from ptxbench.sensors.trace import KernelWindow, Trace

_POLL_S = 0.01
_GUESS_S = 0.02
_NS_PER_S = 1e9


class KernelMeter:
    """Runs calls for a while, and says what they drew.

    `ptxbench.EnergyMonitor` gives a whole window its energy. A validation needs more, which this keeps:
    steady power alone, every reading, the counter, the SM clock and throttle reasons within the window.

    Args:
        device: The GPU.
        target: Its target, such as "sm_90a".
        warm_s: How long the calls run before the window.
        window_s: Length of the window.
    """

    def __init__(self, device: NvmlDevice, target: str, warm_s: float, window_s: float) -> None:
        self._device = device
        self._clock = HostClock()
        sources = sorted(available_sources(device), key=lambda s: source_of(s.name).rank)
        self._recorded = [*sources, device.source(SourceName.TEMPERATURE)]
        self._sensors = {s.name: sensor_for(s.name, target) for s in sources}
        self.source = sources[0].name
        self._warm_s, self._window_s = warm_s, window_s
        self._clocks: list[tuple[int, float]] = []

    def time_s(self, call: Callable[[], object]) -> float:
        """Return the time of one call, once it is warm."""
        call()
        torch.cuda.synchronize()
        once_s = self._timed_s(call, 1)
        return self._timed_s(call, max(1, math.ceil(_GUESS_S / once_s)))

    def measure(self, call: Callable[[], object], time_s: float, case: int, repeat: int) -> KernelTrial:
        """Run one trial of a call that takes about `time_s`."""
        warm, calls = (max(1, math.ceil(length_s / time_s)) for length_s in (self._warm_s, self._window_s))
        self._clocks.clear()
        sampler = Sampler(self._recorded, self._clock, _POLL_S, self._state)
        thread = SamplerThread(sampler)
        thread.start()
        try:
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            for _ in range(warm):
                call()
            begin.record()
            for _ in range(calls):
                call()
            end.record()
            end.synchronize()
            end_ns = self._clock.now_ns()
        finally:
            trace = thread.stop()
        elapsed_s = begin.elapsed_time(end) * 1e-3
        window = KernelWindow(end_ns - round(elapsed_s * _NS_PER_S), end_ns, elapsed_s)
        return self._trial(trace, window, calls, case, repeat, sampler.throttle_reasons(window))

    def alive(self) -> bool:
        """Return whether the device still answers, and give back what a failed case held."""
        try:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        except RuntimeError:
            return False
        return True

    def free_share(self) -> float:
        """Return the share of the device's memory that is free, once PyTorch's cache is given back."""
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info()
        return float(free / total)

    def _trial(
        self, trace: Trace, window: KernelWindow, calls: int, case: int, repeat: int, throttle_reasons: int
    ) -> KernelTrial:
        sensor = self._sensors[self.source]
        series = trace.of(self.source)
        assert series is not None  # noqa: S101
        # The load is steady since the warm-up began, so that a reading counts that averages over its end.
        settled = KernelWindow(window.start_ns - round(0.5 * self._warm_s * _NS_PER_S), window.end_ns, 0.0)
        power = steady_power_w(series, settled, sensor)
        counter = trace.of(SourceName.COUNTER)
        counter_w = math.nan
        if counter is not None:
            counter_w = steady_power_w(counter, settled, self._sensors[SourceName.COUNTER]).power_w
        readings = fresh(series, sensor.refresh_s)
        state = self._device.telemetry()
        clocks = [mhz for at_ns, mhz in self._clocks if window.start_ns <= at_ns <= window.end_ns]
        return KernelTrial(
            case=case,
            repeat=repeat,
            calls=calls,
            elapsed_s=window.elapsed_s,
            power_w=power.power_w,
            power_error_w=power.standard_error_w,
            counter_w=counter_w,
            temperature_c=self._temperature_c(trace, window),
            sm_clock_mhz=float(np.mean(clocks)) if clocks else math.nan,
            memory_clock_mhz=state.memory_clock_mhz,
            throttle_reasons=throttle_reasons,
            other_processes=state.other_processes,
            reason=power.reason,
            reading_s=tuple(round(float(t - window.start_ns) / _NS_PER_S, 4) for t in readings.time_ns),
            reading_w=tuple(round(float(w), 3) for w in readings.value),
        )

    def _temperature_c(self, trace: Trace, window: KernelWindow) -> float:
        series = trace.of(SourceName.TEMPERATURE)
        if series is None:
            return math.nan
        good = series.good()
        inside = (good.end_ns >= window.start_ns) & (good.end_ns <= window.end_ns)
        return float(good.value[inside].mean()) if inside.any() else math.nan

    def _state(self) -> int:
        """Note the SM clock, and return the throttle reasons, at every poll."""
        state = self._device.telemetry()
        self._clocks.append((self._clock.now_ns(), state.sm_clock_mhz))
        return state.throttle_reasons

    def _timed_s(self, call: Callable[[], object], calls: int) -> float:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        return max(float(begin.elapsed_time(end)) * 1e-3 / calls, 1e-6)
