"""Boards of one model differ by one factor each, and by what is left of each row."""

import math
from dataclasses import replace
from statistics import variance

import pytest
from fakes import run as fake
from fakes.script import load_script

from ptxbench.analysis.board_spread import BoardRun
from ptxbench.catalogue.model import Unit
from ptxbench.core.errors import InputError
from ptxbench.core.status import Status
from ptxbench.storage.board_spread import (
    BOARDS,
    NO_BOARD,
    BoardFactor,
    factors_text,
    read_board_spread,
    with_other_boards,
    write_board_spread,
)
from ptxbench.storage.run_spread import RunSpread, SpreadTerm

board_spread = load_script("runners/board_means.py").board_spread
NAMES = ("add.f32", "fma.rn.f32", "add.u32", "xor.b32", "popc.b32")


def row(name, energy_pj, **change):
    return replace(fake.row(name), sass="FFMA", dynamic_pj=energy_pj, status=Status.OK, **change)


def board(name, factor, *rows):
    rows = rows or tuple(row(n, factor * (10 + i)) for i, n in enumerate(NAMES))
    manifest = fake.manifest(replace(fake.GPU, uuid_hash=name))
    return BoardRun(name, manifest, rows)


def test_boards_that_differ_by_one_factor_have_no_scatter():
    spread = board_spread(board("a", 1.0), [board("b", 1.04), board("c", 0.98)])
    assert [(b.board, b.factor, b.rows) for b in spread.boards] == [
        ("a", 1.0, 5),
        ("b", 1.04, 5),
        ("c", 0.98, 5),
    ]
    for found, energy in zip(spread.rows, range(10, 15), strict=True):
        assert (found.boards, found.energy_pj) == (3, pytest.approx(energy, rel=1e-4))
        assert found.scatter == pytest.approx(0, abs=1e-4)


def test_a_row_that_one_board_changes_scatters_by_what_the_factor_leaves():
    odd = [row(n, 1.1 * (10 + i) * (1.02 if i == 0 else 1)) for i, n in enumerate(NAMES)]
    spread = board_spread(board("a", 1.0), [board("b", 1.0, *odd)])
    assert spread.rows[0].scatter == pytest.approx(math.log(1.02) / math.sqrt(2), rel=1e-3)
    assert spread.rows[1].scatter == pytest.approx(0, abs=1e-5)


def test_a_row_that_scatters_unlike_the_others_widens_its_own_interval_alone():
    names = [f"row {n}" for n in range(40)]
    little = [1 + 0.002 * (-1) ** n for n in range(40)]
    calm = [row(n, 10.0 * f, dynamic_ci95_pj=0.0) for n, f in zip(names, little, strict=True)]
    wild = [replace(calm[0], dynamic_pj=calm[0].dynamic_pj * 1.2), *calm[1:]]
    base = board("a", 1.0, *[row(n, 10.0, dynamic_ci95_pj=0.0) for n in names])
    even, odd = (board_spread(base, [board("b", 1.0, *rows)]).rows for rows in (calm, wild))
    assert odd[0].ci95_pj == pytest.approx(1.96 * odd[0].scatter / math.sqrt(2) * odd[0].energy_pj, rel=0.01)
    assert odd[0].ci95_pj > 0.15 * odd[0].energy_pj
    assert [one.ci95_pj for one in odd[2:]] == pytest.approx([one.ci95_pj for one in even[2:]], rel=0.05)


def test_a_row_that_the_reference_lacks_is_on_its_scale_and_one_board_has_no_scatter():
    more = (*board("b", 2.0).rows, row("sub.f32", 30.0))
    found = board_spread(board("a", 1.0), [board("b", 2.0, *more)]).rows[-1]
    assert (found.instruction, found.boards, found.energy_pj, found.scatter) == ("sub.f32", 1, 15.0, None)


def test_the_interval_of_a_mean_has_the_repeats_and_what_boards_differ_by():
    odd = [row(n, 10 + i * 1.0, dynamic_ci95_pj=0.0) for i, n in enumerate(NAMES)]
    odd[0] = replace(odd[0], dynamic_pj=10.2)
    odd.append(row("sub.f32", 30.0, dynamic_ci95_pj=1.5))
    base = board("a", 1.0, *[row(n, 10 + i * 1.0, dynamic_ci95_pj=0.0) for i, n in enumerate(NAMES)])
    found = board_spread(base, [board("b", 1.0, *odd)]).rows
    between = math.log(1.02) / math.sqrt(2) / math.sqrt(5)  # one of five rows differs
    assert found[1].ci95_pj == pytest.approx(1.96 * between / math.sqrt(2) * 11, rel=0.01)
    assert found[-1].ci95_pj == pytest.approx(30 * math.hypot(1.96 * between, 1.5 / 30), rel=0.01)


