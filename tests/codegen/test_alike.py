"""Operands that are alike in lanes or in time: how many bits differ, and that chains stand still."""

import numpy as np
import pytest

from ptxbench.catalogue.load import find_instruction
from ptxbench.codegen.operands import RECORD_BYTES, SLOTS, operand_bytes, slot_of
from ptxbench.codegen.render import render_module
from ptxbench.core.condition import Form, Pattern
from ptxbench.core.errors import NotMeasurableError
from ptxbench.core.target import find_target
from ptxbench.emulator.kernel import Machine
from ptxbench.emulator.text import kernel_body, lines, parted

THREADS = 64


def column(name, pattern, role):
    """Return an operand of all records, by warp and lane."""
    slots = operand_bytes(find_instruction(name), pattern, 3).view(np.uint64).reshape(-1, 32, SLOTS)
    return slots[:, :, slot_of(role, 0, 0)]


@pytest.mark.parametrize(
    ("name", "role", "width"), [("mad.lo.u32", "b", 32), ("fma.rn.f32", "b", 23), ("fma.rn.f16x2", "b", 20)]
)
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_halves_of_a_warp_differ_in_so_many_bits_of_32(name, role, width, bits):
    values = column(name, Pattern(f"hamming:{bits}"), role)
    differ = np.bitwise_count(values[:, :16] ^ values[:, 16:])
    assert differ.mean() == pytest.approx(bits * width / 32, rel=0.05, abs=0.6)
    np.testing.assert_array_equal(values[:, :16], column(name, Pattern.RANDOM, role)[:, :16])


def test_sums_and_products_carry_no_change_to_other_bits():
    a, b, x = (column("mad.lo.u32", Pattern.HAMMING_4, role).astype(np.uint32) for role in "abx")
    result = x * a + b
    assert np.bitwise_count(result[:, :16] ^ result[:, 16:]).mean() == pytest.approx(4, rel=0.05)


def read_by_copies(name, pattern):
    """Return what x is after each of the last copies, one row a copy."""
    row = find_instruction(name)
    ptx = render_module(row, find_target("sm_90a"), Form.THROUGHPUT)
    prologue, loop, _ = (list(lines(part)) for part in parted(kernel_body(ptx, "target")))
    machine = Machine(operand_bytes(row, pattern, 1), THREADS, THREADS, 2)
    for line in [*prologue, *loop]:
        machine.execute(line)
    return np.array([machine.registers[f"%x{chain}"] for chain in range(4)])


@pytest.mark.parametrize("name", ["xor.b32", "mad.lo.u32", "popc.b32", "lop3.b32:96"])
def test_a_chain_stands_still_and_all_chains_have_one_value(name):
    still = read_by_copies(name, Pattern.STILL)
    assert len(np.unique(still, axis=0)) == 1
    assert len(np.unique(still)) == THREADS
    assert len(np.unique(read_by_copies(name, Pattern.RANDOM), axis=0)) == 4


def test_few_unlike_bits_stay_few_where_nothing_moves_them_or_all_stands_still():
    for name, pattern in (("xor.b32", Pattern.HAMMING_2), ("popc.b32", Pattern.STILL_HAMMING_2)):
        found = read_by_copies(name, pattern).reshape(4, -1, 32)
        assert 1 < np.bitwise_count(found[..., :16] ^ found[..., 16:]).mean() < 3


def test_floats_stand_still_but_for_the_last_bits():
    still = read_by_copies("fma.rn.f32", Pattern.STILL)
    assert np.bitwise_count(still ^ still[0]).mean() < 1.5


@pytest.mark.parametrize(
    ("name", "pattern", "why"),
    [
        ("lop3.b32", Pattern.STILL, "its chain goes on"),
        ("add.u32", Pattern.STILL_HAMMING_1, "its chain goes on"),
        ("add.f32", Pattern.HAMMING_4, "its values fit together"),
        ("popc.b32", Pattern.HAMMING_4, "popc.b32 moves bits to other places"),
        ("ld.shared.b32", Pattern.STILL, "what it works on is not in registers"),
    ],
)
def test_what_cannot_be_alike_is_refused(name, pattern, why):
    with pytest.raises(NotMeasurableError, match=f"{name}: no pattern {pattern}; {why}"):
        operand_bytes(find_instruction(name), pattern, 1)


def test_a_store_stands_still():
    records = operand_bytes(find_instruction("st.shared.b32"), Pattern.STILL, 1).reshape(-1, RECORD_BYTES)
    words = records.view(np.uint64)[:, slot_of("b", 0, 0) : slot_of("b", 3, 3) + 1]
    assert (words == words[:, :1]).all()
