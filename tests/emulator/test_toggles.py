"""How random operands really are: what changes of them from copy to copy."""

from dataclasses import replace

import pytest

from ptxbench.catalogue.load import find_instruction, load_catalogue
from ptxbench.core.condition import Form, OptLevel
from ptxbench.core.target import find_target
from ptxbench.emulator.kernel import UnknownInstructionError
from ptxbench.emulator.toggles import operand_toggles

TARGET = find_target("sm_90a")
CATEGORIES = sorted({row.category for row in load_catalogue()})


def test_half_of_the_bits_of_random_words_change():
    # Each is a multiply-add of the one before, reversed: 32 bits that nothing holds together.
    found = operand_toggles(find_instruction("brev.b32"), TARGET, Form.LATENCY)
    assert found.bits == pytest.approx(16, abs=0.2)
    assert found.still == pytest.approx(0, abs=1e-4)


def test_a_chain_that_settles_shows():
    # clz is 0 where the highest bit is set. With any word as the companion's addend half of the chains stay
    # at that addend: 0 m + n = n, whose clz is 0 again.
    row = find_instruction("clz.b32")
    settled = operand_toggles(replace(row, values_of=()), TARGET, Form.THROUGHPUT)
    assert settled.still == pytest.approx(0.5, abs=0.05)
    assert settled.bits == pytest.approx(8, abs=1)
    assert operand_toggles(row, TARGET, Form.THROUGHPUT).still < 0.01


def test_a_kernel_that_the_reference_does_not_know_is_not_judged():
    with pytest.raises(UnknownInstructionError):
        operand_toggles(find_instruction("shfl.sync.bfly.b32"), TARGET, Form.LATENCY)


@pytest.mark.parametrize("category", CATEGORIES)
def test_no_row_that_the_reference_knows_runs_on_operands_that_stand_still(category):
    still = {}
    for row in load_catalogue():
        if row.category != category or row.refused or not row.exists_on(TARGET):
            continue
        try:
            found = operand_toggles(replace(row, copies=8), TARGET, row.forms(OptLevel.O3)[-1])
        except UnknownInstructionError:
            continue
        # A single random bit stays what it was half of the time.
        if found.still > (0.5 if row.type == "pred" else 0.1):
            still[row.name] = found
    assert not still