def test_what_rows_of_the_model_differ_by_widens_each_board_s_part():
    spread = RunSpread("X", None, SpreadTerm(0.01, 1000, 9, 0.2, 0.05, 0.05), None)
    exact = [row(n, 10.0 + i, dynamic_ci95_pj=0.0) for i, n in enumerate(NAMES)]
    boards = [board(name, 1.0, *exact) for name in "abcd"]
    for count in (1, 4):
        found = board_spread(boards[0], boards[1:count], spread=spread).rows[0]
        assert found.ci95_pj == pytest.approx(10 * 0.01 / math.sqrt(count), rel=1e-3)
    # A row that boards disagree on far beyond it has its own scatter.
    odd = board("b", 1.0, replace(exact[0], dynamic_pj=11.0), *exact[1:])
    found = board_spread(boards[0], [odd], spread=spread).rows[0]
    assert found.ci95_pj == pytest.approx(1.96 * found.scatter / math.sqrt(2) * found.energy_pj, rel=0.01)


def test_an_imprecise_row_counts_where_no_board_has_a_better_one():
    poor = row("add.f32", 14.0, dynamic_ci95_pj=3.0, reason="known to ± 21% only")
    poor = replace(poor, status=Status.IMPRECISE)
    base = board("a", 1.0)
    poor_base, other = (replace(board(name, 1.0), rows=(poor, *base.rows[1:])) for name in "ab")
    found = board_spread(base, [other]).rows[0]
    assert (found.boards, found.energy_pj) == (1, 10.0)
    both = board_spread(poor_base, [other]).rows[0]
    assert (both.boards, both.energy_pj, both.note) == (2, 14.0, "")


def test_rows_of_other_machine_code_and_rows_without_a_number_do_not_count():
    rows = list(board("b", 1.0).rows)
    rows[0] = replace(rows[0], sass="OTHER", dynamic_pj=500.0)
    rows[1] = replace(rows[1], status=Status.THROTTLED)
    spread = board_spread(board("a", 1.0), [board("b", 1.0, *rows)])
    assert {(r.instruction, r.sass): r.boards for r in spread.rows} == {
        ("add.f32", "FFMA"): 1,
        ("add.f32", "OTHER"): 1,
        ("fma.rn.f32", "FFMA"): 1,
        **{(name, "FFMA"): 2 for name in NAMES[2:]},
    }


def test_rows_of_fewer_lanes_stay_apart_on_disk_too(tmp_path):
    lanes = [row("fma.rn.f32", 20.0, lanes=8), row("fma.rn.f32", 70.0, lanes=1)]
    spread = board_spread(board("a", 1.0), [board("b", 1.0, *board("b", 1.0).rows, *lanes)])
    write_board_spread(tmp_path, spread)
    assert (tmp_path / BOARDS).read_text().count("lanes") == 2, "files of whole warps stay as they were"
    read = read_board_spread(tmp_path)
    assert read == spread
    found = {
        (one.instruction, one.lanes): one.dynamic_pj for one in with_other_boards(board("a", 1.0).rows, read)
    }
    known = [found["fma.rn.f32", n] for n in (32, 8, 1)]
    assert known == pytest.approx([11.0, 20.0, 70.0], rel=1e-3)


def test_an_instruction_that_is_newer_than_the_table_has_the_mean_of_other_boards(tmp_path):
    newer = row("lop3.b32", 20.0)
    spread = board_spread(board("a", 1.0), [board("b", 1.0, *board("b", 1.0).rows, newer)])
    found = {one.instruction: one for one in with_other_boards(board("a", 1.0).rows, spread)}
    assert found["lop3.b32"].dynamic_pj == pytest.approx(20.0, rel=1e-3)
    assert (found["lop3.b32"].category, found["lop3.b32"].unit) == ("logic", Unit.THREAD)


def test_one_board_twice_and_too_few_common_rows_are_refused():
    with pytest.raises(InputError, match="one run for each board"):
        board_spread(board("a", 1.0), [board("b", 1.0), board("b", 1.0)])
    with pytest.raises(InputError, match="b has 1 rows in common"):
        board_spread(board("a", 1.0), [board("b", 1.0, row("add.f32", 10.0))])


