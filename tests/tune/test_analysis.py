"""What a search tells: the arc by alpha, spreads, correlations."""

from __future__ import annotations

import csv
import math
from dataclasses import replace

import numpy as np
import pytest
from fakes.browser import data_of
from fakes.kept_numbers import assert_as_kept
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_ind
from tune.fakes_tune import SMALL, OpcodeCount, trial

from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.report.chart import as_figure
from ptxbench.report.tuning_charts import charts
from ptxbench.report.tuning_report import as_csv, as_page, as_text, sections
from ptxbench.tune.analysis import PRODUCT, TARGETS, analyse
from ptxbench.tune.evaluate import choices
from ptxbench.tune.folder import tuning_manifest
from ptxbench.tune.library import LibraryTrial
from ptxbench.tune.objective import Goal, Objective
from ptxbench.tune.outcome import Settled, TrialStatus
from ptxbench.tune.variant_runner import TrialOptions

POINTS = st.lists(st.tuples(st.floats(1e-4, 1e-2), st.floats(0.1, 10)), min_size=1, max_size=30)


def of(points, **change):
    return [trial(n + 1, time_s, energy_j, **change) for n, (time_s, energy_j) in enumerate(points)]


def library(name, time_s, **change):
    figures = {"time_s": time_s, "steady_s": time_s, "power_w": 0.3 / time_s, "energy_j": 0.3}
    return LibraryTrial(name=name, after=0, correct=True, power_error_w=1.0, **figures, **change)


@given(POINTS, st.floats(0, 1))
def test_the_arc_has_the_best_variant_for_every_alpha(points, alpha):
    found = analyse(of(points), SMALL)
    assert found is not None
    goal, reference = Goal(Objective.WEIGHTED, alpha=alpha), found.best.trial
    least = min(goal.cost(f.trial, reference) for f in found.figures)
    corners = [c for c in found.arc if c.alpha_low - 1e-9 <= alpha <= c.alpha_high + 1e-9]
    assert min(goal.cost(c.figures.trial, reference) for c in corners) == pytest.approx(least)
    assert found.arc[0].alpha_low == 0
    assert found.arc[-1].alpha_high == 1


def test_gflops_and_energy_are_of_one_timing():
    (one,) = analyse(of([(1e-3, 0.5)], steady_s=2e-3, power_w=250.0), SMALL).figures
    assert one.gflops == pytest.approx(SMALL.flops / 2e-3 * 1e-9)
    assert one.gflops_per_w == pytest.approx(one.gflops / one.power_w)


def test_what_is_not_measured_is_left_out_where_something_is():
    tried = [*of([(1e-3, 0.5)]), trial(2, energy_j=math.nan, power_w=math.nan, estimated_j=0.1)]
    assert [f.trial for f in analyse(tried, SMALL).figures] == tried[:1]
    assert not analyse(tried[1:], SMALL).best.measured
    assert analyse([trial(1, status=TrialStatus.WRONG)], SMALL) is None


@pytest.mark.parametrize(("error_w", "apart"), [(0.1, True), (100.0, False)])
def test_winners_are_told_apart_by_their_intervals(error_w, apart):
    found = analyse(of([(1e-3, 0.6), (2e-3, 0.5)], power_error_w=error_w), SMALL)
    assert (found.faster, found.thriftier, found.both) == (1, 1, 0)
    assert found.told_apart is apart


