"""The energy of a window by a counter that steps now and then."""

import numpy as np
import pytest
from fakes.power import sensor, series, window

from ptxbench.core.status import Status
from ptxbench.energy.window_counter import counter_energy
from ptxbench.sensors.base import SourceName

COUNTER = sensor(refresh_s=0.1, averaging_s=0.0, lag_s=0.0, source=SourceName.COUNTER)
AT_S = np.arange(0.0, 6.0, 0.002)


def counter(energy_j):
    """A counter that steps ten times a second, read every 2 ms, of an energy as a function of time."""
    return series(AT_S, energy_j(np.floor(AT_S / 0.1 + 1e-9) * 0.1), SourceName.COUNTER)


def test_between_two_steps_even_power_goes_on():
    found = counter_energy(counter(lambda t: 300.0 * t), window(2.03, 3.57), COUNTER)
    assert found.status is Status.OK
    assert found.energy_j == pytest.approx(300.0 * 1.54, rel=0.01)
    # Nothing but when it stepped, to the time between two looks, is open.
    assert found.error_j < 0.01 * found.energy_j


@pytest.mark.parametrize("start_s", [2.01, 2.05, 2.09])
def test_power_that_changes_at_an_edge_is_within_the_error(start_s):
    end_s = start_s + 1.5

    def energy_j(t):
        return 100.0 * t + 400.0 * np.clip(t - start_s, 0.0, 1.5)

    found = counter_energy(counter(energy_j), window(start_s, end_s), COUNTER)
    assert abs(found.energy_j - 750.0) < 2 * found.error_j
    assert found.error_j < 0.05 * 750.0


@pytest.mark.parametrize(("start_s", "end_s"), [(0.05, 2.0), (3.0, 5.95)])
def test_too_few_steps_on_a_side_are_no_energy(start_s, end_s):
    found = counter_energy(counter(lambda t: 300.0 * t), window(start_s, end_s), COUNTER)
    assert found.status is Status.WINDOW_TOO_SHORT
    assert "too few steps around the window" in found.reason
