"""The regression finds hidden energies, its intervals hold, and it refuses what cannot be fitted."""

import math
from dataclasses import replace

import numpy as np
import pytest

from ptxbench.core.errors import InputError
from ptxbench.model.roofline.equations import Algorithm, RooflineMachine
from ptxbench.model.roofline.fit import RooflinePoint, RoughTerm, choose_fit, fit_roofline, interval_of
from ptxbench.model.roofline.third_power import ThirdPower

INTENSITIES = [2 ** (n / 2) for n in range(-6, 19)]
F32 = RooflineMachine(1 / 60e12, 1 / 4e12, 7.2e-12, 130e-12, 131)
F64 = replace(F32, flop_s=1 / 30e12, flop_j=20e-12)


def points(scatter=0.0, seed=0, machines=(("f32", F32), ("f64", F64))):
    rng = np.random.default_rng(seed)
    made = []
    for kind, machine in machines:
        for intensity in INTENSITIES:
            algorithm = Algorithm(1e12 * intensity, 1e12)
            energy_j = machine.energy_j(algorithm) * (1 + scatter * rng.normal())
            moved = (("dram", algorithm.bytes_moved),)
            time_s = machine.time_s(algorithm)
            made.append(
                RooflinePoint(f"{kind}-{intensity:.3g}", kind, algorithm.flops, moved, time_s, energy_j)
            )
    return made


def test_exact_points_give_the_hidden_energies():
    fit = fit_roofline(points())
    found = {name: fit.coefficient(name).value for name in fit.names}
    assert found == pytest.approx({"f32": 7.2e-12, "f64": 20e-12, "dram": 130e-12, "constant": 131}, rel=1e-6)
    assert fit.residual < 1e-9


def test_intervals_hold_the_truth_as_often_as_they_say():
    held = []
    for seed in range(150):
        fit = fit_roofline(points(0.01, seed))
        for name, truth in (("f32", 7.2e-12), ("f64", 20e-12), ("dram", 130e-12), ("constant", 131)):
            found = fit.coefficient(name)
            held.append(abs(found.value - truth) <= found.uncertainty)
    assert 0.925 <= np.mean(held) <= 0.975


@pytest.mark.parametrize("shared", [0.0, 0.02])
def test_intervals_hold_where_neighbours_and_rough_terms_are_off_together(shared):
    held = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        loop_j, slope_w, off = rng.normal(7e-12, 3e-12), rng.normal(0.4, 0.4), {}
        made = []
        for point in points():
            cooler_k = rng.normal(0, 5)
            extras = (("loop", point.bytes_of("dram") / 16), ("slope", cooler_k * point.time_s))
            extra_j = sum(amount * each for (_, amount), each in zip(extras, (loop_j, slope_w), strict=True))
            error = shared * off.setdefault(point.group, rng.normal()) + 0.005 * rng.normal()
            made.append(replace(point, energy_j=(point.energy_j + extra_j) * (1 + error), extras=extras))
        fit = fit_roofline(made, [RoughTerm("loop", 7e-12, 3e-12), RoughTerm("slope", 0.4, 0.4)])
        for name, truth in (("f32", 7.2e-12), ("f64", 20e-12), ("dram", 130e-12), ("constant", 131)):
            found = fit.coefficient(name)
            held.append(abs(found.value - truth) <= found.uncertainty)
    assert 0.925 <= np.mean(held) <= 0.98


SMS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)


def on_many_sms(third, third_w=30.0, seed=0, together=0.0):
    """Kernels of F32, each on two numbers of SMs, which share its peaks; `together`: how they are off."""
    rng = np.random.default_rng(seed)
    off = dict(zip(SMS, together * rng.normal(size=len(SMS)), strict=True))
    made = []
    for number, intensity in enumerate(INTENSITIES):
        for share in {SMS[number % 5], SMS[(number + 2) % 5]}:
            moved = 1e12
            # Half of the SMs fill the bandwidth.
            time_s = max(intensity * moved * F32.flop_s / share, moved * F32.byte_s / min(1, 2 * share))
            used = moved * F32.byte_s / time_s
            energy_j = intensity * moved * F32.flop_j + moved * F32.byte_j + F32.constant_w * time_s
            energy_j += third_w * third.share(used, share) * time_s if third else 0.0
            energy_j *= 1 + 0.004 * rng.normal() + off[share]
            made.append(
                RooflinePoint(
                    f"{intensity}-{share}", "f32", intensity * moved, (("dram", moved),), time_s, energy_j,
                    bandwidth_share=used, sms_share=share,
                )
            )  # fmt: skip
    return made


@pytest.mark.parametrize("third", [*ThirdPower, None])
def test_the_power_that_kernels_have_beside_eq_4_is_found_among_those_tried(third):
    chosen, tried = choose_fit(on_many_sms(third))
    assert [one.third for one in tried] == [None, *ThirdPower]
    assert chosen.third == third
    assert chosen.coefficient("dram").value == pytest.approx(130e-12, rel=0.03)
    if third:
        found = chosen.coefficient(third)
        assert abs(found.value - 30) < 1.5 * found.uncertainty
        assert chosen.unseen < tried[0].unseen