@pytest.mark.parametrize(
    ("capped", "settled", "words", "apart"),
    [
        (False, Settled.UNTESTED, "-", True),
        (False, Settled.YES, "-", True),
        (True, Settled.YES, "capped", True),
        (True, Settled.UNTESTED, "capped, untested", False),
    ],
)
def test_a_winner_that_nobody_saw_settle_at_the_limit_is_marked_and_not_told_apart(
    capped, settled, words, apart
):
    tried = of([(1e-3, 0.6), (2e-3, 0.5)], power_error_w=0.1)
    tried[0] = replace(tried[0], capped=capped, settled=settled)
    beside = library("a library", 1e-3, capped=capped, settled=settled)
    found = analyse(tried, SMALL, (beside,))
    assert found.told_apart is apart
    assert (found.fastest.at_limit, found.best.at_limit, found.beside[0].at_limit) == (words, "-", words)
    manifest = tuning_manifest(SimulatedGpu(), SMALL, TrialOptions(), "")
    text = as_text(sections(manifest, tried, found), None)
    assert ("nobody tested" in text) is not apart
    assert ("1 variants met the power limit" in text) is capped
    assert ("1 of them ran too shortly to settle there" in text) is not apart
    rows = list(csv.DictReader(as_csv(found).splitlines()))
    assert {row["variant"]: (row["capped"], row["settled"]) for row in rows} == {
        tried[0].name: (str(capped), settled),
        tried[1].name: ("False", Settled.UNTESTED),
        "a library": (str(capped), settled),
    }


def test_a_variant_that_had_not_settled_is_counted_and_never_first():
    tried = of([(1e-3, 0.6), (2e-3, 0.5)])
    restless = trial(9, 1e-4, 0.1, status=TrialStatus.NOT_SETTLED, settled=Settled.NO)
    found = analyse([*tried, restless], SMALL)
    assert (found.best.trial, found.fastest.trial) == (tried[1], tried[0])
    manifest = tuning_manifest(SimulatedGpu(), SMALL, TrialOptions(), "")
    text = as_text(sections(manifest, [*tried, restless], found), None)
    assert "1 variants had not settled and do not count" in text


def test_a_metric_that_orders_energy_has_a_correlation_of_one_and_an_interval_below():
    tried = [trial(n, 1e-3, 0.1 * n, registers=10 * n) for n in range(1, 9)]
    found = {(c.metric, c.target): c for c in analyse(tried, SMALL).correlations}
    one = found["registers", "energy"]
    assert one.rho == pytest.approx(1)
    assert one.low < one.rho <= one.high + 1e-9
    assert ("registers", "time") not in found
    assert found["blk_k", "energy"].variants == 8


def test_the_interval_of_a_rank_correlation_is_fishers_with_the_variance_of_bonett_and_wright():
    order = [2, 1, 4, 3, 6, 5, 8, 7, 9, 10, 12, 11]
    tried = [trial(n, 1e-3, 0.1 * energy, registers=10 * n) for n, energy in enumerate(order, 1)]
    found = {(c.metric, c.target): c for c in analyse(tried, SMALL).correlations}
    one = found["registers", "energy"]
    rho = 1 - 6 * 10 / (12 * (12**2 - 1))
    half = 1.96 * math.sqrt((1 + rho**2 / 2) / 9)
    assert (one.variants, one.rho) == (12, pytest.approx(rho))
    assert one.low == pytest.approx(math.tanh(math.atanh(rho) - half), abs=1e-4)
    assert one.high == pytest.approx(math.tanh(math.atanh(rho) + half), abs=1e-4)


def test_four_variants_have_a_correlation_and_three_have_none():
    tried = [trial(n, 1e-3, 0.1 * n, registers=10 * n) for n in range(1, 5)]
    assert ("registers", "energy") in {(c.metric, c.target) for c in analyse(tried, SMALL).correlations}
    assert not analyse(tried[:3], SMALL).correlations


def test_the_strongest_metric_with_energy_comes_first_also_where_it_falls():
    energies = [(0.8, 3), (0.7, 1), (0.6, 4), (0.5, 2), (0.4, 6), (0.3, 5)]
    tried = [trial(n, 1e-3, energy_j, registers=n, occupancy=0.1 * other)
             for n, (energy_j, other) in enumerate(energies, 1)]  # fmt: skip
    found = analyse(tried, SMALL)
    metrics = list(dict.fromkeys(c.metric for c in found.correlations))
    assert metrics.index("registers") < metrics.index("occupancy")
    by_target = [c.target for c in found.correlations if c.metric == "registers"]
    assert by_target == [t for t in TARGETS if t in by_target]


