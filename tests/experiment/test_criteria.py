import math
from dataclasses import replace

import pytest
from fakes import run as fake

from ptxbench.core.errors import InputError
from ptxbench.experiment.criteria import criterion_for, criterion_names
from ptxbench.experiment.run_options import RunOptions


def test_the_default_criterion_is_the_precision_of_the_interval():
    criterion = criterion_for(replace(fake.ARGUMENTS, precision=0.005, min_repeats=3, max_repeats=6))
    assert criterion.bounds() == (3, 6)
    assert criterion.is_met(-10.0, 0.0499)
    assert not criterion.is_met(-10.0, 0.0501)
    assert not criterion.is_met(0.0, 0.01)
    assert not criterion.is_met(10.0, math.nan)


def test_fixed_repeats_do_not_depend_on_the_interval():
    criterion = criterion_for(replace(fake.ARGUMENTS, max_repeats=5, stop_on="repeats"))
    assert criterion.bounds() == (5, 5)
    assert criterion.is_met(1.0, math.nan)


def test_every_criterion_is_found_by_the_name_of_its_file():
    assert criterion_names() == ("precision", "repeats")
    for name in criterion_names():
        assert criterion_for(replace(fake.ARGUMENTS, stop_on=name)).bounds()[1] == fake.ARGUMENTS.max_repeats


def test_an_unknown_criterion_is_refused_with_those_that_are_known():
    with pytest.raises(InputError, match="'luck'; known: precision, repeats"):
        RunOptions(stop_on="luck").over(fake.ARGUMENTS)
