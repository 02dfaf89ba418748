"""Two runs set beside each other: what agrees, what does not, and what one factor explains."""

import json
import math
from dataclasses import replace

import pytest
from fakes import run as fake
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.cli.main import run
from ptxbench.core.condition import ARAFA, DYNAMIC
from ptxbench.core.errors import InputError
from ptxbench.core.status import Status
from ptxbench.report.diff import agreement, diff_rows, diff_runs
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.shipped import SHIPPED

OTHER_BOARD = replace(fake.GPU, uuid_hash="ba9876543210")


def rows(values_pj, ci95_pj=0.01):
    return [
        replace(fake.row(f"row{n}"), dynamic_pj=value, dynamic_ci95_pj=ci95_pj)
        for n, value in enumerate(values_pj)
    ]


def folder(path, table, gpu=fake.GPU):
    with RunFolder.create(path, fake.manifest(gpu)) as made:
        made.finish(table, fake.END)
    return path


def agreed(a, b):
    return agreement(DYNAMIC, diff_rows(a, b))


def test_a_common_factor_is_found_and_what_it_leaves():
    truth = [5.0, 10.0, 20.0, 40.0, 80.0]
    found = agreed(
        rows(truth), rows([1.04 * v * off for v, off in zip(truth, (1, 0.99, 1, 1.01, 1), strict=True)])
    )
    assert found.rows == 5
    assert found.factor == pytest.approx(1.04)
    assert found.median == pytest.approx(0.04)
    assert (found.median_left, found.p95_left) == (pytest.approx(0), pytest.approx(0.01, rel=0.1))
    # Five logarithms of 0.04 less what two rows of 1% are off.
    assert found.explained == pytest.approx(1 - 0.02 / (5 * math.log(1.04)), abs=0.01)


def test_opposite_deviations_are_no_common_factor():
    found = agreed(rows([10.0] * 5), rows([9.0, 9.5, 10.0, 10.5, 11.0]))
    assert found.factor == pytest.approx(1)
    assert found.explained == pytest.approx(0, abs=1e-9)
    assert found.median_left == pytest.approx(found.median)


@given(st.lists(st.floats(0.5, 2.0), min_size=3, max_size=20), st.floats(0.5, 2.0))
def test_a_factor_never_explains_less_than_nothing_and_swapping_the_runs_inverts_it(ratios, scale):
    a, b = rows([10.0] * len(ratios)), rows([10.0 * r * scale for r in ratios])
    there, back = agreed(a, b), agreed(b, a)
    assert there.factor * back.factor == pytest.approx(1)
    if not math.isnan(there.explained):
        assert -1e-9 <= there.explained <= 1 + 1e-9
        assert there.explained == pytest.approx(back.explained, abs=1e-6)


@pytest.mark.parametrize(("b_pj", "beyond"), [(10.13, False), (10.15, True), (9.87, False), (9.85, True)])
def test_a_difference_is_marked_where_it_is_beyond_both_intervals(b_pj, beyond):
    # 0.1 and 0.1 pJ allow 0.141 pJ together.
    (found,) = diff_rows(rows([10.0], 0.1), rows([b_pj], 0.1))
    assert found.beyond is beyond


def test_beside_the_factor_rows_differ_beyond_their_own_intervals():
    # All are 4% apart, beyond 0.1 and 0.1 pJ; the last is 3% apart from the others.
    found = agreed(rows([10.0] * 5, 0.1), rows([10.4, 10.4, 10.4, 10.4, 10.7], 0.1))
    assert (found.beyond, found.beyond_left) == (5, 1)


def test_two_rows_give_no_factor_because_it_would_explain_them_by_itself():
    found = agreed(rows([10.0, 20.0]), rows([11.0, 22.0]))
    assert found.median == pytest.approx(0.1)
    assert math.isnan(found.factor)
    assert math.isnan(found.explained)


def test_a_row_without_a_number_is_not_compared_but_listed():
    bad = replace(rows([5.0])[0], status=Status.THROTTLED, reason="cap", dynamic_pj=math.nan)
    a, b = [*rows([10.0]), fake.row("only.a")], [bad, fake.row("only.b")]
    found = {row.instruction: row for row in diff_rows(a, b)}
    assert list(found) == ["row0", "only.a", "only.b"]
    assert (found["row0"].a_status, found["row0"].b_status) == (Status.OK, Status.THROTTLED)
    assert (found["only.a"].b_status, found["only.b"].a_status) == (None, None)
    assert not any(row.compared for row in found.values())