def test_boards_that_share_no_rows_with_the_reference_lie_where_boards_do_and_their_intervals_say_so():
    boards = [board("b", 1.02), board("c", 0.99)]
    apart = [row(f"mma.{n}", 100.0 + n, dynamic_ci95_pj=0.0) for n in range(4)]
    more = [replace(one, dynamic_pj=1.03 * one.dynamic_pj) for one in apart]
    with pytest.raises(InputError, match="d has 0 rows in common"):
        board_spread(board("a", 1.0), [*boards, board("d", 1.0, *apart)])
    spread = board_spread(
        board("a", 1.0), [*boards, board("d", 1.0, *apart), board("e", 1.0, *more)], any_rows=True
    )
    factors = {one.board: one for one in spread.boards}
    assert [(factors[name].factor, factors[name].rows) for name in "abc"] == [(1.0, 5), (1.02, 5), (0.99, 5)]
    assert [factors[name].rows for name in "de"] == [0, 0]
    assert factors["e"].factor / factors["d"].factor == pytest.approx(1.03, rel=1e-4)
    # Their mean is that of the others; boards scatter by 1.7%, in (2 + 1) degrees of freedom.
    centre = (1.0 * 1.02 * 0.99) ** (1 / 3)
    assert math.sqrt(factors["d"].factor * factors["e"].factor) == pytest.approx(centre, rel=1e-4)
    logs = [math.log(one) for one in (1.0, 1.02, 0.99)]
    spread_of_boards = math.sqrt((2 * variance(logs) + math.log(1.03) ** 2 / 2) / 3)
    assert factors["d"].factor_error == pytest.approx(spread_of_boards * math.sqrt(1 / 3 + 1 / 2), rel=1e-3)
    found = next(one for one in spread.rows if one.instruction == "mma.0")
    assert found.boards == 2
    assert found.ci95_pj / found.energy_pj == pytest.approx(1.96 * factors["d"].factor_error, rel=1e-3)


def test_runs_that_are_known_to_be_above_the_others_are_brought_down_by_as_much_and_say_how_sure_that_is():
    boards = [board("b", 1.02), board("c", 0.99)]
    apart = [row(f"mma.{n}", 100.0 + n, dynamic_ci95_pj=0.0) for n in range(4)]
    plain = board("d", 1.0, *apart)
    known = replace(plain, above=math.log(1.12), above_error=0.02)
    low, high = (board_spread(board("a", 1.0), [*boards, one], any_rows=True) for one in (known, plain))
    factor, other = low.boards[-1], high.boards[-1]
    assert factor.factor / other.factor == pytest.approx(1.12, rel=1e-4)
    assert factor.factor_error == pytest.approx(math.hypot(other.factor_error, 0.02), rel=1e-3)
    energies = [next(r for r in s.rows if r.instruction == "mma.0").energy_pj for s in (low, high)]
    assert energies[1] / energies[0] == pytest.approx(1.12, rel=1e-4)


GAMMA, GAMMA_ERROR = 2.0, 0.5
SPREAD = RunSpread("X", None, None, None, GAMMA, GAMMA_ERROR)


def test_a_row_is_brought_to_the_mean_of_the_clocks_that_boards_ran_it_at():
    fast, slow = 1840.0, 1760.0

    def product(clock_mhz):
        return row("mma", 100 * (clock_mhz / 1800) ** GAMMA, clock_mhz=clock_mhz, dynamic_ci95_pj=0.0)

    at_fast, at_slow = (
        board(n, 1.0, *board(n, 1.0).rows, product(mhz)) for n, mhz in zip("ab", (fast, slow), strict=True)
    )
    found = board_spread(at_fast, [at_slow], spread=SPREAD).rows[-1]
    assert (found.boards, found.clock_mhz) == (2, 1800)
    assert found.energy_pj == pytest.approx(100, rel=1e-3)
    assert found.scatter < 1e-3
    # What gamma leaves open is in the interval.
    of_gamma = math.hypot(*(GAMMA_ERROR * math.log(1800 / mhz) / 2 for mhz in (fast, slow)))
    assert found.ci95_pj == pytest.approx(1.96 * of_gamma * 100, rel=0.05)


@pytest.mark.parametrize("spread", [SPREAD, None], ids=["no clock", "no exponent"])
def test_what_is_not_known_of_clocks_changes_nothing(spread):
    clock_mhz = math.nan if spread else 1840.0
    unknown = board("b", 1.0, *board("b", 1.0).rows, row("mma", 90.0, clock_mhz=clock_mhz))
    known = board("a", 1.0, *board("a", 1.0).rows, row("mma", 100.0, clock_mhz=1760.0))
    found = board_spread(known, [unknown], spread=spread).rows[-1]
    assert found.energy_pj == pytest.approx(math.sqrt(9000), rel=1e-4)


def test_a_row_that_no_board_reached_says_so_and_not_why_one_run_ended():
    killed = row("mma", math.nan)
    killed = replace(killed, status=Status.NOT_REACHED, reason="the process was killed")
    spread = board_spread(board("a", 1.0), [board("b", 1.0)])
    assert with_other_boards([killed], None) == (killed,)
    (found,) = [one for one in with_other_boards([killed], spread) if one.instruction == "mma"]
    assert (found.status, found.reason) == (Status.NOT_REACHED, NO_BOARD)


def test_a_board_far_from_all_others_and_one_without_a_common_row_do_not_widen_the_range():
    def one(factor, error=0.0):
        return BoardFactor("b", "run", "1", None, 9, factor, error)

    usual = [one(factor) for factor in (0.97, 1.0, 1.02, 1.03, 1.07)]
    assert factors_text(usual) == "0.970 to 1.070"
    assert factors_text([*usual, one(1.3), one(1.14, 0.03)]) == "0.970 to 1.070 and one 1.300"
    assert factors_text([one(1.1, 0.03)]) == "1.100 to 1.100"
