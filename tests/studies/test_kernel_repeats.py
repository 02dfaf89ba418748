"""The same kernels in two runs are compared apart from one factor."""

import sys
from functools import cache
from pathlib import Path

import pytest
from fakes.script import load_script

from ptxbench.core.errors import InputError

RESULTS = Path(__file__).parents[2] / "results/nvidia-h200"


@pytest.fixture
def kernel_repeats():
    return load_script("studies/h200/kernel_repeats.py")


def powers(kernel_repeats, *power_w, clear=True):
    return {
        (str(n), "target", 132, 1024): kernel_repeats.KernelPower(f"k{n}", one_w, 0.001, clear)
        for n, one_w in enumerate(power_w)
    }


def test_what_all_kernels_share_is_the_factor_and_the_rest_is_told_by_kernel(kernel_repeats):
    first = powers(kernel_repeats, 100.0, 200.0, 300.0, 400.0, 500.0)
    second = powers(kernel_repeats, 102.0, 204.0, 306.0, 408.0, 515.1)
    found = kernel_repeats.agreement(first, second)
    assert found.factor == pytest.approx(1.02)
    assert found.far == [("k4", pytest.approx(0.01))]
    assert found.rounds == 0.001
    assert "k4 +1.0%" in kernel_repeats.sentence(found)


@pytest.mark.parametrize(
    ("clear", "said"), [(False, "apart are 1 of 3 of which hardly"), (True, "and 1 of 3 others: k2")]
)
def test_kernels_whose_trials_disagree_are_told_from_the_others(kernel_repeats, clear, said):
    first = powers(kernel_repeats, 100.0, 100.0, 100.0)
    second = powers(kernel_repeats, 100.0, 100.0, 101.0, clear=clear)
    assert said in kernel_repeats.sentence(kernel_repeats.agreement(first, second))


def test_the_scatter_is_that_of_one_run(kernel_repeats):
    # Half of the ratios are 0.3% off to either side: a normal distribution's quartiles.
    first = powers(kernel_repeats, *[100.0] * 4)
    second = powers(kernel_repeats, 99.7, 99.7, 100.3, 100.3)
    assert kernel_repeats.agreement(first, second).scatter == pytest.approx(0.003 / 0.6745 / 2**0.5)


def test_runs_without_a_common_kernel_are_refused(kernel_repeats):
    with pytest.raises(InputError, match="no kernel in common"):
        kernel_repeats.agreement(powers(kernel_repeats, 1.0), {})


def test_a_run_agrees_with_itself(kernel_repeats, monkeypatch, capsys):
    monkeypatch.setattr(kernel_repeats, "powers_of", cache(kernel_repeats.powers_of))
    run = str(RESULTS / "operands")
    monkeypatch.setattr(sys, "argv", ["kernel_repeats.py", run, run])
    assert kernel_repeats.main() == 0
    assert "factor +0.0%; beside it one run scatters by 0.00%" in capsys.readouterr().out
