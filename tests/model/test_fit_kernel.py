"""The error of the clock's exponent, by the loss over it."""

import pytest

from ptxbench.model.fit_kernel import GAMMAS, gamma_error


@pytest.mark.parametrize(("least", "error"), [(0.0, 0.25), (3.0, 0.25), (31.9, 0.45), (32.1, 0.5)])
def test_the_exponent_is_known_to_where_the_loss_grows_by_that_of_a_degree_of_freedom(least, error):
    """As by the curvature of a sum of squares, whatever number of exponents is tried."""
    losses = least + 16 * (GAMMAS - 1.5) ** 2
    assert gamma_error(losses.tolist(), freedom=8) == pytest.approx(error)


def test_the_error_is_no_less_than_a_step_of_what_was_tried():
    assert gamma_error((1e6 * (GAMMAS - 1.5) ** 2).tolist(), 8) == pytest.approx(GAMMAS[1] - GAMMAS[0])
