"""Steps of the supply, made up and found again."""

import math
from dataclasses import replace

import numpy as np
import pytest
from fakes.measuring import trial

from ptxbench.gpu.protocol import OptLevel
from ptxbench.measure.loops import shared_by
from ptxbench.measure.static import StaticPower
from ptxbench.measure.supply import NO_STEPS, find_supply
from ptxbench.status import Status
from ptxbench.store.schema import Protocol, Role

STATIC = StaticPower(120.0, 45.0, 0.35, 0.02, 0.01)
UNFED_W = 60.0
KERNELS = 20
ROUNDS = 5


def run_of(levels, noise=0.0007, seed=3, kernels=KERNELS, **change):
    """Trials round after round, kernels from hot to cold, each at its time's level of the supply."""
    random = np.random.default_rng(seed)
    power_w = np.linspace(550.0, 250.0, kernels)
    records = []
    for n, level in enumerate(levels):
        kernel = n % kernels
        temperature_c = 42.0 + power_w[kernel] / 40 + random.normal(0, 0.5)
        fed_w = (power_w[kernel] - UNFED_W) * math.exp(level) + 0.35 * (temperature_c - 45.0)
        records.append(
            trial(
                Role.TARGET,
                n // kernels,
                trial_id=f"kernel{kernel}/O3/dynamic/random/target/{n // kernels}",
                order=n,
                opt_level=OptLevel.O3,
                steady_power_w=UNFED_W + fed_w + random.normal(0, noise) * power_w[kernel],
                temperature_c=temperature_c,
                start_ns=round(n * 0.24e9),
                end_ns=round((n * 0.24 + 0.22) * 1e9),
                **change,
            )
        )
    return records


def steps(seed=5, trials=KERNELS * ROUNDS):
    """A level that stays for a dozen trials or so."""
    random = np.random.default_rng(seed)
    levels, level = [], 0.0
    for _ in range(trials):
        if random.random() < 1 / 12:
            level = random.choice([-0.014, -0.007, 0.0, 0.007, 0.014])
        levels.append(level)
    return np.array(levels)


def scatter(records, supply):
    """Return the mean scatter of the kernels' powers, as a fraction, before and after, of what is sure."""
    before, after = [], []
    for kernel in range(KERNELS):
        mine = [r for r in records if r.trial_id.startswith(f"kernel{kernel}/")]
        mine = [r for r in mine if r.trial_id not in supply.unsure]
        if len(mine) < 2:
            continue
        leak_w = np.array([0.35 * (r.temperature_c - 45.0) for r in mine])
        raw_w = np.array([r.steady_power_w for r in mine]) - leak_w
        told_w = np.array([supply.power_w(r) for r in mine]) - leak_w
        before.append(raw_w.std(ddof=1) / raw_w.mean())
        after.append(told_w.std(ddof=1) / told_w.mean())
    return float(np.mean(before)), float(np.mean(after))


def test_steps_are_taken_out_and_the_noise_is_left():
    levels = steps()
    records = run_of(levels)
    supply = find_supply(records, STATIC, frozenset())
    before, after = scatter(records, supply)
    assert before > 0.004
    # 0.07% of noise; the level itself is told by the other trials, which have noise, too.
    assert 0.0005 < after < 0.0013
    assert 0.0004 <= supply.noise <= 0.0013
    sure = [n for n, r in enumerate(records) if r.trial_id not in supply.unsure]
    assert len(sure) > 0.7 * len(records)
    found = np.array([supply.level[records[n].trial_id] for n in sure])
    # They are known but for one constant: the mean of all is called zero.
    off = found - levels[sure]
    assert np.abs(off - np.median(off)).max() < 0.004
    assert found.mean() == pytest.approx(0.0, abs=1e-9)


def test_the_mean_of_the_run_stays_where_it_was():
    records = run_of(steps())
    supply = find_supply(records, STATIC, frozenset())
    sure = [r for r in records if r.trial_id not in supply.unsure]
    shift = np.mean([supply.power_w(r) / r.steady_power_w - 1 for r in sure])
    assert abs(shift) < 3e-4
    assert 1e-4 < supply.level_error < 5e-3


def test_noise_without_steps_is_left_alone():
    for noise in (0.0007, 0.003, 0.01):
        assert find_supply(run_of(np.zeros(KERNELS * ROUNDS), noise), STATIC, frozenset()) is NO_STEPS


def test_a_trial_that_saw_two_levels_is_set_aside_and_leads_nobody_astray():
    records = run_of(steps())
    astray = replace(records[53], steady_power_w=records[53].steady_power_w * 1.008)
    with_it = [*records[:53], astray, *records[54:]]
    clean, found = (find_supply(rs, STATIC, frozenset()) for rs in (records, with_it))
    assert astray.trial_id in found.unsure
    others = [r.trial_id for r in records if r.trial_id not in clean.unsure | found.unsure]
    assert max(abs(found.level[name] - clean.level[name]) for name in others) < 0.002


def test_a_disturbed_trial_tells_nothing():
    records = run_of(steps())
    name = records[53].trial_id
    astray = [replace(r, steady_power_w=300.0) if r.trial_id == name else r for r in records]
    one = find_supply(records, STATIC, frozenset({name}))
    assert find_supply(astray, STATIC, frozenset({name})).level == one.level


def test_at_the_power_limit_nothing_is_corrected():
    limited = run_of([0.0] * ROUNDS, kernels=1, sm_clock_mhz=1700.0, block=512)
    limited = [replace(r, trial_id=f"limited/{r.trial_id}") for r in limited]
    supply = find_supply([*run_of(steps()), *limited], STATIC, frozenset())
    assert supply is not NO_STEPS
    assert [supply.power_w(r) for r in limited] == [r.steady_power_w for r in limited]


@pytest.mark.parametrize(
    "change",
    [
        {"status": Status.THROTTLED},
        {"repeat": -1},
        {"protocol": Protocol.ARAFA},
        {"steady_power_w": math.nan},
        {"temperature_c": math.nan},
    ],
)
def test_what_is_not_valid_or_known_does_no_harm(change):
    records = run_of(steps())
    odd = [replace(r, trial_id=f"odd/{r.trial_id}", **change) for r in records[:7]]
    supply = find_supply([*records, *odd], STATIC, frozenset())
    assert supply is not NO_STEPS
    assert all(math.isfinite(level) for level in supply.level.values())


def test_a_run_of_few_trials_or_without_static_power_has_no_steps():
    assert find_supply([], STATIC, frozenset()) is NO_STEPS
    assert find_supply(run_of(steps(trials=6), kernels=3), STATIC, frozenset()) is NO_STEPS
    nothing = StaticPower(math.nan, math.nan, math.nan, math.nan, math.nan)
    assert find_supply(run_of(steps()), nothing, frozenset()) is NO_STEPS


def test_static_power_is_that_at_the_mean_level():
    levels = steps()
    targets = run_of(levels)
    asleep = [
        trial(
            Role.STATIC,
            n,
            trial_id=f"static/static/{n}",
            opt_level=OptLevel.O3,
            steady_power_w=UNFED_W + 60.0 * math.exp(levels[at]) + 0.35 * (40.0 + n % 10 - 45.0),
            temperature_c=40.0 + n % 10,
            start_ns=targets[at].end_ns + 1,
            end_ns=targets[at].end_ns + 2,
        )
        for n, at in enumerate(range(4, len(targets), 5))
    ]
    common = shared_by([*targets, *asleep])
    assert common.static.error_w < 0.08
    assert common.static.at(45.0) == pytest.approx(120.0, abs=0.5)
