"""The loop check must notice any single change to the loop of any kind of row."""

from dataclasses import replace
from functools import cache

import pytest
from fakes.modules import kernels_by_row

from ptxbench.catalogue.load import load_catalogue
from ptxbench.core.condition import Form, OptLevel
from ptxbench.core.target import find_target
from ptxbench.sass.loop import find_loop
from ptxbench.sass.loop_check import Verdict, check_loops

pytestmark = pytest.mark.hostile

HOPPER = find_target("sm_90a")
# Rows whose verdict or SASS is of a kind that the first row of a family need not show.
SPECIAL = (
    "div.rn.f32",
    "rem.u64",
    "fma.rn.f16x2",
    "add.u32:pair",
    "add.u32:divergent",
    "mbarrier.try_wait.shared.b64",
)


def _sample():
    """Take the first row of every family with every executing unit, and the special ones."""
    kinds = {}
    for row in load_catalogue():
        if row.exists_on(HOPPER) and not row.refused:
            kinds.setdefault((row.family, row.unit), row)
            if row.name in SPECIAL:
                kinds[row.name] = row
    return tuple(kinds.values())


ROWS = _sample()


@cache
def kernels_at(level):
    rows = [row for row in ROWS if not row.refusal(level, HOPPER.name, Form.LATENCY)]
    return kernels_by_row(rows, level, HOPPER.name)


def judged_after(row, level, name, change):
    """Judge a row after `change` was made to the loop of its kernel `name`."""
    kernels = dict(kernels_at(level)[row.name])
    kernel = kernels[name]
    loop = list(find_loop(kernel).instructions)
    before = [i for i in kernel.instructions if i.address < loop[0].address]
    after = [i for i in kernel.instructions if i.address > loop[-1].address]
    kernels[name] = replace(kernel, instructions=(*before, *change(loop), *after))
    return check_loops(row, level, kernels, HOPPER.name)


def insert(opcode, operands):
    def change(loop):
        return [loop[0], replace(loop[1], opcode=opcode, predicate="", operands=operands), *loop[1:]]

    return change


def second_loop(loop):
    return [*loop[:4], replace(loop[-1], address=loop[3].address + 8), *loop[4:]]


def first_of(opcode, loop):
    return next((n for n, i in enumerate(loop[:-1]) if i.opcode == opcode), None)


CASES = [
    pytest.param(row, level, id=f"{row.name}-{level}")
    for level in OptLevel
    for row in ROWS
    if not row.refusal(level, HOPPER.name, Form.LATENCY)
]


def test_the_sample_has_every_family_unit_and_verdict():
    assert {row.family for row in ROWS} == {
        r.family for r in load_catalogue() if r.family and r.exists_on(HOPPER)
    }
    assert {row.unit for row in ROWS} == {r.unit for r in load_catalogue()}
    verdicts = {judged_after(row, level, "target", list).verdict for row, level in (c.values for c in CASES)}
    assert verdicts == {Verdict.EXACT, Verdict.MIXTURE, Verdict.EXPANDS, Verdict.CALLS}


@pytest.mark.parametrize(("row", "level"), CASES)
@pytest.mark.parametrize("name", ["target", "target_2n"])
def test_any_single_change_of_any_row_is_refused(row, level, name):
    expected = row.expected(level, HOPPER.name)
    declared = {opcode for alternatives, _ in expected.counts for opcode in alternatives.split("|")}
    loop = find_loop(kernels_at(level)[row.name][name]).instructions
    changes = {
        "a move": insert("MOV", "R9, R8"),
        "another move": insert("IMAD.MOV.U32", "R9, RZ, RZ, R8"),
        "a local store": insert("STL.U8", "[R1], R9"),
        "a local load": insert("LDL.U8", "R9, [R1]"),
        "a second loop": second_loop,
        "no loop": lambda loop: loop[:-1],
    }
    for opcode in sorted(declared):
        at = first_of(opcode, loop)
        if at is None:
            continue  # the other one of two alternatives
        other = next(o for o in ("FADD", "POPC") if o not in declared)
        changes[f"no {opcode}"] = lambda loop, at=at: [*loop[:at], *loop[at + 1 :]]
        changes[f"one more {opcode}"] = lambda loop, at=at: [*loop[: at + 1], *loop[at:]]
        changes[f"{other} for {opcode}"] = lambda loop, at=at, other=other: [
            *loop[:at],
            replace(loop[at], opcode=other),
            *loop[at + 1 :],
        ]
    assert judged_after(row, level, name, list).passed
    for what, change in changes.items():
        loop_check = judged_after(row, level, name, change)
        assert loop_check.verdict is Verdict.REFUSED, what
        assert loop_check.reason.startswith(f"{name} kernel: "), (what, loop_check.reason)