def test_eq_1_is_compared_by_mtsm_and_has_no_interval():
    a = replace(fake.row(), protocol=ARAFA, mtsm_pj=200.0)
    (found,) = diff_rows([a], [replace(a, mtsm_pj=210.0)])
    assert (found.ratio, found.beyond) == (pytest.approx(1.05), None)


def test_boards_are_told_apart_by_their_hash(tmp_path):
    table = rows([10.0, 20.0, 30.0])
    here, there = folder(tmp_path / "a", table), folder(tmp_path / "b", table, OTHER_BOARD)
    with RunFolder.open(here) as a, RunFolder.open(there) as b:
        assert diff_runs(a, a).same_board
        found = diff_runs(a, b)
    assert not found.same_board
    assert [side.gpus[0].uuid_hash for side in (found.a, found.b)] == ["0123456789ab", "ba9876543210"]


def test_runs_with_nothing_in_common_are_refused(tmp_path):
    here, there = folder(tmp_path / "a", [fake.row("one")]), folder(tmp_path / "b", [fake.row("two")])
    with RunFolder.open(here) as a, RunFolder.open(there) as b, pytest.raises(InputError, match="in common"):
        diff_runs(a, b)


def test_the_command_prints_rows_boards_and_the_summary(tmp_path, capsys):
    a = [*rows([10.0, 20.0, 30.0], 0.1), fake.row("only.a")]
    b = [*rows([10.4, 20.8, 31.2], 0.1)]
    b[0] = replace(b[0], sass="FFMA")
    paths = folder(tmp_path / "a", a), folder(tmp_path / "b", b, OTHER_BOARD)
    assert run(["diff", *map(str, paths)]) == 0
    text = capsys.readouterr().out
    assert "two different boards" in text
    assert "0123456789ab" in text
    assert "ba9876543210" in text
    lines = text.splitlines()
    assert lines[3].startswith("95% intervals include how rows change from board to board")
    assert (
        lines[5]
        == "dynamic, 3 rows of both: B is 1.0400 times A (scale factor), which explains 100% of the spread"
    )
    assert "4.00% (median), 4.00% (95th percentile); 100% (3 of 3) by more than both 95%" in lines[6]
    assert "removed: rows change by 0.00% (median), 0.00% (95th percentile); 0% (0 of 3)" in lines[7]
    assert "with the scale factor removed, no row changes by more than both intervals allow" in text
    assert [line.split() for line in lines if line.startswith("row")] == [
        ["row0", "O3", "IADD3*0.5", "IMAD.IADD*0.5", "FFMA"]
    ]
    assert lines[-1] == "1 row reached by A alone, 0 by B alone"
    assert run(["diff", *map(str, paths), "--all-rows"]) == 0
    text = capsys.readouterr().out
    line = [line for line in text.splitlines() if line.startswith("row0")][-1]
    assert line.split()[4:] == ["10", "10.4", "pJ", "1.0400", "beyond", "both", "intervals,", "other", "SASS"]


def test_the_command_gives_json_with_every_row(tmp_path, capsys):
    paths = folder(tmp_path / "a", [*rows([10.0]), fake.row("only.a")]), folder(tmp_path / "b", rows([11.0]))
    assert run(["diff", *map(str, paths), "--json"]) == 0
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert [row["instruction"] for row in document["rows"]] == ["row0", "only.a"]
    assert document["rows"][0]["ratio"] == pytest.approx(1.1)
    assert document["rows"][1]["b_status"] is None
    assert document["a"]["gpus"][0]["uuid_hash"] == "0123456789ab"
    assert document["agreements"][0]["factor"] is None


def test_simulated_runs_say_so(tmp_path, capsys):
    paths = [folder(tmp_path / name, rows([10.0]), fake.simulated()) for name in "ab"]
    assert run(["diff", *map(str, paths)]) == 0
    assert capsys.readouterr().out.count("(SIMULATED, no measurement)") == 2


def test_a_folder_without_a_run_is_one_line(tmp_path, capsys):
    assert run(["diff", str(tmp_path), str(tmp_path)]) == 2
    assert "holds no run" in capsys.readouterr().err


def test_what_the_rows_of_a_run_share_is_allowed_for():
    a, b = rows([10.0, 20.0]), rows([10.3, 20.6])
    assert [row.beyond for row in diff_rows(a, b)] == [True, True]
    # 3% are 1.96 standard errors of the factor between the two.
    assert [row.beyond for row in diff_rows(a, b, 0.012, 0.01)] == [False, False]
    assert [row.beyond for row in diff_rows(a, b, 0.005)] == [True, True]


