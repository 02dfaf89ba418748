"""Counts by a kernel's code alone, on SASS that is written down here."""

import pytest

from ptxbench.core.errors import InputError
from ptxbench.model.control_flow import executions, find_loops
from ptxbench.sass.listing import parse_listing


def kernel(*lines):
    """A kernel of one instruction a line, sixteen bytes each; a line that ends in a colon is a label."""
    text, address = [".text.k:"], 0
    for line in lines:
        if line.endswith(":"):
            text.append(line)
            continue
        text.append(f"        /*{address:04x}*/                   {line} ;")
        address += 16
    return parse_listing("\n".join(text))["k"]


COUNTED = (
    "MOV R0, 0x5",
    ".L_1:",
    "FFMA R5, R5, R4, R3",
    "IADD3 R0, R0, 0x1, RZ",
    "ISETP.NE.AND P0, PT, R0, 0x64, PT",
    "@P0 BRA `(.L_1)",
    "EXIT",
    ".L_2:",
    "BRA `(.L_2)",
    "NOP",
)


def test_a_loop_that_counts_with_constants_needs_no_help():
    counts = dict(executions(kernel(*COUNTED), {}))
    assert counts == {"MOV": 1, "FFMA": 95, "IADD3": 95, "ISETP.NE.AND": 95, "BRA": 95, "EXIT": 1}


@pytest.mark.parametrize(
    ("start", "step", "compare", "guard", "trips"),
    [
        ("MOV R0, RZ", "IADD3 R0, R0, 0x4, RZ", "ISETP.GE.AND P0, PT, R0, 0x40, PT", "@!P0 ", 16),
        ("MOV R0, RZ", "IADD3 R0, R0, 0x3, RZ", "ISETP.LT.AND P0, PT, R0, 0xa, PT", "@P0 ", 4),
        ("MOV R0, 0x20", "VIADD R0, R0, 0xffffffff", "ISETP.NE.AND P0, PT, R0, 0x1, PT", "@P0 ", 31),
        ("MOV R0, 0x20", "IADD3 R0, R0, -0x1, RZ", "ISETP.NE.AND P0, PT, R0, 0x0, PT", "@P0 ", 32),
        ("HFMA2.MMA R0, -RZ, RZ, 0, 0", "VIADD R0, R0, 0x1", "ISETP.NE.AND P0, PT, R0, 0x7, PT", "@P0 ", 7),
        ("LDC R0, c[0x0][0x210]", "IADD3 R0, R0, 0x1, RZ", "ISETP.NE.AND P0, PT, R0, 0x7, PT", "@P0 ", None),
        ("MOV R0, RZ", "IADD3 R0, R0, R7, RZ", "ISETP.NE.AND P0, PT, R0, 0x7, PT", "@P0 ", None),
        ("MOV R0, RZ", "IADD3 R0, R0, 0x2, RZ", "ISETP.NE.AND P0, PT, R0, 0x7, PT", "@P0 ", None),
        ("MOV R0, RZ", "IADD3 R0, R0, 0x1, RZ", "ISETP.NE.AND P0, PT, R0, R9, PT", "@P0 ", None),
    ],
)  # fmt: skip
def test_trip_counts_are_read_where_the_code_shows_them_and_only_there(start, step, compare, guard, trips):
    (loop,) = find_loops(
        kernel(start, ".L_1:", "FADD R1, R1, R2", step, compare, f"{guard}BRA `(.L_1)", "EXIT")
    )
    assert loop.trips == trips


NESTED = (
    ".L_1:",
    "FADD R1, R1, R2",
    ".L_2:",
    "FFMA R3, R3, R4, R5",
    "@P0 BRA `(.L_2)",
    "FMUL R6, R6, R7",
    "@P1 BRA `(.L_1)",
    "EXIT",
)


def test_loops_inside_loops_multiply():
    counts = dict(executions(kernel(*NESTED), {"0": 3, "0x10": 5}))
    assert counts == {"FADD": 3, "FFMA": 15, "BRA": 18, "FMUL": 3, "EXIT": 1}


def test_a_loop_left_in_its_middle_is_one_loop():
    middle = kernel(
        ".L_1:", "FADD R1, R1, R2", "@P0 BRA `(.L_2)", "FMUL R6, R6, R7", "BRA `(.L_1)", ".L_2:", "EXIT"
    )
    assert dict(executions(middle, {"0": 9})) == {"FADD": 9, "BRA": 18, "FMUL": 9, "EXIT": 1}


def test_branches_forward_are_no_loops():
    forward = kernel("@P0 BRA `(.L_1)", "FADD R1, R1, R2", ".L_1:", "FMUL R6, R6, R7", "EXIT")
    assert dict(executions(forward, {})) == {"BRA": 1, "FADD": 1, "FMUL": 1, "EXIT": 1}


def test_an_unknown_trip_count_names_the_loop_and_the_cure():
    with pytest.raises(InputError, match=r"loop at 0x10 .* `trips` 1=N"):
        executions(kernel(*NESTED), {"0": 3})


def test_a_loop_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(InputError, match=r"no loop '7'; its loops: 0 at 0x0, 1 at 0x10"):
        executions(kernel(*NESTED), {"0": 3, "7": 5})


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("CALL.REL.NOINC `(k)", "calls a routine at 0x10"),
        ("CALL.ABS.NOINC R2 `(k)", "whether it calls itself"),
        ("BRX R4 -0x60", "to where only its run decides"),
    ],
)
def test_calls_and_indirect_jumps_are_refused(line, words):
    with pytest.raises(InputError, match=words):
        executions(kernel("MOV R1, R2", line, "EXIT"), {})
