from dataclasses import replace

import pytest

from ptxbench.catalogue.load import find_instruction
from ptxbench.measure.overhead import overhead_unit
from ptxbench.ptx.operands import Pattern
from ptxbench.store.schema import Role

READS = "BAR.SYNC 0x0\nSEL R0, R1, R0, P0\nLOP3.LUT R2, R2, R3, RZ, 0x3c, !PT"
READS_FLOATS = "BAR.SYNC 0x0\nFSEL R1.0, R0.1.reuse, R1.0, !P0.2\n@P0.6 BRA L"
READS_NOT = "BAR.SYNC 0x0\nLOP3.LUT R2, R2, R3, RZ, 0x3c, !PT"


def name(instruction, loop, **change):
    row = find_instruction(instruction) if isinstance(instruction, str) else instruction
    return overhead_unit(row, loop, Role.OVERHEAD, Pattern.RANDOM, "132x1024", **change)


@pytest.mark.parametrize("loop", [READS, READS_FLOATS])
def test_a_loop_that_reads_its_chains_is_shared_by_rows_of_one_kind_of_values(loop):
    assert name("mad.lo.u32", loop) != name("fma.rn.f32", loop)
    assert name("add.f32", loop) != name("fma.rn.f32", loop)
    row = find_instruction("fma.rn.f32")
    assert name(row, loop) != name(replace(row, values="another kind"), loop)
    assert name(row, loop) == name(replace(row, name="another row"), loop)


@pytest.mark.parametrize(
    ("loop", "change"), [(READS_NOT, {}), (READS, {"by_values": False}), (READS_NOT, {"by_values": False})]
)
def test_one_that_does_not_and_those_of_runs_before_are_shared_by_all(loop, change):
    assert name("mad.lo.u32", loop, **change) == name("fma.rn.f32", loop, **change)