def test_means_are_those_of_each_occupancy():
    tried = [
        trial(n, 1e-3 * n, 0.1 * n, occupancy=occupancy)
        for n, occupancy in enumerate((0.5, 0.25, 0.5, 0.25, math.nan), 1)
    ]
    found = analyse(tried, SMALL)
    low, high = found.levels
    assert (low.occupancy, low.variants, high.occupancy, high.variants) == (0.25, 2, 0.5, 2)
    assert (low.time_s, high.energy_j) == (pytest.approx(3e-3), pytest.approx(0.2))
    assert high.gflops_per_w == pytest.approx(SMALL.flops * 1e-9 * (1 / 0.1 + 1 / 0.3) / 2)
    manifest = tuning_manifest(SimulatedGpu(), SMALL, TrialOptions(), "")
    text = as_text(sections(manifest, tried, found), None)
    assert "Means by occupancy" in text
    assert not analyse(tried[:1], SMALL).levels


def test_a_metric_may_go_along_with_energy_times_time_alone():
    both = [(1, 6), (2, 4), (3, 3.5), (4, 2.8), (5, 2.4), (6, 2.1)]
    tried = [trial(n, 1e-3 * time, energy, registers=n) for n, (time, energy) in enumerate(both, 1)]
    found = {(c.metric, c.target): c.rho for c in analyse(tried, SMALL).correlations}
    assert found["registers", "time"] == pytest.approx(1)
    assert found["registers", "energy"] == pytest.approx(-1)
    assert found["registers", PRODUCT] == pytest.approx(1)


def test_the_interval_of_an_energy_is_196_standard_errors_of_its_power_for_its_time():
    beside = library("a library", 1e-3)
    found = analyse(of([(1e-3, 0.5)], steady_s=2e-3, power_error_w=3.0), SMALL, (beside,))
    assert found.best.half_j == pytest.approx(1.96 * 3.0 * 2e-3, rel=1e-3)
    (beside,) = found.beside
    assert beside.half_j == pytest.approx(1.96 * 1.0 * 1e-3, rel=1e-3)
    assert beside.gflops == pytest.approx(SMALL.flops / 1e-3 * 1e-9)
    assert beside.gflops_per_w == pytest.approx(SMALL.flops / 0.3 * 1e-9)
    guess = {"energy_j": math.nan, "power_w": math.nan, "estimated_j": 0.5}
    estimated = analyse([trial(1, estimated_low_j=0.4, estimated_high_j=0.7, **guess)], SMALL)
    assert estimated.best.half_j == pytest.approx(0.15)


def test_the_fastest_and_the_thriftiest_are_counted_against_each_other():
    # Two are faster than the first, which takes least; the first and the third take less than the second.
    found = analyse(of([(4e-3, 0.3), (1e-3, 0.9), (2e-3, 0.5), (5e-3, 1.0)]), SMALL)
    assert (found.best.energy_j, found.fastest.time_s) == (0.3, 1e-3)
    assert (found.faster, found.thriftier, found.both) == (2, 2, 1)
    assert [f.time_s for f in found.front] == [1e-3, 2e-3, 4e-3]


def test_corners_of_the_arc_meet_where_two_variants_are_equally_good():
    found = analyse(of([(4e-3, 0.4), (1e-3, 0.8)]), SMALL)
    # From the first to the second time falls by 3/4 of the first, and energy rises by all of it.
    assert [(c.figures.time_s, c.alpha_low) for c in found.arc] == [(4e-3, 0.0), (1e-3, pytest.approx(4 / 7))]
    assert [c.alpha_high for c in found.arc] == [pytest.approx(4 / 7), 1.0]


def test_a_variant_above_the_line_between_its_neighbours_is_not_on_the_arc():
    found = analyse(of([(4e-3, 0.4), (2.5e-3, 0.79), (1e-3, 0.8)]), SMALL)
    assert [c.figures.time_s for c in found.arc] == [4e-3, 1e-3]


