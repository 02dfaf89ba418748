"""How many readings of a tool are enough."""

import math

import pytest
from fakes.script import load_script
from scipy.stats import t


@pytest.fixture(scope="module")
def readings():
    return load_script("benchmarks/tool_readings.py")


@pytest.mark.parametrize("spread", [0.0, 0.0004, 0.01, 0.03, 0.2])
def test_readings_needed_is_the_least_number_that_is_enough(readings, spread):
    def half_width(n):
        return t.ppf(0.975, n - 1) * spread / math.sqrt(n)

    found = int(readings.readings_needed(spread))
    assert half_width(found) <= 0.01
    assert found == 2 or half_width(found - 1) > 0.01
    assert readings.readings_needed(math.nan) == math.inf
