"""Steps of a simulated supply voltage: what they do to the power and the clock of kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ptxbench.core.condition import OptLevel
from ptxbench.devices.base import Launch
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import H200, find_profile
from ptxbench.devices.simulated.physics import Phase, Physics
from ptxbench.devices.simulated.profile import Profile, SensorSpec, ThermalVoltageSteps, TimedVoltageSteps
from ptxbench.sensors.base import SourceName

H200_STEPS = find_profile("h200-steps")
H200_WARM = find_profile("h200-warm")

_START_NS = 5_000_000_000
_HZ = H200_STEPS.chip.clock_mhz * 1e6
_FULL_MHZ = 0.1
_STATIC_W = H200_STEPS.board.static_w
_FED_STATIC_W = _STATIC_W / 2
# Leakage that does not move leaves dynamic power as what is over the static.
_PROFILE = replace(H200_STEPS, board=replace(H200_STEPS.board, static_slope_w_per_k=0.0))
assert _PROFILE.voltage_steps is not None
_STEPS: TimedVoltageSteps = _PROFILE.voltage_steps


class _Bench:
    """Kernels on one board."""

    def __init__(self, profile: Profile = _PROFILE, seed: int = 0) -> None:
        self.physics = Physics(profile, _START_NS, seed)
        self.now_ns = _START_NS

    def run(self, dynamic_w: float, duration_s: float) -> tuple[float, float]:
        """Run work that takes that much at the full clock and factor 1.

        Returns:
            Its mean power less the static power, W, and how far its mean clock was below the full one, MHz.
        """
        begin_ns, cycles = self.now_ns, duration_s * _HZ
        (self.now_ns,) = self.physics.run(begin_ns, [Phase(cycles, dynamic_w * duration_s)])
        mean_mhz = cycles / (self.now_ns - begin_ns) * 1e3
        return self.physics.mean_power_w(begin_ns, self.now_ns) - _STATIC_W, _HZ * 1e-6 - mean_mhz

    def factor(self, dynamic_w: float, duration_s: float) -> float:
        """Run such work and return by what its fed power was multiplied."""
        over_w, _ = self.run(dynamic_w, duration_s)
        return (over_w + _FED_STATIC_W) / (dynamic_w + _FED_STATIC_W)

    def wait(self, duration_s: float) -> None:
        self.now_ns += round(duration_s * 1e9)


def _flashes(dynamic_w: float, seed: int = 0, seconds: int = 2000) -> np.ndarray:
    """Factors seen by kernels of 0.1 ms, one every 0.1 s: too short for a jump within one."""
    bench = _Bench(seed=seed)
    factors = []
    for _ in range(10 * seconds):
        factors.append(bench.factor(dynamic_w, 1e-4))
        bench.wait(0.0999)
    return np.array(factors)


def test_a_level_is_common_to_all_kernels_and_outlives_idle_time() -> None:
    small, large = _flashes(60.0, seconds=200), _flashes(400.0, seconds=200)
    assert small == pytest.approx(large, abs=1e-4)
    assert len(np.unique(small.round(3))) > 1
    sleeping = _flashes(0.0, seconds=200)
    assert sleeping == pytest.approx(large, abs=1e-4)


def test_levels_hold_for_as_long_as_asked_and_their_mean_is_the_truth() -> None:
    factors = _flashes(300.0)
    assert sorted(set(factors.round(3))) == sorted(_STEPS.factors)
    jumps = np.flatnonzero(np.diff(factors.round(3)))
    holds_s = np.diff(jumps) * 0.1
    assert holds_s.mean() == pytest.approx(_STEPS.hold_s, rel=0.1)
    # Exponential times scatter as much as their mean.
    assert holds_s.std() == pytest.approx(holds_s.mean(), rel=0.15)
    assert factors.mean() == pytest.approx(1, abs=2e-3)


def test_between_two_kernels_a_jump_leaves_the_clock_alone() -> None:
    bench = _Bench()
    seen = []
    for _ in range(100):
        seen.append(bench.run(300.0, 0.001))
        bench.wait(2.0)
    powers_w, dips_mhz = np.array(seen).T
    assert len(np.unique(powers_w.round(1))) == len(_STEPS.factors)
    assert dips_mhz == pytest.approx(0, abs=1e-3)


def test_a_change_within_a_kernel_dips_its_clock_and_no_reason_is_given() -> None:
    exact = (SensorSpec(SourceName.SAMPLES, refresh_s=0.002, averaging_s=0.002),)
    gpu = SimulatedGpu(replace(_PROFILE, sensors=exact), seed=1, poll_interval_s=0.002)
    ptx = """.version 7.0\n.target sm_75\n.address_size 64
    .visible .entry k(.param .u64 input, .param .u64 output, .param .u64 stamps, .param .u32 iterations) {
    .reg .u64 %o; .reg .f32 %f; .reg .u32 %n; .reg .pred %p;
    ld.param.u64 %o, [output]; ld.param.u32 %n, [iterations]; ld.global.f32 %f, [%o];
    L: .pragma "nounroll"; """
    ptx += "fma.rn.f32 %f, %f, %f, %f;\n" * 64
    ptx += "sub.u32 %n, %n, 1; setp.ne.u32 %p, %n, 0; @%p bra L; st.global.f32 [%o], %f; ret; }"
    operands = np.zeros(8, dtype=np.uint8)
    launch = Launch("t", gpu.assemble(ptx, OptLevel.O3), "k", 132, 256, 1_600_000, (operands,), "random")
    run = gpu.run_sequence((launch,) * 40, (0.0,) * 39)
    samples = run.trace.of(SourceName.SAMPLES)
    assert samples is not None

    def reading_w(at_ns: int) -> float:
        return float(samples.value[np.searchsorted(samples.end_ns, at_ns)])

    # From 6 ms after the begin, as the first reading covers what was before.
    ends_w = [(reading_w(w.start_ns + 6_000_000), reading_w(w.end_ns - 6_000_000)) for w in run.windows]
    dips_mhz = np.array([_HZ * 1e-6 - window.clock_mhz for window in run.windows])
    stepped = np.array([abs(last / first - 1) > 0.003 for first, last in ends_w])
    assert (dips_mhz > _FULL_MHZ).tolist() == stepped.tolist()
    assert 1 <= sum(stepped) <= 15
    assert 1 < dips_mhz[stepped].min() < 3
    assert set(run.throttle_reasons) == {0}


def test_energy_is_the_integral_of_power_and_work_that_of_the_clock() -> None:
    bench = _Bench(H200_STEPS, seed=1)
    work = [(180.0, 3.9), (380.0, 2.8), (230.0, 0.4), (0.0, 0.1), (230.0, 2.3)]
    for dynamic_w, duration_s in work:
        bench.run(dynamic_w, duration_s)
    step_ns = 50_000
    moments_ns = range(_START_NS + step_ns // 2, bench.now_ns, step_ns)
    powers_w = np.array([bench.physics.power_w(at_ns) for at_ns in moments_ns])
    clocks_mhz = np.array([bench.physics.clock_mhz(at_ns) for at_ns in moments_ns])
    assert len(np.unique(clocks_mhz)) == 2
    elapsed_s = (bench.now_ns - _START_NS) * 1e-9
    assert bench.physics.energy_j(bench.now_ns) == pytest.approx(powers_w.mean() * elapsed_s, rel=1e-5)
    assert clocks_mhz.mean() * 1e6 * elapsed_s == pytest.approx(sum(s for _, s in work) * _HZ, rel=1e-5)


def test_the_power_cap_holds_and_alone_is_reported() -> None:
    # Its regulators let power overshoot for a while; without them the cap holds at every moment.
    profile = replace(H200_STEPS, board=replace(H200_STEPS.board, power_cap_w=500.0, regulators=()))
    bench = _Bench(profile)
    _, dip_mhz = bench.run(480.0, 1.0)
    moments_ns = [int(at_ns) for at_ns in np.linspace(_START_NS, bench.now_ns - 1, 2000)]
    assert dip_mhz > 50
    assert max(bench.physics.power_w(at_ns) for at_ns in moments_ns) <= 500
    assert all(bench.physics.throttled(at_ns) for at_ns in moments_ns)


def test_a_kernel_that_a_jump_divides_has_a_mean_of_two_levels() -> None:
    two = replace(_PROFILE, voltage_steps=replace(_STEPS, factors=(1.1, 0.9)))
    bench = _Bench(two)
    factors, dips_mhz = [], []
    for _ in range(200):
        over_w, dip_mhz = bench.run(300.0, 0.22)
        factors.append((over_w + _FED_STATIC_W) / (300.0 + _FED_STATIC_W))
        dips_mhz.append(dip_mhz)
    whole = np.array(dips_mhz) < _FULL_MHZ
    assert 0 < np.sum(~whole) < 30
    assert set(np.array(factors)[whole].round(6)) == {0.9, 1.1}
    divided = np.array(factors)[~whole]
    assert np.all((divided > 0.89) & (divided < 1.1))
    assert np.any((divided > 0.92) & (divided < 1.08))


def test_a_seed_sets_the_levels_and_when_they_jump() -> None:
    one, same, other = (_flashes(300.0, seed, 60) for seed in (3, 3, 4))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_a_dip_of_the_clock_takes_time_and_no_energy() -> None:
    dips = replace(_STEPS, factors=(1.0, 1.0), hold_s=0.1, change_mhz=200.0)
    bench = _Bench(replace(_PROFILE, voltage_steps=dips))
    power_w, dip_mhz = bench.run(400.0, 5.0)
    assert dip_mhz > 10
    assert power_w * (bench.now_ns - _START_NS) * 1e-9 == pytest.approx(400.0 * 5.0, rel=1e-5)


def test_steps_of_no_size_leave_a_board_as_it_is() -> None:
    none = replace(_STEPS, factors=(1.0, 1.0), change_mhz=0.0)
    stepping, plain = _Bench(replace(H200, voltage_steps=none)), _Bench(H200)
    for dynamic_w in (180.0, 400.0, 0.0, 250.0):
        assert stepping.run(dynamic_w, 2.7) == pytest.approx(plain.run(dynamic_w, 2.7), rel=1e-6, abs=1e-3)
    assert stepping.now_ns == pytest.approx(plain.now_ns, abs=1000)


def test_a_board_without_steps_draws_the_same_whatever_the_seed() -> None:
    one, other = _Bench(H200, seed=1), _Bench(H200, seed=2)
    for _ in range(30):
        assert one.run(300.0, 0.5) == other.run(300.0, 0.5)
        assert one.run(300.0, 0.5)[1] == pytest.approx(0, abs=1e-3)
        other.run(300.0, 0.5)


_WARM = replace(H200_WARM, board=replace(H200_WARM.board, static_slope_w_per_k=0.0))


def _warm(up_c: tuple[float, float], down_c: tuple[float, float]) -> Profile:
    assert isinstance(_WARM.voltage_steps, ThermalVoltageSteps)
    return replace(_WARM, voltage_steps=replace(_WARM.voltage_steps, up_c=up_c, down_c=down_c))


def _held(bench: _Bench, dynamic_w: float) -> tuple[float, float]:
    """Run until the temperature has settled; return the factor and the temperature."""
    bench.run(dynamic_w, 3.0)
    return round(bench.factor(dynamic_w, 0.05), 3), bench.physics.temperature_c(bench.now_ns)


def test_a_level_by_temperature_goes_up_where_it_is_warm_and_stays_until_it_is_cooler() -> None:
    bench = _Bench(_warm((50.0, 0.0), (46.5, 0.0)))
    seen = [_held(bench, dynamic_w) for dynamic_w in (150.0, 280.0, 420.0, 280.0, 150.0)]
    cold, middle, hot, middle_again, cold_again = seen
    assert cold[1] < 46.5 < middle[1] < 50 < hot[1]
    assert [factor for factor, _ in seen] == [0.994, 0.994, 1.006, 1.006, 0.994]
    assert middle_again[1] == pytest.approx(middle[1], abs=0.2)
    assert cold_again[1] == pytest.approx(cold[1], abs=0.2)


def test_a_level_by_temperature_is_common_to_what_runs_at_one_temperature() -> None:
    bench = _Bench(_warm((50.0, 0.0), (46.5, 0.0)))
    _held(bench, 420.0)
    # Too short to cool the chip: the level is the chip's, not the kernel's.
    assert [round(bench.factor(dynamic_w, 1e-4), 3) for dynamic_w in (420.0, 60.0, 200.0)] == [1.006] * 3


def test_temperatures_of_changes_scatter_as_asked() -> None:
    bench = _Bench(_warm((50.0, 1.0), (42.0, 0.5)))
    up_c = []
    for _ in range(120):
        bench.run(60.0, 3.0)
        assert bench.factor(60.0, 1e-4) < 1
        for dynamic_w in np.arange(200.0, 500.0, 4.0):
            bench.run(dynamic_w, 0.25)
            if bench.factor(dynamic_w, 1e-4) > 1:
                up_c.append(bench.physics.temperature_c(bench.now_ns))
                break
    assert len(up_c) == 120
    assert np.mean(up_c) == pytest.approx(50.0, abs=0.5)
    assert np.std(up_c) == pytest.approx(1.0, abs=0.3)


def test_a_change_by_temperature_within_a_kernel_dips_its_clock() -> None:
    bench = _Bench(_warm((50.0, 0.0), (46.5, 0.0)))
    bench.run(150.0, 3.0)
    _, dip_mhz = bench.run(420.0, 1.0)
    assert dip_mhz == pytest.approx(45.0 * 0.010 / 1.0, rel=0.05)
    _, steady_mhz = bench.run(420.0, 1.0)
    assert steady_mhz == pytest.approx(0, abs=1e-3)
