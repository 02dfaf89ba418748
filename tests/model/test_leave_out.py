"""Kernels predicted by a fit that they were kept out of."""

import numpy as np
import pytest

from ptxbench.model.leave_out import can_be_predicted, left_out_errors

ALL = np.ones(3, dtype=bool)


def least_squares(matrix, right):
    return np.linalg.lstsq(matrix, right, rcond=None)[0]


def test_each_is_predicted_by_the_others_alone():
    matrix = np.array([[1.0], [1.0], [1.0]])
    errors = left_out_errors(matrix, np.array([1.0, 1.0, 4.0]), ["a", "b", "c"], ALL, least_squares)
    assert errors == pytest.approx([2.5 - 1, 2.5 - 1, 1 - 4])


def test_a_group_does_not_predict_itself():
    matrix = np.array([[1.0], [1.0], [1.0]])
    errors = left_out_errors(matrix, np.array([1.0, 4.0, 4.0]), ["a", "b", "b"], ALL, least_squares)
    assert errors == pytest.approx([3.0, -3.0, -3.0])


def test_what_alone_tells_of_an_unknown_is_not_predicted():
    matrix = np.array([[1.0, 0.0], [2.0, 0.0], [1.0, 5.0]])
    predicted = can_be_predicted(matrix, ["a", "b", "c"])
    assert predicted.tolist() == [True, True, False]
    errors = left_out_errors(matrix, np.array([1.0, 2.0, 9.0]), ["a", "b", "c"], predicted, least_squares)
    assert errors == pytest.approx([0.0, 0.0, np.nan], nan_ok=True)


@pytest.mark.parametrize(("others_tell", "expected"), [(0.2, False), (1.0, True)])
def test_what_others_hardly_tell_of_is_not_predicted_either(others_tell, expected):
    matrix = np.array([[1.0, 0.0], [1.0, others_tell], [1.0, 0.0], [1.0, 5 * 0.2]])
    predicted = can_be_predicted(matrix, ["a", "b", "a", "c"])
    assert bool(predicted[3]) is expected
    # The unit of an unknown does not matter.
    assert can_be_predicted(matrix * [1.0, 1e9], ["a", "b", "a", "c"]).tolist() == predicted.tolist()
