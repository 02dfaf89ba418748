"""Tables of operations of several boards: how they agree, and a public table beside them."""

import math
import re
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes.operations import operation_row
from fakes.script import load_script

from ptxbench.catalogue.operations import Operation, used_shapes
from ptxbench.core.errors import InputError

SHAPES = [Operation("gemm", "bf16", (size, size, size)) for size in (1024, 2048, 4096, 8192, 16384)]


@pytest.fixture(scope="module")
def runner():
    return load_script("runners/join_operations.py")


def of_boards(factors, **changes):
    shapes = used_shapes()[:40]
    return [
        operation_row(one, noise=noise, board=board, **{"launched": "graph of 9", **changes})
        for board, noise in factors.items()
        for one in shapes
    ]


def test_boards_agree_apart_from_one_factor(runner):
    (found,) = runner.agreements(of_boards({"ab": 0, "cd": 0.05}))
    assert found.boards == ("ab", "cd")
    assert math.exp(found.factor) == pytest.approx(1.05, rel=1e-6)
    # What is not valid, and what may have waited for the host, says nothing.
    for changes in ({"valid": False}, {"launched": "call", "latency_ms": 0.1}):
        assert runner.agreements(of_boards({"ab": 0, "cd": 0.05}, **changes)) == ()


def test_a_term_for_boards_makes_intervals_hold_a_board_that_is_left_out(runner):
    boards = {"ab": 0, "cd": 0.02, "ef": 0, "gh": 0.02}
    found = runner.agreements(of_boards(boards, device="NVIDIA H200"))
    for one in runner.left_out(found):
        assert one.alone[0] < one.alone[1]
        assert one.mean[0] <= one.mean[1] == 1
    # Boards are 2% apart, with own intervals of 1%; four boards tell it (t 3.2).
    assert runner.board_half("NVIDIA H200", found) == pytest.approx(0.01 * 3.18 / 1.96, rel=0.05)
    assert re.search("the term of NVIDIA H100 80GB HBM3 is (4.[789]|5.[01])%", runner.repeat_tables(found))


def test_few_boards_have_the_term_of_the_table_of_instructions(runner):
    # Of 43 H200s whose common rows tell a factor the logarithms have a standard deviation of 3.13%, t 2.02.
    assert runner.board_half("NVIDIA H200", ()) == pytest.approx(0.0632, abs=1e-3)
    few = runner.agreements(of_boards({"ab": 0, "cd": 0.3}, device="NVIDIA H200"))
    # It is wider where the boards at hand differ by more: 26%, over the root of two.
    assert runner.board_half("NVIDIA H200", few) == pytest.approx(math.log(1.3) / math.sqrt(2), rel=0.01)
    with pytest.raises(InputError, match="no boards of it are known"):
        runner.board_half("NVIDIA A100", ())


def test_calls_that_may_have_waited_are_left_out_where_a_graph_was_measured(runner):
    calls = [operation_row(one, launched="call") for one in SHAPES[:2]]
    graph = operation_row(SHAPES[0], launched="graph of 40", board="cd")
    assert runner.shipped_rows([*calls, graph]) == [calls[1], graph]
    faster = replace(calls[0], latency_ms=calls[0].latency_ms / 2)
    assert runner.shipped_rows([faster, graph]) == [faster, graph]
    # A graph without a number is no reason.
    assert runner.shipped_rows([*calls, replace(graph, valid=False)])[:2] == calls


def test_a_public_row_stands_beside_what_it_should_be_and_ours(runner, tmp_path):
    # As aiconfigurator has them: 310 W of a running mean, where the board drew 500.
    ours = [operation_row(one, device="NVIDIA H200") for one in SHAPES]
    m, n, k = zip(*(one.shape for one in SHAPES), strict=True)
    same = {"op_name": "gemm", "gemm_dtype": "bfloat16", "device": "NVIDIA H200", "power": 310.0}
    theirs = {name: [value] * len(SHAPES) for name, value in {**same, "power_limit": 700.0}.items()}
    theirs |= {"m": m, "n": n, "k": k, "latency": [one.latency_ms for one in ours]}
    pq.write_table(pa.table(theirs), tmp_path / "gemm.parquet")
    found = runner.beside(tmp_path / "gemm.parquet", ours)
    # Those that take 0.03 to 3 ms.
    assert [one.ours.operation.shape[0] for one in found] == [2048, 4096, 8192]
    assert found[0].is_predicted
    assert found[0].bias == pytest.approx(310 / found[0].ours.power_w - 1)
    assert "3 rows: what audit calls possible holds ours in 3; 0 are called valid" in runner.beside_table(
        tmp_path / "gemm.parquet", ours
    )
