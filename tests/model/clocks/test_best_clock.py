"""The predicted best clock of a kernel: that of its energy, with the interval of the law of the clock."""

from dataclasses import replace

import numpy as np
import pytest

from ptxbench.core.errors import InputError
from ptxbench.model.clocks.law import Demand, PowerLaw, VoltageLaw, best_clock
from ptxbench.model.clocks.ridge import PowerCurve, PowerSample, fit_ridge

FULL_MHZ = 1980.0


@pytest.fixture(scope="module")
def law():
    curve, rng = PowerCurve(80, 0.12, 1200, 1 / 1000), np.random.default_rng(0)
    samples = [
        PowerSample(mhz, curve.power_w(mhz) * (1 + 0.001 * rng.normal())) for mhz in range(345, 1981, 60)
    ]
    return VoltageLaw(fit_ridge(samples), FULL_MHZ)


@pytest.fixture(scope="module")
def free(law):
    """The best clock of a kernel that the SM clock alone holds."""
    return best_clock(demand(law), FULL_MHZ)


def demand(law, **change):
    return replace(Demand(400.0, 20.0, 120.0, 1.0, True, law), **change)


def test_a_kernel_bound_by_the_clock_is_best_at_the_ridge(free):
    assert free.clock_mhz.value == pytest.approx(1200, abs=75)
    assert 0 < free.saved.value < 0.5
    assert free.slower == pytest.approx(FULL_MHZ / free.clock_mhz.value - 1)
    assert not free.at_lowest


def test_a_kernel_that_waits_for_memory_is_best_where_its_time_begins_to_rise(law):
    waits = demand(law, memory_s=1980 / 900)
    found = best_clock(waits, FULL_MHZ)
    # Below 900 MHz it takes longer, above 1200 MHz the voltage rises; between them nothing changes.
    assert 885 <= found.clock_mhz.value <= 1215
    assert found.slower == pytest.approx(0, abs=0.02)


def test_nothing_is_predicted_below_the_clocks_that_were_seen():
    law = PowerLaw(1.8, 0.2, 0.7)
    found = best_clock(demand(law), FULL_MHZ)
    assert found.clock_mhz.value >= 0.7 * FULL_MHZ
    assert found.at_lowest
    with pytest.raises(InputError, match="give power at several clocks"):
        best_clock(demand(PowerLaw(2.0, 1.0, 1.0)), FULL_MHZ)


def test_a_law_that_is_less_sure_gives_a_wider_interval():
    found = [best_clock(demand(PowerLaw(1.0, error, 0.3)), FULL_MHZ) for error in (0.05, 0.4)]
    assert found[0].saved.uncertainty < found[1].saved.uncertainty
    assert found[0].clock_mhz.uncertainty <= found[1].clock_mhz.uncertainty


def test_savings_are_against_the_clock_that_is_held(law, free):
    held = best_clock(demand(law), FULL_MHZ, held_mhz=1500.0)
    assert held.saved.value < free.saved.value
    assert held.slower < FULL_MHZ / 1200 - 1
