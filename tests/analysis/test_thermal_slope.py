import math
from dataclasses import replace

import numpy as np
import pytest
from fakes import run as fake
from fakes.measuring import trial

from ptxbench.analysis.drift import NO_STEPS
from ptxbench.analysis.loop_energy import RunCalibration, pass_energy_pj, shared_by
from ptxbench.analysis.static_power import fit_static
from ptxbench.analysis.thermal_slope import busy_static
from ptxbench.core.status import Status
from ptxbench.storage.schema import Role

BUSY_W_PER_C, ASLEEP_W_PER_C = 0.5, 0.2


def asleep(temperature_c, number=0, noise_w=0.0):
    power_w = 120 + ASLEEP_W_PER_C * (temperature_c - 42) + noise_w
    return trial(
        Role.STATIC,
        number,
        trial_id=f"static/static/{number}",
        temperature_c=temperature_c,
        steady_power_w=power_w,
    )


def busy(kernel, temperature_c, repeat, noise=0.0, **change):
    """A trial of one of several kernels, each of a power of its own."""
    power_w = (300 + 10 * kernel + BUSY_W_PER_C * (temperature_c - 50)) * (1 + noise)
    return trial(
        Role.TARGET,
        repeat,
        trial_id=f"kernel {kernel}/target/{repeat}",
        temperature_c=temperature_c,
        steady_power_w=power_w,
        **change,
    )


def a_run(noise=0.0, seed=1, kernels=20, rounds=4):
    """Kernels at 46 to 54 degrees, other ones in every round, and a sleeping one at 40 to 44."""
    rng = np.random.default_rng(seed)
    records = [
        busy(kernel, 46 + (7 * kernel + 5 * n) % 9, n, noise * rng.normal())
        for n in range(rounds)
        for kernel in range(kernels)
    ]
    return records + [asleep(40.0 + n, n, 2000 * noise * rng.normal()) for n in range(5)]


def found(records, *, by_levels=False):
    return busy_static(fit_static(records), records, NO_STEPS.power_w, by_levels=by_levels)


def test_the_slope_is_that_of_busy_kernels_and_the_level_that_of_the_sleeping_one():
    records = a_run(noise=1e-7)
    static = found(records)
    mean_c = np.mean([r.temperature_c for r in records if r.role is Role.TARGET])
    assert static.slope_w_per_c == pytest.approx(BUSY_W_PER_C, rel=1e-4)
    assert static.temperature_c == pytest.approx(mean_c)
    # 120 W at the sleeping kernel's mean of 42 degrees, brought to the busy ones' by their slope.
    assert static.at(mean_c) == pytest.approx(120 + BUSY_W_PER_C * (mean_c - 42), rel=1e-5)


def test_a_kernel_that_came_at_other_temperatures_has_one_energy():
    records = a_run(noise=1e-7)
    for kernel in (0, 19):
        energies = [
            pass_energy_pj(r, RunCalibration(found(records)))
            for r in records
            if r.subject == f"kernel {kernel}"
        ]
        assert np.ptp(energies) < 1e-5 * np.mean(energies)
    left_in = RunCalibration(fit_static(records))
    energies = [pass_energy_pj(r, left_in) for r in records if r.subject == "kernel 0"]
    assert np.ptp(energies) > 5e-3 * np.mean(energies)


def test_its_error_is_that_of_the_noise():
    slopes = [found(a_run(noise=1e-3, seed=seed)) for seed in range(60)]
    scatter = np.std([static.slope_w_per_c for static in slopes])
    own = np.sqrt(np.mean([s.slope_error_w_per_c**2 for s in slopes]))
    assert own == pytest.approx(scatter, rel=0.25)
    # The levels of the supply may take up a tenth of it.
    more = found(a_run(noise=1e-3), by_levels=True).slope_error_w_per_c
    assert more == pytest.approx(np.hypot(own, 0.1 * BUSY_W_PER_C), rel=0.2)
    assert np.mean([static.slope_w_per_c for static in slopes]) == pytest.approx(BUSY_W_PER_C, abs=0.02)


