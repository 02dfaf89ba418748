"""The reference's instructions against Python's own integers and floats."""

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.catalogue.types import TYPES
from ptxbench.emulator.compare import differing
from ptxbench.emulator.floats import decode
from ptxbench.emulator.kernel import UnknownInstructionError, expected_results

WORDS = st.integers(0, 2**32 - 1)
LONGS = st.integers(0, 2**64 - 1)
MASK = 2**32 - 1

KERNEL = """.visible .entry target(
    .param .u64 p_input
)
{{
    ld.param.u64       %record, [p_input];
    ld.param.u64       %result, [p_output];
    ld.param.u32       %i, [p_iterations];
    setp.eq.u32        %never, %i, 0;
    ld.global.b64      %a, [%record+0];
    ld.global.b64      %b, [%record+8];
    ld.global.b64      %c, [%record+16];
    mov.u32            %y, 7;
again:
    {text}
    @%more bra         again;
    st.global.{stored} [%result], %y;
done:
    ret;
}}
"""


def computed(text, *operands, stored="b64"):
    """What a text leaves in %y; %a, %b and %c are the operands."""
    memory = np.array([*operands, 0, 0, 0][:3], np.uint64).view(np.uint8)
    return int(expected_results(KERNEL.format(text=text, stored=stored), "target", memory, 1, 1)[0])


