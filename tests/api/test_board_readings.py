"""Whatever a board's sources read, its energy is within its own interval, or not known and said why."""

import math

import numpy as np
import pytest
from fakes.power import series, window
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.attribute.recorded import BoardFacts, RecordedBoard
from ptxbench.core.status import Status
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.known_sensors import sensor_for

SOURCES = {
    "samples": (SourceName.SAMPLES, SourceName.COUNTER),
    "counter": (SourceName.COUNTER, SourceName.INSTANT),
    "usage": (SourceName.USAGE,),
}
ODD = (0.0, -300.0, math.nan, math.inf, 1e300, 3e5, 250.0, 1e-300)


def board(sources, read, target="sm_90"):
    facts = BoardFacts("GPU 0", "", 700.0, 0, tuple(sensor_for(source, target) for source in sources))
    return RecordedBoard(facts, tuple(read))


@st.composite
def recordings(draw):
    """Two seconds of readings of a board, some of them odd in value, stamp or code."""
    sources = SOURCES[draw(st.sampled_from(sorted(SOURCES)))]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    share = draw(st.sampled_from((0.0, 0.02, 0.15, 0.5, 1.0)))
    read = []
    for source in sources:
        step_s = 0.02 if source is SourceName.SAMPLES else 0.005
        at_s = 1.0 + np.arange(0.0, 2.0, step_s)
        value = 300.0 + rng.normal(size=len(at_s))
        if source is SourceName.COUNTER:
            value = 1e6 + 300.0 * np.floor(at_s / 0.1) * 0.1
        odd = rng.random(len(at_s)) < share
        value[odd] = rng.choice(ODD, int(odd.sum()))
        stamp_s = at_s + np.where(rng.random(len(at_s)) < share, rng.choice([-0.5, 0.0, 0.03, 3.0]), 0.0)
        code = np.where(rng.random(len(at_s)) < share / 2, 15, 0)
        kept = rng.random(len(at_s)) >= draw(st.sampled_from((0.0, 0.5, 0.99)))
        stamps = {"stamp_s": stamp_s[kept]} if source is SourceName.SAMPLES else {}
        read.append(series(at_s[kept] + 0.003, value[kept], source, code=code[kept], call_s=0.001, **stamps))
    return board(sources, read, draw(st.sampled_from(("sm_90", "sm_80"))))


@given(recordings(), st.floats(1.0, 2.5), st.floats(0.001, 0.8), st.booleans())
def test_an_energy_is_within_its_interval_or_not_known_and_said_why(one, start_s, length_s, is_busy):
    what = window(start_s, start_s + length_s)
    found = one.energy(what, (), (what,) if is_busy else ())
    low_j, high_j = found.interval_j
    if math.isnan(found.energy_j):
        assert math.isnan(low_j)
        assert math.isnan(high_j)
        assert found.status is not Status.OK
    else:
        assert low_j <= found.energy_j <= high_j
        assert math.isfinite(high_j)
        assert found.energy_j <= 1.3 * 700.0 * length_s
    assert (found.status is Status.OK) is not bool(found.reason)
    power = one.power(what)
    assert len(power.at_ns) == len(power.power_w)
    assert len(power.left_out_ns) == len(power.left_out)


def test_a_kept_run_without_the_second_source_is_worked_out_by_the_first():
    at_s = 1.0 + np.arange(0.0, 2.0, 0.005)
    counter = series(at_s, 1e6 + 300.0 * np.floor(at_s / 0.1) * 0.1, SourceName.COUNTER)
    found = board(SOURCES["counter"], [counter]).energy(window(1.7, 2.3), ())
    assert found.energy_j == pytest.approx(180.0, rel=0.02)
    assert any("nothing checks it" in text for text in found.notes)
