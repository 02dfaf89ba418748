import math
from dataclasses import replace

import pytest
from fakes.measuring import subject, trial

from ptxbench.core.condition import ARAFA
from ptxbench.core.status import Status
from ptxbench.experiment.protocols.arafa import arafa_row, solve_arafa
from ptxbench.storage.schema import Role

ENERGY_J = 40e-9
OVERHEAD_PASS_J = 2e-6
COPIES = 64


def pair(repeat, energy_j=ENERGY_J, **change):
    """Target and overhead of one round; the overhead kernel makes seven times as many passes."""
    passes = {Role.TARGET: 1_000_000, Role.OVERHEAD: 7_000_000}
    pass_j = {Role.TARGET: OVERHEAD_PASS_J + COPIES * energy_j, Role.OVERHEAD: OVERHEAD_PASS_J}
    plain = [
        trial(
            role,
            repeat,
            grid=1,
            block=1,
            iterations=passes[role],
            cycles=passes[role] * (268 if role is Role.TARGET else 12),
            # Real readings scatter: a source that gives one value all the time stands still.
            steady_power_w=120.0 + 0.1 * repeat + (role is Role.TARGET),
            mtsm_j=passes[role] * pass_j[role],
            papi_j=1.5 * passes[role] * pass_j[role],
            sma_j=0.5 * passes[role] * pass_j[role],
            counter_j=1.01 * passes[role] * pass_j[role],
        )
        for role in passes
    ]
    return [replace(record, **change) for record in plain]


def rounds(*energies_j):
    return [record for repeat, energy_j in enumerate(energies_j) for record in pair(repeat, energy_j)]


def row_of(records):
    return arafa_row(subject(protocol=ARAFA), records)


def test_equation_1_scales_the_overhead_by_the_loop_counts():
    found = solve_arafa(rounds(ENERGY_J, ENERGY_J), "mtsm_j")
    assert found.mean == pytest.approx(ENERGY_J)
    assert (found.n, found.ci95) == (2, pytest.approx(0, abs=1e-18))


def test_the_row_gives_every_method_in_pj_and_the_latency():
    row = row_of(rounds(39e-9, 40e-9, 41e-9))
    assert (row.status, row.reason) == (Status.OK, "")
    assert row.mtsm_pj == pytest.approx(40_000)
    # Student's t of two degrees of freedom, times the standard error of three rounds.
    assert row.mtsm_ci95_pj == pytest.approx(4303 / 3**0.5, rel=1e-3)
    assert row.papi_pj == pytest.approx(60_000)
    assert row.sma_pj == pytest.approx(20_000)
    assert row.counter_pj == pytest.approx(40_400)
    assert row.latency_cycles == pytest.approx(4.0)
    assert (row.threads, row.executions, row.repeats) == (1, 64_000_000, 3)
    assert math.isnan(row.dynamic_pj)


def test_a_method_that_gave_nothing_is_empty_and_spoils_no_other():
    row = row_of([replace(r, counter_j=math.nan) for r in rounds(39e-9, 41e-9)])
    assert row.status is Status.OK
    assert math.isnan(row.counter_pj)
    assert row.mtsm_pj == pytest.approx(40_000)


def test_a_round_with_a_fault_does_not_count():
    bad = pair(2, 90e-9, status=Status.FOREIGN_PROCESS, reason="2 others")
    row = row_of(rounds(40e-9, 40.1e-9) + bad)
    assert (row.status, row.repeats) == (Status.OK, 2)
    assert row.mtsm_pj == pytest.approx(40_050)


def test_a_round_without_its_overhead_trial_and_a_calibration_do_not_count():
    some = rounds(39e-9, 41e-9)
    calibration = [replace(record, repeat=-1) for record in pair(0, energy_j=9e-9)]
    assert solve_arafa([*some, *calibration, pair(2, 90e-9)[0]], "mtsm_j") == solve_arafa(some, "mtsm_j")


@pytest.mark.parametrize("role", [Role.TARGET, Role.OVERHEAD])
def test_without_cycles_of_a_kernel_there_is_no_latency(role):
    row = row_of([replace(r, cycles=-1) if r.role is role else r for r in rounds(39e-9, 41e-9)])
    assert math.isnan(row.latency_cycles)


def test_without_two_valid_rounds_the_row_names_the_commonest_fault():
    foreign = [r for n in range(3) for r in pair(n, status=Status.FOREIGN_PROCESS, reason="2 others")]
    # The short trials that find the loop count are many, and always too short for the sensor.
    short = [
        trial(role, -n, status=Status.WINDOW_TOO_SHORT, reason="10 ms")
        for role in (Role.TARGET, Role.OVERHEAD)
        for n in range(1, 7)
    ]
    row = row_of(short + foreign)
    assert (row.status, row.reason) == (Status.FOREIGN_PROCESS, "2 others")
    assert math.isnan(row.mtsm_pj)
    assert row.sass == "FFMA"


def test_what_cannot_be_told_from_zero_is_a_bound_and_no_number():
    row = row_of(rounds(-3e-9, 4e-9, 1e-9))
    assert row.status is Status.BELOW_RESOLUTION
    assert math.isnan(row.mtsm_pj)
    assert math.isnan(row.mtsm_ci95_pj)
    assert float(row.reason.split()[-2]) > 4
    assert row.reason.endswith("nJ")


def test_mtsm_cannot_be_taken_from_the_energy_counter_and_says_so():
    blind = [
        replace(r, source="counter", mtsm_j=math.nan, papi_j=math.nan, sma_j=math.nan)
        for r in rounds(39e-9, 41e-9)
    ]
    row = row_of(blind)
    assert row.status is Status.NOT_SUPPORTED
    assert "watts" in row.reason
    assert row.counter_pj == pytest.approx(40_400)
    assert math.isnan(row.mtsm_pj)
