"""The simplex method against SciPy's."""

import numpy as np
import pytest

from ptxbench.attribute.simplex import minimum


def valley(point):
    """Rosenbrock's valley, with its minimum at (1, 1)."""
    x, y = point
    return (1 - x) ** 2 + 100 * (y - x * x) ** 2


def steps(point):
    """A function that is flat nearly everywhere, with a cliff."""
    x, y = point
    return 1e9 if x < -1 else float(np.floor(4 * abs(x)) + np.floor(3 * abs(y - 0.5)))


@pytest.mark.parametrize("function", [valley, steps])
@pytest.mark.parametrize("most_calls", [3, 4, 5, 6, 7, 8, 9, 10, 25, 40, 57, 400])
@pytest.mark.parametrize("start", [(-1.2, 1.0), (0.3, -2.0), (5.0, 5.0)])
def test_it_takes_the_steps_of_scipy(function, most_calls, start):
    optimize = pytest.importorskip("scipy.optimize")
    simplex = np.array(start) + np.array([[0.0, 0.0], [0.1, 0.0], [0.0, 0.15]])
    theirs = optimize.fmin(
        function, start, xtol=0.005, ftol=0.0, maxfun=most_calls, initial_simplex=simplex, disp=False
    )
    assert minimum(function, simplex, 0.005, most_calls).tolist() == theirs.tolist()


def test_it_finds_the_bottom_of_a_valley():
    found = minimum(valley, np.array([[-1.2, 1.0], [-1.1, 1.0], [-1.2, 1.1]]), 1e-6, 1000)
    assert found == pytest.approx([1, 1], abs=1e-5)
