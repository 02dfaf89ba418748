"""Steps of a simulated supply voltage: what a kernel draws by warmth, and what its clock tells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ptxbench.gpu.protocol import Launch, OptLevel
from ptxbench.gpu.simulated.gpu import SimulatedGpu
from ptxbench.gpu.simulated.physics import Phase, Physics
from ptxbench.gpu.simulated.profile import Profile, SensorSpec, SupplySteps
from ptxbench.gpu.simulated.profiles import H200, H200_STEPS
from ptxbench.power.source import SourceName

_START_NS = 5_000_000_000
_HZ = H200_STEPS.chip.clock_mhz * 1e6
_FULL_MHZ = 0.1
_STATIC_W = H200_STEPS.board.static_w
# Leakage that does not move leaves dynamic power as what is over the static.
_PROFILE = replace(H200_STEPS, board=replace(H200_STEPS.board, static_slope_w_per_k=0.0))
assert _PROFILE.supply is not None
_STEPS: SupplySteps = _PROFILE.supply


class _Bench:
    """Kernels back to back on one board."""

    def __init__(self, profile: Profile = _PROFILE, seed: int = 0) -> None:
        self.physics = Physics(profile, _START_NS, seed)
        self.now_ns = _START_NS

    def run(self, dynamic_w: float, duration_s: float) -> tuple[float, float]:
        """Run work that takes that much at the full clock in the top state.

        Returns:
            Its mean dynamic power, W, and by how much its mean clock was below the full one, MHz.
        """
        begin_ns, cycles = self.now_ns, duration_s * _HZ
        (self.now_ns,) = self.physics.run(begin_ns, [Phase(cycles, dynamic_w * duration_s)])
        mean_mhz = cycles / (self.now_ns - begin_ns) * 1e3
        return self.physics.mean_power_w(begin_ns, self.now_ns) - _STATIC_W, _HZ * 1e-6 - mean_mhz

    def wait(self, duration_s: float) -> None:
        self.now_ns += round(duration_s * 1e9)


def _steady(idle_c: float) -> Profile:
    """A board that keeps its temperature, whatever it draws."""
    rise_k = _PROFILE.board.thermal_resistance_k_per_w * _STATIC_W
    return replace(
        _PROFILE,
        board=replace(_PROFILE.board, coolant_c=idle_c - rise_k, time_constant_s=1e9, power_cap_w=1e9),
    )


def test_a_kernel_draws_less_on_cold_silicon_than_behind_a_hot_one() -> None:
    bench = _Bench()
    cold_w, cold_dip_mhz = bench.run(180.0, 0.2)
    bench.run(280.0, 1.0)
    warm_w, warm_dip_mhz = bench.run(180.0, 0.2)
    bench.wait(5.0)
    again_w, _ = bench.run(180.0, 0.2)
    assert cold_w / warm_w == pytest.approx(1 - 0.032, abs=1e-6)
    # The energies that are hidden in the profile are the top state's.
    assert warm_w == pytest.approx(180.0, rel=1e-6)
    assert again_w == pytest.approx(cold_w, rel=1e-6)
    assert max(abs(cold_dip_mhz), abs(warm_dip_mhz)) < 1e-3


def test_a_change_within_a_kernel_dips_its_clock_and_no_reason_is_given() -> None:
    exact = (SensorSpec(SourceName.SAMPLES, refresh_s=0.002, averaging_s=0.002),)
    gpu = SimulatedGpu(replace(_PROFILE, sensors=exact), poll_interval_s=0.002)
    ptx = """.version 7.0\n.target sm_75\n.address_size 64
    .visible .entry k(.param .u64 input, .param .u64 output, .param .u64 stamps, .param .u32 iterations) {
    .reg .u64 %o; .reg .f32 %f; .reg .u32 %n; .reg .pred %p;
    ld.param.u64 %o, [output]; ld.param.u32 %n, [iterations]; ld.global.f32 %f, [%o];
    L: .pragma "nounroll"; """
    ptx += "fma.rn.f32 %f, %f, %f, %f;\n" * 64
    ptx += "sub.u32 %n, %n, 1; setp.ne.u32 %p, %n, 0; @%p bra L; st.global.f32 [%o], %f; ret; }"
    operands = np.zeros(8, dtype=np.uint8)
    # One block an SM, for half of the chip's highest power.
    launch = Launch("t", gpu.assemble(ptx, OptLevel.O3), "k", 132, 256, 1_500_000, operands, "random")
    run = gpu.run_sequence((launch,) * 6, (0.0,) * 5)
    samples = run.trace.of(SourceName.SAMPLES)
    assert samples is not None

    def reading_w(at_ns: int) -> float:
        return float(samples.value[np.searchsorted(samples.end_ns, at_ns)]) - _STATIC_W

    # From 6 ms after the begin, as the first reading covers what was before.
    ends_w = [(reading_w(w.start_ns + 6_000_000), reading_w(w.end_ns - 6_000_000)) for w in run.windows]
    dips_mhz = [_HZ * 1e-6 - window.clock_mhz for window in run.windows]
    stepped = [abs(last / first - 1) > 0.01 for first, last in ends_w]
    assert [dip > _FULL_MHZ for dip in dips_mhz] == stepped
    assert sum(stepped) == 2
    assert not stepped[0]
    assert all(dip < 1.5 for dip in dips_mhz)
    assert ends_w[0][0] / ends_w[-1][1] == pytest.approx(1 - 0.032, abs=1e-3)
    assert set(run.throttle_reasons) == {0}


def test_a_state_outlives_what_brought_it() -> None:
    middle_w = (50.0 - _STEPS.thresholds_c[0]) / _STEPS.slope_c_per_w - _STATIC_W
    steps = replace(_STEPS, dither_w=1e9)
    bench = _Bench(replace(_steady(50.0), supply=steps))
    powers_w = []
    for before_w in (middle_w + 20, middle_w - 20):
        bench.run(before_w, 0.2)
        powers_w.append(bench.run(middle_w, 0.2)[0] / middle_w)
    assert powers_w == pytest.approx([steps.factors[1], 1.0], abs=1e-6)


@pytest.mark.parametrize("seed", [0, 1])
def test_at_high_power_the_full_clock_means_the_top_state(seed: int) -> None:
    bench = _Bench(_steady(60.0), seed)
    dynamic_w = _STEPS.dither_w - _STATIC_W + 50
    powers_w, dips_mhz = np.array([bench.run(dynamic_w, 0.2) for _ in range(300)]).T
    full = dips_mhz < _FULL_MHZ
    assert powers_w[full] == pytest.approx(dynamic_w, rel=1e-6)
    assert powers_w[~full].max() < dynamic_w * 0.9999
    assert powers_w[~full].min() >= dynamic_w * _STEPS.factors[1] * 0.999
    assert 0.4 < full.mean() < 0.6
    assert not any(bench.physics.throttled(int(t)) for t in np.linspace(_START_NS, bench.now_ns, 999))


def test_warm_silicon_below_the_power_that_dithers_stays_in_the_top_state() -> None:
    bench = _Bench(_steady(60.0))
    dynamic_w = _STEPS.dither_w - _STATIC_W - 1
    behind = []
    for _ in range(30):
        bench.run(dynamic_w + 50, 0.2)
        behind.append(bench.run(dynamic_w, 0.2))
    powers_w, dips_mhz = np.array(behind).T
    assert powers_w == pytest.approx(dynamic_w, rel=1e-6)
    assert dips_mhz == pytest.approx(0, abs=1e-3)


def test_energy_is_the_integral_of_power_and_work_that_of_the_clock() -> None:
    bench = _Bench(H200_STEPS)
    work = [(180.0, 0.9), (380.0, 0.8), (230.0, 0.4), (0.0, 0.1), (230.0, 0.3)]
    for dynamic_w, duration_s in work:
        bench.run(dynamic_w, duration_s)
    step_ns = 20_000
    moments_ns = range(_START_NS + step_ns // 2, bench.now_ns, step_ns)
    powers_w = np.array([bench.physics.power_w(at_ns) for at_ns in moments_ns])
    clocks_mhz = np.array([bench.physics.clock_mhz(at_ns) for at_ns in moments_ns])
    assert len(np.unique(clocks_mhz)) == 3
    elapsed_s = (bench.now_ns - _START_NS) * 1e-9
    assert bench.physics.energy_j(bench.now_ns) == pytest.approx(powers_w.mean() * elapsed_s, rel=1e-5)
    assert clocks_mhz.mean() * 1e6 * elapsed_s == pytest.approx(sum(s for _, s in work) * _HZ, rel=1e-5)


def test_the_power_cap_holds_and_alone_is_reported() -> None:
    profile = replace(H200_STEPS, board=replace(H200_STEPS.board, power_cap_w=500.0))
    bench = _Bench(profile)
    _, dip_mhz = bench.run(480.0, 1.0)
    moments_ns = [int(at_ns) for at_ns in np.linspace(_START_NS, bench.now_ns - 1, 2000)]
    assert dip_mhz > 50
    assert max(bench.physics.power_w(at_ns) for at_ns in moments_ns) <= 500
    assert all(bench.physics.throttled(at_ns) for at_ns in moments_ns)


def test_a_seed_sets_when_the_supply_changes_by_itself() -> None:
    one, same, other = (_Bench(seed=seed) for seed in (3, 3, 4))
    seen = [[bench.run(400.0, 0.2) for _ in range(20)] for bench in (one, same, other)]
    assert seen[0] == seen[1]
    assert seen[0] != seen[2]


def test_a_dip_of_the_clock_takes_time_and_no_energy() -> None:
    dips = replace(_STEPS, factors=(1.0, 1.0, 1.0), change_mhz=200.0, dither_mhz=100.0)
    bench = _Bench(replace(_PROFILE, supply=dips))
    power_w, dip_mhz = bench.run(400.0, 5.0)
    assert dip_mhz > 10
    assert power_w * (bench.now_ns - _START_NS) * 1e-9 == pytest.approx(400.0 * 5.0, rel=1e-5)


def test_steps_of_no_size_leave_a_board_as_it_is() -> None:
    none = replace(_STEPS, factors=(1.0, 1.0, 1.0), change_mhz=0.0, dither_mhz=0.0)
    stepping, plain = _Bench(replace(H200, supply=none)), _Bench(H200)
    for dynamic_w in (180.0, 400.0, 0.0, 250.0):
        assert stepping.run(dynamic_w, 0.7) == pytest.approx(plain.run(dynamic_w, 0.7), rel=1e-6, abs=1e-3)
    assert stepping.now_ns == pytest.approx(plain.now_ns, abs=1000)