def test_metrics_stand_by_their_correlation_with_energy_and_not_by_that_with_time():
    times_s, others = (1e-3, 2e-3, 3e-3, 4e-3, 5e-3, 6e-3), (3, 1, 4, 2, 6, 5)
    tried = [
        trial(n, time_s, 0.1 * other, registers=n, dram_bytes=float(other))
        for n, (time_s, other) in enumerate(zip(times_s, others, strict=True), 1)
    ]
    metrics = list(dict.fromkeys(c.metric for c in analyse(tried, SMALL).correlations))
    assert metrics[0] == "DRAM bytes"
    assert "registers" in metrics


def test_a_metric_of_two_values_has_a_correlation_and_two_variants_on_a_side_a_split():
    tried = [trial(n, 1e-3, 0.1 * n, registers=20 if n > 3 else 10) for n in range(1, 6)]
    found = analyse(tried, SMALL)
    assert ("registers", "energy") in {(c.metric, c.target) for c in found.correlations}
    (split,) = [s for s in found.splits if s.metric == "registers"]
    assert (split.above, split.below) == (2, 3)
    one_above = [trial(n, 1e-3, 0.1 * n, registers=20 if n > 4 else 10) for n in range(1, 6)]
    assert not [s for s in analyse(one_above, SMALL).splits if s.metric == "registers"]


def test_of_two_variants_of_the_same_energy_the_faster_is_on_the_arc():
    found = analyse(of([(4e-3, 0.4), (2e-3, 0.4), (1e-3, 0.8), (1e-3, 0.9)]), SMALL)
    assert [c.figures.time_s for c in found.arc] == [2e-3, 1e-3]


def test_the_hull_of_efficiency_runs_counterclockwise_from_the_most_efficient():
    # GFLOP/s and GFLOP/s/W go as 1 / time and 1 / energy; the last is inside.
    found = analyse(of([(4.0, 0.25), (1.0, 1.0), (2.0, 2.0), (0.5, 0.5), (1.5, 0.8)]), SMALL)
    names = [(f.time_s, f.energy_j) for f in found.hull]
    assert names[0] == (4.0, 0.25)
    assert set(names) >= {(4.0, 0.25), (0.5, 0.5), (2.0, 2.0)}
    around = [(1 / t, 1 / e) for t, e in names]
    turns = [
        (b[0] - a[0]) * (c[1] - b[1]) - (b[1] - a[1]) * (c[0] - b[0])
        for a, b, c in zip(around, around[1:] + around[:1], around[2:] + around[:2], strict=True)
    ]
    assert min(turns) > 0
    assert analyse(of([(4.0, 0.25), (1.0, 1.0)]), SMALL).hull == ()
    # Three on a line have no hull.
    assert analyse(of([(1.0, 1.0), (0.5, 0.5), (0.25, 0.25)]), SMALL).hull == ()


def test_a_spread_is_the_most_energy_over_the_least_of_as_fast_variants():
    points = [(1.0, 0.5), (1.1, 0.9), (1.2, 0.6), (2.0, 0.3), (2.1, 0.4), (2.2, 0.6)]
    tried = of(points)
    (quick, slow) = analyse(tried, SMALL).spreads
    assert (quick.from_s, quick.to_s, quick.variants, quick.ratio) == (1.0, 1.2, 3, pytest.approx(1.8))
    assert (quick.least, quick.most) == (tried[0].name, tried[1].name)
    assert (slow.from_s, slow.to_s, slow.ratio) == (2.0, 2.2, pytest.approx(2.0))
    assert len(analyse(of([(1.0 + n, 0.5) for n in range(60)]), SMALL).spreads) == 10


def test_the_interval_of_a_split_is_welchs():
    energies = [0.1, 0.12, 0.11, 0.13, 0.2, 0.3, 0.25, 0.22]
    tried = [trial(n, 1e-3, energy_j, registers=10 * n) for n, energy_j in enumerate(energies, 1)]
    (split,) = [s for s in analyse(tried, SMALL).splits if s.metric == "registers"]
    welch = ttest_ind(np.log(energies[4:]), np.log(energies[:4]), equal_var=False).confidence_interval()
    assert (split.energy_low, split.energy_high) == pytest.approx((np.exp(welch.low), np.exp(welch.high)))
    assert (split.time, split.time_low, split.time_high) == (1.0, 1.0, 1.0)


