"""A table of operations: names, the file, and what is worked out between its rows."""

import math
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from fakes.operations import operation_energy_j, operation_row

from ptxbench.audit.readers import read_contents
from ptxbench.catalogue.operations import KINDS, Operation, named_kinds, parse_operation, used_shapes
from ptxbench.core.errors import InputError
from ptxbench.model.operation_cost import BOARD_HALF, operation_costs
from ptxbench.storage.operations_file import OperationRow, read_operations, write_operations


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(2)
    return [operation_row(one, noise=rng.normal(0, 0.01)) for one in used_shapes()]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gemm 4096x4096x4096 bf16", Operation("gemm", "bf16", (4096, 4096, 4096))),
        ("GEMM fp16 16x32x64", Operation("gemm", "f16", (16, 32, 64))),
        ("softmax 128x8192 float32", Operation("softmax", "f32", (128, 8192))),
        ("attention decode 1x8x4x64x64 bf16", Operation("attention_decode", "bf16", (1, 8, 4, 64, 64))),
        ("fma.rn.f32", None),
        ("add", None),
        ("u32 add", None),
        ("gemm", None),
    ],
)
def test_an_operation_is_named_by_kind_shape_and_type(text, found):
    assert parse_operation(text) == found
    if found is not None:
        assert parse_operation(str(found)) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gemm 4096x4096 bf16", "mxnxk"),
        ("gemm 4096x4096x4096", "is no operation"),
        ("gemm 0x4x4 bf16", "cannot have"),
        ("attention_prefill 1x8x8x512x64 f64", "it has bf16, f16"),
        ("attention_decode 1x32x7x512x64 bf16", "HEADS must be a multiple of KV_HEADS"),
        ("gemm 4x4x4 bf16 bf16", "is no operation"),
        ("gemm 4x4x4 int4", "DTYPE is one of bf16, f16, tf32"),
        ("matmul 4x4x4 bf16", "no kind of operation: gemm, attention_prefill"),
    ],
)
def test_what_is_nearly_an_operation_says_the_form(text, words):
    with pytest.raises(InputError, match=words):
        parse_operation(text)


def test_the_first_word_of_a_kind_names_all_that_begin_with_it():
    assert named_kinds("attention") == ("attention_prefill", "attention_decode")
    assert named_kinds("Attention decode") == ("attention_decode",)
    assert named_kinds("Softmax") == ("softmax",)
    # These may be instructions.
    assert named_kinds("add") == named_kinds("tensor") == ()


def test_there_are_300_shapes_of_every_kind():
    shapes = used_shapes()
    assert len(shapes) >= 300
    assert {one.op for one in shapes} == set(KINDS)
    assert {one.dtype for one in shapes if one.op == "gemm"} == {"bf16", "f16", "tf32", "fp8", "f32", "f64"}
    assert all(one.bytes_moved > 0 for one in shapes)


def test_a_table_comes_back_as_it_was_and_others_can_read_it(tmp_path, rows):
    unknown = operation_row(Operation("copy", "f32", (8,)), energy_j=math.nan, valid=False, reason="uneven")
    write_operations(tmp_path / "operations.parquet", [*rows[:3], unknown])
    back = read_operations(tmp_path)
    assert back[:3] == tuple(rows[:3])
    assert math.isnan(back[3].energy_j)
    assert {"op_name", "m", "n", "k", "latency", "power", "power_limit"} <= set(
        pq.read_table(tmp_path / "operations.parquet").column_names
    )
    assert read_contents(tmp_path / "operations.parquet").form == "aiconfigurator"
    # One that comes with ptxbench is CSV, with numbers of six digits.
    write_operations(
        tmp_path / "operations.csv", [replace(one, energy_j=0.0125, latency_ms=0.5) for one in back]
    )
    (csv_row, *_, last) = read_operations(tmp_path)
    assert csv_row.energy_j == 0.0125
    assert (csv_row.operation, csv_row.windows, csv_row.valid) == (rows[0].operation, 3, True)
    assert (last.valid, last.reason) == (False, "uneven")


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("cell", "said"), [("nine", "row 1.windows must"), ("", "row 1.windows must"), ("3,3", "no operation")]
)
def test_a_damaged_csv_is_a_line(tmp_path, cell, said):
    path = tmp_path / "operations.csv"
    write_operations(path, [operation_row(Operation("copy", "f32", (8,)))])
    path.write_text(
        path.read_text().replace(",3,samples", f",{cell},samples")
        if cell != "3,3"
        else path.read_text().replace(",8,", ",8x8,")
    )
    with pytest.raises(InputError, match=said):
        read_operations(tmp_path)


@pytest.mark.hostile
@pytest.mark.parametrize("text", ["", "instruction,energy_pj\n", "instruction,energy_pj\nadd.f32,9\n"])
def test_what_is_no_table_of_operations_says_what_to_name(tmp_path, text):
    (tmp_path / "operations.csv").write_text(text)
    with pytest.raises(InputError, match="has no column framework: name a table of operations"):
        read_operations(tmp_path)


