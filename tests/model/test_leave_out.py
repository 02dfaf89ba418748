"""Kernels foretold by a fit that they were kept out of."""

import numpy as np
import pytest

from ptxbench.model.leave_out import left_out_errors


def least_squares(matrix, right):
    return np.linalg.lstsq(matrix, right, rcond=None)[0]


def test_each_is_foretold_by_the_others_alone():
    matrix = np.array([[1.0], [1.0], [1.0]])
    errors = left_out_errors(matrix, np.array([1.0, 1.0, 4.0]), ["a", "b", "c"], least_squares)
    assert errors == pytest.approx([2.5 - 1, 2.5 - 1, 1 - 4])


def test_a_group_does_not_foretell_itself():
    matrix = np.array([[1.0], [1.0], [1.0]])
    errors = left_out_errors(matrix, np.array([1.0, 4.0, 4.0]), ["a", "b", "b"], least_squares)
    assert errors == pytest.approx([3.0, -3.0, -3.0])


def test_what_has_an_unknown_of_its_own_cannot_be_foretold():
    matrix = np.array([[1.0, 0.0], [2.0, 0.0], [1.0, 5.0]])
    errors = left_out_errors(matrix, np.array([1.0, 2.0, 9.0]), ["a", "b", "c"], least_squares)
    assert errors == pytest.approx([0.0, 0.0])