def test_the_manifest_says_what_the_rows_share(tmp_path):
    paths = []
    for name, values in (("a", [10.0]), ("b", [10.3])):
        with RunFolder.create(tmp_path / name, fake.manifest()) as made:
            made.finish(rows(values), fake.END, level_error=0.012)
        paths.append(tmp_path / name)
    with RunFolder.open(paths[0]) as one, RunFolder.open(paths[1]) as other:
        assert one.manifest.part.level_error == 0.012
        assert [row.beyond for row in diff_runs(one, other).rows] == [False]


def test_movers_come_largest_first_beside_the_factor(tmp_path, capsys):
    a = rows([10.0] * 7, 0.01)
    b = rows([10.4, 10.4, 10.4, 10.4, 10.5, 9.0, 10.4], 0.01)
    late = [
        replace(fake.row(f"late{n}"), status=Status.NOT_REACHED, dynamic_pj=math.nan) for n in range(2476)
    ]
    paths = [folder(tmp_path / name, table) for name, table in (("a", [*a, *late]), ("b", [*b, *late]))]
    assert run(["diff", *map(str, paths)]) == 0
    text = capsys.readouterr().out
    moved = [line.split() for line in text.splitlines() if line.startswith("row")]
    assert [(line[0], line[-1]) for line in moved[1:]] == [("row5", "-13.46%"), ("row4", "+0.96%")]
    assert text.index("scale factor") < text.index("row5")
    assert text.splitlines()[-1] == "2476 rows reached by neither run"
    assert len(text.splitlines()) < 20


@pytest.mark.parametrize(("limit", "code"), [("3%", 1), ("0.03", 1), ("5%", 0), ("0.05", 0)])
def test_a_difference_over_the_limit_is_exit_code_1(tmp_path, capsys, limit, code):
    paths = folder(tmp_path / "a", rows([10.0, 20.0])), folder(tmp_path / "b", rows([10.0, 20.8]))
    assert run(["diff", *map(str, paths), "--fail-over", limit]) == code
    assert ("1 row differs by more than" in capsys.readouterr().err) is bool(code)


def test_a_difference_within_the_intervals_is_not_over_the_limit(tmp_path):
    paths = folder(tmp_path / "a", rows([10.0], 0.5)), folder(tmp_path / "b", rows([10.4], 0.5))
    assert run(["diff", *map(str, paths), "--fail-over", "1%"]) == 0


def test_several_runs_are_each_compared_with_the_first(tmp_path, capsys):
    paths = [
        folder(tmp_path / name, rows([v * f for v in (10.0, 20.0, 30.0)]))
        for name, f in (("a", 1), ("b", 1.1), ("c", 0.9))
    ]
    assert run(["diff", *map(str, paths)]) == 0
    text = capsys.readouterr().out
    assert text.index("B is 1.1000 times A") < text.index("B is 0.9000 times A")
    assert run(["diff", *map(str, paths), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["diffs"]) == 2


def test_rows_valid_in_one_run_alone_are_counted_by_reason(tmp_path, capsys):
    bad = replace(rows([10.0])[0], status=Status.THROTTLED, reason="cap", dynamic_pj=math.nan)
    a, b = [*rows([10.0]), fake.row("x")], [bad, fake.row("x")]
    assert run(["diff", str(folder(tmp_path / "a", a)), str(folder(tmp_path / "b", b))]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 row valid in A alone; in B: 1 throttled"


def test_rows_that_ran_at_unlike_clocks_say_so(tmp_path, capsys):
    values = [10.0, 20.0, 30.0, 40.0]
    first = [replace(row, clock_mhz=1755.0) for row in rows(values)]
    second = [replace(row, clock_mhz=1755.9) for row in rows([*values[:3], 44.0])]
    second[3] = replace(second[3], clock_mhz=1842.0)
    paths = [str(folder(tmp_path / name, table)) for name, table in (("a", first), ("b", second))]
    assert run(["diff", *paths, "--all-rows"]) == 0
    text = capsys.readouterr().out
    moved, whole = text.split("all rows that both runs hold")
    assert "1755, 1842" in moved
    assert whole.count("MHz") == 1
    assert run(["diff", *paths, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert "1842" in json.dumps(shown)


def test_shipped_tables_are_compared_by_all_rows_that_their_boards_tell():
    with RunFolder.open(SHIPPED["h100"]) as a, RunFolder.open(SHIPPED["h200"]) as b:
        found = diff_runs(a, b)
    (dynamic,) = found.agreements
    of_runs = [row for row in diff_rows(a.known_rows(), b.known_rows()) if row.compared]
    assert dynamic.rows > 5 * len(of_runs)
    assert (found.a.path, found.b.path) == ("h100", "h200")
