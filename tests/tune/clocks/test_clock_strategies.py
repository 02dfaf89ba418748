"""The strategies of Schoonhoven et al. choose what their definitions say, with as many runs as they need."""

import json
from dataclasses import replace

import pytest
from tune.fakes_kernel import AddingGpu, write_spec
from tune.fakes_tune import trial, variant

from ptxbench.cli.main import run
from ptxbench.core.errors import InputError
from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.devices.simulated.load import find_profile
from ptxbench.model.clocks.ridge import read_power_samples
from ptxbench.tune.clocks.axes import SettingAxes, Values
from ptxbench.tune.clocks.strategies import (
    CAPPED,
    CLOCK_STRATEGIES,
    ENERGY_CLOCKS,
    FIGURE_3,
    GLOBAL,
    MAXCLOCK,
    RACE,
    RACE_CLOCKS,
    STEERED,
    compare,
)
from ptxbench.tune.folder import POWER_SAMPLES
from ptxbench.tune.objective import Goal, Objective
from ptxbench.tune.spec_file import load_spec
from ptxbench.tune.tuning import Tuning, tune
from ptxbench.tune.variant_runner import TrialOptions

# Three variants at 2000, 1000 and 500 MHz: times in ms and energies in J.
TABLE = {
    4: {2000: (1.0, 10.0), 1000: (2.0, 8.0), 500: (4.0, 9.0)},
    8: {2000: (1.2, 9.0), 1000: (2.4, 8.5), 500: (4.8, 8.8)},
    16: {2000: (1.5, 9.5), 1000: (1.8, 7.0), 500: (3.0, 9.9)},
}
CAPS = {4: 8.6, 8: 8.7, 16: 8.9}


@pytest.fixture
def trials():
    clocked = [
        trial(n, 1e-3 * ms, joules, settings=GpuSettings(sm_clock_mhz=mhz))
        for n, row in TABLE.items()
        for mhz, (ms, joules) in row.items()
    ]
    capped = [
        trial(n, 1.5e-3, joules, settings=GpuSettings(power_limit_mw=300_000)) for n, joules in CAPS.items()
    ]
    return [*clocked, *capped]


@pytest.mark.parametrize(
    ("strategy", "number", "tag", "runs"),
    [
        (RACE, 4, "sm2000", 9),
        (MAXCLOCK, 8, "sm2000", 3),
        # The fastest at the highest clock, then its best clock.
        (RACE_CLOCKS, 4, "sm1000", 5),
        # The one of least energy at the base clock, then its best clock.
        (ENERGY_CLOCKS, 16, "sm1000", 5),
        (GLOBAL, 16, "sm1000", 9),
        (CAPPED, 4, "cap300", 3),
        (STEERED, 8, "sm500", 3),
    ],
)
def test_each_strategy_chooses_by_its_definition(trials, strategy, number, tag, runs):
    found = compare(trials, base_mhz=1100, search_mhz=(450, 550))
    (one,) = [c for c in found.chosen if c.strategy == strategy]
    assert (one.trial.variant, one.trial.settings.tag, one.runs) == (variant(number), tag, runs)


def test_the_global_one_is_the_exhaustive_optimum_and_savings_are_against_race_to_idle(trials):
    found = compare(trials)
    assert [one.strategy for one in found.chosen] == [*FIGURE_3, CAPPED]
    by_name = {one.strategy: one for one in found.chosen}
    assert found.over_least(by_name[GLOBAL]) == 0
    assert found.saved(by_name[GLOBAL]) == pytest.approx(0.3)
    assert [name for name, _ in found.missing] == [STEERED]


def test_trials_without_a_clock_are_refused(trials):
    with pytest.raises(InputError, match="tune with `clocks`"):
        compare([t for t in trials if t.settings.power_limit_mw])
    with pytest.raises(InputError, match="there is no trial"):
        compare([])
    with pytest.raises(InputError, match="no variant counts"):
        compare([replace(t, time_s=float("nan"), steady_s=float("nan")) for t in trials])


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def tuned(folder, strategy, axes, resume=False, **change):
    spec = load_spec(write_spec(folder / "spec"))
    options = TrialOptions(window_s=0.1)
    plain = Tuning(spec, Goal(Objective.ENERGY), options, strategy, axes=axes, allow_settings=True, jobs=2)
    gpu = AddingGpu(find_profile("h200-clocks"))
    path = folder / strategy
    return tune(gpu, replace(plain, **change), None if resume else path, path if resume else None)


def test_two_steps_try_each_variant_once_and_then_one_variant_at_each_clock(tmp_path):
    found = tuned(tmp_path, RACE_CLOCKS, SettingAxes(Values(even=4)))
    assert len(found.trials) == 5 + 4 - 1
    at_top = [t for t in found.trials if t.settings.sm_clock_mhz == 1980]
    others = [t for t in found.trials if t.settings.sm_clock_mhz != 1980]
    fastest = min(at_top, key=lambda t: t.best_time_s)
    assert {t.variant for t in others} == {fastest.variant}


def test_model_steered_tries_clocks_near_the_hidden_ridge_and_keeps_what_it_goes_by(tmp_path, monkeypatch):
    found = tuned(tmp_path, STEERED, SettingAxes(Values(even=8)), budget=12)
    *near, baseline = sorted(found.trials, key=lambda t: t.settings.sm_clock_mhz)
    clocks = {t.settings.sm_clock_mhz for t in near}
    # The hidden voltage stays flat below 1200 MHz, and the best clock of the load is near it.
    assert clocks
    assert all(1000 <= mhz <= 1400 for mhz in clocks)
    assert max(clocks) - min(clocks) <= 0.25 * 1250
    # What the clock saves is measured: the choice at the highest clock.
    assert baseline.settings.sm_clock_mhz == 1980
    assert baseline.variant == min(near, key=lambda t: t.best_energy_j).variant
    assert read_power_samples(found.path / POWER_SAMPLES)[0].clock_mhz == pytest.approx(1980, abs=1)

    def again(*_):
        raise AssertionError("the load is measured again")

    monkeypatch.setattr("ptxbench.tune.clocks.search.sample_clocks", again)
    more = tuned(tmp_path, STEERED, SettingAxes(Values(even=8)), budget=14, resume=True)
    assert len(more.trials) > len(found.trials)


@pytest.mark.parametrize("strategy", CLOCK_STRATEGIES)
def test_without_its_axis_a_strategy_is_refused_before_anything_is_set(tmp_path, strategy):
    with pytest.raises(InputError, match=r"needs `(clocks|power_limits)`"):
        tuned(tmp_path, strategy, SettingAxes())
    assert not (tmp_path / strategy).exists()


def test_the_command_compares_a_sweep_and_draws_it(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    axes = SettingAxes(Values((1980, 1200, 600)))
    found = tuned(tmp_path, "random", axes)
    words = ["tune", "strategies", str(found.path), "--best-clock-mhz", "1200"]
    assert run([*words, "--plot", str(tmp_path / "p.png")]) == 0
    shown = capsys.readouterr().out
    assert "SIMULATED, no measurement" in shown
    assert "power-capped: left out; power-capped needs power limits" in shown
    assert (tmp_path / "p.png").stat().st_size > 1000
    assert run([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["strategy"] for one in document["strategies"]] == [*FIGURE_3, STEERED]
    assert document["strategies"][4]["over_least"] == 0
    assert (
        run(["tune", "study", "strategies", str(found.path), "--samples", "a", "--best-clock-mhz", "1"]) == 2
    )
