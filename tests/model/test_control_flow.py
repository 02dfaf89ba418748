"""Counts by a kernel's code alone, on SASS that is written down here."""

from dataclasses import replace

import pytest

from ptxbench.core.errors import InputError
from ptxbench.model import code_work
from ptxbench.model.control_flow import find_loops
from ptxbench.model.executed import executions
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
    counts = dict(executions(kernel(*COUNTED), {}).counts)
    assert counts == {"MOV": 1, "FFMA": 95, "IADD3": 95, "ISETP.NE.AND": 95, "BRA": 95, "EXIT": 1}


@pytest.mark.parametrize(
    ("start", "step", "compare", "guard", "trips"),
    [
        ("MOV R0, RZ", "IADD3 R0, R0, 0x4, RZ", "ISETP.GE.AND P0, PT, R0, 0x40, PT", "@!P0 ", 16),
        ("MOV R0, RZ", "IADD3 R0, R0, 0x3, RZ", "ISETP.LT.AND P0, PT, R0, 0xa, PT", "@P0 ", 4),
        ("MOV R0, 0x20", "VIADD R0, R0, 0xffffffff", "ISETP.NE.AND P0, PT, R0, 0x1, PT", "@P0 ", 31),
        ("MOV R0, 0x20", "IADD3 R0, R0, -0x1, RZ", "ISETP.NE.AND P0, PT, R0, 0x0, PT", "@P0 ", 32),
        ("HFMA2.MMA R0, -RZ, RZ, 0, 0", "VIADD R0, R0, 0x1", "ISETP.NE.AND P0, PT, R0, 0x7, PT", "@P0 ", 7),
        ("MOV R0, RZ", "VIADD R0, R0, 0x1", "ISETP.NE.AND P0, PT, R0, 0x7fffffff, PT", "@P0 ", 2**31 - 1),
        ("MOV R0, 0x1", "VIADD R0, R0, 0x4", "ISETP.GE.U32.AND P0, PT, R0, 0x80000000, PT", "@!P0 ", 2**29),
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


SHARED = (
    "MOV R0, RZ",
    ".L_1:",
    "ISETP.GT.AND P0, PT, R7, R8, PT",
    "@P0 BRA `(.L_2)",
    "FADD R1, R1, R2",
    ".L_2:",
    "IADD3 R0, R0, 0x8, RZ",
    "ISETP.NE.AND P0, PT, R0, 0x40, PT",
    "@P0 BRA `(.L_1)",
    "EXIT",
)


@pytest.mark.parametrize(
    ("at", "line", "trips"),
    [
        (6, "IADD3 R0, R0, 0x8, RZ", 8),
        # The counter is stepped in a way that is not always taken.
        (4, "IADD3 R0, R0, 0x8, RZ", None),
        (7, "ISETP.NE.AND P0, PT, R0, 0x40, P1", None),
        (7, "FSETP.NE.AND P0, PT, R0, 0x40, PT", None),
    ],
)
def test_a_predicate_that_others_write_before_still_tells_the_trips(at, line, trips):
    lines = list(SHARED)
    if at == 4:
        lines[6] = "NOP"
    lines[at] = line
    (loop,) = find_loops(kernel(*lines))
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
    counts = dict(executions(kernel(*NESTED), {"0": 3, "0x10": 5}).counts)
    assert counts == {"FADD": 3, "FFMA": 15, "BRA": 18, "FMUL": 3, "EXIT": 1}


def test_a_loop_left_in_its_middle_is_one_loop():
    middle = kernel(
        ".L_1:", "FADD R1, R1, R2", "@P0 BRA `(.L_2)", "FMUL R6, R6, R7", "BRA `(.L_1)", ".L_2:", "EXIT"
    )
    assert dict(executions(middle, {"0": 9}).counts) == {"FADD": 9, "BRA": 18, "FMUL": 9, "EXIT": 1}


FORWARD = (
    "@P0 BRA `(.L_1)",
    "FADD R1, R1, R2",
    "@P1 FFMA R3, R3, R4, R5",
    ".L_1:",
    "FMUL R6, R6, R7",
    "EXIT",
)


def test_a_side_that_nothing_decides_counts_by_half_and_the_interval_reaches_to_none_and_all():
    found = executions(kernel(*FORWARD), {})
    assert dict(found.counts) == {"BRA": 1, "FADD": 0.5, "FFMA": 0.25, "FMUL": 1, "EXIT": 1}
    assert dict(found.idle) == {"FFMA": 0.25}
    assert dict(found.least) == {"BRA": 1, "FMUL": 1, "EXIT": 1}
    assert dict(found.most) == {"BRA": 1, "FADD": 1, "FFMA": 1, "FMUL": 1, "EXIT": 1}
    assert "(at 0x0, 0x20)" in found.notes[0]


def test_a_probability_decides_and_all_names_the_others():
    found = executions(kernel(*FORWARD), {}, {"0x0": 0.25, "all": 0.1})
    assert dict(found.counts)["FADD"] == 0.75
    assert dict(found.counts)["FFMA"] == pytest.approx(0.075)
    assert (found.least, found.most, found.notes) == ((), (), ())


def test_a_probability_at_no_branch_is_refused_with_what_is_there():
    with pytest.raises(InputError, match=r"no branch or guarded instruction at '0x30'; it has 0x0, 0x20"):
        executions(kernel(*FORWARD), {}, {"0x30": 0.5})


DIVISION = (
    "FCHK P0, R0, R7",
    "@!P0 BRA `(.L_1)",
    "CALL.REL.NOINC `($__internal_0_$__cuda_sm3x_div_rn_noftz_f32_slowpath)",
    ".L_1:",
    "STG.E [R4.64], R3",
    "EXIT",
    "$__internal_0_$__cuda_sm3x_div_rn_noftz_f32_slowpath:",
    "FMUL R0, R0, R3",
    "RET.REL.NODEC R2 `(k)",
)


def test_the_slow_path_of_a_division_is_not_taken_and_said():
    found = executions(kernel(*DIVISION), {})
    assert dict(found.counts) == {"FCHK": 1, "BRA": 1, "STG.E": 1, "EXIT": 1}
    assert found.least == found.most == found.counts
    assert found.notes == ("slow paths count as not taken (at 0x10): operands in the common range",)


@pytest.mark.parametrize(
    ("compare", "guard", "times"),
    [
        ("FSETP.GEU.AND P0, PT, R4, -126, PT", "@!P0", 0),
        ("FSETP.GEU.AND P0, PT, |R4|, 1.175494350822287508e-38, PT", "@!P0", 0),
        ("FSETP.NEU.AND P0, PT, |R4|, +INF , PT", "@P0", 1),
        ("FSETP.GTU.AND P0, PT, |R4|, +INF , PT", "@P0", 0),
        ("FSETP.GEU.AND P0, PT, R4, 126, PT", "@!P0", 0.5),
        ("FSETP.GT.AND P0, PT, R4, -126, PT", "@!P0", 0.5),
    ],
)  # fmt: skip
def test_operands_are_taken_to_be_in_the_common_range(compare, guard, times):
    lines = (compare, f"{guard} FMUL R4, R4, 0.5", "STG.E [R2.64], R4", "EXIT")
    found = executions(kernel(*lines), {})
    assert dict(found.counts).get("FMUL", 0) == times
    assert any("slow paths" in note for note in found.notes) is (times != 0.5)


def test_a_routine_that_is_no_slow_path_counts_as_often_as_it_is_called():
    lines = (line.replace("_slowpath", "") for line in DIVISION)
    counts = dict(executions(kernel(*lines), {}, {"0x10": 0.25}).counts)
    assert counts["FMUL"] == counts["RET.REL.NODEC"] == counts["CALL.REL.NOINC"] == 0.75


def test_a_loop_of_a_routine_has_a_number_of_its_own():
    called = kernel(
        "CALL.REL.NOINC `($k$f)",
        "CALL.REL.NOINC `($k$f)",
        "EXIT",
        "$k$f:",
        "FMUL R0, R0, R3",
        "@P0 BRA `($k$f)",
        "RET.REL.NODEC R2 `(k)",
    )
    with pytest.raises(InputError, match=r"loop at 0x30 \(`trips` 0=N\)"):
        executions(called, {})
    assert dict(executions(called, {"0": 5}).counts)["FMUL"] == 10


def test_all_loops_whose_passes_are_not_known_are_named_at_once():
    two = kernel("FMUL R0, R0, R3", "@P0 BRA 0x0", "FADD R0, R0, R3", "@P0 BRA 0x20", "EXIT")
    with pytest.raises(InputError, match=r"at 0x0 \(`trips` 0=N\), at 0x20 \(`trips` 1=N\)"):
        executions(two, {})
    with pytest.raises(InputError, match=r"enters the loop at 0x20 \(`trips` 1=N\)$"):
        executions(two, {"0": 5})


def test_a_function_of_a_section_of_its_own_is_followed_as_debug_code_has_it():
    entry = kernel("CALL.ABS.NOINC `(f)", "FADD R1, R1, R2", "EXIT")
    called = replace(
        kernel("FMUL R0, R0, R3", "@P0 BRA `(.L_1)", "FADD R1, R1, R2", ".L_1:", "RET.ABS.NODEC R20 0x0"),
        name="f",
    )
    found = executions(entry, {}, {"f:0x10": 0.75}, {"k": entry, "f": called})
    assert dict(found.counts)["FMUL"] == 1
    assert dict(found.counts)["FADD"] == 1.25
    with pytest.raises(InputError, match="calls f, which is not in its file"):
        executions(entry, {})


def test_code_that_calls_itself_is_refused():
    calls = kernel(
        "CALL.REL.NOINC `($k$f)", "EXIT", "$k$f:", "@P0 CALL.REL.NOINC `($k$f)", "RET.REL.NODEC R2 `(k)"
    )
    with pytest.raises(InputError, match="calls itself"):
        executions(calls, {})


@pytest.mark.parametrize(
    "lines",
    [
        ("@P0 EXIT", "FADD R1, R1, R2", "STG.E [R4.64], R1", "EXIT"),
        ("@P0 BRA `(.L_1)", "FADD R1, R1, R2", "STG.E [R4.64], R1", ".L_1:", "EXIT"),
    ],
)
def test_a_way_past_all_work_is_not_taken_and_said(lines):
    found = executions(kernel(*lines), {})
    assert dict(found.counts)["FADD"] == 1
    assert found.notes == ("threads that leave before the work are not counted (at 0x0)",)
    assert dict(executions(kernel(*lines), {}, {"0x0": 0.25}).counts)["FADD"] == 0.75


def test_a_loop_that_a_branch_skips_is_entered():
    skipped = kernel(
        "@P1 BRA `(.L_2)", ".L_1:", "FADD R1, R1, R2", "@P0 BRA `(.L_1)", ".L_2:", "FMUL R6, R6, R7", "EXIT"
    )
    assert dict(executions(skipped, {"0": 8}).counts) == {"BRA": 9, "FADD": 8, "FMUL": 1, "EXIT": 1}
    assert dict(executions(skipped, {"0": 0}).counts) == {"BRA": 1, "FMUL": 1, "EXIT": 1}


def test_a_loop_of_unknown_passes_beside_another_way_is_for_rare_operands_unless_it_is_named():
    beside = kernel(
        "@P1 BRA `(.L_2)",
        ".L_1:",
        "FADD R1, R1, R2",
        "@P0 BRA `(.L_1)",
        "BRA `(.L_3)",
        ".L_2:",
        "FMUL R6, R6, R7",
        ".L_3:",
        "EXIT",
    )
    found = executions(beside, {})
    assert dict(found.counts) == {"BRA": 1, "FMUL": 1, "EXIT": 1}
    assert "slow paths" in found.notes[0]
    assert dict(executions(beside, {"0": 4}).counts) == {"BRA": 6, "FADD": 4, "EXIT": 1}


def test_an_unknown_trip_count_names_the_loop_and_the_cure():
    with pytest.raises(InputError, match=r"loop at 0x10 \(`trips` 1=N\)"):
        executions(kernel(*NESTED), {"0": 3})


def test_a_loop_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(InputError, match=r"no loop '7'; its loops: 0 at 0x0, 1 at 0x10"):
        executions(kernel(*NESTED), {"0": 3, "7": 5})


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("CALL.ABS.NOINC R2 `(k)", "calls at 0x10 what only its run decides"),
        ("CALL.ABS.NOINC `(elsewhere)", "calls elsewhere, which is not in its file"),
        ("BRX R4 -0x60", "jumps to at 0x10 what only its run decides"),
    ],
)
def test_calls_of_what_nobody_sees_and_indirect_jumps_are_refused(line, words):
    with pytest.raises(InputError, match=words):
        executions(kernel("MOV R1, R2", line, "EXIT"), {})


def test_lines_of_a_routine_have_the_places_by_which_its_executions_are_counted(monkeypatch):
    entry, routine = (replace(kernel("EXIT"), name=name) for name in ("k", "half"))
    lines = {"k": {0: "k.cu:3"}, "half": {0: "half.h:12", 16: "half.h:13"}}
    monkeypatch.setattr(code_work, "disassemble", lambda image, lines: image.decode())
    monkeypatch.setattr(code_work, "source_lines", lambda listing, name: lines[name])
    found = code_work.KernelCode(entry, {"k": entry, "half": routine}, b"listing").lines()
    assert found == {"0x0": "k.cu:3", "half:0x0": "half.h:12", "half:0x10": "half.h:13"}
