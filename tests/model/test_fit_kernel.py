"""The error of the clock's exponent, by the loss over it."""

import pytest

from ptxbench.model.fit_kernel import GAMMAS, gamma_error


@pytest.mark.parametrize(("least", "error"), [(0.0, 0.25), (30.0, 0.25), (239.0, 0.45), (241.0, 0.5)])
def test_the_exponent_is_known_to_where_the_loss_grows_by_its_mean_or_by_one(least, error):
    losses = least + 16 * (GAMMAS - 1.5) ** 2
    assert gamma_error(losses.tolist()) == pytest.approx(error)


def test_the_error_is_no_less_than_a_step_of_what_was_tried():
    assert gamma_error((1e6 * (GAMMAS - 1.5) ** 2).tolist()) == pytest.approx(GAMMAS[1] - GAMMAS[0])
