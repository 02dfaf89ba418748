"""What the code alone tells of operands, and what that is worth in an estimate that is not told the data.

    python runners/judge_uniformity.py

Needs nvcc and no GPU. Data flow over a kernel's machine code labels what each instruction reads and writes:
alike in all lanes, a multiple of the lane's number, or anything (loaded, or made from what is). Nothing is
run. Of each opcode's random words then so much is left as the law of operands has for these labels. The
table is in studies/model/fit.md; since it is of no use there, the package has no such analysis.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from pathlib import Path

import numpy as np
from fit_emulation import NOT_TOLD, TARGET, Measured, measured_on
from fit_model import PAGE, RUNS
from judge_code import cubin_of
from judge_field import GPUS, works_by_code
from page_blocks import table as markdown_table
from page_blocks import write_blocks
from suite_split import FIELD, INSTRUCTION, read_split
from validation_file import Purpose

from ptxbench.core.errors import PtxbenchError
from ptxbench.emulator.sass.activity import registers_read, registers_written
from ptxbench.model.atlas import open_atlas
from ptxbench.model.control_flow import Flow, find_flows
from ptxbench.model.emulated_work import law_of
from ptxbench.model.estimate import estimate
from ptxbench.sass.listing import disassemble, parse_listing
from ptxbench.sass.operand import Kind, Operand
from ptxbench.sass.program import SassInstruction, SassKernel
from ptxbench.sass.written import results, written

_HEAD = ["GPU", "suite", "cases", f"{NOT_TOLD}, %", "with labels, %"]


class Label(IntEnum):
    """What is known of a register, of two that meet the greater."""

    UNIFORM = 0
    AFFINE = 1
    ANYTHING = 2


# Bits of a word that differ from half to half, and the others of the law; of random words 16 (a guess: a
# counter or an address sets and changes half of them).
_HALVES, _OTHERS = (0.0, 2.0, 16.0), (8.0, 8.0, 16.0)
# A pass of a loop weighs as much as so many of what is around it.
_PASSES = 8.0
_ALIKE = frozenset({"VOTE", "REDUX", "S2UR", "R2UR", "LDC", "CS2R"})
_LOADS = frozenset({"LDG", "LDS", "LDL", "LD"})
_BY_LANE = frozenset({"SHFL", "MATCH", "ATOMS", "ATOMG", "LDSM", "HMMA", "IMMA", "DMMA"})
_LINEAR = frozenset({"IADD3", "IADD", "VIADD", "IMAD", "LEA", "MOV", "SEL"})

State = dict[str, Label]


def labels_of(flow: Flow) -> Mapping[int, tuple[list[Label], list[Label]]]:
    """Return the labels of the words that each instruction reads and writes, by its address."""
    entry: dict[int, State] = {min(flow.blocks): {}}
    found: dict[int, tuple[list[Label], list[Label]]] = {}
    changed = True
    while changed:
        changed = False
        for block in flow.in_order:
            if block.begin not in entry:
                continue
            state = dict(entry[block.begin])
            for one in block.instructions:
                read = [_of(name, state) for _, names in registers_read(one) for name in names]
                _step(one, state)
                found[one.address] = read, [_of(name, state) for name in registers_written(one)]
            for way in block.successors:
                known = entry.get(way)
                merged = {name: max(label, _of(name, known or {})) for name, label in state.items()}
                if known is None or merged != {name: _of(name, known) for name in merged}:
                    entry[way], changed = {**(known or {}), **merged}, True
    return found


def _of(name: str, state: State) -> Label:
    return state.get(name, Label.UNIFORM)


def _step(one: SassInstruction, state: State) -> None:
    names = written(one)
    label = _result(one, state) if names else Label.UNIFORM
    guard = one.predicate.lstrip("@!")
    for name in names:
        if not guard:
            state[name] = label
        elif _of(guard, state):
            state[name] = Label.ANYTHING
        else:
            state[name] = max(label, _of(name, state))


def _result(one: SassInstruction, state: State) -> Label:
    sources = one.operand_list[len(results(one)) :]
    if one.base == "S2R":
        return Label.AFFINE if sources[0].text in ("SR_TID.X", "SR_LANEID") else Label.UNIFORM
    if one.base in _ALIKE:
        return Label.UNIFORM
    if one.base in _BY_LANE:
        return Label.ANYTHING
    labels = [_source(operand, state) for operand in sources]
    most = max(labels, default=Label.UNIFORM)
    if one.base in _LOADS:
        return Label.ANYTHING if most else Label.UNIFORM
    linear = one.base in _LINEAR or (one.base == "SHF" and "L" in one.opcode.split("."))
    squared = one.base == "IMAD" and labels[:2] == [Label.AFFINE, Label.AFFINE]
    return Label.ANYTHING if most is Label.AFFINE and (squared or not linear) else most


def _source(operand: Operand, state: State) -> Label:
    if operand.kind is Kind.ADDRESS:
        words = operand.text.replace("[", " ").replace("]", " ").replace("+", " ").replace(".", " ").split()
        return max((_of(word, state) for word in words), default=Label.UNIFORM)
    return _of(operand.name, state)


def shares_of(kernel: SassKernel) -> dict[str, float]:
    """Return by opcode what its operands cost by their labels, over the same of random words."""
    costs: dict[str, float] = defaultdict(float)
    random: dict[str, float] = defaultdict(float)
    for flow in find_flows(kernel):
        labels = labels_of(flow)
        for one in flow.instructions:
            read, made = labels.get(one.address, ([], []))
            weight = _PASSES ** sum(one.address in loop.members for loop in flow.loops)
            costs[one.opcode] += weight * _cost(one.opcode, read, made)
            anything = ([Label.ANYTHING] * len(words) for words in (read, made))
            random[one.opcode] += weight * _cost(one.opcode, *anything)
    return {opcode: costs[opcode] / whole for opcode, whole in random.items() if whole}


def _cost(opcode: str, read: Sequence[Label], made: Sequence[Label]) -> float:
    halves, ports, flips, ones = law_of(opcode)
    both = halves / 2 * sum(_HALVES[label] for label in (*read, *made))
    reading = (ports + ones) * sum(_OTHERS[label] for label in read)
    return both + reading + flips * sum(_OTHERS[label] for label in made)


def shares_of_suite(suite: str) -> dict[str, dict[str, float]]:
    """Return the shares of the kernels of a suite by case."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for one in read_split(suite):
            image = cubin_of(Path(folder), one, TARGET).read_bytes()
            found[one.case] = shares_of(parse_listing(disassemble(image), one.name)[one.name])
    return found


