"""What rows differ by from run to run is found from the runs, and makes intervals hold on others."""

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from fakes import run as fake
from fakes.script import load_script

from ptxbench.analysis.board_spread import BoardRun
from ptxbench.core.status import Status

RUNNER = load_script("runners/run_spread.py")
board_exponent, pairs, run_spread = RUNNER.board_exponent, RUNNER.pairs, RUNNER.run_spread
OWN_CI95 = 0.004
UNKNOWN = (math.nan, math.nan)
CORRECTED = "1 of 2 trials ran at 1995 MHz, and count as at 1980"


def made(name, rng, sd, rows=200, board=None, corrected_sd=0.0, factor=1.0):
    """A run whose rows scatter as their intervals say, by `sd` more, every fourth by `corrected_sd` more."""
    energies = []
    for n in range(rows):
        moved = corrected_sd and n % 4 == 0
        off = rng.normal(0, OWN_CI95 / 1.96) + rng.normal(0, sd) + rng.normal(0, corrected_sd if moved else 0)
        energy_pj = factor * (10 + n) * np.exp(off)
        row = replace(fake.row(f"row{n}"), sass="FFMA", status=Status.OK, reason=CORRECTED if moved else "")
        energies.append(replace(row, dynamic_pj=energy_pj, dynamic_ci95_pj=OWN_CI95 * energy_pj))
    return BoardRun(name, fake.manifest(replace(fake.GPU, uuid_hash=board or name)), energies)


def held(runs, ci95):
    """Share of the pairs of runs that are within both intervals with a term."""
    found = [pair for a, b in combinations(runs, 2) for pair in pairs(a, b, UNKNOWN)]
    return np.mean([pair.apart**2 <= pair.ci95**2 + 2 * ci95**2 for pair in found])


def test_the_term_of_some_boards_makes_the_intervals_of_others_hold():
    rng = np.random.default_rng(1)
    runs = [made(f"b{n}", rng, 0.004, factor=1 + 0.01 * n) for n in range(6)]
    term = run_spread("X", runs, ()).other_board
    assert term.ci95 == pytest.approx(1.96 * 0.004, rel=0.15)
    assert (term.pairs, term.boards) == (15 * 200, 6)
    assert term.beyond_before > 0.3
    assert term.beyond == pytest.approx(0.05, abs=0.005)
    assert term.beyond_held_out == pytest.approx(0.05, abs=0.015)
    others = [made(f"c{n}", rng, 0.004) for n in range(4)]
    assert held(others, 0.0) < 0.7
    assert held(others, term.ci95) == pytest.approx(0.95, abs=0.02)


def test_boards_unlike_the_others_are_judged_without_themselves():
    rng = np.random.default_rng(6)
    runs = [made(f"b{n}", rng, 0.001) for n in range(5)] + [made(f"c{n}", rng, 0.02) for n in range(2)]
    term = run_spread("X", runs, ()).other_board
    assert term.beyond == pytest.approx(0.05, abs=0.005)
    assert term.beyond_held_out > 0.06


def test_runs_that_scatter_as_their_intervals_say_add_nothing_that_is_seen():
    rng = np.random.default_rng(2)
    runs = [made(f"b{n}", rng, 0.0) for n in range(4)]
    assert run_spread("X", runs, ()).other_board.ci95 < 0.25 * OWN_CI95


def test_repeats_tell_of_one_board_and_are_not_compared_with_others():
    rng = np.random.default_rng(3)
    runs = [made("a", rng, 0.002), made("b", rng, 0.002)]
    again = [made("a-repeat", rng, 0.002, board="a"), made("b-repeat", rng, 0.002, board="b")]
    found = run_spread("X", runs, again)
    assert (found.same_board.pairs, found.same_board.boards) == (400, 2)
    assert (found.other_board.pairs, found.other_board.boards) == (200, 2)


def test_rows_at_another_clock_have_a_term_of_their_own():
    rng = np.random.default_rng(4)
    runs = [made(f"b{n}", rng, 0.003, corrected_sd=0.015) for n in range(5)]
    found = run_spread("X", runs, ())
    assert found.other_board.ci95 == pytest.approx(1.96 * 0.003, rel=0.2)
    assert found.clock_corrected.ci95 == pytest.approx(1.96 * np.hypot(0.003, 0.015), rel=0.2)
    plain, moved = runs[0].rows[1], runs[0].rows[0]
    assert found.ci95(plain, other_boards=True) == found.other_board.ci95
    assert found.ci95(moved, other_boards=True) == found.clock_corrected.ci95
    assert found.ci95(moved, other_boards=False) == 0


def test_too_few_pairs_tell_nothing():
    rng = np.random.default_rng(5)
    found = run_spread("X", [made("a", rng, 0.01, rows=90), made("b", rng, 0.01, rows=90)], ())
    assert (found.same_board, found.other_board, found.clock_corrected) == (None, None, None)
    # Two runs with few common rows hardly tell the factor between them.
    assert pairs(made("a", rng, 0.01, rows=9), made("b", rng, 0.01, rows=9), UNKNOWN) == []


def at_clocks(rng, gamma, boards=6):
    """Runs of boards on which every third row ran at a clock of the board's own."""
    runs = []
    for n in range(boards):
        run, clock_mhz = made(f"b{n}", rng, 0.003, factor=1 + 0.02 * n), 1750 + 20 * n
        rows = [
            replace(row, clock_mhz=clock_mhz, dynamic_pj=row.dynamic_pj * (clock_mhz / 1800) ** gamma)
            if place % 3 == 0
            else row
            for place, row in enumerate(run.rows)
        ]
        runs.append(replace(run, rows=rows))
    return runs


@pytest.mark.parametrize("gamma", [0.3, 2.5])
def test_the_exponent_between_boards_is_found_and_makes_rows_at_unlike_clocks_like_others(gamma):
    runs = at_clocks(np.random.default_rng(7), gamma)
    found, error = board_exponent(runs)
    assert found == pytest.approx(gamma, abs=0.1)
    assert abs(found - gamma) < 3 * error < 0.5
    spread = run_spread("X", runs, ())
    assert spread.clock_exponent == pytest.approx((found, error), rel=0.01)
    # As if all rows ran at one clock: without the exponent rows of the ends differ by 14% at 2.5.
    assert spread.other_board.ci95 == pytest.approx(1.96 * 0.003, rel=0.2)


def test_two_boards_tell_no_exponent():
    assert all(map(math.isnan, board_exponent(at_clocks(np.random.default_rng(8), 1.5, boards=2))))
