import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.sensors.signal import PowerSignal

RAMP = PowerSignal(np.array([0.0, 1.0, 3.0]), np.array([10.0, 30.0, 30.0]))


@pytest.mark.parametrize(
    ("start_s", "end_s", "energy_j"),
    [(0, 1, 20), (0, 3, 80), (0.5, 1, 12.5), (1, 2.5, 45), (-2, 0, 20), (3, 5, 60), (0.25, 0.75, 10)],
)
def test_energy_has_its_edges_interpolated(start_s, end_s, energy_j):
    assert RAMP.energy_j(np.array([start_s]), np.array([end_s]))[0] == pytest.approx(energy_j)


def test_resample_keeps_energy():
    assert RAMP.resample(0.0, 0.5, 6) == pytest.approx([15, 25, 30, 30, 30, 30])


@given(
    power_w=st.lists(st.floats(0, 2000), min_size=3, max_size=30),
    cuts=st.lists(st.floats(-5, 40), min_size=3, max_size=3),
)
def test_energy_of_parts_adds_up(power_w, cuts):
    signal = PowerSignal(np.arange(len(power_w), dtype=float), np.array(power_w))
    a, b, c = (np.array([x]) for x in sorted(cuts))
    parts_j = signal.energy_j(a, b) + signal.energy_j(b, c)
    assert parts_j[0] == pytest.approx(signal.energy_j(a, c)[0], rel=1e-9, abs=1e-6)
    assert signal.total_j(np.array([[a[0], b[0]], [b[0], c[0]]])) == pytest.approx(
        parts_j[0], rel=1e-9, abs=1e-6
    )
