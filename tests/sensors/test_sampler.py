import math
import threading

import numpy as np
import pytest
from fakes.power import CallSource, window
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.core.clock import HostClock, VirtualClock
from ptxbench.core.errors import SensorError
from ptxbench.sensors.base import Reading, SourceName
from ptxbench.sensors.sampler import Sampler, SamplerThread

readings = st.builds(
    Reading,
    value=st.floats(0, 1e3) | st.just(math.nan),
    stamp_epoch_ns=st.just(-1) | st.integers(0, 2**62),
    code=st.integers(0, 999),
)
polls = st.lists(st.lists(readings, max_size=4).map(tuple), max_size=12)


class SteppingClock(VirtualClock):
    """Moves by one at every look, so that no two times are equal."""

    def now_ns(self) -> int:
        self._now_ns += 1
        return self._now_ns


def scripted(given_polls, name=SourceName.SAMPLES) -> CallSource:
    rest = iter(given_polls)
    return CallSource(lambda: next(rest), name)


@given(polls)
def test_nothing_given_is_dropped_or_reordered(given_polls):
    sampler = Sampler([scripted(given_polls)], VirtualClock(), 0.0)
    for _ in given_polls:
        sampler.poll()
    (series,) = sampler.finish().series
    flat = [reading for poll in given_polls for reading in poll]
    assert len(series) == len(flat)
    np.testing.assert_array_equal(series.value, [reading.value for reading in flat])
    np.testing.assert_array_equal(series.code, [reading.code for reading in flat])
    np.testing.assert_array_equal(series.stamp_ns >= 0, [reading.stamp_epoch_ns >= 0 for reading in flat])


def test_every_reading_has_the_time_before_and_after_its_call():
    clock = VirtualClock(start_ns=1_000)

    def read() -> tuple[Reading, ...]:
        clock.sleep_s(4e-6)
        return (Reading(1.0), Reading(2.0))

    sampler = Sampler([CallSource(read)], clock, 0.0)
    sampler.poll()
    clock.sleep_s(1e-6)
    sampler.poll()
    (series,) = sampler.finish().series
    assert series.begin_ns.tolist() == [1_000, 1_000, 6_000, 6_000]
    assert series.end_ns.tolist() == [5_000, 5_000, 10_000, 10_000]


def test_sources_are_kept_apart():
    sources = [
        CallSource(lambda: (Reading(1.0),), SourceName.USAGE),
        CallSource(lambda: (Reading(2.0), Reading(3.0)), SourceName.SAMPLES),
    ]
    sampler = Sampler(sources, VirtualClock(), 0.0)
    sampler.poll()
    trace = sampler.finish()
    assert trace.of(SourceName.USAGE).value.tolist() == [1.0]
    assert trace.of(SourceName.SAMPLES).value.tolist() == [2.0, 3.0]


@given(start_ns=st.integers(0, 2**50), offset_ns=st.integers(0, 2**61), age_ns=st.integers(0, 2**50))
def test_driver_stamps_move_to_host_time(start_ns, offset_ns, age_ns):
    clock = VirtualClock(start_ns, epoch_offset_ns=offset_ns)
    stamp = max(clock.epoch_ns() - age_ns, 0)
    sampler = Sampler([CallSource(lambda: (Reading(1.0, stamp), Reading(2.0)))], clock, 0.0)
    sampler.poll()
    (series,) = sampler.finish().series
    # A stamp from before the host clock's zero stays a stamp.
    assert series.stamp_ns.tolist() == [max(stamp - offset_ns, 0), -1]


def test_the_offset_is_the_one_at_the_start_of_the_recording():
    clock = VirtualClock(start_ns=0, epoch_offset_ns=5_000)
    sampler = Sampler([CallSource(lambda: (Reading(1.0, 5_100),))], clock, 0.0)
    clock._epoch_offset_ns = 9_000
    sampler.poll()
    assert sampler.finish().series[0].stamp_ns.tolist() == [100]