def f32(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def from_f32(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def signed(value, width=32):
    return value - (1 << width) if value >> (width - 1) else value


@given(WORDS, WORDS, WORDS)
def test_products_and_sums_of_words(a, b, c):
    assert computed("mad.lo.u32 %y, %a, %b, %c;", a, b, c) == (a * b + c) & MASK
    assert computed("mul.hi.u32 %y, %a, %b;", a, b) == a * b >> 32
    assert computed("mul.hi.s32 %y, %a, %b;", a, b) == (signed(a) * signed(b) >> 32) & MASK
    assert computed("mul.wide.u32 %y, %a, %b;", a, b) == a * b
    assert computed("mul.wide.s32 %y, %a, %b;", a, b) == signed(a) * signed(b) % 2**64
    assert computed("sub.s32 %y, %a, %b;", a, b) == (a - b) & MASK
    assert computed("sad.u32 %y, %a, %b, %c;", a, b, c) == (abs(a - b) + c) & MASK


@given(LONGS, LONGS)
def test_upper_halves_of_long_products(a, b):
    assert computed("mul.hi.u64 %y, %a, %b;", a, b) == a * b >> 64
    assert computed("mul.hi.s64 %y, %a, %b;", a, b) == (signed(a, 64) * signed(b, 64) >> 64) % 2**64


@given(WORDS, WORDS, WORDS, WORDS)
def test_a_carry_joins_two_words_to_a_long(a, b, c, d):
    text = """add.cc.u32 %l, %a, %b;
    mov.b64 { %p, %q }, %c;
    addc.u32 %h, %p, %q;
    mov.b64 %y, { %l, %h };"""
    assert computed(text, a, b, c | d << 32) == (a + (c << 32) + b + (d << 32)) % 2**64


@given(WORDS, st.integers(1, MASK))
def test_a_quotient_and_its_remainder_make_the_dividend(a, b):
    for kind, value in (("u32", lambda v: v), ("s32", signed)):
        if kind == "s32" and (value(a), value(b)) == (-(2**31), -1):
            continue
        q = value(computed(f"div.{kind} %y, %a, %b;", a, b))
        r = value(computed(f"rem.{kind} %y, %a, %b;", a, b))
        assert q == math.trunc(value(a) / value(b)) or abs(value(a)) >= 2**53
        assert q * value(b) + r == value(a)
        assert abs(r) < abs(value(b))


@given(WORDS, WORDS, WORDS, st.integers(0, 255))
def test_every_table_of_three_bits(a, b, c, table):
    def bit(place):
        return table >> ((a >> place & 1) << 2 | (b >> place & 1) << 1 | (c >> place & 1)) & 1

    expected = sum(bit(place) << place for place in range(32))
    assert computed(f"lop3.b32 %y, %a, %b, %c, {table};", a, b, c) == expected


@given(WORDS, WORDS, st.integers(0, 40))
def test_shifts(a, b, n):
    assert computed("shl.b32 %y, %a, %b;", a, n) == (a << n) & MASK
    assert computed("shr.u32 %y, %a, %b;", a, n) == a >> n
    assert computed("shr.s32 %y, %a, %b;", a, n) == (signed(a) >> n) & MASK
    both, wrapped, clamped = b << 32 | a, n % 32, min(n, 32)
    assert computed("shf.r.wrap.b32 %y, %a, %b, %c;", a, b, n) == both >> wrapped & MASK
    assert computed("shf.l.clamp.b32 %y, %a, %b, %c;", a, b, n) == (both << clamped) >> 32 & MASK


@given(WORDS, WORDS, st.integers(0, 2**16 - 1))
def test_a_permutation_of_bytes(a, b, control):
    pool = a.to_bytes(4, "little") + b.to_bytes(4, "little")
    out = []
    for k in range(4):
        choice = control >> 4 * k & 15
        byte = pool[choice & 7]
        out.append((255 if byte & 128 else 0) if choice & 8 else byte)
    assert computed("prmt.b32 %y, %a, %b, %c;", a, b, control) == int.from_bytes(bytes(out), "little")


@given(WORDS, WORDS, st.integers(0, 31), st.integers(0, 31))
def test_bit_fields(a, b, begin, length):
    length = min(length, 32 - begin)
    ones = (1 << length) - 1
    field = a >> begin & ones
    text = f"%y, %a, {begin}, {length};"
    assert computed(f"bfe.u32 {text}", a) == field
    assert computed(f"bfe.s32 {text}", a) == (signed(field, length) & MASK if length else 0)
    inserted = b & ~(ones << begin) | (a & ones) << begin
    assert computed(f"bfi.b32 %y, %a, %b, {begin}, {length};", a, b) == inserted


@given(WORDS)
def test_counts_and_places_of_bits(a):
    assert computed("popc.b32 %y, %a;", a) == a.bit_count()
    assert computed("clz.b32 %y, %a;", a) == 32 - a.bit_length()
    assert computed("bfind.u32 %y, %a;", a) == (a.bit_length() - 1) & MASK
    assert computed("brev.b32 %y, %a;", a) == int(f"{a:032b}"[::-1], 2)
    assert computed("not.b32 %y, %a;", a) == a ^ MASK
    assert computed("cnot.b32 %y, %a;", a) == (a == 0)


@given(WORDS, WORDS)
def test_comparisons_choices_and_guards(a, b):
    less = signed(a) < signed(b)
    chosen = a if less else b
    assert computed("setp.lt.s32 %p, %a, %b;\n    selp.b32 %y, %a, %b, %p;", a, b) == chosen
    assert computed("min.s32 %y, %a, %b;", a, b) == chosen
    assert computed("set.lt.u32.s32 %y, %a, %b;", a, b) == (MASK if less else 0)
    guarded = computed("setp.lt.s32 %p, %a, %b;\n    @!%p mov.b32 %y, %a;", a, b)
    assert guarded == (7 if less else a)
    both = computed("setp.lt.and.s32 %p, %a, %b, !%never;\n    selp.b32 %y, 1, 0, %p;", a, b)
    assert both == less


@pytest.mark.parametrize(
    ("condition", "first"),
    [(f32(1.5), True), (f32(-1.5), False), (0x80000000, True), (0x7FC00000, False), (0x7F800000, True)],
)
def test_slct_by_a_float_takes_minus_zero_for_zero_and_nan_for_neither(condition, first):
    # As an H200 does.
    assert computed("slct.u32.f32 %y, %a, %b, %c;", 11, 22, condition) == (11 if first else 22)


FLOATS = st.floats(-(2.0**60), 2.0**60, width=32)


@given(FLOATS, FLOATS, FLOATS)
def test_single_precision(a, b, c):
    x, y, z = (np.float32(v) for v in (a, b, c))
    bits = [f32(v) for v in (a, b, c)]
    assert from_f32(computed("add.f32 %y, %a, %b;", *bits)) == x + y
    assert from_f32(computed("mul.rn.f32 %y, %a, %b;", *bits)) == x * y
    assert from_f32(computed("fma.rn.f32 %y, %a, %b, %c;", *bits)) == np.float32(
        np.float64(x) * np.float64(y) + np.float64(z)
    )
    down, up = (from_f32(computed(f"add.{mode}.f32 %y, %a, %b;", *bits)) for mode in ("rm", "rp"))
    assert down <= np.float64(x) + np.float64(y) <= up


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("cvt.rni.s32.f32", f32(-2.5), -2 & MASK),
        ("cvt.rzi.u32.f32", f32(-2.5), 0),
        ("cvt.rpi.s32.f32", f32(1e20), 2**31 - 1),
        ("cvt.rzi.s32.f32", f32(math.nan), 0),
        ("cvt.s64.s32", 2**32 - 5, 2**64 - 5),
        ("cvt.u16.u32", 0x12345, 0x2345),
        ("cvt.sat.s16.s32", 70000, 32767),
        # As an H200 does: a narrow signed result fills its register with its sign.
        ("cvt.sat.s8.s32", -200 & MASK, -128 & MASK),
        ("cvt.rn.f32.s32", -3 & MASK, f32(-3.0)),
        ("cvt.f64.f32", f32(1.5), 0x3FF8000000000000),
        ("cvt.rn.f16.f32", f32(1.0), 0x3C00),
        ("cvt.rn.bf16.f32", 0x3F808000, 0x3F80),
        ("cvt.rna.tf32.f32", 0x3F801000, 0x3F802000),
        ("abs.s32", -9 & MASK, 9),
        ("neg.f32", f32(2.0), f32(-2.0)),
        ("rcp.rn.f32", f32(4.0), f32(0.25)),
    ],
)
def test_conversions_and_single_operands(text, value, expected):
    assert computed(f"{text} %y, %a;", value) == expected


