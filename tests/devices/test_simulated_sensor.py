"""Simulated power sources against the true power that they look at."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from ptxbench.core.clock import VirtualClock
from ptxbench.devices.simulated.load import H200, find_profile, profile_names
from ptxbench.devices.simulated.physics import Phase, Physics
from ptxbench.devices.simulated.profile import SensorSpec
from ptxbench.devices.simulated.sensor import describe, open_source
from ptxbench.sensors.base import Reader, Reading, SourceName

_START_NS = 100_000_000_000
_EPOCH_NS = 1_700_000_000_000_000_000
_HZ = H200.chip.clock_mhz * 1e6
_PLAIN = SensorSpec(SourceName.USAGE, refresh_s=0.1, quantum=1e-9)


class _Bench:
    """A board with one source, and work that starts half a second in."""

    def __init__(self, spec: SensorSpec, seed: int = 0) -> None:
        self.clock = VirtualClock(_START_NS, _EPOCH_NS)
        self.physics = Physics(H200, _START_NS)
        self.source: Reader = open_source(spec, self.physics, self.clock, seed)
        phases = [Phase(0.33 * _HZ, 0.33 * 400), Phase(0.2 * _HZ, 0.2 * 60), Phase(1.0 * _HZ, 300.0)]
        self.physics.run(_START_NS + 500_000_000, phases)

    def poll(self, duration_s: float, interval_s: float) -> list[tuple[int, tuple[Reading, ...]]]:
        polls = []

        def poll():
            polls.append((self.clock.now_ns(), self.source.read()))

        self.clock.start_ticker(poll, lambda: interval_s)
        self.clock.sleep_s(duration_s)
        self.clock.stop_ticker(poll)
        return polls

    def changes(self, duration_s: float, interval_s: float) -> list[tuple[int, float]]:
        """When the value changed, to within `interval_s`, and to what."""
        values = [(at_ns, readings[0].value) for at_ns, readings in self.poll(duration_s, interval_s)]
        return [now for before, now in pairwise(values) if now[1] != before[1]]


def test_reading_is_the_distorted_boxcar_of_the_past() -> None:
    spec = replace(_PLAIN, averaging_s=0.3, lag_s=0.04, gain=1.03, offset=5.0)
    bench = _Bench(spec)
    changes = bench.changes(3.0, interval_s=1e-4)
    assert len(changes) > 20
    for at_ns, value in changes:
        moments_ns = at_ns - 40_000_000 - np.arange(150_000, 300_000_000, 300_000)
        true_w = np.mean([bench.physics.power_w(int(moment_ns)) for moment_ns in moments_ns])
        # The tick is known to 0.1 ms of a mean over 300 ms, and the brute force samples every 0.3 ms.
        assert value == pytest.approx(1.03 * true_w + 5.0, abs=0.5)


def test_value_changes_once_a_refresh_period() -> None:
    times_ns = [at_ns for at_ns, _ in _Bench(replace(_PLAIN, noise_w=1.0)).changes(5.0, interval_s=0.001)]
    assert len(times_ns) in (49, 50)
    assert set(np.diff(times_ns)) == {100_000_000}


def test_a_value_depends_on_its_tick_and_not_on_when_it_is_asked() -> None:
    spec = replace(_PLAIN, averaging_s=1.0, noise_w=4.0)
    often = dict(_Bench(spec).poll(4.0, interval_s=0.005))
    seldom = dict(_Bench(spec).poll(4.0, interval_s=0.35))
    assert {at_ns: often[at_ns] for at_ns in seldom} == seldom


def test_noise_has_its_spread_and_its_seed() -> None:
    spec = replace(_PLAIN, refresh_s=0.01, noise_w=4.0)
    one, same, other = (
        [readings[0].value for _, readings in _Bench(spec, seed).poll(40.0, 0.01)] for seed in (1, 1, 2)
    )
    settled = np.array(one[1000:])
    assert settled.std() == pytest.approx(4.0, rel=0.06)
    assert abs(np.corrcoef(settled[1:], settled[:-1])[0, 1]) < 0.06
    assert one == same
    # The phase of the ticks goes with the seed too, and may shift them by one.
    for shift in (-1, 0, 1):
        assert abs(np.corrcoef(settled, np.roll(other, shift)[1000:])[0, 1]) < 0.06


def test_values_are_multiples_of_the_quantum() -> None:
    values = [value for _, value in _Bench(replace(_PLAIN, quantum=0.25, noise_w=3.0)).changes(3.0, 0.01)]
    assert len(set(values)) > 5
    assert all(value * 4 == int(value * 4) for value in values)


def test_samples_gives_every_tick_once_with_its_stamp() -> None:
    spec = SensorSpec(SourceName.SAMPLES, refresh_s=0.02, averaging_s=0.02, noise_w=2.0)
    coarse, fine = (
        [reading for _, readings in _Bench(spec).poll(3.0, interval_s) for reading in readings]
        for interval_s in (0.37, 0.005)
    )
    stamps_ns = [reading.stamp_epoch_ns for reading in fine]
    assert len(fine) in (149, 150)
    assert set(np.diff(stamps_ns)) == {20_000_000}
    assert 0 < stamps_ns[0] - (_START_NS + _EPOCH_NS) <= 20_000_000
    assert coarse == fine[: len(coarse)]
    assert len(coarse) >= 147


def test_a_sample_covers_the_time_before_its_stamp() -> None:
    bench = _Bench(SensorSpec(SourceName.SAMPLES, refresh_s=0.02, averaging_s=0.02, quantum=1e-9))
    bench.clock.sleep_s(2.0)
    for reading in bench.source.read():
        end_ns = reading.stamp_epoch_ns - _EPOCH_NS
        true_w = bench.physics.mean_power_w(end_ns - 20_000_000, end_ns)
        assert reading.value == pytest.approx(true_w, abs=1e-6)


def test_samples_forgets_all_but_the_last_119() -> None:
    bench = _Bench(SensorSpec(SourceName.SAMPLES, refresh_s=0.02))
    bench.clock.sleep_s(60)
    buffered = bench.source.read()
    assert len(buffered) == 119
    newest_ns = _START_NS + _EPOCH_NS + 60_000_000_000
    assert 0 <= newest_ns - buffered[-1].stamp_epoch_ns < 20_000_000
    assert bench.source.read() == ()


def test_counter_differences_are_the_integral_to_a_quantum() -> None:
    bench = _Bench(SensorSpec(SourceName.COUNTER, refresh_s=0.1, offset=250_000, quantum=0.001))
    # A tick is seen up to one poll late, worth as much energy as the poll interval at 600 W.
    (first_ns, first_j), *_, (last_ns, last_j) = bench.changes(2.2, interval_s=1e-5)
    true_j = bench.physics.energy_j(last_ns) - bench.physics.energy_j(first_ns)
    assert last_j - first_j == pytest.approx(true_j, abs=0.001 + 1e-5 * 600)
    assert first_j > 250_000


def test_counter_gain_scales_differences() -> None:
    spec = SensorSpec(SourceName.COUNTER, refresh_s=0.1, quantum=0.001)
    plain = _Bench(spec).changes(2.2, 0.001)
    scaled = _Bench(replace(spec, gain=1.02)).changes(2.2, 0.001)
    assert scaled[-1][1] - scaled[0][1] == pytest.approx(1.02 * (plain[-1][1] - plain[0][1]), rel=1e-5)


@pytest.mark.parametrize("profile", [*map(find_profile, profile_names())], ids=lambda profile: profile.name)
def test_descriptions_tell_what_the_source_does(profile) -> None:
    assert len({spec.source for spec in profile.sensors}) == len(profile.sensors)
    for spec in profile.sensors:
        described = describe(spec)
        assert described.origin == "simulated"
        assert (described.source, described.refresh_s, described.averaging_s, described.lag_s) == (
            spec.source,
            spec.refresh_s,
            spec.averaging_s,
            spec.lag_s,
        )
        assert described.quantum == spec.quantum
