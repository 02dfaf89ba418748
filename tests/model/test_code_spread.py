"""Intervals of estimates by code alone: as wide as measured kernels ask for, and no claim without them."""

import math
from dataclasses import replace

import pytest

from ptxbench.model.code_spread import widened
from ptxbench.model.estimate import KernelEstimate
from ptxbench.model.terms import UNFITTED, CodeSpread, read_terms
from ptxbench.model.work import Access, KernelWork, Level
from ptxbench.storage.document import write_beside

COMPUTES = KernelWork("computes", (("FFMA", 1000.0), ("LDG.E", 4.0)))
MOVES = KernelWork("moves", (("FFMA", 1000.0), ("LDG.E", 6.0)))
SPREADS = (CodeSpread(True, False, 0.5, 4.0, 50), CodeSpread(True, True, 0.2, 30.0, 60))
FOUND = KernelEstimate("k", 10.0, 9.0, 11.0, 100.0, 0.1, 1.0, False, (), 0.0, (), ("a note",))


@pytest.mark.parametrize(("work", "low_j", "high_j"), [(COMPUTES, 5.0, 40.0), (MOVES, 2.0, 300.0)])
def test_the_interval_is_that_of_kernels_that_use_memory_as_much(work, low_j, high_j):
    found = widened(FOUND, work, replace(UNFITTED, code_spreads=SPREADS), modelled_time=True)
    assert (found.energy_j, found.low_j, found.high_j) == (10.0, low_j, high_j)
    assert found.notes[0] == "a note"
    assert "measured kernels" in found.notes[1]


@pytest.mark.parametrize(("requests", "high_j"), [(1.0, 14.0), (3.0, 31.0)])
def test_accesses_by_parts_of_lines_have_an_interval_of_their_own(requests, high_j):
    work = replace(MOVES, bytes_moved=((Level.L2, 128.0),), accesses=((Access.L2_REQUEST, requests),))
    whole, parts = (CodeSpread(True, True, 0.8, high, 40, True, high > 2) for high in (1.4, 3.1))
    found = widened(FOUND, work, replace(UNFITTED, code_spreads=(whole, parts)), modelled_time=True)
    assert found.high_j == pytest.approx(high_j)
    # A file of before that has one for both.
    found = widened(FOUND, work, replace(UNFITTED, code_spreads=(whole,)), modelled_time=True)
    assert found.high_j == pytest.approx(14.0)


def test_a_wider_interval_is_kept():
    wide = replace(FOUND, low_j=1.0, high_j=90.0)
    found = widened(wide, COMPUTES, replace(UNFITTED, code_spreads=SPREADS), modelled_time=True)
    assert (found.low_j, found.high_j) == (1.0, 90.0)


def test_without_measured_kernels_the_interval_is_said_to_be_too_narrow():
    for terms in (UNFITTED, replace(UNFITTED, code_spreads=SPREADS)):
        found = widened(FOUND, MOVES, terms, modelled_time=terms is UNFITTED)
        assert found.high_j == FOUND.high_j
        assert "too narrow" in found.notes[-1]


def test_spreads_are_kept_beside_the_run(tmp_path):
    write_beside(tmp_path / "model.json", replace(UNFITTED, code_spreads=SPREADS))
    kept = read_terms(tmp_path)
    assert kept.code_spreads == SPREADS
    assert math.isnan(kept.lowest_clock_ratio)
