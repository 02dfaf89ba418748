"""The reference against single threads that an H200 computed otherwise than an earlier reference."""

import csv
import re
from pathlib import Path

import pytest

from ptxbench.catalogue.load import find_instruction
from ptxbench.codegen.operands import operand_bytes
from ptxbench.codegen.render import TARGET, render_module
from ptxbench.core.condition import Form, Pattern
from ptxbench.core.target import find_target
from ptxbench.emulator.kernel import expected_results
from ptxbench.experiment.numeric_check import BLOCK, BLOCKS, ITERATIONS, SEED

RECORDED = Path(__file__).parents[2] / "results" / "nvidia-h200" / "check" / "recheck.csv"
# "thread 33 has 0xe0486ba8": the first thread that differed, and what the GPU stored.
THREAD = re.compile(r"target: .*thread (\d+) has 0x([0-9a-f]+)")
LOW_WORD = 0xFFFFFFFF


def recorded():
    """Yield name, form, thread and what the H200 stored, once for both levels."""
    with RECORDED.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["result"] == "mismatch"]
    exact = [row for row in rows if ".approx" not in row["instruction"]]
    cases = {(row["instruction"], row["form"], *THREAD.search(row["detail"]).groups()) for row in exact}
    return sorted(cases)


@pytest.mark.parametrize(("name", "form", "thread", "stored"), recorded())
def test_recorded_thread(name, form, thread, stored):
    row = find_instruction(name)
    ptx = render_module(row, find_target("sm_90a"), Form(form))
    operands = operand_bytes(row, Pattern.RANDOM, SEED)
    found = expected_results(ptx, TARGET, operands, BLOCKS * BLOCK, ITERATIONS, BLOCK)
    assert int(found[int(thread)]) & LOW_WORD == int(stored, 16) & LOW_WORD
