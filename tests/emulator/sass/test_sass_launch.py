"""Launches of the project's own kernels, beside what the reference of their PTX says."""

from dataclasses import replace

import numpy as np
import pytest

from ptxbench.catalogue.load import find_instruction
from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.codegen.operands import operand_bytes
from ptxbench.codegen.render import TARGET, render_module
from ptxbench.core.condition import Form, OptLevel, Pattern
from ptxbench.core.errors import InputError
from ptxbench.core.target import find_target
from ptxbench.emulator.kernel import expected_results
from ptxbench.emulator.sass.launch import Launch, chosen_blocks, emulate
from ptxbench.emulator.sass.tally import Tally
from ptxbench.sass.listing import disassemble, parse_listing

BLOCK, BLOCKS, PASSES, COPIES = 64, 2, 3, 8
ROWS = ("fma.rn.f32", "div.u32")


def launch_of(name):
    """Return a launch of a row's kernel, and what its PTX should give."""
    row = replace(find_instruction(name), copies=COPIES)
    ptx = render_module(row, find_target("sm_90a"), Form.LATENCY)
    image = assemble_ptx(ptx, "sm_90a", OptLevel.O3).image
    kernel = parse_listing(disassemble(image), TARGET)[TARGET]
    operands = operand_bytes(row, Pattern.RANDOM, 1)
    out, nothing = np.zeros(BLOCK * BLOCKS, np.uint64), np.zeros(64, np.uint64)
    arguments = [operands, out, nothing, nothing, np.uint32(PASSES)]
    wanted = expected_results(ptx, TARGET, operands, BLOCK * BLOCKS, PASSES, BLOCK)
    return Launch(image, kernel, (BLOCKS, 1, 1), (BLOCK, 1, 1), arguments), wanted


@pytest.fixture(scope="module")
def launches():
    return {name: launch_of(name) for name in ROWS}


@pytest.fixture
def one(launches):
    return launches[ROWS[0]][0]


@pytest.mark.parametrize("name", ROWS)
def test_results_are_those_of_the_reference_of_ptx(launches, name):
    launch, wanted = launches[name]
    assert list(emulate(launch, look=False).arrays[1]) == list(wanted)


def test_counts_are_those_of_the_whole_launch(one):
    steps = []
    whole, half = emulate(one, on_progress=steps.append), emulate(one, blocks=1)
    assert steps == sorted(steps)
    assert steps[-1] == whole.steps
    assert half.scale == 2
    assert half.by_opcode() == whole.by_opcode()
    assert whole.by_opcode()["FFMA"] == COPIES * PASSES * BLOCKS * BLOCK / 32
    assert whole.by_opcode(Tally.THREADS)["FFMA"] == COPIES * PASSES * BLOCKS * BLOCK


def test_arguments_that_do_not_fit_are_refused(one):
    with pytest.raises(InputError, match="takes 5 arguments, not 4"):
        emulate(replace(one, arguments=one.arguments[:4]))
    with pytest.raises(InputError, match="argument 4 has 8 bytes, its parameter 4"):
        emulate(replace(one, arguments=[*one.arguments[:4], np.uint64(3)]))


def test_blocks_are_spread_over_the_grid_and_fewer_where_arrays_are_large(one):
    wide = replace(one, grid=(10, 4, 2), arguments=[np.zeros(1, np.uint8)])
    assert len(chosen_blocks(wide)) == 8
    assert chosen_blocks(wide, 2) == ((0, 2, 0), (0, 2, 1))
    # It takes no memory until it is written.
    large = np.empty(1 << 32, np.uint8)
    assert len(chosen_blocks(replace(wide, arguments=[large]))) == 2
