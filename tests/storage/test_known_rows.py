"""Rows as they are believed: with what other runs tell, and a status where they missed their precision."""

import math
from dataclasses import replace

import pytest
from fakes import run as fake

from ptxbench.core.gpu_info import GpuKind
from ptxbench.core.status import Status
from ptxbench.storage.known_rows import known_rows, measured_rows
from ptxbench.storage.precision import PRECISION, judged
from ptxbench.storage.run_spread import RunSpread, SpreadTerm, find_run_spread, widened
from ptxbench.storage.schema import TableRow

ROW = replace(fake.row(), dynamic_pj=10.0, dynamic_ci95_pj=0.03, status=Status.OK, reason="")
CORRECTED = "1 of 2 trials ran at 1995 MHz, and count as at 1980"


def term(ci95):
    return SpreadTerm(ci95, 1000, 10, 0.2, 0.05, 0.05)


SPREAD = RunSpread("X", term(0.004), term(0.01), term(0.03))


@pytest.mark.parametrize(
    ("row", "other_boards", "added"),
    [
        (ROW, False, 0.04),
        (ROW, True, 0.1),
        (replace(ROW, reason=CORRECTED), True, 0.3),
        (replace(ROW, reason=CORRECTED), False, 0.04),
    ],
)
def test_what_runs_differ_by_is_added_in_quadrature(row: TableRow, other_boards, added):
    (found,) = widened([row], SPREAD, other_boards=other_boards)
    assert found == replace(row, dynamic_ci95_pj=pytest.approx(math.hypot(0.03, added)))


def test_a_term_that_nobody_measured_adds_nothing_and_a_row_without_a_number_stays():
    assert widened([ROW], None, other_boards=True) == (ROW,)
    assert widened([ROW], RunSpread("X", None, None, None), other_boards=True) == (ROW,)
    failed = replace(
        ROW, dynamic_pj=math.nan, dynamic_ci95_pj=math.nan, status=Status.THROTTLED, reason="hot"
    )
    assert repr(widened([failed], SPREAD, other_boards=True)) == repr((failed,))
    partly = RunSpread("X", term(0.004), term(0.01), None)
    (found,) = widened([replace(ROW, reason=CORRECTED)], partly, other_boards=True)
    assert found.dynamic_ci95_pj == pytest.approx(math.hypot(0.03, 0.1))


@pytest.mark.parametrize("gpu", ["NVIDIA H200", "NVIDIA H100 80GB HBM3"])
def test_a_run_of_a_known_model_has_its_term_and_a_simulated_one_has_none(gpu):
    info = replace(fake.GPU, name=gpu)
    spread = find_run_spread(info)
    for other_boards, of in ((False, spread.same_board), (True, spread.other_board)):
        (found,) = known_rows([ROW], fake.manifest(info), other_boards=other_boards)
        assert found.dynamic_ci95_pj == pytest.approx(math.hypot(0.03, 10 * of.ci95))
    # One board repeats better than two agree.
    assert 0 < spread.same_board.ci95 <= spread.other_board.ci95
    simulated = replace(info, kind=GpuKind.SIMULATED, name=f"{gpu} (simulated)")
    assert known_rows([ROW], fake.manifest(simulated), other_boards=True) == (ROW,)


def test_a_row_that_missed_its_precision_by_far_is_imprecise_and_keeps_its_number():
    wide, narrow = (replace(ROW, dynamic_ci95_pj=f * PRECISION.ci95 * 10) for f in (1.01, 0.99))
    poor, good = judged([replace(wide, reason="odd"), narrow])
    assert (poor.status, poor.reason, poor.dynamic_pj) == ("imprecise", "known to ± 10% only; odd", 10.0)
    assert not poor.fault()
    assert good == narrow


def test_who_asked_for_less_precision_got_what_was_asked():
    wide = replace(ROW, dynamic_ci95_pj=1.5)
    assert judged([wide], 0.2) == (wide,)
    assert judged([wide], 0.02)[0].status is Status.IMPRECISE


def test_what_other_runs_tell_makes_no_row_imprecise():
    near = replace(ROW, dynamic_ci95_pj=0.9999)
    (found,) = known_rows([near], fake.manifest(), other_boards=True)
    assert found.dynamic_ci95_pj > PRECISION.ci95 * 10
    assert found.status is Status.OK
    assert measured_rows([near], fake.manifest()) == (near,)