def test_the_virtual_clock_drives_the_sampler_at_the_interval_asked_for():
    clock = VirtualClock(start_ns=0)
    sampler = Sampler([CallSource(lambda: (Reading(5.0),))], clock, interval_s=1.0, exactly_s=0.01)
    clock.start_ticker(sampler.poll, sampler.wait_s)
    clock.sleep_s(0.05)
    trace = sampler.finish()
    assert trace.series[0].end_ns.tolist() == [0, 10_000_000, 20_000_000, 30_000_000, 40_000_000, 50_000_000]
    assert (trace.begin_ns, trace.end_ns) == (0, 50_000_000)


def test_polls_come_at_the_interval_on_the_mean_and_in_step_with_nothing():
    def polled_ns(start_ns):
        clock = VirtualClock(start_ns)
        sampler = Sampler([CallSource(lambda: (Reading(5.0),))], clock, interval_s=0.01)
        clock.start_ticker(sampler.poll, sampler.wait_s)
        clock.sleep_s(10.0)
        return sampler.finish().series[0].end_ns - start_ns

    at_ns = polled_ns(0)
    assert at_ns[0] == 0
    assert len(at_ns) == pytest.approx(1000, rel=0.03)
    assert 0.005e9 <= np.diff(at_ns).min() < 0.006e9
    assert 0.014e9 < np.diff(at_ns).max() <= 0.015e9
    # Where a poll falls in the refresh of a sensor tells nothing of where the next one does.
    phase = at_ns % 100_000_000
    assert np.histogram(phase, 10)[0].min() > 60
    assert polled_ns(0).tolist() == at_ns.tolist()
    assert polled_ns(1)[1] != at_ns[1]


def test_throttle_reasons_count_only_within_the_window():
    clock = VirtualClock(start_ns=0)
    masks = iter([1, 4, 8, 1 << 63, 2])
    sampler = Sampler([], clock, 0.1, throttle_poll=lambda: next(masks), exactly_s=0.1)
    clock.start_ticker(sampler.poll, sampler.wait_s)
    clock.sleep_s(0.4)
    assert sampler.throttle_reasons(window(0.05, 0.25)) == 4 | 8
    assert sampler.throttle_reasons(window(0.1, 0.3)) == 4 | 8 | 1 << 63
    assert sampler.throttle_reasons(window(0.11, 0.12)) == 0
    assert Sampler([], clock, 0.1).throttle_reasons(window(0, 1)) == 0


def test_the_thread_reads_before_the_launch_and_after_its_end():
    clock = SteppingClock()
    first_may_return = threading.Event()

    def read() -> tuple[Reading, ...]:
        assert first_may_return.wait(10)
        return (Reading(1.0),)

    thread = SamplerThread(Sampler([CallSource(read)], clock, interval_s=0.0))
    threading.Timer(0, first_may_return.set).start()
    thread.start()
    launch_ns = clock.now_ns()
    end_ns = clock.now_ns()
    trace = thread.stop()
    (series,) = trace.series
    assert series.end_ns[0] < launch_ns
    assert series.begin_ns[-1] > end_ns
    assert trace.begin_ns < series.begin_ns[0]
    assert series.end_ns[-1] < trace.end_ns


def test_start_does_not_return_before_the_first_poll_is_complete():
    entered, release, started = threading.Event(), threading.Event(), threading.Event()

    def read() -> tuple[Reading, ...]:
        entered.set()
        assert release.wait(10)
        return ()

    thread = SamplerThread(Sampler([CallSource(read)], HostClock(), interval_s=60.0))
    starter = threading.Thread(target=lambda: (thread.start(), started.set()))
    starter.start()
    assert entered.wait(10)
    assert not started.is_set()
    release.set()
    starter.join(10)
    assert started.is_set()
    thread.stop()


def test_a_long_interval_does_not_delay_the_last_poll():
    count = iter(range(100))
    sampler = Sampler([CallSource(lambda: (Reading(next(count)),))], HostClock(), interval_s=3600.0)
    thread = SamplerThread(sampler)
    thread.start()
    assert thread.stop().series[0].value.tolist() == [0.0, 1.0]


