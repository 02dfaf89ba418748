"""Machine code written by hand, run on lanes of which we know what they should hold."""

import gc
import re
import weakref

import numpy as np
import pytest

from ptxbench.core.errors import InputError
from ptxbench.emulator.sass.code import Code
from ptxbench.emulator.sass.machine import Machine, Sample
from ptxbench.emulator.sass.memory import Memory
from ptxbench.emulator.sass.tally import Tally
from ptxbench.sass.program import SassInstruction, SassKernel

_LINE = re.compile(r"(?:(?P<label>\.\w+):)?\s*(?P<guard>@!?U?P\d\s+)?(?P<opcode>\S+)\s*(?P<operands>.*)$")
# Lane i stores R9 to word i of the output, whose address is in constant memory.
STORE = """
    LDC.64 R2, c[0x0][0x210]
    S2R R1, SR_TID.X
    IMAD.WIDE.U32 R2, R1, 0x4, R2
    STG.E desc[UR6][R2.64], R9
    EXIT
"""


def kernel(text):
    """Return code from lines of "label: @guard opcode operands"."""
    instructions, labels = [], []
    for line in filter(None, map(str.strip, text.splitlines())):
        part = _LINE.match(line)
        address = 16 * len(instructions)
        if part["label"]:
            labels.append((part["label"], address))
        guard = (part["guard"] or "").strip()
        instructions.append(SassInstruction(address, guard, part["opcode"], part["operands"]))
    return SassKernel("k", tuple(instructions), tuple(labels))