def test_its_error_in_a_short_run_is_that_of_weighted_least_squares():
    records = [
        replace(one, steady_power_w=one.steady_power_w * (1 + 1e-3 * (-1) ** (one.repeat + number)))
        for number, one in enumerate(r for r in a_run(rounds=2) if r.role is Role.TARGET)
    ]
    sleeping = [asleep(40.0 + n, n, (-1) ** n) for n in range(5)]
    # A mean for each kernel and one slope, each trial by the inverse square of its power.
    power_w, temperature_c = (
        np.array([getattr(r, name) for r in records]) for name in ("steady_power_w", "temperature_c")
    )
    kernel = np.array([int(r.subject.split()[1]) for r in records])
    design = np.column_stack([kernel[:, None] == np.arange(20), temperature_c - 50]) / power_w[:, None]
    _, (rest,), rank, _ = np.linalg.lstsq(design, np.ones(len(records)))
    variance = rest / (len(records) - rank) * np.linalg.inv(design.T @ design)[-1, -1]
    static = found(sleeping + records)
    assert rank == 21
    assert static.slope_error_w_per_c == pytest.approx(np.sqrt(variance), rel=1e-6)


def pieces(noise, seed, *slopes_w_per_c):
    """A long run with another slope in each part, in the order of time."""
    records = [r for r in a_run(noise, seed, kernels=200, rounds=6) if r.role is Role.TARGET]
    of = np.arange(len(records)) * len(slopes_w_per_c) // len(records)
    return [asleep(40.0 + n, n, (-1) ** n) for n in range(5)] + [
        replace(
            r,
            start_ns=1000 + number,
            steady_power_w=r.steady_power_w
            + (slopes_w_per_c[of[number]] - BUSY_W_PER_C) * (r.temperature_c - 50),
        )
        for number, r in enumerate(records)
    ]


def test_a_long_run_tells_how_well_it_knows_the_slope():
    """Beside levels of the supply, which may take up part of it: the error is what pieces of the run show."""
    slopes = [found(pieces(1e-3, seed, BUSY_W_PER_C), by_levels=True) for seed in range(12)]
    scatter = np.std([static.slope_w_per_c for static in slopes])
    assert np.mean([s.slope_error_w_per_c for s in slopes]) == pytest.approx(scatter, rel=0.4)
    assert max(s.slope_error_w_per_c for s in slopes) < 0.1 * BUSY_W_PER_C / 2
    assert all(s.degrees == 4 for s in slopes)
    unlike = found(pieces(1e-6, 1, 0.4, 0.6, 0.4, 0.6), by_levels=True)
    assert 0.03 < unlike.slope_error_w_per_c < 0.07
    assert found(pieces(1e-6, 1, 0.4, 0.6, 0.4, 0.6)).slope_error_w_per_c < 0.005


def test_a_trial_that_stepped_does_not_bend_the_slope():
    records = a_run(noise=3e-4)
    stepped = [replace(r, steady_power_w=r.steady_power_w * 1.03) for r in records[:3]]
    assert found(stepped + records[3:]).slope_w_per_c == pytest.approx(BUSY_W_PER_C, abs=0.05)


def test_a_run_is_worked_out_by_it():
    """What is left to the levels of the supply, which look like it, is small."""
    assert shared_by(a_run(noise=1e-4), fake.GPU).static.slope_w_per_c == pytest.approx(BUSY_W_PER_C, abs=0.1)


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(a_run(kernels=7), id="too few trials"),
        pytest.param(
            [replace(r, temperature_c=45.0) if r.role is Role.TARGET else r for r in a_run()],
            id="one temperature",
        ),
        pytest.param(a_run(rounds=1, kernels=40), id="no kernel came again"),
        pytest.param([replace(r, temperature_c=math.nan) for r in a_run()], id="no thermometer"),
        pytest.param([r for r in a_run() if r.role is Role.TARGET], id="nothing slept"),
        pytest.param(
            [replace(r, status=Status.THROTTLED) if r.role is Role.TARGET else r for r in a_run()],
            id="not valid",
        ),
    ],
)
def test_where_busy_kernels_tell_no_slope_it_is_the_sleeping_ones(records):
    sleeping = fit_static(records)
    assert busy_static(sleeping, records, NO_STEPS.power_w, by_levels=True) is sleeping


def test_a_slope_that_is_known_less_well_than_the_sleeping_ones_is_not_taken():
    records = a_run(noise=3e-2)
    exact = [r for r in a_run() if r.role is Role.STATIC]
    exact = [replace(r, steady_power_w=r.steady_power_w + 1e-3 * (-1) ** r.repeat) for r in exact]
    mixed = [r for r in records if r.role is Role.TARGET] + exact
    assert found(mixed).slope_w_per_c == pytest.approx(ASLEEP_W_PER_C, abs=1e-3)