def test_two_halves_of_a_word():
    assert computed("add.f16x2 %y, %a, %b;", 0x3C004000, 0x40003C00) == 0x42004200
    assert computed("cvt.rn.f16x2.f32 %y, %a, %b;", f32(1.0), f32(2.0)) == 0x3C004000
    assert computed("mov.b32 { %l, %h }, %a;\n    mov.b32 %y, { %h, %l };", 0x12345678) == 0x56781234


@pytest.mark.parametrize("scalar", ["f32", "bf16", "f64"])
def test_a_signaling_nan_is_computed_with_and_without_a_warning(scalar):
    signaling = {"f32": 0x7F800001, "bf16": 0x7F81, "f64": 0x7FF0000000000001}[scalar]
    assert np.isnan(decode(np.full(4, signaling, np.uint64), scalar)).all()


@pytest.mark.parametrize(
    "text", ["frobnicate.u32", "add.strange.u32", "add.rn.nonsense.f32", "ld.shared.u32"]
)
def test_an_unknown_opcode_is_named(text):
    with pytest.raises(UnknownInstructionError, match=text.replace(".", r"\.")):
        computed(f"{text} %y, %a, %b;")


def test_results_differ_by_bits_or_by_the_error_of_a_format():
    def wrong(a, b, kind):
        return bool(differing(np.array([a], np.uint64), np.array([b], np.uint64), TYPES[kind])[0])

    assert wrong(1, 2, "u32")
    assert not wrong(0xFF00000001, 1, "u32")
    assert not wrong(f32(1.0), f32(1.000001), "f32")
    assert wrong(f32(1.0), f32(1.001), "f32")
    assert not wrong(f32(math.nan), f32(math.nan) ^ 1, "f32")
    assert not wrong(f32(math.inf), f32(math.inf), "f32")
    assert wrong(0x3C003C00, 0x44003C00, "f16x2")