def test_what_was_executed_is_a_metric_by_class_of_opcode():
    metrics = analyse(of([(1e-3, 0.5), (2e-3, 0.6)]), SMALL).metrics
    assert metrics["executed instructions"] == [1.1e9, 1.1e9]
    assert sum(values[0] for name, values in metrics.items() if name.startswith("executed ")) == 2.2e9
    assert (metrics["L2 bytes"][0], metrics["DRAM bytes"][0]) == (1e6, 1e5)
    assert math.isnan(metrics["registers"][0])


def test_slices_hold_every_variant_once():
    found = analyse(of([(1e-3 * (1 + n / 100), 0.5 + n % 7 / 10) for n in range(50)]), SMALL)
    assert sum(s.variants for s in found.spreads) == 50
    assert all(s.ratio >= 1 for s in found.spreads)
    assert [s.from_s for s in found.spreads] == sorted(s.from_s for s in found.spreads)


def test_variants_above_the_mean_of_a_metric_are_set_beside_those_below():
    tried = [trial(n, 1e-3 * (1 + n % 3 / 10), 0.2 if n > 4 else 0.1, registers=10 * n) for n in range(1, 9)]
    (split,) = [s for s in analyse(tried, SMALL).splits if s.metric == "registers"]
    assert (split.mean, split.above, split.below) == (45, 4, 4)
    assert split.energy == pytest.approx(2)
    assert split.energy_low <= split.energy <= split.energy_high
    assert split.time_low < 1 < split.time_high


def test_each_way_of_tuning_is_charged_for_what_it_runs():
    # The estimate from code alone puts the best third; by time the last is the fastest.
    tried = [
        trial(n, time_s, energy_j, foreseen_j=foreseen_j, modelled_s=modelled_s, estimated_j=foreseen_j)
        for n, (time_s, energy_j, foreseen_j, modelled_s) in enumerate(
            [(4e-3, 0.1, 3.0, 4e-3), (3e-3, 0.2, 1.0, 3e-3), (2e-3, 0.3, 2.0, 2e-3), (1e-3, 0.4, 4.0, 1e-3)]
        )
    ]
    found = {one.way: one for one in choices(tried, few=2)}
    assert found["power of all"].energy_j == 0.1
    assert found["power of all"].gpu_s == pytest.approx(4 * (0.005 + 0.01 + 0.4))
    assert found["time of all"].loss == pytest.approx(3)
    assert found["time of all"].gpu_s == pytest.approx(4 * 0.015)
    assert found["estimate by the time of all"].energy_j == 0.2
    assert found["estimate from code, then power of 2"].energy_j == 0.2
    assert found["estimate from code, then power of 2"].gpu_s == pytest.approx(2 * 0.415)
    assert found["modelled time, then power of 2"].energy_j == 0.3
    # Of six pairs the best is 0.1 in three, 0.2 in two, 0.3 in one.
    assert found["power of 2 drawn at random"].energy_j == pytest.approx((3 * 0.1 + 2 * 0.2 + 0.3) / 6)


def test_a_library_beside_is_in_every_picture_and_table(tmp_path):
    beside = library("cuBLAS (a fake)", 5e-4)
    gpu = SimulatedGpu()
    manifest = tuning_manifest(gpu, SMALL, TrialOptions(), "")
    tried = of([(1e-3 * (1 + n / 9), 0.5 + n * (9 - n) / 50) for n in range(9)])
    found = analyse(tried, SMALL, [beside])
    text = as_text(sections(manifest, tried, found), None)
    assert "the fastest variant takes 2.00 times its time" in text
    assert "the one of least energy takes 1.67 times its energy" in text
    assert as_csv(found).splitlines()[-1].startswith("cuBLAS (a fake),0.0005,600,0.3,")
    drawn = charts(manifest, found, tried)
    for name in ("front", "hull"):
        ((panel,),) = drawn[name].rows
        assert "cuBLAS (a fake)" in [one.label for one in panel.series]


