"""The passes of a loop, and the call that leaves it, on SASS that is written down here."""

import pytest

from ptxbench.sass.listing import parse_listing
from ptxbench.sass.loop import LoopError, find_loop
from ptxbench.sass.loop_counter import check_passes


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


def counting(
    start="MOV R3, c[0x0][0x230]",
    step="IADD3 R3, R3, -0x1, RZ",
    compare="ISETP.NE.AND P0, PT, R3, RZ, PT",
    branch="@P0 BRA `(.L_1)",
):
    """A loop that is left where its counter, p_iterations on sm_90, has come to 0."""
    return kernel(start, ".L_1:", "FFMA R5, R5, R4, R3", step, compare, branch, "EXIT")


def reason(found):
    return check_passes(found, find_loop(found).instructions)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"start": "MOV R3, c[0x0][0x180]"},
        {"start": "MOV R3, c[0x0][0x3a0]"},
        {"start": "ULDC UR3, c[0x0][0x230]", "step": "UIADD3 UR3, UR3, -0x1, URZ",
         "compare": "ISETP.NE.AND P0, PT, RZ, UR3, PT"},
        {"start": "IMAD.MOV.U32 R3, RZ, RZ, c[0x0][0x230]"},
        {"step": "VIADD R3, R3, 0xffffffff"},
        {"step": "IMAD.IADD R3, R3, 0x1, -0x1"},
        {"compare": "ISETP.EQ.AND P0, PT, R3, RZ, PT", "branch": "@!P0 BRA `(.L_1)"},
        {"compare": "ISETP.NE.U32.AND P0, PT, R3, 0x0, PT"},
    ],
)  # fmt: skip
def test_a_counter_that_falls_from_p_iterations_to_0_is_as_it_should_be(change):
    assert reason(counting(**change)) == ""


@pytest.mark.parametrize(
    ("change", "text"),
    [
        # The high half of what lies before p_iterations, and what lies behind it.
        ({"start": "MOV R3, c[0x0][0x22c]"}, "does not begin at p_iterations"),
        ({"start": "MOV R3, c[0x0][0x234]"}, "does not begin at p_iterations"),
        ({"start": "MOV R3, 0x64"}, "times, not p_iterations times"),
        ({"start": "MOV R3, 0xffffffff"}, "times, not p_iterations times"),
        ({"step": "IADD3 R3, R3, -0x2, RZ"}, "changes by -2 in each pass"),
        ({"step": "IADD3 R3, R3, 0x1, RZ"}, "changes by +1 in each pass"),
        ({"step": "VIADD R3, R3, 0x80000000"}, "changes by -2147483648 in each pass"),
        ({"step": "VIADD R3, R3, 0x7fffffff"}, "changes by +2147483647 in each pass"),
        ({"step": "MOV R3, R7"}, "changes by +0 in each pass"),
        ({"step": "@P1 IADD3 R3, R3, -0x1, RZ"}, "that nothing overwrites"),
        ({"step": "IADD3 R3, -R3, -0x1, RZ"}, "that nothing overwrites"),
        ({"compare": "ISETP.NE.AND P0, PT, R3, 0x1, PT"}, "no comparison with 0"),
        ({"compare": "ISETP.GT.AND P0, PT, R3, RZ, PT"}, "no comparison with 0"),
        ({"compare": "ISETP.EQ.AND P0, PT, R3, RZ, PT"}, "no comparison with 0"),
        ({"compare": "ISETP.NE.OR P0, PT, R3, RZ, PT"}, "no comparison with 0"),
        ({"compare": "ISETP.NE.AND P0, PT, R3, RZ, P2"}, "no comparison with 0"),
        ({"compare": "ISETP.NE.AND P1, P0, R3, RZ, PT"}, "no comparison with 0"),
        ({"compare": "@P2 ISETP.NE.AND P0, PT, R3, RZ, PT"}, "no comparison with 0"),
        ({"compare": "FSETP.NE.AND P0, PT, R3, RZ, PT"}, "no comparison with 0"),
        ({"compare": "ISETP.NE.AND P0, PT, R3, R4, PT"}, "no comparison with 0"),
        ({"branch": "BRA `(.L_1)"}, "no comparison with 0"),
    ],
)
def test_what_runs_another_number_of_passes_is_refused_with_the_reason(change, text):
    assert text in reason(counting(**change))


def test_a_counter_that_is_compared_before_it_falls_runs_one_pass_more():
    early = kernel(
        "MOV R3, c[0x0][0x230]", ".L_1:", "ISETP.NE.AND P0, PT, R3, RZ, PT", "IADD3 R3, R3, -0x1, RZ",
        "@P0 BRA `(.L_1)", "EXIT",
    )  # fmt: skip
    assert "executed p_iterations+1 times" in reason(early)


def left_by(call, *behind):
    return kernel(
        ".L_0:", "MOV R3, c[0x0][0x180]", ".L_1:", "FFMA R5, R5, R4, R3", "IADD3 R3, R3, -0x1, RZ",
        "ISETP.NE.AND P0, PT, R3, RZ, PT", call, "BRA `(.L_1)", ".L_2:", "EXIT", *behind,
    )  # fmt: skip


def test_the_guarded_call_behind_a_long_loop_is_half_of_its_back_edge():
    found = find_loop(left_by("@!P0 CALL.REL.NOINC `(.L_2)"))
    assert [one.base for one in found.instructions] == ["FFMA", "IADD3", "ISETP", "BRA"]


@pytest.mark.parametrize(
    "call", ["CALL.REL.NOINC `(.L_2)", "@!P0 CALL.REL.NOINC `(.L_1)", "@!P0 CALL.REL.NOINC `(.L_0)",
             "@!P0 CALL.REL.NOINC `(.L_9)", "@!P0 MOV R7, R8"],
)  # fmt: skip
def test_what_does_not_leave_the_loop_is_part_of_it(call):
    assert len(find_loop(left_by(call)).instructions) == 5


def test_the_trap_behind_the_exit_is_no_loop():
    trap = (".L_3:", "BRA `(.L_3)")
    assert len(find_loop(left_by("@!P0 CALL.REL.NOINC `(.L_2)", *trap)).instructions) == 4
    with pytest.raises(LoopError, match="no loop"):
        find_loop(kernel("EXIT", *trap))
