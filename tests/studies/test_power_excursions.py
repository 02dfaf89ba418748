"""Kernels whose power falls and rises while they run are told from those whose power stays."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from fakes.measuring import trial
from fakes.script import load_script

from ptxbench.core.errors import InputError
from ptxbench.energy.excursion import find_excursion
from ptxbench.storage.schema import Role

RESULTS = Path(__file__).parents[2] / "results/nvidia-h200"
TIME_S = np.arange(0.09, 0.31, 0.02)
LEVEL = np.full(len(TIME_S), 450.0)
# Low until 0.12 s, high until 0.22 s, and then as the others.
ROSE = np.interp(TIME_S, [0.12, 0.18, 0.22, 0.28], [445.0, 455.0, 455.0, 450.0])


@pytest.fixture
def power_excursions():
    return load_script("studies/h200/power_excursions.py")


def course(power_excursions, power_w, number=0):
    record = trial(Role.TARGET, number, steady_power_w=float(power_w.mean()), start_ns=number)
    return power_excursions.Course(record, TIME_S, power_w, find_excursion(power_w, 3, len(power_w)))


def test_a_rise_is_found_and_dated(power_excursions):
    rose = course(power_excursions, ROSE)
    assert rose.rose
    assert rose.rise_s == pytest.approx(0.12, abs=0.015)
    assert rose.fall_s == pytest.approx(0.22, abs=0.015)


@pytest.mark.parametrize("power_w", [LEVEL, 450 + 2.0 * (-1) ** np.arange(len(TIME_S))])
def test_power_that_stays_does_not_rise(power_excursions, power_w):
    assert not course(power_excursions, power_w).rose


def test_shares_are_told_by_power_and_by_the_trial_before(power_excursions):
    cold = [course(power_excursions, LEVEL * 0.7, n) for n in range(4)]
    hot = [course(power_excursions, ROSE if n % 2 else LEVEL, 4 + n) for n in range(4)]
    lines = power_excursions.describe([*cold, *hot])
    assert any(re.fullmatch(r" 300 to  350 W +4 trials +0\.0%", line) for line in lines)
    assert any(re.fullmatch(r" 450 to  500 W +4 trials +50\.0%", line) for line in lines)
    assert "of 1 above 400 W behind one that rose, 0.0% rose" in lines
    assert "of 2 above 400 W behind one that did not, 100.0% rose" in lines


def test_there_is_nothing_to_draw_where_no_kernel_is_hot(power_excursions, tmp_path):
    with pytest.raises(InputError, match="400 W"):
        power_excursions.draw([course(power_excursions, LEVEL * 0.7)], None, tmp_path / "none.png")


def test_a_committed_run_is_counted_and_drawn(power_excursions, tmp_path, monkeypatch, capsys):
    picture = tmp_path / "excursions.png"
    run = RESULTS / "table-6eda-repeat"
    monkeypatch.setattr(sys, "argv", ["power_excursions.py", str(run), "--plot", str(picture)])
    assert power_excursions.main() == 0
    assert "the rise comes 0.1" in capsys.readouterr().out
    assert picture.stat().st_size > 10_000
