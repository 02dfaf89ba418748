"""What the trials of a kept run, and of made-up ones, come to: each number stays as it was."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
from fakes import run as fake
from fakes.kept_numbers import assert_as_kept
from fakes.measuring import trial
from fakes.script import load_script

from ptxbench.analysis.board_spread import BoardRun
from ptxbench.analysis.drift import find_lowered
from ptxbench.analysis.fleet_spread import fleet_spread
from ptxbench.analysis.hmm import LevelPrior
from ptxbench.analysis.large_steps import large_steps
from ptxbench.analysis.loop_energy import loop_energy, scatter_of, shared_by
from ptxbench.analysis.operating_point import kernel_of
from ptxbench.analysis.recommendation import recommend
from ptxbench.analysis.run_cost import run_cost
from ptxbench.analysis.static_power import StaticPower
from ptxbench.analysis.statistics import Uncertainty, combined, error_of_series, weighted
from ptxbench.analysis.variance import Scatter, fit_prior, moderated
from ptxbench.core.status import Status
from ptxbench.sensors.base import SourceName
from ptxbench.storage.methods_file import LoadKind, MethodPoint
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import Role

RUN = Path(__file__).parents[2] / "results/nvidia-h200/operands"


def test_what_a_run_and_its_loops_come_to_stays_as_it_was():
    assert_as_kept(__file__, {**of_run(), **of_large_steps(), **of_boards(), **of_values(), **of_methods()})


def of_run():
    with RunFolder.open(RUN) as folder:
        records, gpu = folder.records(), folder.manifest.gpu
    # Some of its trials ran a clock step higher.
    up = [n for n, r in enumerate(records) if r.role is Role.TARGET][3:40:9]
    records = [
        replace(r, sm_clock_mhz=r.sm_clock_mhz * 1995 / 1980, elapsed_s=r.elapsed_s * 1980 / 1995)
        if n in up
        else r
        for n, r in enumerate(records)
    ]
    common, recent = shared_by(records, gpu), shared_by(records, gpu, recent=60)
    drift = common.drift
    kernels = {}
    for record in records:
        if record.repeat >= 0 and record.role is not Role.STATIC:
            kernels.setdefault(kernel_of(record).partition("/")[2], []).append(record)
    loops = {name: loop_energy(own, common) for name, own in kernels.items()}
    prior = scatter_of(loops.values())
    one, other = list(loops)[:2]
    weights = {
        kernel_of(loops[name].trials[0]): w for name, w in ((one, 1.0), (other, -0.4)) if loops[name].trials
    }
    found = {
        "static": common.static,
        "static of recent trials": recent.static,
        "stated clocks": sorted(common.stated_mhz.items()),
        "drift": [drift.noise, drift.level_error, sorted(drift.misfits), len(drift.unsure), drift.off_by_dip],
        "levels": list(drift.level.values())[::5],
        "levels of recent trials": list(recent.drift.level.values())[::5],
        "errors of levels": list(drift.trial_error.values())[::5],
        "what levels leave of a difference": drift.error(weights),
        "scatter": prior,
        "cost": run_cost(records),
    }
    for name, loop in loops.items():
        numbers = replace(loop, trials=(), faults={})
        found[f"loop {name}"] = [numbers, loop.power_w, loop.stands, loop.doubt, loop.scatter]
        if loop.trials:
            found[f"energy of {name}"] = loop.estimate(prior)
    return found


def of_large_steps():
    """Three stretches of a run, the second of which is 8% up."""
    records = []
    for n in range(108):
        kernel, stretch = n % 12, n // 36
        up = 0.08 if stretch == 1 else 0.0
        records.append(
            trial(
                Role.TARGET,
                n // 12,
                trial_id=f"kernel{kernel}/O3/dynamic/random/target/{n // 12}",
                order=n,
                steady_power_w=60.0 + (200.0 + 20 * kernel) * math.exp(up + 0.001 * math.sin(7 * n)),
                temperature_c=45.0 + 0.1 * (n % 5),
                start_ns=round((n * 0.3 + 700 * stretch) * 1e9),
                end_ns=round((n * 0.3 + 700 * stretch + 0.25) * 1e9),
            )
        )
    static = StaticPower(120.0, 45.0, 0.35, 0.02, 0.01)
    lowered = find_lowered(records, static, unfed_share=0.5, prior=LevelPrior(0.06, 0.012, 0.02))
    log_power = np.log([r.steady_power_w for r in records])
    apart = np.arange(108) % 36 == 0
    above = large_steps(log_power, np.arange(108) % 12, np.ones(108, dtype=bool), apart)
    return {"lowered": list(lowered.values())[::4], "above": above[::12]}


def boards():
    made = []
    for board in range(6):
        rows = []
        for n in range(40):
            wave = 0.004 * math.sin(3 * n + 5 * board) + (0.03 if n == 7 and board == 2 else 0.0)
            energy_pj = (10 + n) * (1 + 0.01 * board) * math.exp(wave)
            clock_mhz = 1980.0 if n < 25 else 1740.0 + 15 * board
            energy_pj *= (clock_mhz / 1740) ** 1.4 if n >= 25 else 1.0
            rows.append(
                replace(
                    fake.row(f"row{n}"),
                    sass="FFMA",
                    dynamic_pj=energy_pj,
                    dynamic_ci95_pj=0.003 * energy_pj,
                    clock_mhz=clock_mhz,
                    temperature_c=40.0 + board,
                    reason="known to ± 21% only" if n == 3 else "",
                    status=Status.IMPRECISE if n == 3 else Status.OK,
                )
            )
        made.append(
            BoardRun(f"run{board}", fake.manifest(replace(fake.GPU, uuid_hash=f"{board:012x}")), rows)
        )
    again = replace(
        made[0], name="again", rows=[replace(r, dynamic_pj=1.002 * r.dynamic_pj) for r in made[0].rows]
    )
    return made, [again]


def of_boards():
    runs, repeats = boards()
    spread = load_script("runners/run_spread.py").run_spread("X", runs, (runs[0], *repeats))
    board_spread = load_script("runners/board_means.py").board_spread
    beside = board_spread(runs[0], runs[1:], spread=spread)
    alone = board_spread(runs[0], runs[1:])
    return {
        "run spread": spread,
        "factors of boards": beside.boards,
        "rows of boards": beside.rows[::6],
        "rows of boards by themselves": alone.rows[::6],
        "fleet": fleet_spread(runs),
        "fleet of one board of few rows": fleet_spread([replace(runs[0], rows=runs[0].rows[:2])]),
    }


def of_values():
    values = np.sin(np.arange(1, 31) ** 1.5)
    scatters = [
        Scatter(1e-4 * math.exp(1.4 * values[n]) * 300 / (150 + 15 * n), 2 + n % 3, 150.0 + 15 * n)
        for n in range(20)
    ]
    prior = fit_prior(scatters)
    return {
        "weighted": weighted(values[:6], [1.0, 2.0, 0.5, 1.0, 3.0, 1.0]),
        "series": [error_of_series(np.repeat(values[:10], 3)), error_of_series(values)],
        "combined": combined((Uncertainty(1.0, 2), Uncertainty(2.0, 5), Uncertainty(0.0, 1))),
        "repeated": Uncertainty(1.0, 3).repeated(4, 10),
        "prior": prior,
        "variance of a power": [prior.at(w) for w in (100.0, 300.0, 600.0)],
        "moderated": [
            moderated(values[:4], prior, 300.0, 250.0),
            moderated(values[:4], prior, 600.0, 250.0, [1.0, 0.5, 1.0, 0.2]),
            moderated(values[:1], prior, 300.0, 250.0),
        ],
    }


def point(method, source, requested_s, bias_pct, spread_pct=0.5, kind=LoadKind.CONSTANT, answered=5):
    return MethodPoint(
        *(kind, requested_s, requested_s, method, source, 5, answered),
        **{"reference_j": 100.0, "bias_pct": bias_pct, "spread_pct": spread_pct},
        **{"predicted_pct": math.nan, "predicted_spread_pct": math.nan},
    )


def of_methods():
    usage, samples = SourceName.USAGE, SourceName.SAMPLES
    plain = [
        point("mtsm", usage, length_s, bias_pct, answered=answered)
        for length_s, bias_pct, answered in (
            (0.1, -90.0, 5),
            (0.3, -70.0, 5),
            (3.0, -9.0, 5),
            (10.0, -1.2, 5),
        )
    ]
    plain += [point("papi", usage, 0.3, -55.0), point("sma", usage, 0.3, math.nan)]
    good = [
        point("corrected", samples, length_s, bias_pct, spread_pct)
        for length_s, bias_pct, spread_pct in (
            (0.1, 1.0, 2.5),
            (0.3, -1.0, 1.7),
            (3.0, 0.2, 0.1),
            (10.0, 0.1, math.nan),
        )
    ]
    worse = [replace(good[1], kind=LoadKind.BURSTY, bias_pct=1.9), replace(good[2], method="counter")]
    silent = [replace(one, source=usage, answered=3) for one in good]
    return {
        "best": recommend(plain + good + worse + silent),
        "best as published": recommend(plain),
        "none": [recommend([]), recommend(plain[:3]), recommend(silent)],
    }
