import pytest

from ptxbench.sass.program import SassInstruction
from ptxbench.sass.written import written


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("FFMA R4, R5, R6, R7", "R4"),
        ("IADD3 R4, P0, P1, R5, R6, RZ", "R4 P0 P1"),
        ("IADD3.X R5, PT, P2, R6, R7, RZ, P0, !PT", "R5 P2"),
        ("SEL R4, RZ, R6, P0", "R4"),
        ("ISETP.NE.AND P0, PT, R2, RZ, PT", "P0"),
        ("LOP3.LUT P0, R4, R5, R6, RZ, 0xc0, !PT", "P0 R4"),
        ("LOP3.LUT P0, RZ, R5, R6, RZ, 0xc0, !PT", "P0"),
        ("SHFL.IDX PT, R4, R5, R6, 0x1f", "R4"),
        ("VOTE.ANY R14, PT, !P1", "R14"),
        ("VOTE.ANY R14, P2, P1", "R14 P2"),
        ("BRA P1, `(.L_x_1)", ""),
        ("B2R.RESULT RZ, P0", "P0"),
        ("DADD R8, R8, R2", "R8 R9"),
        ("IMAD.WIDE.U32 R8, R2, R3, R4", "R8 R9"),
        ("F2F.F64.F32 R14, R15", "R14 R15"),
        ("F2F.F32.F64 R14, R16", "R14"),
        ("F2I.S64.F64.TRUNC R14, R16", "R14 R15"),
        ("F2I.F64.TRUNC R14, R16", "R14"),
        ("DMMA.8x8x4 R8, R2, R4, R8", "R8 R9 R10 R11"),
        ("PLOP3.LUT P0, PT, P1, P2, PT, 0x80, 0x0", "P0"),
        ("MUFU.RCP64H R21, R19", "R21"),
        ("SHF.R.S64 R20, R19, R18, RZ", "R20"),
        ("LDG.E R4, [R2.64]", "R4"),
        ("LDG.E.128 R4, [R2.64]", "R4 R5 R6 R7"),
        ("VIMNMX.U64 PT, PT, R2, R4, R6, PT", "R2 R3"),
        ("CS2R R4, SR_CLOCKLO", "R4 R5"),
        ("CS2R.32 R4, SR_CLOCKLO", "R4"),
        ("HMMA.16816.F32 R4, R8, R10, R4", "R4 R5 R6 R7"),
        ("UIADD3 UR4, UPT, UP0, UR4, -0x1, URZ", "UR4 UP0"),
        ("UIMAD.WIDE.U32 UR4, UR4, 0x40, URZ", "UR4 UR5"),
        ("ULDC.64 UR6, c[0x0][0x208]", "UR6 UR7"),
        ("R2P PR, R4, 0x7f", "P0 P1 P2 P3 P4 P5 P6"),
        ("UP2UR.B3 UR62, UPR, UR62, 0xff", "UR62"),
        ("STG.E [R2.64], R4", ""),
        ("BAR.SYNC 0x0", ""),
        ("EXIT ", ""),
    ],
)
def test_results_stand_first(text, names):
    opcode, _, operands = text.partition(" ")
    assert written(SassInstruction(0, "", opcode, operands)) == set(names.split())


@pytest.mark.parametrize(("first", "most"), [("R5", 1), ("R6", 2), ("R8", 4)])
def test_of_an_unknown_instruction_as_much_as_the_register_allows(first, most):
    number = int(first[1:])
    assert written(SassInstruction(0, "", "NEWOP", f"{first}, R20")) == {
        f"R{n}" for n in range(number, number + most)
    }


def test_a_product_of_a_warpgroup_fills_many_registers():
    assert "R151" in written(SassInstruction(0, "", "HGMMA.64x256x16.F32", "R24, gdesc[UR4], R24"))