def search_of_nine():
    """Return a search whose energy is least in the fifth run, and its charts."""
    manifest = tuning_manifest(SimulatedGpu(), SMALL, TrialOptions(), "")
    tried = of([(1e-3 * (9 - n), 1.0 + (n - 4) ** 2) for n in range(9)])
    found = analyse(tried, SMALL)
    return sections(manifest, tried, found), charts(manifest, found, tried)


def test_the_path_of_a_search_and_the_ranges_of_its_axes_are_drawn():
    parts, drawn = search_of_nine()
    (time_panel,), (energy_panel,) = drawn["path"].rows
    assert [one.label for one in energy_panel.series] == ["run", "least so far", "least: run 5"]
    assert list(energy_panel.series[1].y)[3:] == [2.0] + 5 * [1.0]
    assert list(time_panel.series[1].y)[-1] == 1.0
    assert {panel.x_title for row in drawn["ranges"].rows for panel in row} == {"blk_k"}
    data = data_of(as_page(parts, [*drawn.values()]))
    assert [one["caption"] for one in data["charts"]] == [one.caption for one in drawn.values()]
    runs = data["charts"][1]["panels"][1]["series"][0]
    assert runs["y"] == [17, 10, 5, 2, 1, 2, 5, 10, 17]
    assert len(set(runs["names"])) == 9


def test_a_picture_has_what_the_chart_of_a_page_has():
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    for chart in search_of_nine()[1].values():
        figure = as_figure(chart)
        panels = [panel for row in chart.rows for panel in row]
        for panel, axes in zip(panels, figure.axes, strict=True):
            assert (axes.get_xlabel(), axes.get_ylabel()) == (panel.x_title, panel.y_title)
            marks = {tuple(at) for line in axes.lines for at in line.get_xydata().tolist()}
            assert marks >= {at for one in panel.series for at in zip(one.x, one.y, strict=True)}
        labels = figure.axes[0].get_legend_handles_labels()[1]
        assert labels == [one.label for one in panels[0].series if one.label]


def test_variants_at_several_clocks_are_coloured_by_clock():
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    tried = [
        trial(n, 1e-3 * n, 1.0 / n, settings=GpuSettings(sm_clock_mhz=mhz))
        for n, mhz in enumerate((1980, 1500, 1005), 1)
    ]
    manifest = tuning_manifest(SimulatedGpu(), SMALL, TrialOptions(), "")
    front = charts(manifest, analyse(tried, SMALL), tried)["front"]
    dots = front.rows[0][0].series[0]
    by_time = dict(zip(dots.x, dots.shades, strict=True))
    assert by_time == pytest.approx({1.0: 1980, 2.0: 1500, 3.0: 1005})
    _, bar = as_figure(front).axes
    assert bar.get_ylabel() == "SM clock that was set, MHz"


def test_what_a_search_tells_stays_as_it_was():
    tried = []
    for n in range(30):
        wave, other = math.sin(7 * n), math.cos(3 * n)
        tried.append(
            trial(
                n + 1,
                1e-3 * (1 + 0.4 * wave),
                0.5 * (1 + 0.2 * other),
                executed=(OpcodeCount("FFMA", 10**9), OpcodeCount("LDS.128", round(1e8 * (2 + wave)))),
                dram_bytes=1e5 * (1.5 + other),
                l2_bytes=1e6 * (1.2 + wave * other),
                power_error_w=2.0,
                estimated_j=0.5 * (1 + 0.15 * other + 0.05 * wave),
            )
        )
    found = analyse([*tried, trial(40, status=TrialStatus.WRONG)], SMALL)
    numbers = lambda figures: [  # noqa: E731
        (f.name, f.time_s, f.energy_j, f.half_j, f.gflops, f.gflops_per_w) for f in figures
    ]
    assert_as_kept(
        __file__,
        {
            "figures": numbers(found.figures[::4]),
            "front": numbers(found.front),
            "arc": [(c.alpha_low, c.alpha_high, c.figures.name) for c in found.arc],
            "hull": numbers(found.hull),
            "counts": [found.faster, found.thriftier, found.both, found.told_apart],
            "spreads": found.spreads,
            "correlations": found.correlations,
            "splits": found.splits,
        },
    )
