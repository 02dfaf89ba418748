import numpy as np
import pytest
from fakes.sample import SAMPLE

from ptxbench.catalogue.load import find_instruction
from ptxbench.catalogue.types import TYPES
from ptxbench.codegen.operands import RECORD_BYTES, SLOTS, operand_bytes, slot_of
from ptxbench.codegen.values import CHAINS, GENERATORS, RECORDS, SETS, drawn_as
from ptxbench.core.condition import Pattern
from ptxbench.core.errors import NotMeasurableError

FLOATS = {"f32": (np.uint32, np.float32), "f64": (np.uint64, np.float64)}


def columns(name, role, dtype_of, chain=0):
    """Return the values of a role in one chain, shape (records, sets), as the kernel reads them."""
    bits, dtype = dtype_of
    slots = operand_bytes(find_instruction(name), Pattern.RANDOM, 7).view(np.uint64).reshape(RECORDS, SLOTS)
    places = [slot_of(role, number, chain) for number in range(SETS)]
    return slots[:, places].astype(bits).view(dtype)


@pytest.mark.parametrize("row", SAMPLE, ids=lambda row: row.name)
def test_a_buffer_is_full_repeats_with_its_seed_and_differs_by_thread(row):
    first = operand_bytes(row, Pattern.RANDOM, 1)
    assert first.shape == (RECORDS * RECORD_BYTES,)
    np.testing.assert_array_equal(first, operand_bytes(row, Pattern.RANDOM, 1))
    if row.values == "none" and not row.values_of:
        return
    assert (first != operand_bytes(row, Pattern.RANDOM, 2)).any()
    records = first.reshape(RECORDS, RECORD_BYTES)
    assert len(np.unique(records, axis=0)) == RECORDS


@pytest.mark.parametrize("chain_number", range(CHAINS))
@pytest.mark.parametrize("name", ["fma.rn.f32", "fma.rn.f64"])
def test_a_multiply_add_chain_stays_finite_and_never_settles(name, chain_number):
    dtype = FLOATS[find_instruction(name).type]
    x, a, b = (columns(name, role, dtype, chain_number) for role in "xab")
    chain, seen = x[:, 0].copy(), []
    for step in range(4000):
        chain = a[:, step % SETS] * chain + b[:, step % SETS]
        seen.append(chain.copy())
    assert np.isfinite(seen).all()
    late = np.array(seen[-2 * SETS :])
    assert (np.abs(late) > 1e-3).mean() > 0.99
    assert (late[1:] != late[:-1]).mean() > 0.99, "a fixed point toggles no bit"


def test_every_operand_has_a_slot_of_its_own_and_only_factors_are_shared():
    slots = [slot_of("b", s, c) for s in range(SETS) for c in range(CHAINS)]
    slots += [slot_of(role, 0, c) for role in "xwn" for c in range(CHAINS)]
    slots += [slot_of(role, s, 0) for role in "acdm" for s in range(SETS)]
    assert sorted(slots) == list(range(SLOTS))


@pytest.mark.parametrize("chain_number", range(CHAINS))
def test_sums_of_add_f32_come_back_exactly(chain_number):
    start, addends = (columns("add.f32", role, FLOATS["f32"], chain_number) for role in "xb")
    total = start[:, 0].copy()
    for step in range(SETS):
        total = total + addends[:, step]
    np.testing.assert_array_equal(total, start[:, 0])
    assert (addends != 0).all(axis=1).mean() > 0.99


@pytest.mark.parametrize("name", ["div.u32", "div.rn.f32"])
def test_a_quotient_alternates_between_two_values_that_are_not_special(name):
    dtype = (np.uint32, np.uint32) if name == "div.u32" else FLOATS["f32"]
    start, dividend = (columns(name, role, dtype, CHAINS - 1) for role in "xb")
    value, seen = start[:, 0], []
    for step in range(40):
        value = dividend[:, step % SETS] // value if name == "div.u32" else dividend[:, step % SETS] / value
        seen.append(value)
    assert np.isfinite(seen).all()
    assert np.all(seen)
    np.testing.assert_array_equal(seen[-1], seen[-3])
    assert (seen[-1] != seen[-2]).mean() > 0.99


def test_exponents_stay_where_ex2_is_neither_zero_nor_infinite():
    x, a, b = (columns("ex2.approx.ftz.f32", role, FLOATS["f32"]) for role in "xmn")
    chain = x[:, 0]
    for step in range(200):
        chain = np.exp2(chain) * a[:, step % SETS] + b[:, 0]
        assert (np.abs(chain) < 8).all()


def test_zeros_are_zeros_and_0_by_0_is_not_measurable():
    assert not operand_bytes(find_instruction("fma.rn.f32"), Pattern.ZEROS, 1).any()
    with pytest.raises(NotMeasurableError, match=r"div\.u32: no pattern zeros"):
        operand_bytes(find_instruction("div.u32"), Pattern.ZEROS, 1)


@pytest.mark.parametrize(("pattern", "period"), [(Pattern.UNIFORM, 1), (Pattern.HALVES, 16)])
@pytest.mark.parametrize("name", ["fma.rn.f32", "lop3.b32", "mma.m16n8k16.f32.f16.f16.f32"])
def test_lanes_of_a_warp_repeat_the_first_of_them_and_warps_differ(name, pattern, period):
    records = operand_bytes(find_instruction(name), pattern, 1).reshape(-1, 32, RECORD_BYTES)
    first = records[:, :period]
    np.testing.assert_array_equal(records, np.tile(first, (1, 32 // period, 1)))
    assert len(np.unique(first.reshape(-1, RECORD_BYTES), axis=0)) == RECORDS * period // 32
    random = operand_bytes(find_instruction(name), Pattern.RANDOM, 1).reshape(records.shape)
    np.testing.assert_array_equal(first, random[:, :period])


@pytest.mark.parametrize(
    "name", ["ld.shared.b32", "bar.sync", "ld.global.b32:hbm", "cp.async.ca.4", "mov.u32:tid"]
)
def test_what_no_lane_has_in_registers_of_its_own_has_no_pattern_of_lanes(name):
    with pytest.raises(NotMeasurableError, match=rf"{name}: no pattern halves"):
        operand_bytes(find_instruction(name), Pattern.HALVES, 1)


@pytest.mark.parametrize("role", "xwab")
@pytest.mark.parametrize("values", GENERATORS)
def test_types_that_are_drawn_alike_have_the_same_bits(values, role):
    """Overhead loops are shared on that ground."""
    first = {}
    for ptx_type in TYPES.keys() - {"pred"}:
        drawn = GENERATORS[values](role, ptx_type, np.random.default_rng(3), 16)
        np.testing.assert_array_equal(drawn, first.setdefault(drawn_as(values, ptx_type), drawn))


def test_what_is_drawn_tells_width_format_and_the_sign_of_a_quotient():
    assert drawn_as("integer", "u32") == drawn_as("integer", "s32") != drawn_as("integer", "u64")
    assert len({drawn_as("cycle", ptx_type) for ptx_type in ("f32", "u32", "f16x2", "bf16x2")}) == 4
    assert drawn_as("quotient", "u32") != drawn_as("quotient", "s32")