def test_blank_lines_of_a_csv_are_no_rows(tmp_path):
    path = tmp_path / "operations.csv"
    write_operations(path, [operation_row(Operation("copy", "f32", (8,)))])
    path.write_text(path.read_text().replace("\n", "\n\n"))
    assert len(read_operations(path)) == 1


@pytest.mark.hostile
@pytest.mark.parametrize(
    "changes", [{"shape": "4x4"}, {"op_name": "sort"}, {"shape": "4x-4x4"}, {"gemm_dtype": "b"}]
)
def test_a_row_of_no_operation_is_refused(tmp_path, monkeypatch, changes):
    good = operation_row(Operation("copy" if "op_name" not in changes else "add", "f32", (8,)))
    monkeypatch.setattr(OperationRow, "operation", Operation("add", "f32", (8,)))
    write_operations(tmp_path / "t.parquet", [replace(good, **changes)])
    with pytest.raises(InputError, match="row 1"):
        read_operations(tmp_path / "t.parquet")


def test_a_measured_row_is_itself(rows):
    operation = rows[7].operation
    (found,) = operation_costs(rows, operation)
    assert found.how == "measured"
    assert found.energy_j == rows[7].energy_j
    # Its own interval of 1%, its board and a further one.
    half = math.hypot(0.01, math.sqrt(2) * max(BOARD_HALF.values()))
    assert (found.low_j, found.high_j) == pytest.approx(
        (found.energy_j * (1 - half), found.energy_j * (1 + half))
    )
    # Where boards of the GPU were compared, theirs.
    (found,) = operation_costs([replace(rows[7], device="NVIDIA H200")], operation)
    assert found.high_j == pytest.approx(
        found.energy_j * (1 + math.hypot(0.01, math.sqrt(2) * BOARD_HALF["NVIDIA H200"]))
    )


def test_between_rows_intervals_hold_the_truth():
    """Each shape of the models left out in turn, where others lie around it."""
    shapes = [one for one in used_shapes() if (one.op, one.dtype) == ("gemm", "bf16")]
    rng = np.random.default_rng(4)
    made = [operation_row(one, noise=rng.normal(0, 0.01)) for one in shapes]
    held = known = 0
    widths, times_off = [], []
    for number, operation in list(enumerate(shapes))[::3]:
        (found,) = operation_costs(made[:number] + made[number + 1 :], operation)
        if math.isnan(found.energy_j):
            continue
        known += 1
        held += found.low_j <= operation_energy_j(operation) <= found.high_j
        widths.append(found.high_j / found.energy_j - 1)
        times_off.append(abs(1e3 * found.time_s / made[number].latency_ms - 1))
        assert found.power_w <= max(row.energy_j / row.latency_ms * 1e3 for row in made) * (1 + 1e-9)
    assert known > 20
    assert held >= 0.9 * known
    assert np.median(widths) < 0.5
    assert np.median(times_off) < 0.05


def _gemms(shapes):
    return [operation_row(Operation("gemm", "bf16", shape)) for shape in shapes]


def test_an_interval_is_wider_where_the_next_row_is_farther():
    """Here energy bends: at few rows it is that of the weights, and hardly changes."""
    sizes = [round(2 ** (step / 2)) for step in range(26)]
    dense = _gemms([(m, n, 4096) for m in sizes for n in (4096, 5120)])
    at = Operation("gemm", "bf16", (100, 4096, 4096))
    hole = [row for row in dense if not 40 < row.operation.shape[0] < 250]
    (near,), (far,) = (operation_costs(some, at) for some in (dense, hole))
    assert far.high_j / far.energy_j - 1 > 2 * (near.high_j / near.energy_j - 1)
    assert all(one.low_j <= operation_energy_j(at) <= one.high_j for one in (near, far))
    wide = [row for row in dense if not 20 < row.operation.shape[0] < 500]
    (none,) = operation_costs(wide, at)
    assert math.isnan(none.energy_j)
    assert "too far" in none.how


def test_products_of_odd_sizes_and_others_tell_nothing_of_each_other():
    even = _gemms([(m, n, 4096) for m in (64, 128, 256, 512) for n in (4096, 8192)])
    odd = [operation_row(Operation("gemm", "bf16", (64 * m, 4097, 4097)), noise=9) for m in (1, 2, 3, 4, 8)]
    at = Operation("gemm", "bf16", (200, 5120, 4096))
    assert operation_costs([*even, *odd], at) == operation_costs(even, at)
    (one,) = operation_costs([*even, odd[0]], Operation("gemm", "bf16", (64, 4097, 4100)))
    assert "no multiple of 8" in one.how
    (told,) = operation_costs([*even, *odd], Operation("gemm", "bf16", (100, 4097, 4097)))
    assert told.energy_j > 5 * operation_energy_j(told.operation)


