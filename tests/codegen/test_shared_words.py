"""What threads write to the words of shared memory that loads then follow."""

from collections import defaultdict

import numpy as np
import pytest

from ptxbench.catalogue.load import load_catalogue
from ptxbench.codegen.operands import operand_bytes
from ptxbench.codegen.render import render_module
from ptxbench.core.condition import Form, Pattern
from ptxbench.core.target import find_target
from ptxbench.emulator.kernel import Machine
from ptxbench.emulator.text import kernel_body, lines, parted

BLOCK = 1024
WORDS_BYTES = 32768
CHASED = [
    row
    for row in load_catalogue()
    if row.family == "memory" and {("space", "shared"), ("does", "load")} <= set(row.params)
]


class SharedMemory(Machine):
    """A block of threads that keeps what each thread writes to shared memory, last."""

    def __init__(self, *launch):
        super().__init__(*launch)
        self.registers["words"] = np.zeros(self.threads, np.uint64)
        self.written = defaultdict(dict)

    def value(self, operand, op, width=64):
        return self.registers["words"] if operand == "words" else super().value(operand, op, width)

    def _store(self, line):
        place, source = line.operands
        base, _, offset = place.strip("[]").partition("+")
        addresses = self.value(base, line.opcode) + np.uint64(int(offset or 0))
        for thread, (address, value) in enumerate(
            zip(addresses.tolist(), self.value(source, line.opcode).tolist(), strict=True)
        ):
            self.written[address][thread] = value


@pytest.mark.parametrize("row", CHASED, ids=lambda row: row.name)
def test_threads_that_share_a_word_write_the_same_whoever_is_last(row):
    ptx = render_module(row, find_target("sm_90a"), Form.LATENCY)
    machine = SharedMemory(operand_bytes(row, Pattern.RANDOM, 1), BLOCK, BLOCK, 1)
    for line in lines(parted(kernel_body(ptx, "target"))[0]):
        machine.execute(line)
    assert machine.written
    assert max(machine.written) < WORDS_BYTES
    assert {a for a, by in machine.written.items() if len(set(by.values())) > 1} == set()
