"""Labels of registers by the code alone."""

from emulator.sass.test_sass_machine import kernel
from fakes.script import load_script

from ptxbench.model.control_flow import find_flows

RUNNER = load_script("runners/judge_uniformity.py")
U, A, X = RUNNER.Label
CODE = """
    S2R R0, SR_TID.X
    LDC R1, c[0x0][0x214]
    IMAD R2, R0, 0x4, R1
    LDG.E R3, desc[UR4][R2.64]
    LDG.E R4, desc[UR4][R1.64]
    LOP3.LUT R5, R0, R1, RZ, 0xc0, !PT
    ISETP.LT.AND P0, PT, R0, R1, PT
    MOV R6, R1
    @P0 MOV R6, 0x1
    MOV R7, RZ
    .again: IADD3 R8, R7, R1, RZ
    MOV R7, R0
    ISETP.LT.AND P1, PT, R1, 0x10, PT
    @P1 BRA `(.again)
    STG.E desc[UR4][R2.64], R3
    EXIT
"""


def test_what_lanes_have_in_common_is_told_from_their_number_and_from_data():
    code = kernel(CODE)
    (flow,) = find_flows(code)
    made = {one.operands.split(",")[0]: RUNNER.labels_of(flow)[one.address] for one in code.instructions}
    assert [made[f"R{n}"][1] for n in range(7)] == [[A], [U], [A], [X], [U], [X], [X]]
    # A second pass has what the first one left.
    assert made["R8"] == ([A, U], [A])
    assert made["desc[UR4][R2.64]"] == ([A, X], [])


def test_of_random_words_less_is_left_where_lanes_are_alike():
    shares = RUNNER.shares_of(kernel(CODE))
    assert 0 < shares["LDC"] < shares["S2R"] < shares["STG.E"] < 1
