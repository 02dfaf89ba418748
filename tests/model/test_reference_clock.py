"""An energy at a clock that the row did not run at."""

import math
from dataclasses import replace

import pytest
from fakes import run as fake

from ptxbench.core.condition import ARAFA
from ptxbench.core.status import Status
from ptxbench.model.reference_clock import at_reference_clock

# On Hopper energy goes with the clock to the power of 1.5 ± 0.5.
GPU = replace(fake.GPU, target="sm_90a", max_sm_clock_mhz=1980.0)
ROW = replace(fake.row(), protocol="dynamic", status=Status.OK, dynamic_pj=100.0, dynamic_ci95_pj=1.0)


def test_a_slower_row_costs_more_at_the_full_clock_and_is_known_less_well():
    found = at_reference_clock(replace(ROW, clock_mhz=1980 / 1.1), GPU)
    assert found.value == pytest.approx(100 * 1.1**1.5)
    assert found.uncertainty == pytest.approx(1.1**1.5 * math.hypot(1, 1.96 * 0.5 * math.log(1.1) * 100))


def test_at_the_full_clock_it_is_the_rows_own():
    found = at_reference_clock(replace(ROW, clock_mhz=1980.0), GPU)
    assert (found.value, found.uncertainty) == (100.0, 1.0)


@pytest.mark.parametrize(
    "change",
    [{"clock_mhz": math.nan}, {"clock_mhz": 0.0}, {"protocol": ARAFA}, {"status": Status.THROTTLED}],
)
def test_without_a_clock_or_an_energy_there_is_none(change):
    assert math.isnan(at_reference_clock(replace(ROW, **{"clock_mhz": 1980.0} | change), GPU).value)


def test_nor_where_the_gpus_clock_is_unknown():
    unknown = replace(GPU, max_sm_clock_mhz=math.nan)
    assert math.isnan(at_reference_clock(replace(ROW, clock_mhz=1980.0), unknown).value)
