"""The reference that results of a real GPU are compared with, against sums written out here."""

import numpy as np
import pytest

from ptxbench.catalogue.load import find_instruction
from ptxbench.codegen.operands import RECORD_BYTES, RECORDS, operand_bytes, slot_of
from ptxbench.codegen.render import render_module
from ptxbench.core.condition import Form, Pattern
from ptxbench.core.target import find_target
from ptxbench.emulator.kernel import expected_output

PASSES = 3


def prepared(name, form):
    instruction = find_instruction(name)
    operands = operand_bytes(instruction, Pattern.RANDOM, 3)
    ptx = render_module(instruction, find_target("sm_90a"), form)
    return ptx, operands, operands.reshape(RECORDS, RECORD_BYTES)


def slot(records, role, number, chain=0):
    place = 8 * slot_of(role, number, chain)
    return records[:, place : place + 4].copy().view(np.uint32)[:, 0]


def test_a_linear_congruential_chain():
    ptx, operands, records = prepared("mad.lo.u32", Form.LATENCY)
    x = slot(records, "x", 0)
    for _ in range(PASSES):
        for copy in range(64):
            x = x * slot(records, "a", copy % 4) + slot(records, "b", copy % 4)
    assert np.array_equal(expected_output(ptx, "target", operands, RECORDS, PASSES), x)


@pytest.mark.parametrize("name", ["add.u32", "xor.b32", "mad.lo.u32", "fma.rn.f32"])
@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("entry", ["target", "overhead", "target_2n"])
def test_no_kernel_ends_with_the_same_value_in_many_threads(name, form, entry):
    ptx, operands, _ = prepared(name, form)
    values = expected_output(ptx, entry, operands, 2 * RECORDS, PASSES)
    assert np.array_equal(values[:RECORDS], values[RECORDS:])  # threads share records, in turns
    assert len(np.unique(values)) > 0.99 * RECORDS
    if name == "fma.rn.f32":
        floats = values.view(np.float32)
        assert np.isfinite(floats).all()
        assert (np.abs(floats) < 1e4).all()