def judged_row(
    gpu: str, suite: str, kernels: Sequence[Measured], shares: Mapping[str, Mapping[str, float]]
) -> list[str]:
    """Return the mean error of judged kernels on random data, and where activities are scaled by shares."""
    bound = {one.case for one in read_split(suite) if one.bound == "instructions"}
    off = []
    for one in kernels:
        if one.case.purpose is not Purpose.JUDGED or one.case.name not in bound:
            continue
        plain, own = one.random_data, shares[one.case.name]
        labelled = replace(plain, by_opcode={opcode: plain.of(opcode) * own[opcode] for opcode in own})
        told = (replace(one.conditions, activity=activity) for activity in (plain, labelled))
        energies = np.array([estimate(one.work, one.machine, how).energy_j for how in told])
        off.append(100 * np.abs(energies / one.energy_j - 1))
    return [gpu.upper(), suite, str(len(off)), *(f"{x:.1f}" for x in np.mean(off, axis=0))]


def main() -> int:
    """Judge both suites and write the table."""
    try:
        shares = {suite: shares_of_suite(suite) for suite in (INSTRUCTION, FIELD)}
        rows = [
            judged_row(gpu, INSTRUCTION, measured_on(gpu, "suite", {}), shares[INSTRUCTION]) for gpu in RUNS
        ]
        for gpu in GPUS:
            kernels = measured_on(gpu, FIELD, works_by_code(open_atlas(gpu)))
            rows.append(judged_row(gpu, FIELD, kernels, shares[FIELD]))
        table = markdown_table(_HEAD, rows, left=2)
        print(table)
        write_blocks(PAGE, {"uniformity": table})
    except (PtxbenchError, OSError) as error:
        print(f"judge_uniformity: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
