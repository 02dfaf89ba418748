"""The levels of the supply are shown as they are, and the documentation says what the committed runs say."""

import math
import re
import sys
from pathlib import Path

import pytest
from fakes.measuring import trial
from fakes.script import load_script

from ptxbench.analysis.drift import Drift
from ptxbench.analysis.loop_energy import RunCalibration
from ptxbench.analysis.static_power import StaticPower
from ptxbench.core.condition import OptLevel
from ptxbench.core.status import Status
from ptxbench.storage.schema import Role

ROOT = Path(__file__).parents[2]
STATIC = StaticPower(120.0, 45.0, 0.5, 0.0, 0.0)


@pytest.fixture
def supply_levels():
    return load_script("studies/h200/supply_levels.py")


def round_of(number, power_w, name="fma", **change):
    fields = {"steady_power_w": power_w, "temperature_c": 45.0, "start_ns": number, "opt_level": OptLevel.O3}
    return trial(
        Role.TARGET, number, trial_id=f"{name}/O3/dynamic/random/target/{number}", **(fields | change)
    )


def test_the_scatter_is_that_of_each_kernel_about_its_own_mean(supply_levels):
    rounds = [round_of(n, 400.0 + 4 * (-1) ** n) for n in range(2)]
    rounds += [round_of(2 + n, 200.0 + 2 * (-1) ** n, "add") for n in range(2)]
    found = supply_levels.scatter_pct(rounds, lambda r: r.steady_power_w, ())
    # Two values 1% to each side of the mean: their standard deviation is the square root of two percent.
    assert found == pytest.approx(math.sqrt(2) / 0.6745)
    assert math.isnan(supply_levels.scatter_pct(rounds, lambda r: 1.0, {r.trial_id for r in rounds[::2]}))


def test_leakage_at_another_temperature_is_no_scatter(supply_levels):
    rounds = [round_of(0, 400.0), round_of(1, 405.0, temperature_c=55.0)]
    free_w = supply_levels.leakage_free(RunCalibration(STATIC), lambda r: r.steady_power_w)
    assert supply_levels.scatter_pct(rounds, free_w, ()) == pytest.approx(0.0)


def test_a_stretch_lasts_as_long_as_the_level(supply_levels):
    levels = [0.01, 0.0101, 0.0099, -0.005, -0.005, 0.0]
    rounds = [round_of(n, 400.0) for n in range(6)]
    drift = Drift(60.0, {r.trial_id: at for r, at in zip(rounds, levels, strict=True)})
    found = supply_levels.stretches(rounds, RunCalibration(STATIC, drift=drift))
    assert found.lengths == (3, 2, 1)
    assert found.steps == pytest.approx((-0.015, 0.005))


def test_steps_are_told_with_their_temperatures(supply_levels):
    second = 1_000_000_000
    # Up as it warms to 50, down as it cools to 46; a pause lies before the last.
    looks = [(0, -0.006, 44.0), (1, 0.006, 50.0), (2, 0.005, 48.0), (3, -0.006, 46.0), (9, 0.006, 51.0)]
    rounds = [round_of(s * second, 400.0, temperature_c=c) for s, _, c in looks]
    unsure, strange = round_of(second // 2, 400.0, temperature_c=30.0), round_of(4 * second, 400.0)
    drift = Drift(
        60.0,
        {r.trial_id: at for r, (_, at, _) in zip(rounds, looks, strict=True)} | {unsure.trial_id: 0.02},
        unsure=frozenset({unsure.trial_id}),
    )
    trials = sorted([*rounds, unsure, strange], key=lambda r: r.start_ns)
    found = supply_levels.warmth(trials, RunCalibration(STATIC, drift=drift))
    assert found.up_c == (50.0,)
    assert found.down_c == (46.0,)
    assert found.warmer == pytest.approx(0.006 - (-0.006 + 0.005 - 0.006) / 3)


def test_what_is_not_valid_or_came_once_is_not_looked_at(supply_levels):
    odd = [round_of(3, 1.0, status=Status.THROTTLED), round_of(4, math.nan), round_of(5, 300.0, "once")]
    kept = [round_of(1, 400.0), round_of(0, 401.0)]
    assert supply_levels.valid([*kept, *odd, round_of(-1, 5.0)]) == kept[::-1]


def test_a_run_without_steps_says_so(supply_levels):
    rounds = [round_of(n, 400.0 + n % 2) for n in range(8)]
    lines = supply_levels.describe(rounds, RunCalibration(STATIC))
    assert lines[-1].startswith("no steps of the supply")
    assert re.match(
        r"-O3: 8 trials, in 0% of which the clock dipped; scatter of a kernel's power 0\.2", lines[0]
    )


@pytest.mark.parametrize(
    "run",
    # One that is quiet, one with many steps, of which dips of the clock tell; their tables take far longer.
    ["table-6eda-repeat", pytest.param("table-22cc-repeat", marks=pytest.mark.data)],
)
def test_the_documentation_says_what_the_committed_runs_say(
    supply_levels, tmp_path, monkeypatch, capsys, run
):
    picture = tmp_path / "levels.png"
    arguments = [str(ROOT / "results/nvidia-h200" / run), "--plot", str(picture)]
    monkeypatch.setattr(sys, "argv", ["supply_levels.py", *arguments])
    assert supply_levels.main() == 0
    assert picture.stat().st_size > 10_000
    text = capsys.readouterr().out
    said = (ROOT / "studies" / "h200" / "power.md").read_text()
    figures = [
        (level, *re.findall(r"[\d.]+%", line)[:4])
        for level in ("O0", "O3")
        for line in text.splitlines()
        if line.startswith(f"-{level}:")
    ]
    assert figures
    for level, dipped, off, measured, at_one_level in figures:
        assert f"| `{run}`, -{level} | {dipped} | {off} | {measured} | {at_one_level} |" in said
    warmer, up, down = re.search(
        r"is ([+-][\d.]+%) over the cooler; steps up: (.*); steps down: (.*) \(", text
    ).groups()
    assert f"| `{run}` | {warmer} | {up} | {down} |" in said