def run(text, words=(0,), threads=32, passes=0, blocks=1):
    """Return the machine after a run, and what each thread stored; R4 holds the thread's own word."""
    read = """
        LDC.64 R2, c[0x0][0x218]
        S2R R0, SR_TID.X
        IMAD.WIDE.U32 R2, R0, 0x4, R2
        LDG.E R4, desc[UR6][R2.64]
    """
    memory = Memory(1 << 14, blocks, 4096, 32 * -(-threads // 32) * blocks, 0)
    out = np.zeros(threads, np.uint32)
    given = np.zeros(threads, np.uint32)
    words = np.asarray(words)
    words = words.astype(np.uint32) if words.dtype.kind == "i" else words.view(np.uint32)
    given[: len(words)] = words
    bank = np.zeros(0x400, np.uint8)
    bank[0x210:0x220] = np.array([memory.put(out), memory.put(given)], np.uint64).view(np.uint8)
    places = tuple((n, 0, 0) for n in range(blocks))
    sample = Sample((blocks, 1, 1), (threads, 1, 1), places)
    machine = Machine(Code(kernel(read + text + "\n" + STORE)), sample, memory, {0: bank}, passes)
    machine.run()
    return machine, memory.get(int(bank[0x210:0x218].view(np.uint64)[0]), out)


def count(machine, base, what=Tally.ISSUED):
    code = machine._code.instructions
    return sum(machine.tallies[what, n] for n, one in enumerate(code) if one.opcode == base)


def as_f32(bits):
    return np.asarray(bits, np.uint32).view(np.float32)


@pytest.mark.parametrize(
    ("code", "given", "wanted"),
    [
        ("LOP3.LUT R9, R4, 0xff, RZ, 0xc0, !PT", 0x1234, 0x34),
        ("LOP3.LUT R9, R4, 0xff00, 0xf, 0x96, !PT", 0x1234, 0x1234 ^ 0xFF00 ^ 0xF),
        ("LOP3.LUT R9, R4, 0xff00, 0xf, 0xca, !PT", 0x1234, 0x1200 | (0xF & ~0x1234)),
        ("SHF.L.W.U32.HI R9, R4, 0x8, R4", 0x12345678, 0x34567812),
        ("SHF.R.S32.HI R9, RZ, 0x4, R4", 0x80000000, 0xF8000000),
        ("SHF.R.U32.HI R9, RZ, 0x20, R4", 0x80000000, 0),
        ("IADD3 R9, R4, -0x1, -R4", 5, 0xFFFFFFFF),
        ("LEA R9, R4, R4, 0x3", 5, 45),
        ("LEA.HI R9, R4, R4, R4, 0x1f", 7, 7 + 0x80000003),
        ("LEA.HI.SX32 R9, R4, R4, 0x1f", 0x80000000, 0x40000000),
        ("IMAD.HI.U32 R9, R4, R4, RZ", 0x80000000, 0x40000000),
        ("IABS R9, R4", 0xFFFFFFFE, 2),
        ("VIMNMX R9, R4, 0x3, !PT", 0xFFFFFFFF, 3),
        ("VIMNMX.U32 R9, R4, 0x3, !PT", 0xFFFFFFFF, 0xFFFFFFFF),
        ("VIADDMNMX R9, R4, 0x5, 0x4, PT", 1, 4),
        ("FLO.U32 R9, R4", 0x00010000, 16),
        ("FLO.U32.SH R9, R4", 0x00010000, 15),
        ("FLO.U32 R9, R4", 0, 0xFFFFFFFF),
        ("BREV R9, R4", 0x1, 0x80000000),
        ("POPC R9, R4", 0xF0F0, 8),
        ("PRMT R9, R4, 0x0123, RZ", 0x11223344, 0x44332211),
        ("PRMT R9, R4, 0x8888, RZ", 0x80, 0xFFFFFFFF),
        ("SGXT R9, R4, 0x8", 0x80, 0xFFFFFF80),
        ("IDP.4A.S8.S8 R9, R4, R4, RZ", 0x02FF0301, 4 + 1 + 9 + 1),
        ("IDP.2A.HI.S16.U8 R9, R4, R4, 0x1", 0x0203FFFF, 1 + 0x203 * 2 - 3),
        ("VIMNMX.U16x2 R9, R4, 0x50001, !PT", 0x0002FFFF, 0x0005FFFF),
        ("VIMNMX.S16x2 R9, R4, 0x50001, !PT", 0x0002FFFF, 0x00050001),
        ("FMNMX.XORSIGN R9, |R4|, |R4|, PT", 0xBF800000, 0x3F800000),
        ("I2FP.F32.S32 R9, R4", 0xFFFFFFFF, 0xBF800000),
        ("FRND.F16.CEIL R9, R4", 0x3C01, 0x4000),
        ("HFMA2.MMA R9, -RZ, RZ, 1, 2", 0, 0x3C004000),
    ],
)
def test_one_word(code, given, wanted):
    assert run(code, np.full(32, given, np.uint32))[1][7] == wanted


def test_a_sum_of_two_words_carries():
    text = """
        IADD3 R5, P0, R4, R4, RZ
        IADD3.X R9, RZ, 0x1, RZ, P0, !PT
    """
    assert list(run(text, [0x80000000, 0x7FFFFFFF])[1][:2]) == [2, 1]


def test_a_difference_borrows_where_it_is_less_than_nothing():
    text = """
        IADD3 R5, P0, R4, -0x0, RZ
        IADD3 R5, P0, RZ, -R4, RZ
        IADD3.X R9, R9, ~RZ, RZ, P0, !PT
    """
    # 0 - 0 does not borrow, 0 - 1 does.
    assert list(run(text, [0, 1])[1][:2]) == [0, 0xFFFFFFFF]


def test_a_comparison_of_64_bits_looks_at_the_lower_half_where_the_upper_is_equal():
    text = """
        ISETP.LT.U32.AND P0, PT, R4, 0x5, PT
        ISETP.LT.AND.EX P1, PT, RZ, RZ, PT, P0
        SEL R9, RZ, 0x1, !P1
    """
    assert list(run(text, [4, 5, 6])[1][:3]) == [1, 0, 0]


def test_a_fused_product_is_rounded_once():
    # 1 + 2^-23 squared is 1 + 2^-22 + 2^-46: the last bit decides a tie with what is subtracted.
    x = np.float32(1 + 2.0**-23)
    text = "FFMA R9, R4, R4, -1"
    assert as_f32(run(text, np.full(32, x, np.float32))[1])[0] == np.float32(2.0**-22 + 2.0**-46)


def test_a_tie_of_the_wider_sum_is_decided_by_what_it_lost():
    from ptxbench.emulator.sass.rounding import fused_single

    # a b = 2^-24 + 2^-60 is more than half of the last place of 1, by what f64 cannot hold beside 1.
    a, b = np.float32([2.0**-24 * (1 + 2.0**-20)]), np.float32([1.0])
    assert fused_single(a, b, np.float32([1.0]))[0] == np.float32(1 + 2.0**-23)
    assert fused_single(np.float32([2.0**-24]), b, np.float32([1.0]))[0] == np.float32(1.0)


def test_a_tie_that_f64_cannot_tell_is_decided_by_what_it_lost():
    from ptxbench.emulator.sass.rounding import fused_double, fused_single

    # (1 + e)(1 - e) is a little less than 1, which neither format holds beside the odd number c.
    low = np.float32([2.0**-12 * (1 + 2.0**-15)]), np.float32([2.0**-12 * (1 - 2.0**-15)])
    assert fused_single(*low, np.float32([1 + 2.0**-23]))[0] == np.float32(1 + 2.0**-23)
    wide = np.array([1 + 2.0**-30]), np.array([1 - 2.0**-30])
    assert fused_double(*wide, np.array([2.0**53 + 2]))[0] == 2.0**53 + 2
    with np.errstate(all="ignore"):
        assert fused_double(np.array([1e200]), np.array([1e200]), np.array([1.0]))[0] == np.inf


@pytest.mark.parametrize("rounding", ["RN", "RZ", "RM", "RP"])
def test_a_fused_product_of_f64_is_exact_where_python_counts_with_fractions(rounding):
    from fractions import Fraction

    from ptxbench.emulator.sass.rounding import fused_double

    random = np.random.default_rng(1)
    a, b, c = random.standard_normal((3, 300))
    c[:150] = -a[:150] * b[:150]
    for x, y, z, found in zip(a, b, c, fused_double(a, b, c, rounding), strict=True):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        wanted = float(exact)
        over = {"RZ": abs(Fraction(wanted)) > abs(exact), "RM": wanted > exact, "RP": wanted < exact}
        if over.get(rounding):
            wanted = np.nextafter(wanted, {"RZ": 0.0, "RM": -np.inf, "RP": np.inf}[rounding])
        assert found == wanted


def test_denormal_numbers_are_zeros_where_the_code_flushes_them():
    tiny = np.full(32, 1e-40, np.float32)
    assert as_f32(run("FADD R9, R4, R4", tiny)[1])[0] > 0
    assert as_f32(run("FADD.FTZ R9, R4, R4", tiny)[1])[0] == 0


@pytest.mark.parametrize(
    ("opcode", "given", "wanted"),
    [
        ("F2I.TRUNC.NTZ", 1e20, 0x7FFFFFFF),
        ("F2I.U32.TRUNC.NTZ", -3.0, 0),
        ("F2I.NTZ", 2.5, 2),
        ("F2I.NTZ", np.nan, 0),
    ],
)
def test_a_float_out_of_range_becomes_the_nearest_number(opcode, given, wanted):
    assert run(f"{opcode} R9, R4", np.full(32, given, np.float32))[1][0] == wanted


def test_half_precision_goes_by_halves():
    word = np.full(32, 0x40003C00, np.uint32)  # 2 and 1
    assert run("HFMA2 R9, R4, R4, R4.H0_H0", word)[1][0] == 0x45004000  # 2 2 + 1 and 1 1 + 1
    assert as_f32(run("HADD2.F32 R9, -RZ, R4.H1_H1", word)[1])[0] == 2.0


def test_bf16_is_rounded_once():
    # (1 + 2^-7) (1 + 2^-7) = 1 + 2^-6 + 2^-14: just above a tie of bf16 where 2^-8 is added.
    word = np.full(32, 0x3F813F81, np.uint32)
    assert run("HFMA2.BF16_V2 R9, R4, R4, 0.00390625, 0.00390625", word)[1][0] & 0xFFFF == 0x3F83


def test_a_wide_number_is_rounded_to_bf16_once():
    from ptxbench.emulator.sass.halves import narrowed

    # f32 would make a tie of it, which goes up.
    assert narrowed(np.array([1 + 2.0**-7 + 2.0**-8 - 2.0**-30]), True)[0] == 0x3F81


@pytest.mark.parametrize(("how", "wanted"), [("NE", 0), ("NEU", 1), ("EQ", 0), ("EQU", 1), ("NAN", 1)])
def test_a_comparison_with_what_is_no_number(how, wanted):
    text = f"FSETP.{how}.AND P0, PT, R4, R4, PT\nSEL R9, RZ, 0x1, !P0"
    assert run(text, np.full(32, np.nan, np.float32))[1][0] == wanted


@pytest.mark.parametrize(("rounding", "wanted"), [("", 2**24), (".RP", 2**24 + 2), (".RZ", 2**24)])
def test_a_whole_number_is_rounded_as_the_code_says(rounding, wanted):
    assert as_f32(run(f"I2F.U32{rounding} R9, R4", np.full(32, 2**24 + 1, np.uint32))[1])[0] == wanted


@pytest.mark.parametrize(("rounding", "wanted"), [("", 0), (".RM", 0), (".RP", 1)])
def test_a_whole_number_of_64_bits_is_rounded_as_the_code_says(rounding, wanted):
    # 2^56 + 1 lies between two f64: the lower word of the nearest and of the next one.
    text = f"MOV R5, 0x1000000\nI2F.F64.U64{rounding} R8, R4\nMOV R9, R8"
    assert run(text, np.full(32, 1, np.uint32))[1][0] == wanted


def test_a_lane_that_breaks_off_is_not_waited_for():
    text = """
        ISETP.LT.AND P0, PT, R0, 0x8, PT
        BSSY B0, `(.meet)
        @P0 BREAK B0
        @P0 BRA `(.out)
        .meet: BSYNC B0
        MOV R9, 0x1
        BRA `(.end)
        .out: MOV R9, 0x2
        .end: BAR.SYNC.DEFER_BLOCKING 0x0
    """
    assert list(run(text)[1][6:10]) == [2, 2, 1, 1]


def test_lanes_part_at_a_branch_and_meet_behind_it():
    text = """
        LOP3.LUT P0, RZ, R0, 0x1, RZ, 0xc0, !PT
        BSSY B0, `(.meet)
        @P0 BRA `(.odd)
        MOV R9, 0x5
        BRA `(.meet)
        .odd: MOV R9, 0x7
        .meet: BSYNC B0
        VIADD R9, R9, 0x1
    """
    machine, out = run(text)
    assert list(out[:4]) == [6, 8, 6, 8]
    assert count(machine, "VIADD") == 1
    assert count(machine, "MOV") == 2
    assert count(machine, "MOV", Tally.THREADS) == 32
    # Either group arrives by itself.
    assert count(machine, "BSYNC") == 2


def test_a_loop_runs_as_long_as_its_slowest_lane():
    text = """
        MOV R5, RZ
        BSSY B0, `(.meet)
        .again: VIADD R5, R5, 0x1
        ISETP.LE.AND P0, PT, R5, R0, PT
        @P0 BRA `(.again)
        .meet: BSYNC B0
        MOV R9, R5
    """
    machine, out = run(text)
    assert list(out) == list(range(1, 33))
    assert count(machine, "VIADD") == 32
    assert count(machine, "VIADD", Tally.THREADS) == 33 * 32 / 2


def test_a_guard_turns_lanes_off_but_the_warp_issues():
    text = """
        ISETP.LT.AND P0, PT, R0, 0x8, PT
        @P0 MOV R9, 0x1
    """
    machine, out = run(text)
    assert out.sum() == 8
    assert count(machine, "MOV") == 1
    assert count(machine, "MOV", Tally.THREADS) == 8


def test_a_routine_returns_to_where_it_was_called():
    code = kernel(
        "MOV R8, 0x20\nCALL.REL.NOINC `(.twice)\nEXIT\n.twice: IADD3 R4, R4, R4, RZ\nRET.REL.NODEC R8 `(k)"
    )
    memory, sample = Memory(64, 1, 0, 32, 0), Sample((1, 1, 1), (32, 1, 1), ((0, 0, 0),))
    machine = Machine(Code(code), sample, memory, {0: np.zeros(64, np.uint8)})
    machine.registers.general[4] = 21
    machine.run()
    assert (machine.registers.general[4] == 42).all()


def test_warps_meet_at_a_barrier_and_see_what_the_others_stored():
    text = """
        SHF.L.U32 R5, R0, 0x2, RZ
        STS [R5], R0
        BAR.SYNC.DEFER_BLOCKING 0x0
        LOP3.LUT R5, R5, 0xfc, RZ, 0x3c, !PT
        LDS R9, [R5]
    """
    assert list(run(text, threads=64)[1]) == [n ^ 63 for n in range(64)]


@pytest.mark.parametrize(("how", "wanted"), [("POPC", 40), ("AND", 0), ("OR", 1)])
def test_a_barrier_counts_what_lanes_bring(how, wanted):
    text = f"""
        ISETP.LT.AND P0, PT, R0, 0x28, PT
        BAR.RED.{how}.DEFER_BLOCKING 0x0, P0
        B2R.RESULT R9, P1
        @!P1 MOV R9, RZ
    """
    assert set(run(text, threads=64)[1]) == {wanted}


def test_atomics_of_all_lanes_add_up():
    text = """
        ATOMS.ADD R5, [RZ], R0
        BAR.SYNC.DEFER_BLOCKING 0x0
        LDS R9, [RZ]
    """
    assert set(run(text)[1]) == {sum(range(32))}


@pytest.mark.parametrize(
    ("how", "by", "wanted"),
    [
        ("BFLY", "0x1, 0x1f", [1, 0, 3]),
        ("UP", "0x1, RZ", [0, 0, 1]),
        ("DOWN", "0x2, 0x1f", [2, 3, 4]),
        ("IDX", "0x5, 0x1f", [5, 5, 5]),
    ],
)
def test_shuffles(how, by, wanted):
    assert list(run(f"SHFL.{how} PT, R9, R0, {by}")[1][:3]) == wanted


@pytest.mark.parametrize(
    ("lanes", "wanted"),
    [
        ("GE", [0xF, 0xE, 0xC, 0x8, 0x0]),
        ("GT", [0xE, 0xC, 0x8, 0x0, 0x0]),
        ("LE", [0x1, 0x3, 0x7, 0xF, 0xF]),
        ("LT", [0x0, 0x1, 0x3, 0x7, 0xF]),
        ("EQ", [0x1, 0x2, 0x4, 0x8, 0x0]),
    ],
)
def test_a_vote_tells_all_lanes_who_is_for_it(lanes, wanted):
    text = f"""
        ISETP.LT.AND P0, PT, R0, 0x4, PT
        VOTE.ANY R5, P1, P0
        S2R R6, SR_{lanes}MASK
        LOP3.LUT R9, R5, R6, RZ, 0xc0, !PT
    """
    assert list(run(text)[1][:5]) == wanted


@pytest.mark.parametrize(
    ("product", "kind"),
    [
        ("HMMA.16816.F32 R12, R4, R10, RZ", np.float16),
        ("HMMA.1688.F32.TF32 R12, R4, R10, RZ", np.float32),
        ("IMMA.16832.S8.S8 R12, R4.ROW, R10.COL, RZ", np.int8),
        ("IMMA.16832.U8.U8 R12, R4.ROW, R10.COL, RZ", np.uint8),
    ],
)
def test_a_tensor_product_is_that_of_its_matrices(product, kind):
    # Each lane's word holds numbers of one row: rows of a are lanes / 4, columns of b, too.
    numbers = 20 * np.random.default_rng(3).standard_normal(128 // np.dtype(kind).itemsize)
    words = (np.abs(numbers) if kind is np.uint8 else numbers).astype(kind).view(np.uint32)
    text = f"""
        MOV R5, RZ
        MOV R6, RZ
        MOV R7, RZ
        MOV R10, R4
        MOV R11, RZ
        {product}
        MOV R9, R12
    """
    # TF32 has 10 bits behind the point.
    exact = words & np.uint32(0xFFFFE000) if kind is np.float32 else words
    a = exact.view(kind).reshape(8, -1).astype(np.float64)
    wanted = (a @ a.T)[np.arange(32) // 4, 2 * (np.arange(32) % 4)]
    found = run(text, words)[1].view(np.int32 if product.startswith("I") else np.float32)
    assert found == pytest.approx(wanted, rel=1e-5, abs=1e-3)


def test_a_tensor_product_adds_up_all_of_its_depth():
    halves = np.random.default_rng(3).standard_normal(64).astype(np.float16)
    text = """
        MOV R5, RZ
        MOV R6, R4
        MOV R7, RZ
        MOV R10, R4
        MOV R11, R4
        HMMA.16816.F32 R12, R4, R10, RZ
        MOV R9, R12
    """
    a = halves.reshape(8, 8).astype(np.float64)
    wanted = 2 * (a @ a.T)[np.arange(32) // 4, 2 * (np.arange(32) % 4)]
    assert as_f32(run(text, halves.view(np.uint32))[1]) == pytest.approx(wanted, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("turned", [False, True])
def test_rows_of_halves_come_from_shared_memory_as_a_fragment(turned):
    words = np.random.default_rng(3).integers(0, 1 << 32, 32, np.uint32)
    text = f"""
        SHF.L.U32 R5, R0, 0x2, RZ
        SHF.L.U32 R6, R0, 0x4, RZ
        STS [R5], R4
        LDSM.16.{"MT88" if turned else "M88"} R9, [R6]
    """
    halves = words.view(np.uint16).reshape(8, 8)
    wanted = np.ascontiguousarray(halves.T if turned else halves).view(np.uint32)
    assert list(run(text, words)[1]) == list(wanted.ravel())


@pytest.mark.parametrize(("width", "last"), [(64, 13), (128, 15)])
def test_wide_words_are_stored_and_loaded_whole(width, last):
    text = f"""
        SHF.L.U32 R5, R0, 0x4, RZ
        MOV R{last}, R4
        STS.{width} [R5], R12
        LDS.{width} R16, [R5]
        MOV R9, R{last + 4}
    """
    assert list(run(text, np.arange(5, 37))[1]) == list(range(5, 37))


def test_a_dividend_of_zero_takes_the_common_path_and_a_tiny_one_does_not():
    text = "MOV R5, 0x3f800000\nFCHK P0, R4, R5\nSEL R9, RZ, 0x1, !P0"
    assert list(run(text, np.array([0.0, 1e-37, 3.0], np.float32))[1][:3]) == [0, 1, 0]


def test_what_l1_holds_is_not_got_again():
    text = "LDG.E R9, desc[UR6][R2.64+0x200]\nLDG.E.CONSTANT R10, desc[UR6][R2.64+0x200]"
    machine, _ = run(text)
    assert count(machine, "LDG.E", Tally.MISSED) == 2 * 4, "the word of each thread, too"
    assert count(machine, "LDG.E.CONSTANT", Tally.MISSED) == 0
    assert count(machine, "LDG.E.CONSTANT", Tally.SECTORS) == 4


def test_what_blocks_read_together_is_told_from_what_each_reads():
    # One block after the other reads the same words, and the first one again.
    text = """
        S2R R8, SR_CTAID.X
        ISETP.EQ.AND P0, PT, R8, RZ, PT
        @P0 LDG.E.CONSTANT R9, desc[UR6][R2.64+0x200]
        @!P0 LDG.E.CONSTANT R9, desc[UR6][R2.64+0x200]
        @P0 LDG.E.CONSTANT R9, desc[UR6][R2.64+0x200]
    """
    machine, _ = run(text, blocks=2)
    assert count(machine, "LDG.E.CONSTANT", Tally.READ_FIRST) == 2 * 4
    assert count(machine, "LDG.E.CONSTANT", Tally.READ_BY_ANY) == 4


def test_what_global_accesses_ask_for():
    text = """
        SHF.L.U32 R5, R0, 0x7, RZ
        LDC.64 R2, c[0x0][0x218]
        LOP3.LUT R5, R5, 0x1ff, RZ, 0xc0, !PT
        IADD3 R2, R2, R5, RZ
        LDG.E.CONSTANT R9, desc[UR6][R2.64]
    """
    machine, _ = run(text)
    # Four lines, one sector of each.
    assert count(machine, "LDG.E.CONSTANT", Tally.LINES) == 4
    assert count(machine, "LDG.E.CONSTANT", Tally.SECTORS) == 4
    assert count(machine, "LDG.E", Tally.SECTORS) == 4
    assert count(machine, "LDG.E", Tally.LINES) == 1


@pytest.mark.parametrize(("shift", "passes"), [(2, 1), (3, 2), (7, 32)])
def test_banks_of_shared_memory_that_conflict_take_more_passes(shift, passes):
    text = f"SHF.L.U32 R5, R0, 0x{shift:x}, RZ\nLDS R9, [R5]"
    assert count(run(text)[0], "LDS", Tally.PASSES) == passes


LOOP = """
    MOV R5, RZ
    MOV R9, RZ
    .again: VIADD R5, R5, 0x3
    IMAD R9, R9, 0x5, R4
    ISETP.NE.AND P0, PT, R5, 0x960, PT
    @P0 BRA `(.again)
    MOV R9, R5
"""


def test_a_long_loop_is_counted_by_a_sample_of_its_passes():
    machine, out = run(LOOP, passes=64)
    whole, _ = run(LOOP, passes=0)
    assert machine._loops.skipped[0].left_out == 704
    assert machine.steps < whole.steps / 7
    # What counts the passes ends as in the whole run, and so do all counts.
    assert set(out) == {0x960}
    assert machine.tallies[Tally.ISSUED] == pytest.approx(whole.tallies[Tally.ISSUED])


def test_a_long_loop_with_branches_behind_its_comparison_is_counted_by_a_sample():
    text = """
        MOV R5, RZ
        .again: VIADD R5, R5, 0x1
        ISETP.NE.AND P0, PT, R5, 0x320, PT
        LOP3.LUT P1, RZ, R0, 0x1, RZ, 0xc0, !PT
        BSSY B0, `(.meet)
        @P1 BRA `(.meet)
        IMAD R9, R9, 0x5, R4
        .meet: BSYNC B0
        @P0 BRA `(.again)
        MOV R9, R5
    """
    machine, out = run(text, passes=64)
    assert machine._loops.skipped[0].left_out == 704
    assert set(out) == {800}
    assert machine.tallies[Tally.THREADS] == pytest.approx(run(text)[0].tallies[Tally.THREADS])


def test_a_loop_whose_passes_differ_is_run_until_they_do_not():
    # What a pass executes grows with its number, up to the 28th.
    text = """
        MOV R5, RZ
        .again: VIADD R5, R5, 0x1
        MOV R6, RZ
        .inner: VIADD R6, R6, 0x1
        VIMNMX R7, R5, 0x1c, PT
        ISETP.LT.AND P1, PT, R6, R7, PT
        @P1 BRA `(.inner)
        ISETP.NE.AND P0, PT, R5, 0x190, PT
        @P0 BRA `(.again)
        MOV R9, R5
    """
    machine, out = run(text, passes=32)
    assert machine._loops.skipped[0].run == 64
    assert set(out) == {400}
    assert count(machine, "VIMNMX") == 28 * 29 / 2 + 372 * 28


def test_a_loop_whose_end_depends_on_data_is_run_whole():
    text = LOOP.replace("ISETP.NE.AND P0, PT, R5, 0x960, PT", "ISETP.NE.AND P0, PT, R9, 0x960, PT")
    text = text.replace("IMAD R9, R9, 0x5, R4", "IADD3 R9, R5, R5, RZ")
    assert run(text, passes=64)[0].tallies[Tally.ISSUED].max() == 0x960 / 6


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("HGMMA.64x128x16.F32 R24, gdesc[UR8], RZ", "HGMMA.64x128x16.F32"),
        ("FADD.WEIRD R9, R4, R4", "FADD.WEIRD"),
        ("MUFU.NEW R9, R4", "MUFU.NEW"),
        ("LDG.E.256 R9, desc[UR6][R2.64]", "LDG.E.256"),
        ("BRX R4 -0x10", "BRX"),
        ("B2R R9, P0", "B2R"),
    ],
)
def test_what_it_does_not_know_ends_in_one_line_that_names_it(code, named):
    with pytest.raises(InputError, match=re.escape(named)) as caught:
        run(code)
    assert "\n" not in str(caught.value)


def test_an_access_beyond_all_arrays_is_refused():
    with pytest.raises(InputError, match="beyond its arrays"):
        run("LDG.E R9, desc[UR6][R0.64]")


def test_lanes_that_wait_for_nobody_are_refused():
    text = """
        ISETP.LT.AND P0, PT, R0, 0x8, PT
        @P0 BRA `(.on)
        BAR.SYNC.DEFER_BLOCKING 0x1
        .on: BAR.SYNC.DEFER_BLOCKING 0x0
    """
    with pytest.raises(InputError, match="wait for others"):
        run(text)


def test_bits_that_differ_from_half_to_half_are_counted():
    words = np.where(np.arange(32) < 16, 0, 0xFF).astype(np.uint32)
    machine, _ = run("IADD3 R9, R4, RZ, RZ", words)
    assert count(machine, "IADD3", Tally.HALVES) == count(machine, "IADD3", Tally.HALVES_RESULT) == 16 * 8
    assert count(machine, "IADD3", Tally.ONES) == 16 * 8
    assert count(machine, "IADD3", Tally.PAIRS) == 16
    alike, _ = run("IADD3 R9, R4, RZ, RZ", np.tile(np.arange(16, dtype=np.uint32), 2))
    assert count(alike, "IADD3", Tally.HALVES) == 0


def test_bits_that_change_in_a_place_and_in_a_register_are_counted():
    machine, _ = run("FMUL R5, R4, R4\nFADD R9, R4, R4", np.full(32, 3, np.uint32))
    assert count(machine, "FADD", Tally.PORTS) == 0
    # Whatever the opcode: a place is of all units.
    moved, _ = run("MOV R5, 0xf0\nIADD3 R6, R4, RZ, RZ\nFADD R9, R5, R4", np.full(32, 0x0F, np.uint32))
    assert count(moved, "FADD", Tally.PORTS) == 32 * 8
    over, _ = run("MOV R9, 0xff\nMOV R9, 0xf0\nIADD3 R9, R9, RZ, RZ", np.zeros(32, np.uint32))
    assert count(over, "MOV", Tally.FLIPS) == 32 * (8 + 4)
    assert count(over, "IADD3", Tally.FLIPS) == 0


def test_a_result_behind_a_predicate_is_written_and_not_read():
    machine, _ = run("MOV R9, 0x0\nLOP3.LUT P0, R9, R4, 0xff, RZ, 0xc0, !PT", [0xF] * 32)
    assert count(machine, "LOP3.LUT", Tally.ONES) == 32 * 4
    assert count(machine, "LOP3.LUT", Tally.FLIPS) == 32 * 4


def test_memory_is_free_as_soon_as_nobody_holds_the_machine():
    gc.disable()
    try:
        machine, _ = run("CS2R R8, SR_CLOCKLO\nBSSY B0, `(.on)\n.on: BSYNC B0")
        held = weakref.ref(machine)
        del machine
        assert held() is None
    finally:
        gc.enable()
