"""Steps of the supply, made up and found again."""

import math
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from fakes import run as fake
from fakes.measuring import trial

from ptxbench.analysis.drift import NO_STEPS, Drift, find_drift, find_lowered
from ptxbench.analysis.hmm import LevelPrior
from ptxbench.analysis.loop_energy import loop_energy, pass_energy_pj, shared_by
from ptxbench.analysis.static_power import SessionPower, StaticPower
from ptxbench.catalogue.architecture import Figure, architecture_of
from ptxbench.core.condition import ARAFA, OptLevel
from ptxbench.core.status import Status
from ptxbench.storage.schema import Role

STATIC = StaticPower(120.0, 45.0, 0.35, 0.02, 0.01)
UNFED_W = 60.0
KERNELS = 20
ROUNDS = 5
PRIOR = LevelPrior(jump=0.06, spread=0.012, creep=0.02)
find_steps = partial(find_drift, unfed_share=UNFED_W / STATIC.power_w, prior=PRIOR)
find_large = partial(find_lowered, unfed_share=UNFED_W / STATIC.power_w, prior=PRIOR)


def run_of(levels, noise=0.0007, seed=3, kernels=KERNELS, order=None, **change):
    """Trials, each at its time's level: in an order of kernels, else round after round from hot to cold."""
    random = np.random.default_rng(seed)
    power_w = np.linspace(550.0, 250.0, kernels)
    records, seen = [], Counter()
    for n, level in enumerate(levels):
        kernel = n % kernels if order is None else order[n]
        repeat = seen[kernel]
        seen[kernel] += 1
        temperature_c = 42.0 + power_w[kernel] / 40 + random.normal(0, 0.5)
        fed_w = (power_w[kernel] - UNFED_W) * math.exp(level) + 0.35 * (temperature_c - 45.0)
        records.append(
            trial(
                Role.TARGET,
                repeat,
                trial_id=f"kernel{kernel}/O3/dynamic/random/target/{repeat}",
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


def scatter(records, drift):
    """Return the mean scatter of the kernels' powers, as a fraction, before and after, of what is sure."""
    before, after = [], []
    for kernel in range(KERNELS):
        mine = [r for r in records if r.trial_id.startswith(f"kernel{kernel}/")]
        mine = [r for r in mine if r.trial_id not in drift.unsure]
        if len(mine) < 2:
            continue
        leak_w = np.array([0.35 * (r.temperature_c - 45.0) for r in mine])
        raw_w = np.array([r.steady_power_w for r in mine]) - leak_w
        told_w = np.array([drift.power_w(r) for r in mine]) - leak_w
        before.append(raw_w.std(ddof=1) / raw_w.mean())
        after.append(told_w.std(ddof=1) / told_w.mean())
    return float(np.mean(before)), float(np.mean(after))


def test_steps_are_taken_out_and_the_noise_is_left():
    levels = steps()
    records = run_of(levels)
    drift = find_steps(records, STATIC, frozenset())
    before, after = scatter(records, drift)
    assert before > 0.004
    # 0.07% of noise; the level itself is told by the other trials, which have noise, too.
    assert 0.0005 < after < 0.0013
    assert 0.0004 <= drift.noise <= 0.0013
    sure = [n for n, r in enumerate(records) if r.trial_id not in drift.unsure]
    assert len(sure) > 0.7 * len(records)
    found = np.array([drift.level[records[n].trial_id] for n in sure])
    # They are known but for one constant: the mean of all is called zero.
    off = found - levels[sure]
    assert np.abs(off - np.median(off)).max() < 0.004
    assert found.mean() == pytest.approx(0.0, abs=1e-9)


def test_the_mean_of_the_run_stays_where_it_was():
    records = run_of(steps())
    drift = find_steps(records, STATIC, frozenset())
    sure = [r for r in records if r.trial_id not in drift.unsure]
    shift = np.mean([drift.power_w(r) / r.steady_power_w - 1 for r in sure])
    assert abs(shift) < 3e-4
    assert 1e-4 < drift.level_error < 5e-3


@pytest.mark.parametrize("wander", [0.5, 0.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_batches_that_ran_at_levels_apart_come_to_one_by_the_few_kernels_that_both_ran(seed, wander):
    """Each batch fits a level of its own just as well: only the references tell that one of them is off."""
    random = np.random.default_rng(seed)
    kernels = 44
    power_w = np.linspace(550.0, 250.0, kernels)
    shuffled = random.permutation(kernels)
    first, second, references = shuffled[:20], shuffled[20:40], shuffled[40:]
    batches = [np.concatenate([mine, references]) for mine in (first, second)]
    order = np.concatenate([random.permutation(batch) for batch in batches for _ in range(ROUNDS)])
    levels = wander * steps(seed, len(order))
    levels[: len(order) // 2] -= 0.02
    records = run_of(levels, seed=seed, kernels=kernels, order=order)

    drift = find_steps(records, STATIC, frozenset())
    sure = np.array([r.trial_id not in drift.unsure for r in records])
    in_first, in_second = (sure & np.isin(order, batch) for batch in (first, second))

    def apart(powers_w):
        """By what fraction the first batch's powers are over the truth, less that of the second's."""
        leak_w = np.array([0.35 * (r.temperature_c - 45.0) for r in records])
        off = (np.array(powers_w) - UNFED_W - leak_w) / (power_w[order] - UNFED_W) - 1
        return off[in_first].mean() - off[in_second].mean()

    assert apart([r.steady_power_w for r in records]) < -0.012
    assert abs(apart([drift.power_w(r) for r in records])) < 0.0025


def jumping(jump):
    """Trials of a board that jumped after the first of four batches; the kernel and batch of each."""
    random = np.random.default_rng(1)
    kernels, references = 44, np.arange(40, 44)
    batches = [np.concatenate([mine, references]) for mine in np.split(random.permutation(40), 4)]
    order = np.concatenate([random.permutation(batch) for batch in batches for _ in range(ROUNDS)])
    batch = np.arange(len(order)) // (len(order) // 4)
    levels = 0.3 * steps(2, len(order)) + np.where(batch > 0, jump, 0.0)
    records = run_of(levels, kernels=kernels, order=order)
    records = [
        replace(r, start_ns=r.start_ns + pause, end_ns=r.end_ns + pause)
        for r, pause in zip(records, (batch * 5_000_000_000).tolist(), strict=True)
    ]
    return records, order, batch


@pytest.mark.parametrize("jump", [0.06, 0.1, -0.1])
def test_powers_of_a_board_that_jumped_between_batches_are_those_of_its_lower_level(jump):
    records, order, batch = jumping(jump)
    power_w = np.linspace(550.0, 250.0, 44)
    drift = find_steps(records, STATIC, frozenset(), lowered=find_large(records, STATIC))
    sure = [n for n, r in enumerate(records) if r.trial_id not in drift.unsure]
    leak_w = np.array([0.35 * (r.temperature_c - 45.0) for r in records])
    fed_w = np.array([drift.power_w(r) for r in records]) - UNFED_W - leak_w
    above = (fed_w / (power_w[order] - UNFED_W) - 1)[sure]
    by_batch = [above[batch[sure] == n].mean() for n in range(4)]
    assert len(sure) > 0.7 * len(records)
    assert np.ptp(by_batch) < 0.0025
    assert np.mean(by_batch) == pytest.approx(min(jump, 0.0), abs=0.01)
    assert drift.level_error < 0.003


def test_all_that_runs_since_the_first_sparse_product_is_brought_down_though_no_pause_lies_before_it():
    # What throttled goes on beside two kernels of before; not every stretch of it has both.
    order = [*range(20), *range(20), *range(20, 28), 0, *range(20, 28), 1, *range(20, 28), 0, 1]
    since = np.arange(len(order)) >= 40
    records = run_of(np.where(since, 0.1, 0.0), order=order, kernels=28)
    paused = since & (np.array(order) == 1)
    later = np.cumsum(paused) * 2_000_000_000
    records = [
        replace(r, start_ns=r.start_ns + int(ns), end_ns=r.end_ns + int(ns))
        for r, ns in zip(records, later, strict=True)
    ]
    timed = replace(
        records[40],
        trial_id="sparse/-1",
        instruction="mma.sp.m16n8k32.f32.f16.f16.f32",
        repeat=-1,
        steady_power_w=math.nan,
        status=Status.WINDOW_TOO_SHORT,
    )
    again = replace(timed, trial_id="sparse/-2", start_ns=records[60].start_ns)
    lowered = find_large([*records, again, timed], STATIC)
    assert set(lowered) == {r.trial_id for r, is_later in zip(records, since, strict=True) if is_later}
    ratio = [
        (lowered[r.trial_id].of(r.steady_power_w) - UNFED_W) / (r.steady_power_w - UNFED_W)
        for r in records[40:]
    ]
    np.testing.assert_allclose(ratio, math.exp(-0.1), atol=0.01)


def test_noise_without_steps_is_left_alone():
    for noise in (0.0007, 0.003, 0.01):
        assert find_steps(run_of(np.zeros(KERNELS * ROUNDS), noise), STATIC, frozenset()) is NO_STEPS


def test_a_trial_that_saw_two_levels_is_set_aside_and_leads_nobody_astray():
    records = run_of(steps())
    astray = replace(records[53], steady_power_w=records[53].steady_power_w * 1.008)
    with_it = [*records[:53], astray, *records[54:]]
    clean, found = (find_steps(rs, STATIC, frozenset()) for rs in (records, with_it))
    assert astray.trial_id in found.unsure
    assert astray.trial_id in found.misfits
    others = [r.trial_id for r in records if r.trial_id not in clean.unsure | found.unsure]
    assert max(abs(found.level[name] - clean.level[name]) for name in others) < 0.002


def test_a_trial_with_none_near_it_is_at_an_unknown_level_but_fits_one():
    records = run_of(steps())
    pause_ns = 5_000_000_000

    def later(record, ns):
        return replace(record, start_ns=record.start_ns + ns, end_ns=record.end_ns + ns)

    alone, behind = later(records[53], pause_ns), [later(r, 2 * pause_ns) for r in records[54:]]
    found = find_steps([*records[:53], alone, *behind], STATIC, frozenset())
    assert alone.trial_id in found.unsure - found.misfits
    assert found.weight(alone) < 0.05 < 0.4 < np.median([found.weight(r) for r in records[:50]]) < 1.0


def dipping(records, off, seed=7):
    """A third of the trials dips; of these such a share is off by half a step."""
    random = np.random.default_rng(seed)
    dips, moved = random.random(len(records)) < 1 / 3, random.random(len(records)) < off
    by = random.choice([-0.006, 0.006], len(records))
    changed = [
        replace(r, steady_power_w=r.steady_power_w * (1 + by[n])) if dips[n] and moved[n] else r
        for n, r in enumerate(records)
    ]
    return changed, {r.trial_id for n, r in enumerate(records) if dips[n]}


def test_trials_whose_clock_dips_count_on_a_board_where_they_draw_what_they_should():
    records, dipped = dipping(run_of(steps(trials=200)), off=0.0)
    drift = find_steps(records, STATIC, dipped)
    assert drift.off_by_dip[OptLevel.O3] < 0.1
    others = {r.trial_id for r in records} - dipped
    assert len(drift.unsure & dipped) / len(dipped) < 0.05 + len(drift.unsure & others) / len(others)


def test_on_a_board_where_dips_are_changes_of_the_level_they_do_not():
    records, dipped = dipping(run_of(steps(trials=200)), off=0.8)
    drift = find_steps(records, STATIC, dipped)
    assert 0.55 < drift.off_by_dip[OptLevel.O3] < 0.95
    assert len(drift.unsure & dipped) / len(dipped) > 0.7
    # No trial at -O0 told how it is there.
    assert 0.2 < drift.off_by_dip[OptLevel.O0] < 0.5


def test_where_there_are_no_steps_dips_are_none():
    records, dipped = dipping(run_of(np.zeros(200)), off=0.0)
    drift = find_steps(records, STATIC, dipped)
    assert (drift.unsure, drift.off_by_dip[OptLevel.O3]) == (frozenset(), 0.0)


def test_of_a_few_trials_those_with_a_dip_are_not_sure():
    records = run_of(steps(trials=6), kernels=3)
    name = records[2].trial_id
    drift = find_steps(records, STATIC, {name})
    assert drift.unsure == drift.misfits == {name}
    assert not drift.level


def test_where_no_level_is_sure_trials_with_a_dip_are_not_either(monkeypatch):
    records, dipped = dipping(run_of(steps(trials=200)), off=0.8)
    monkeypatch.setattr("ptxbench.analysis.drift._UNSURE", -1.0)
    drift = find_steps(records, STATIC, dipped)
    assert drift.unsure == dipped
    assert not drift.level


def test_at_the_power_limit_nothing_is_corrected():
    limited = run_of([0.0] * ROUNDS, kernels=1, sm_clock_mhz=1700.0, block=512)
    limited = [replace(r, trial_id=f"limited/{r.trial_id}") for r in limited]
    drift = find_steps([*run_of(steps()), *limited], STATIC, frozenset())
    assert drift is not NO_STEPS
    assert [drift.power_w(r) for r in limited] == [r.steady_power_w for r in limited]


def test_at_the_power_limit_too_a_board_that_jumped_has_the_powers_of_its_lower_level():
    records, *_ = jumping(0.1)
    limited = [
        replace(at, trial_id=f"limited/{n}", sm_clock_mhz=1700.0, block=512, start_ns=at.end_ns)
        for n, at in enumerate(records[len(records) // 8 :: len(records) // 4])
    ]
    both = [*records, *limited]
    drift = find_steps(both, STATIC, frozenset(), lowered=find_large(both, STATIC))
    assert drift.power_w(limited[0]) == limited[0].steady_power_w
    for one in limited[1:]:
        fed = (drift.power_w(one) - UNFED_W) / (one.steady_power_w - UNFED_W)
        assert fed == pytest.approx(math.exp(-0.1), abs=0.01)


@pytest.mark.parametrize(
    "change",
    [
        {"status": Status.THROTTLED},
        {"repeat": -1},
        {"protocol": ARAFA},
        {"steady_power_w": math.nan},
        {"temperature_c": math.nan},
    ],
)
def test_what_is_not_valid_or_known_does_no_harm(change):
    records = run_of(steps())
    odd = [replace(r, trial_id=f"odd/{r.trial_id}", **change) for r in records[:7]]
    drift = find_steps([*records, *odd], STATIC, frozenset())
    assert drift is not NO_STEPS
    assert all(math.isfinite(level) for level in drift.level.values())
    # Without a temperature a power is still known.
    assert any(name.startswith("odd/") for name in drift.level) is ("temperature_c" in change)


def test_a_run_of_few_trials_or_without_static_power_has_no_steps():
    assert find_steps([], STATIC, frozenset()) is NO_STEPS
    assert find_steps(run_of(steps(trials=6), kernels=3), STATIC, frozenset()) is NO_STEPS
    nothing = StaticPower(math.nan, math.nan, math.nan, math.nan, math.nan)
    assert find_steps(run_of(steps()), nothing, frozenset()) is NO_STEPS


def warm_levels(temperature_c, seed):
    """The lower or the upper of two levels: up where the chip warms, down where it has cooled further."""
    random = np.random.default_rng(seed)
    levels, is_up, changes_at_c = [], False, random.normal(53, 1)
    for now_c in temperature_c:
        if (now_c > changes_at_c) != is_up:
            is_up = not is_up
            changes_at_c = random.normal(50 if is_up else 53, 1)
        levels.append(0.006 if is_up else -0.006)
    return np.array(levels)


def run_of_warm_levels(seed, kernels=40):
    """Five rounds from cold to hot and back: only kernels between are at both levels."""
    hot = np.arange(kernels)
    order = np.concatenate([hot[:: 1 if n % 2 else -1] for n in range(ROUNDS)])
    levels = warm_levels(42 + np.linspace(550.0, 250.0, kernels)[order] / 40, seed)
    return run_of(levels, seed=seed, kernels=kernels, order=order), levels


def share_off(records, levels, drift):
    """Return the share of the sure trials whose level is off by a third of a step or more."""
    sure = np.array([r.trial_id not in drift.unsure for r in records])
    off = (np.array([drift.level[r.trial_id] for r in records]) - levels)[sure]
    return float(np.mean(np.abs(off - np.median(off)) > 0.004))


@pytest.mark.parametrize("seed", [0, 1, 4, 8])
def test_hot_kernels_that_are_always_at_the_upper_level_come_out_at_the_power_of_the_mean_level(seed):
    """Hot kernels that draw more, and a level that is the same for all, explain nearly as much."""
    records, levels = run_of_warm_levels(seed)
    drift = find_steps(records, STATIC, frozenset(), step=0.012)
    assert share_off(records, levels, drift) < 0.01


def test_a_fit_near_to_one_that_was_found_before_is_found_again():
    records, levels = run_of_warm_levels(8)
    warmer = replace(STATIC, slope_w_per_c=STATIC.slope_w_per_c + 0.05)
    before = find_steps(records, warmer, frozenset(), step=0.012)
    assert share_off(records, levels, find_steps(records, STATIC, frozenset())) > 0.1
    assert share_off(records, levels, find_steps(records, STATIC, frozenset(), before)) < 0.01


def sleeping_between(targets, levels):
    """A sleeping trial behind every fifth target, at its level."""
    return [
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


def test_static_power_is_that_at_the_mean_level():
    levels = steps()
    targets = run_of(levels)
    common = shared_by([*targets, *sleeping_between(targets, levels)], fake.GPU)
    assert common.static.error_w < 0.08
    assert common.static.at(45.0) == pytest.approx(120.0, abs=0.5)


def test_the_step_is_that_of_the_architecture_of_the_gpu(monkeypatch):
    own = replace(architecture_of("sm_75"), drift_step=Figure(0.03, "a test"))
    monkeypatch.setattr(
        "ptxbench.analysis.loop_energy.architecture_of",
        {"sm_75": own, "sm_90a": architecture_of("sm_90a")}.get,
    )
    records = run_of(steps())
    for target, step in (("sm_75", 0.03), ("sm_90a", 0.012)):
        loop = loop_energy(records[:1], shared_by(records, replace(fake.GPU, target=target)))
        assert loop.step_error == pytest.approx(step / math.sqrt(3))


def test_static_power_that_drops_between_two_sessions_is_no_step_of_the_supply():
    levels = steps()
    targets = run_of(levels)
    records = [*targets, *sleeping_between(targets, levels)]
    pause_at_ns = targets[len(targets) // 2].start_ns

    def in_two_sessions(drop_w):
        return [
            replace(
                r,
                steady_power_w=r.steady_power_w - drop_w,
                start_ns=r.start_ns + 300_000_000_000,
                end_ns=r.end_ns + 300_000_000_000,
            )
            if r.start_ns >= pause_at_ns
            else r
            for r in records
        ]

    same, lower = in_two_sessions(0.0), in_two_sessions(7.0)
    one, other = shared_by(same, fake.GPU), shared_by(lower, fake.GPU)
    begins = (lower[0].start_ns, lower[-1].start_ns)
    # The levels are still in it, and let it be told no better.
    assert np.subtract(*map(other.drift.static.shift_w, begins)) == pytest.approx(7.0, abs=1.0)
    sure = [
        n for n in range(len(targets)) if targets[n].trial_id not in one.drift.unsure | other.drift.unsure
    ]
    assert len(sure) > 0.7 * len(targets)
    ratio = [pass_energy_pj(lower[n], other) / pass_energy_pj(same[n], one) for n in sure]
    assert ratio == pytest.approx(np.ones(len(sure)), abs=0.002)


def test_a_level_changes_no_more_of_a_power_than_what_the_supply_feeds_in_that_session():
    static = replace(STATIC, sessions=(SessionPower(0, 3.0, 0.1), SessionPower(10**12, -37.0, 0.1)))
    early, late = (
        trial(Role.TARGET, n, start_ns=n * 10**12, steady_power_w=UNFED_W + shift_w + 300.0 * math.exp(0.02))
        for n, shift_w in enumerate((3.0, -37.0))
    )
    drift = Drift(UNFED_W, {early.trial_id: 0.02, late.trial_id: 0.02}, static=static)
    assert drift.power_w(early) == pytest.approx(UNFED_W + 3.0 + 300.0)
    assert drift.power_w(late) == pytest.approx(UNFED_W - 37.0 + 300.0)