def test_a_flat_out_thread_polls_until_it_is_stopped():
    enough = threading.Event()
    count = iter(range(10**9))

    def read() -> tuple[Reading, ...]:
        number = next(count)
        if number == 200:
            enough.set()
        return (Reading(number),)

    thread = SamplerThread(Sampler([CallSource(read)], HostClock(), interval_s=0.0))
    thread.start()
    assert enough.wait(10)
    (series,) = thread.stop().series
    assert len(series) > 200
    assert series.value.tolist() == list(range(len(series)))


def test_an_exception_in_the_thread_surfaces_at_stop_and_keeps_the_readings():
    may_fail, failed = threading.Event(), threading.Event()
    results = iter([1.0, 2.0])

    def read() -> tuple[Reading, ...]:
        try:
            return (Reading(next(results)),)
        except StopIteration:
            assert may_fail.wait(10)
            failed.set()
            raise ValueError("sensor on fire") from None

    sampler = Sampler([CallSource(read)], HostClock(), interval_s=0.0)
    thread = SamplerThread(sampler)
    thread.start()
    may_fail.set()
    assert failed.wait(10)
    with pytest.raises(SensorError, match="sensor on fire"):
        thread.stop()
    assert sampler.finish().series[0].value.tolist() == [1.0, 2.0]


def test_a_first_poll_that_fails_surfaces_before_the_launch():
    def read() -> tuple[Reading, ...]:
        raise ValueError("nothing here")

    thread = SamplerThread(Sampler([CallSource(read)], HostClock(), interval_s=0.0))
    with pytest.raises(SensorError, match="nothing here"):
        thread.start()


def test_a_reading_that_never_returns_does_not_hang_the_program():
    release = threading.Event()

    def read() -> tuple[Reading, ...]:
        release.wait(10)
        return ()

    thread = SamplerThread(Sampler([CallSource(read)], HostClock(), 0.0), answer_timeout_s=0.0)
    with pytest.raises(SensorError, match="did not return"):
        thread.start()
    with pytest.raises(SensorError, match="did not return"):
        thread.stop()
    release.set()


def test_stop_after_a_poll_that_hangs_is_an_error():
    hang, release = threading.Event(), threading.Event()

    def read() -> tuple[Reading, ...]:
        if hang.is_set():
            release.wait(10)
        return ()

    thread = SamplerThread(Sampler([CallSource(read)], HostClock(), 3600.0), answer_timeout_s=0.2)
    thread.start()
    hang.set()
    with pytest.raises(SensorError, match="did not return"):
        thread.stop()
    release.set()


def test_a_compact_recording_keeps_the_first_and_the_last_reading_of_a_value():
    clock = VirtualClock()
    source = CallSource(lambda: (Reading(float(clock.now_ns() // 100_000_000)),))
    sampler = Sampler([source], clock, 0.005, exactly_s=0.005, is_compact=True)
    clock.start_ticker(sampler.poll, sampler.wait_s)
    clock.sleep_s(0.5)
    series = sampler.finish().of(source.name)
    assert len(series) <= 12
    changes = np.flatnonzero(np.diff(series.value))
    # A change is still known to lie between two polls.
    assert ((series.begin_ns[changes + 1] - series.end_ns[changes]) == 5_000_000).all()
    sampler.forget(clock.now_ns() - 200_000_000)
    assert sampler.finish().of(source.name).end_ns[0] >= clock.now_ns() - 200_000_000


def test_two_recordings_share_a_virtual_clock():
    clock = VirtualClock()
    ticks = []

    def first():
        ticks.append("first")

    def second():
        ticks.append("second")

    clock.start_ticker(first, lambda: 0.1)
    clock.start_ticker(second, lambda: 0.2)
    clock.sleep_s(0.35)
    assert (ticks.count("first"), ticks.count("second")) == (4, 2)
    clock.stop_ticker(first)
    clock.sleep_s(0.4)
    assert (ticks.count("first"), ticks.count("second")) == (4, 4)
