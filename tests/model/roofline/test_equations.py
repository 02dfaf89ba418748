"""The equations of Choi and Vuduc (2012) give the figures that the paper prints."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ptxbench.core.errors import InputError
from ptxbench.model.roofline.equations import Algorithm, RooflineMachine
from ptxbench.model.roofline.tradeoff import Case, TradeOff

# Table 2: a Fermi GPU, constant power left out.
KECKLER = RooflineMachine(1 / 515e9, 1 / 144e9, 25e-12, 360e-12)
# Tables 3 and 4: peaks as claimed, energies as fitted; double precision, then single.
GTX580_DOUBLE = RooflineMachine(1 / 197.63e9, 1 / 192.4e9, 212e-12, 513e-12, 122)
GTX580_SINGLE = RooflineMachine(1 / 1581.06e9, 1 / 192.4e9, 99.7e-12, 513e-12, 122)
I7_DOUBLE = RooflineMachine(1 / 53.28e9, 1 / 25.6e9, 670e-12, 795e-12, 122)
I7_SINGLE = RooflineMachine(1 / 106.56e9, 1 / 25.6e9, 371e-12, 795e-12, 122)
PUBLISHED = (GTX580_DOUBLE, GTX580_SINGLE, I7_DOUBLE, I7_SINGLE)

factors = st.floats(1, 50)
intensities = st.floats(0.01, 500)
machines = st.builds(
    RooflineMachine,
    st.floats(1e-15, 1e-9),
    st.floats(1e-14, 1e-8),
    st.floats(1e-13, 1e-9),
    st.floats(1e-12, 1e-8),
    st.floats(0, 500),
    memory_w=st.floats(0, 100),
)


def test_table_2_gives_its_balance_points():
    assert KECKLER.time_balance == pytest.approx(3.6, abs=0.05)
    assert KECKLER.energy_balance == pytest.approx(14.4, abs=0.05)


def test_section_6_2_bounds_the_extra_flops_of_a_compute_bound_baseline_by_about_five():
    assert TradeOff(KECKLER, KECKLER.time_balance, 1, math.inf).most_flops == pytest.approx(5, abs=0.1)


def test_figure_7_demands_387_w_of_the_gtx_580_where_its_limit_is_244():
    # The peaks of table 3 and the rounded energies of table 4 give 379 W.
    assert GTX580_SINGLE.power_w(GTX580_SINGLE.time_balance) == pytest.approx(387, rel=0.025)
    capped = RooflineMachine(1 / 1581.06e9, 1 / 192.4e9, 99.7e-12, 513e-12, 122, cap_w=244)
    assert capped.power_w(capped.time_balance) == 244


@pytest.mark.parametrize(
    ("machine", "time_balance", "energy_balance"),
    [
        (GTX580_DOUBLE, 1.03, 2.42),
        (GTX580_SINGLE, 8.22, 5.15),
        (I7_DOUBLE, 2.08, 1.19),
        (I7_SINGLE, 4.16, 2.14),
    ],
)
def test_tables_3_and_4_give_the_balance_points_of_figures_4_and_5(machine, time_balance, energy_balance):
    assert machine.time_balance == pytest.approx(time_balance, abs=0.01)
    assert machine.energy_balance == pytest.approx(energy_balance, abs=0.01)


def test_the_balance_points_lie_in_the_order_that_the_captions_say():
    # Figure 4, double precision on the GPU, and figure 5, single precision on all.
    assert GTX580_DOUBLE.half_efficiency_intensity < GTX580_DOUBLE.time_balance < GTX580_DOUBLE.energy_balance
    for single in (GTX580_SINGLE, I7_SINGLE):
        assert single.half_efficiency_intensity <= single.energy_balance < single.time_balance


@pytest.mark.parametrize("machine", PUBLISHED)
def test_section_5_2_time_efficiency_implies_energy_efficiency_on_all_platforms(machine):
    assert machine.races_to_halt
    assert machine.efficiency(machine.time_balance) >= 0.5


def test_without_constant_power_the_gap_of_the_gtx_580_reverses_and_that_of_the_cpu_does_not():
    def without(machine):
        return RooflineMachine(machine.flop_s, machine.byte_s, machine.flop_j, machine.byte_j)

    assert not without(GTX580_DOUBLE).races_to_halt
    assert without(I7_DOUBLE).races_to_halt


@pytest.mark.parametrize(("machine", "percent"), [(GTX580_DOUBLE, 25.6), (GTX580_SINGLE, 56.4)])
def test_share_of_flops_in_a_kernel_without_bytes(machine, percent):
    # Section 5.5: the compute-only microbenchmark spent 55% of its energy on flops on the GTX 580.
    assert 100 * machine.flop_efficiency == pytest.approx(percent, abs=0.1)


def test_a_byte_at_the_highest_bandwidth_pays_for_dram_at_work_and_a_byte_more_does_not():
    machine = RooflineMachine(1 / 60e12, 1 / 4e12, 7e-12, 90e-12, 130, memory_w=40)
    assert machine.average_byte_j == pytest.approx(100e-12, rel=1e-4)
    busy, few = machine.static_w(1.0), machine.static_w(100 * machine.time_balance)
    assert (busy, few) == (pytest.approx(170, abs=0.01), pytest.approx(130 + 40 * 0.0952, abs=0.01))


@given(machines, intensities)
def test_power_is_energy_over_time(machine, intensity):
    algorithm = Algorithm(1e12 * intensity, 1e12)
    energy_j = machine.energy_j(algorithm)
    assert machine.power_w(intensity) == pytest.approx(energy_j / machine.time_s(algorithm))


@given(machines)
def test_the_arch_line_is_at_one_half_at_the_half_efficiency_intensity(machine):
    intensity = machine.half_efficiency_intensity
    assert machine.effective_energy_balance(intensity) == pytest.approx(intensity)
    assert machine.efficiency(intensity) == pytest.approx(0.5)


@given(machines, intensities, st.floats(1.01, 3))
def test_no_algorithm_draws_more_than_the_limit(machine, intensity, headroom):
    cap_w = (machine.constant_w + machine.memory_w + 1) * headroom
    capped = replace(machine, cap_w=cap_w)
    algorithm = Algorithm(intensity, 1.0)
    power_w = capped.energy_j(algorithm) / capped.time_s(algorithm)
    assert power_w <= cap_w * (1 + 1e-9)
    assert capped.power_w(intensity) == pytest.approx(power_w)
    assert capped.time_s(algorithm) >= machine.time_s(algorithm)


@given(machines, intensities, factors, factors)
def test_tradeoffs_are_ratios_of_times_and_energies_and_keep_within_their_bounds(machine, intensity, f, m):
    trade = TradeOff(machine, intensity, f, m)
    old, new = Algorithm(intensity, 1.0), Algorithm(f * intensity, 1 / m)
    assert trade.speedup == pytest.approx(machine.time_s(old) / machine.time_s(new))
    assert trade.greenup == pytest.approx(machine.energy_j(old) / machine.energy_j(new))
    low, high = trade.greenup_bounds
    assert low * (1 - 1e-9) <= trade.greenup <= high * (1 + 1e-9)


@given(machines, intensities, factors, factors)
def test_energy_is_saved_exactly_where_f_is_under_its_limit(machine, intensity, f, m):
    trade = TradeOff(machine, intensity, f, m)
    assume(abs(trade.greenup - 1) > 1e-6)
    assert (trade.greenup > 1) == (trade.f < trade.most_flops)
    assert trade.most_flops <= trade.most_flops_without_bytes
    assert TradeOff(machine, intensity, trade.most_flops, m).greenup == pytest.approx(1)


def test_the_limit_of_f_does_not_depend_on_the_f_that_was_asked_about():
    machine = RooflineMachine(1 / 6e13, 1 / 4e12, 7e-12, 130e-12, constant_w=130)
    (limit,) = {TradeOff(machine, 0.5, f, 4).most_flops for f in (1, 2, 29, 40)}
    # By hand: at 58 flop/byte time is bound by compute, and 4 x 0.5 x 9.17 pJ divide the 130 pJ of a byte.
    assert limit == pytest.approx(36.22 - 130 / (4 * 0.5 * 9.1667), abs=0.01)


def test_the_printed_upper_bound_of_appendix_a_5_is_exceeded():
    machine = RooflineMachine(1e-12, 1e-11, 1e-11, 1e-11, constant_w=90)
    trade = TradeOff(machine, 1.0, 1.0, 9.9)
    assert trade.case is Case.BOTH_MEMORY
    eta, waiting = machine.flop_efficiency, 0.1 * 1 + 0.9 * (10 - 1)
    assert eta == pytest.approx(0.1)
    assert trade.greenup > (1 + waiting) / (1 + waiting / 10)
    assert trade.greenup < trade.greenup_bounds[1]


def test_the_cases_of_section_6_3():
    balance = KECKLER.time_balance
    assert TradeOff(KECKLER, balance / 8, 1.5, 2).case is Case.BOTH_MEMORY
    assert TradeOff(KECKLER, balance / 2, 2, 4).case is Case.MEMORY_TO_COMPUTE
    assert TradeOff(KECKLER, 2 * balance, 2, 4).case is Case.BOTH_COMPUTE


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
def test_what_is_no_quantity_is_refused_by_name(bad):
    with pytest.raises(InputError, match="flops is"):
        Algorithm(bad, 1)
    with pytest.raises(InputError, match="byte_j is"):
        RooflineMachine(1e-12, 1e-12, 1e-12, bad)


@pytest.mark.parametrize(("f", "m", "named"), [(0.5, 2, "f is"), (math.nan, 2, "f is"), (2, 0.5, "m is")])
def test_a_tradeoff_needs_factors_of_one_or_more(f, m, named):
    with pytest.raises(InputError, match=named):
        TradeOff(KECKLER, 1.0, f, m)


def test_a_limit_below_the_constant_power_is_refused():
    with pytest.raises(InputError, match="above the constant power"):
        RooflineMachine(1e-12, 1e-12, 1e-12, 1e-12, 100, 90)