NAN, SMALL, LARGE = 0x7FC00000, f32(1.5), f32(2.0)
MINUS = 0x80000000


@pytest.mark.parametrize(
    ("text", "a", "b", "expected"),
    [
        ("min.f32", NAN, LARGE, LARGE),
        ("min.NaN.f32", SMALL, LARGE, SMALL),
        ("max.NaN.f32", SMALL, LARGE, LARGE),
        ("max.NaN.f32", SMALL, NAN, "nan"),
        ("min.xorsign.abs.f32", SMALL | MINUS, LARGE, SMALL | MINUS),
        ("max.xorsign.abs.f32", SMALL | MINUS, LARGE | MINUS, LARGE),
        ("max.xorsign.abs.f32", SMALL, LARGE | MINUS, LARGE | MINUS),
        ("min.xorsign.abs.f32", NAN, SMALL | MINUS, SMALL | MINUS),
        ("min.NaN.xorsign.abs.f32", NAN, SMALL | MINUS, "nan"),
        # 0x3C00 is 1 in f16, 0xC000 is -2.
        ("min.xorsign.abs.f16x2", 0x3C00C000, 0xC0003C00, 0xBC00BC00),
        ("max.NaN.bf16x2", 0x3F80BF80, 0x4000C000, 0x4000BF80),
    ],
)
def test_extremes_of_floats(text, a, b, expected):
    found = computed(f"{text} %y, %a, %b;", a, b) & MASK
    assert math.isnan(from_f32(found)) if expected == "nan" else found == expected


@pytest.mark.parametrize(
    ("text", "a", "b", "expected"),
    [
        ("szext.wrap.u32", 0xFFFFFFFF, 4, 0xF),
        ("szext.wrap.u32", 0xFFFFFFFF, 36, 0xF),
        ("szext.wrap.s32", 0x8, 4, 0xFFFFFFF8),
        ("szext.wrap.s32", 0x17, 4, 0x7),
        ("szext.clamp.s32", 0x80000001, 99, 0x80000001),
        ("szext.clamp.u32", 0x80000001, 32, 0x80000001),
        ("szext.clamp.s32", 0xFFFFFFFF, 0, 0),
        ("bmsk.clamp.b32", 4, 8, 0xFF0),
        ("bmsk.clamp.b32", 28, 8, 0xF0000000),
        ("bmsk.clamp.b32", 32, 8, 0),
        ("bmsk.clamp.b32", 0, 77, 0xFFFFFFFF),
        ("bmsk.wrap.b32", 36, 33, 0x10),
        ("bmsk.wrap.b32", 3, 32, 0),
    ],
)
def test_fields_by_length(text, a, b, expected):
    assert computed(f"{text} %y, %a, %b;", a, b) & MASK == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cvt.pack.sat.u8.s32.b32 %y, %a, %b, %c;", 0x567800FF),
        ("cvt.pack.sat.s8.s32.b32 %y, %a, %b, %c;", 0x5678FD7F),
        ("cvt.pack.sat.u4.s32.b32 %y, %a, %b, %c;", 0x3456780F),
        ("cvt.pack.sat.s4.s32.b32 %y, %a, %b, %c;", 0x345678D7),
        ("cvt.pack.sat.u16.s32 %y, %a, %b;", 0x000003E8),
        ("cvt.pack.sat.s16.s32 %y, %a, %b;", 0xFFFD03E8),
    ],
)
def test_two_words_are_saturated_and_packed(text, expected):
    minus_three = MASK - 2
    assert computed(text, minus_three, 1000, 0x12345678) & MASK == expected
