from dataclasses import replace

import pytest

from ptxbench.analysis.overhead import Alike, overhead_subject, with_plain_companions
from ptxbench.analysis.subject import Subject
from ptxbench.catalogue.load import find_instruction
from ptxbench.core.condition import DYNAMIC, Condition, OptLevel, Pattern
from ptxbench.sass.loop_check import LoopCheck, Verdict
from ptxbench.storage.schema import Role

READS = "BAR.SYNC 0x0\nSEL R0, R1, R0, P0\nLOP3.LUT R2, R2, R3, RZ, 0x3c, !PT"
READS_FLOATS = "BAR.SYNC 0x0\nFSEL R1.0, R0.1.reuse, R1.0, !P0.2\n@P0.6 BRA L"
READS_NOT = "BAR.SYNC 0x0\nLOP3.LUT R2, R2, R3, RZ, 0x3c, !PT"


def unit(instruction):
    loop_check = LoopCheck(Verdict.EXACT, (), (), "")
    loops = ((Role.OVERHEAD, READS),)
    row = find_instruction(instruction)
    return Subject(row, Condition(OptLevel.O3, DYNAMIC, Pattern.RANDOM), loop_check, loops)


def name(instruction, loop, alike=Alike.BITS):
    row = find_instruction(instruction) if isinstance(instruction, str) else instruction
    return overhead_subject(row, loop, Role.OVERHEAD, Pattern.RANDOM, "132x1024", alike)


@pytest.mark.parametrize("loop", [READS, READS_FLOATS])
def test_a_loop_that_reads_its_chains_is_shared_by_rows_of_one_kind_of_values(loop):
    assert name("mad.lo.u32", loop) != name("fma.rn.f32", loop)
    assert name("add.f32", loop) != name("fma.rn.f32", loop)
    row = find_instruction("fma.rn.f32")
    assert name(row, loop) != name(replace(row, values="another kind"), loop)
    assert name(row, loop) == name(replace(row, name="another row"), loop)


@pytest.mark.parametrize(
    ("loop", "alike"), [(READS_NOT, Alike.BITS), (READS, Alike.CODE), (READS_NOT, Alike.CODE)]
)
def test_one_that_does_not_and_those_of_runs_before_are_shared_by_all(loop, alike):
    assert name("mad.lo.u32", loop, alike) == name("fma.rn.f32", loop, alike)


def test_a_kept_run_finds_its_loops_by_the_names_that_it_gave_them():
    assert name("fma.rn.f32", READS) == "overhead/f9f68c5fa9cf67de"
    assert name("fma.rn.f32", READS_NOT) == "overhead/5554874ea6263c93"


@pytest.mark.parametrize(
    "rows",
    [("min.u32", "min.s32", "xor.b32"), ("mul.lo.u64", "mad.lo.s64"), ("add.u16", "add.s16")],
    ids=" ".join,
)
def test_signed_and_unsigned_rows_of_one_width_share_a_loop_because_their_bits_are_the_same(rows):
    assert len({name(row, READS) for row in rows}) == 1
    assert len({name(row, READS, Alike.TYPES) for row in rows}) == len(rows)


def test_quotients_keep_a_loop_for_each_sign():
    assert name("div.u32", READS) != name("div.s32", READS)
    assert name("div.u32", READS) != name("mad.lo.u32", READS)


def test_a_row_finds_the_loop_that_runs_of_before_gave_its_companions():
    row = find_instruction("clz.b32")
    plain = with_plain_companions(row)
    assert name(row, READS) != name(plain, READS)
    # Then all such companions computed on the same words.
    assert name(plain, READS) == name("popc.b32", READS)
    names = list(unit("clz.b32").overhead_names(Role.OVERHEAD, 132, 1024))
    assert names[0] == name(row, READS)
    assert name(plain, READS) in names
    assert name("fma.rn.f32", READS) not in names


def test_other_values_of_a_row_stay():
    row = replace(find_instruction("clz.b32"), values_of=(("c", "shift"), ("n", "small"), ("m", "even")))
    assert with_plain_companions(row).values_of == (("c", "shift"),)
