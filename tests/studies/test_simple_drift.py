"""The simpler drift model that was tried finds what it is said to find."""

import numpy as np
import pytest
from fakes.script import load_script

NOISE = 0.001


@pytest.fixture
def simple_drift():
    return load_script("studies/h200/simple_drift.py")


def trials(offset):
    """Return the arguments of a fit: 40 kernels in random order, one trial in twenty wrong."""
    random = np.random.default_rng(1)
    n = len(offset)
    kernel = random.permutation(np.arange(n) % 40)
    log_power = random.normal(5, 0.5, 40)[kernel] + offset + random.normal(0, NOISE, n)
    log_power[random.random(n) < 0.05] += 0.01
    return log_power, np.ones(n), kernel, random.normal(50, 3, n), np.arange(n) == 0


def test_steps_are_found_beside_kernels_and_wrong_trials(simple_drift):
    offset = np.repeat(np.random.default_rng(2).choice([-0.015, -0.005, 0.005, 0.015], 40), 15)
    found = simple_drift.fit_offset(*trials(offset))
    away = found.offset - offset
    assert np.median(np.abs(away - np.median(away))) < NOISE / 2
    assert found.noise == pytest.approx(NOISE, rel=0.2)


def test_where_nothing_steps_the_offset_stays(simple_drift):
    found = simple_drift.fit_offset(*trials(np.zeros(600)))
    assert np.ptp(found.offset) < NOISE
