"""Against SciPy, which is only in installations that need more of it."""

import numpy as np
import pytest
from scipy.optimize import nnls

from ptxbench.core.least_squares import nonnegative


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (6, 3), (40, 25), (160, 90)])
@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_answer_of_lawson_and_hanson(rows, columns, seed):
    rng = np.random.default_rng(seed)
    matrix = np.abs(rng.normal(size=(rows, columns))) * (rng.random((rows, columns)) < 0.5)
    matrix[:columns] += 0.1 * np.eye(columns)
    right = matrix @ np.maximum(rng.normal(size=columns), 0) + 0.3 * rng.normal(size=rows)
    expected, left = nnls(matrix, right, maxiter=30 * columns)
    found = nonnegative(matrix, right)
    assert (found >= 0).all()
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert np.linalg.norm(matrix @ found - right) == pytest.approx(left)


def test_two_columns_that_are_the_same_leave_as_little():
    matrix, right = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 1.0]]), np.array([1.0, 1.0])
    found = nonnegative(matrix, right)
    assert (found >= 0).all()
    assert np.linalg.norm(matrix @ found - right) == pytest.approx(nnls(matrix, right)[1])


def test_nothing_that_helps_is_zero():
    np.testing.assert_array_equal(nonnegative(np.eye(2), np.array([-1.0, -2.0])), [0, 0])
