"""Two instructions that do the same work have one shape, and two that do not have two."""

import pytest

from ptxbench.sass.listing import parse_listing
from ptxbench.sass.operand import parse_operands
from ptxbench.sass.shape import shape_of, truth_table


def shape(text):
    (kernel,) = parse_listing(f".text.k:\n        /*0000*/                   {text} ;\n").values()
    (instruction,) = kernel.instructions
    return shape_of(instruction)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("IADD3 R1, R2, R3, RZ", "R < R R"),
        ("IMAD.IADD R1, R2, 0x1, R3", "R < R R"),
        ("IADD3 R1, -R2, R3, RZ", "R < -R R"),
        ("@P1 FADD R5, R9, R7", "@P R < R R"),
        ("SHFL.IDX PT, R1, R2, R3, 0x1f", "PT R < R R"),
        ("IMNMX.U64 PT, PT, R2, R4, R6, PT, !PT", "PT PT R < R R min"),
        ("IMNMX.U64 PT, PT, R2, R4, R6, !PT, !PT", "PT PT R < R R max"),
        ("FMNMX R1, R2, R3, PT", "R < R R min"),
        ("FMNMX R1, R2, R3, !PT", "R < R R max"),
        ("FMNMX R1, R2, R3, P4", "R < P R R by P"),
        ("LDG.E R1, [R2.64]", "R < [R]"),
        ("LDG.E R1, [UR4]", "R < []"),
        ("LOP3.LUT R1, R2, R3, RZ, 0xc0, !PT", "R < R R table 0001"),
        ("ISETP.GE.AND P0, PT, R2, R3, PT", "P < R R"),
        ("PLOP3.LUT P0, PT, P1, P2, PT, 0x80, 0x0", "P < P P 0x80 0x0"),
    ],
)
def test_an_instruction_s_shape_has_no_register_numbers(text, expected):
    assert shape(text) == expected


@pytest.mark.parametrize(
    ("operands", "table"),
    [
        ("R1, R2, R3, RZ, 0xc0, !PT", "0001"),
        ("R1, R2, R3, RZ, 0x3c, !PT", "0110"),
        ("R1, R2, RZ, R3, 0x5a, !PT", "0110"),
        ("R1, R2, R3, RZ, 0xfc, !PT", "0111"),
        ("R1, R2, R3, R4, 0x96, !PT", "01101001"),
        ("R1, R2, R3, R4, 0x80, !PT", "00000001"),
        ("R1, RZ, R3, RZ, 0x33, !PT", "10"),
        ("R1, R2, R3", "?"),
        ("R1, 0x80, R3", "?"),
    ],
)
def test_a_truth_table_is_that_of_the_inputs_that_are_there(operands, table):
    assert truth_table(parse_operands(operands)) == table


def test_the_order_of_inputs_does_not_matter_to_a_truth_table():
    # a and not b, by either order of the inputs.
    tables = {truth_table(parse_operands(f"R1, R2, R3, RZ, {table}, !PT")) for table in ("0x30", "0x0c")}
    assert len(tables) == 1