def test_one_number_of_sms_tells_no_third_power():
    alone = [replace(point, sms_share=1.0) for point in on_many_sms(ThirdPower.AWAKE)]
    assert choose_fit(alone)[0].third is None


def test_what_kernels_on_as_many_sms_share_is_in_the_interval():
    held, held_without = [], []
    for seed in range(60):
        made = on_many_sms(ThirdPower.AWAKE, seed=seed, together=0.01)
        fits = (
            fit_roofline(made, (), ThirdPower.AWAKE),
            fit_roofline(
                [replace(point, sms_share=SMS[n % 3]) for n, point in enumerate(made)], (), ThirdPower.AWAKE
            ),
        )
        for fit, found in zip(fits, (held, held_without), strict=True):
            for name, truth in (("f32", 7.2e-12), ("dram", 130e-12), ("constant", 131)):
                one = fit.coefficient(name)
                found.append(abs(one.value - truth) <= one.uncertainty)
    assert np.mean(held) >= 0.93
    assert np.mean(held_without) < np.mean(held)


def test_an_energy_that_hangs_on_one_group_has_a_wide_interval():
    one = [p for p in points(0.001) if p.kind == "f32" or p.flops == 1e12 * INTENSITIES[-1]]
    wide, narrow = fit_roofline(one).coefficient("f64"), fit_roofline(one).coefficient("f32")
    assert wide.uncertainty > 0.5 * wide.value
    assert narrow.uncertainty < 0.05 * narrow.value


def test_the_interval_is_carried_through_to_what_follows_from_the_fit():
    held = []
    for seed in range(50):
        fit = fit_roofline(points(0.01, seed))
        draws = fit.machines("f32", "dram", F32)
        low, high = interval_of([machine.half_efficiency_intensity for machine in draws])
        held.append(low <= F32.half_efficiency_intensity <= high)
    assert 0.88 <= np.mean(held) <= 1


def test_a_kernel_that_was_slowed_down_is_left_out_and_named():
    made = points()
    slow = replace(made[3], energy_j=made[3].energy_j * 0.7, at_full_clock=False)
    fit = fit_roofline([*made[:3], slow, *made[4:]])
    assert fit.left_out == (slow.name,)
    assert fit.coefficient("f32").value == pytest.approx(7.2e-12, rel=1e-6)


def test_a_byte_of_each_cache_has_its_energy():
    extra = []
    for level, byte_j, rate in (("l2", 40e-12, 8e12), ("l1", 12e-12, 20e12)):
        for intensity in (0.25, 1, 4):
            moved = 1e12
            time_s = max(intensity * moved * F32.flop_s, moved / rate)
            energy_j = intensity * moved * F32.flop_j + moved * byte_j + F32.constant_w * time_s
            also = (("l2", 0.1 * moved),) if level == "l1" else ()
            energy_j += sum(count for _, count in also) * 40e-12
            extra.append(
                RooflinePoint(
                    f"{level}-{intensity}",
                    "f32",
                    intensity * moved,
                    ((level, moved), *also),
                    time_s,
                    energy_j,
                )
            )
    fit = fit_roofline([*points(), *extra])
    assert fit.coefficient("l2").value == pytest.approx(40e-12, rel=1e-6)
    assert fit.coefficient("l1").value == pytest.approx(12e-12, rel=1e-6)


def test_too_few_points_are_refused_and_those_slowed_down_are_named_as_the_cause():
    made = [replace(point, at_full_clock=n < 5) for n, point in enumerate(points())]
    with pytest.raises(InputError, match=r"5 points are too few .* 45 more were slowed down"):
        fit_roofline(made)


def test_points_on_one_side_of_the_balance_cannot_tell_bytes_from_time():
    bound_by_memory = [p for p in points(machines=(("f32", F32),)) if p.flops / 1e12 < 2]
    with pytest.raises(InputError, match="cannot tell f32, dram, constant apart"):
        fit_roofline(bound_by_memory)


@pytest.mark.parametrize("bad", [math.nan, 0.0, -1.0, math.inf])
def test_a_point_that_is_no_number_is_named(bad):
    made = points()
    with pytest.raises(InputError, match=r"energy_j of f32-0.125 is"):
        fit_roofline([replace(made[0], energy_j=bad), *made[1:]])


def test_a_kind_that_was_not_fitted_is_refused():
    with pytest.raises(InputError, match="no 'f16', only f32, f64, dram, constant"):
        fit_roofline(points()).coefficient("f16")


def test_a_third_power_is_of_dram_that_is_awake_or_slow_or_of_the_sms_that_run():
    awake = [ThirdPower.AWAKE.share(x) for x in (0.0, 0.05, 0.5, 1.0)]
    assert awake[0] == 0.0
    assert awake == sorted(awake)
    assert awake[-1] == pytest.approx(1.0, abs=0.02)
    assert [ThirdPower.FALLING.share(x) for x in (0.0, 0.25, 0.5, 1.0, 1.1)] == [0.0, 0.75, 1.0, 0.0, 0.0]
    assert ThirdPower.BUSY_SMS.share(0.7, 0.25) == 0.25