def test_shapes_of_one_dimension_are_interpolated_too(rows):
    (found,) = operation_costs(rows[:9], Operation("add", "f32", (1 << 25,)))
    assert math.isnan(found.energy_j)
    assert "rows of add" in found.how
    (found,) = operation_costs(rows, Operation("add", "f32", (1 << 25,)))
    assert found.low_j <= operation_energy_j(Operation("add", "f32", (1 << 25,))) <= found.high_j


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gemm 64x64x64 bf16", "beyond those that were measured, 1x"),
        ("gemm 100000x4096x4096 bf16", "beyond"),
        ("gemm 4095x4095x4096 bf16", "n or k is no multiple of 8"),
        ("gemm 4096x4104x4096 fp8", "n or k is no multiple of 16"),
        ("attention_decode 4x8x8x2048x64 f16", "0 rows of attention_decode f16, and 5 are needed; it has"),
        ("attention_decode 4x8x8x2048x64 f16", "it has attention_decode in bf16"),
    ],
)
def test_beyond_the_rows_there_is_no_number(rows, text, words):
    (found,) = operation_costs(rows, parse_operation(text))
    assert math.isnan(found.energy_j)
    assert words in found.how


def test_rows_that_scatter_by_more_than_a_factor_of_three_give_no_number():
    shapes = [one for one in used_shapes() if (one.op, one.dtype) == ("gemm", "bf16")]
    wild = [operation_row(one, noise=9.0 * (number % 2)) for number, one in enumerate(shapes)]
    (found,) = operation_costs(wild, Operation("gemm", "bf16", (2000, 4000, 4000)))
    assert math.isnan(found.energy_j)
    assert "no factor of three" in found.how


def test_a_row_that_is_not_valid_gives_no_number(rows):
    bad = [replace(one, valid=False, reason="not settled") for one in rows]
    (found,) = operation_costs(bad, bad[0].operation)
    assert math.isnan(found.energy_j)
    assert "not settled" in found.how


def test_boards_of_a_gpu_are_one_number_whose_interval_holds_all(rows):
    other = [
        replace(one, board="cd", energy_j=1.1 * one.energy_j, ci_high_j=1.2 * one.energy_j) for one in rows
    ]
    (found,) = operation_costs([*rows, *other], rows[3].operation)
    assert found.boards == 2
    assert found.energy_j == pytest.approx(1.05 * rows[3].energy_j)
    assert found.high_j == pytest.approx(1.2 * rows[3].energy_j)
    # Boards that agree tell more than one.
    alike = [*rows, *(replace(one, board="cd") for one in rows)]
    ((one,), (two,)) = (operation_costs(some, rows[3].operation) for some in (rows, alike))
    assert one.low_j < two.low_j < rows[3].ci_low_j


def test_a_short_call_that_was_launched_by_itself_may_have_waited():
    short, graph = (
        operation_row(Operation("copy", "f32", (1024,)), launched=how) for how in ("call", "graph of 9")
    )
    assert [operation_costs([one], one.operation)[0].waits for one in (short, graph)] == [True, False]


def test_each_gpu_has_its_own_number(rows):
    operation = rows[0].operation
    both = [*rows, operation_row(operation, device="NVIDIA H200", noise=0.5)]
    first, second = operation_costs(both, operation)
    assert second.device == "NVIDIA H200"
    assert second.energy_j > 1.4 * first.energy_j


@pytest.mark.parametrize("is_tried", [False, True])
def test_what_another_gpu_has_a_row_of_is_told_by_what_both_differ_by_elsewhere(rows, is_tried):
    """With less doubt than between rows of its own, which softmax in f32 has six of, four octaves apart."""
    softmax = [row for row in rows if row.op_name == "softmax"]
    scaled = ("energy_j", "ci_low_j", "ci_high_j")
    left_out, *own = (
        replace(row, latency_ms=2 * row.latency_ms, **{name: 0.9 * getattr(row, name) for name in scaled})
        for row in softmax
    )
    own = [replace(row, device="NVIDIA H200") for row in own]
    if is_tried:
        own.append(replace(left_out, device="NVIDIA H200", valid=False, reason="not settled"))
    (found,) = (one for one in operation_costs([*softmax, *own], left_out.operation) if "H200" in one.device)
    assert found.energy_j == pytest.approx(left_out.energy_j, rel=0.05)
    assert found.time_s == pytest.approx(1e-3 * left_out.latency_ms, rel=0.05)
    assert found.high_j < 1.2 * found.energy_j
    assert "that both have" in found.how
    # Four in common are too few.
    few = [*softmax, *own[:4], *(row for row in own if not row.valid)]
    (found,) = (one for one in operation_costs(few, left_out.operation) if "H200" in one.device)
    assert math.isnan(found.energy_j)
    assert ("not settled" if is_tried else "rows of softmax") in found.how


def test_another_gpus_row_tells_nothing_beyond_the_operations_that_both_have(rows):
    softmax = [row for row in rows if row.op_name == "softmax"]
    own = [replace(row, device="NVIDIA H200") for row in softmax]
    beyond = operation_row(Operation("softmax", "f32", (8192, 128256)))
    (found,) = (
        one for one in operation_costs([*softmax, *own, beyond], beyond.operation) if "H200" in one.device
    )
    assert math.isnan(found.energy_j)
    assert "beyond those that were measured" in found.how
    assert (found.capped, found.waits) == (False, False)
