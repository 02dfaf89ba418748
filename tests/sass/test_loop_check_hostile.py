"""Loops that do other work than their opcode counts say; the loop check must refuse every one of them."""

import re
from dataclasses import replace
from functools import cache

import pytest
from fakes.modules import built, kernels_of

from ptxbench.catalogue.load import find_instruction
from ptxbench.catalogue.model import Form
from ptxbench.codegen.render import batch_prefix, render_batch
from ptxbench.core.condition import OptLevel
from ptxbench.core.target import find_target
from ptxbench.sass.loop import find_loop
from ptxbench.sass.loop_check import Verdict, check_loops
from ptxbench.sass.program import SassInstruction

pytestmark = pytest.mark.hostile

NAMES = (
    *("fma.rn.f32", "add.u32", "sub.u32", "add.f32", "sub.f32", "and.b32", "or.b32", "xor.b32"),
    *("min.u32", "max.s32", "min.f32", "max.f32", "popc.b32", "mul.f32", "fma.rn.f16x2", "setp.lt.s32"),
)
ROWS = tuple(map(find_instruction, NAMES))
BUILDS = (
    ("sm_90a", OptLevel.O3, Form.LATENCY),
    ("sm_90a", OptLevel.O3, Form.THROUGHPUT),
    ("sm_90a", OptLevel.O0, Form.LATENCY),
    ("sm_75", OptLevel.O3, Form.LATENCY),
    ("sm_120a", OptLevel.O3, Form.LATENCY),
)


@cache
def batch(target, level, form):
    return kernels_of(render_batch([(row, form) for row in ROWS], find_target(target)), level, target)


def kernels(row, build):
    prefix = batch_prefix(ROWS.index(row))
    found = batch(*build)
    return {name.removeprefix(prefix): k for name, k in found.items() if name.startswith(prefix)}


def checked(row, build, modules):
    target, level, form = build
    return check_loops(row, level, modules, target, form)


def changed(kernel, change):
    """Return a kernel after `change` was made to the instructions of its loop."""
    loop = list(find_loop(kernel).instructions)
    before = [i for i in kernel.instructions if i.address < loop[0].address]
    after = [i for i in kernel.instructions if i.address > loop[-1].address]
    return replace(kernel, instructions=(*before, *change(loop), *after))


def copies_of(row, build, loop):
    expected = row.expected(build[1], build[0], build[2])
    opcodes = {o for alternatives, _ in expected.counts for o in alternatives.split("|")}
    return [n for n, i in enumerate(loop) if i.opcode in opcodes and "-0x1," not in i.operands]


def each_copy(edit, only_first=False):
    """Change every copy (or the first) in the target kernels."""

    def mutate(row, build, modules):
        def change(loop):
            at = copies_of(row, build, loop)
            for n in at[:1] if only_first else at:
                loop[n] = edit(loop[n], loop)
            return loop

        names = ("target",) if only_first else ("target", "target_2n")
        return modules | {name: changed(modules[name], change) for name in names}

    return mutate


def in_all(change):
    return lambda row, build, modules: {name: changed(k, change) for name, k in modules.items()}


def guarded(predicate):
    return lambda i, loop: replace(i, predicate=predicate)


def by_the_loops_own(i, loop):
    condition = loop[-1].predicate or "@" + re.search(r"!?UP\d", loop[-1].operands).group()
    return replace(i, predicate=condition)


def operand(position, text):
    """Put `text` in the place of one operand of each copy."""

    def edit(i, loop):
        parts = i.operands.split(", ")
        registers = [n for n, part in enumerate(parts) if re.match(r"-?\|?R\d", part)]
        parts[registers[position] if len(registers) > 1 else registers[0]] = text
        return replace(i, operands=", ".join(parts))

    return edit


def counter_by_two(name):
    def change(loop):
        return [
            replace(i, operands=i.operands.replace("-0x1", "-0x2")) if "-0x1" in i.operands else i
            for i in loop
        ]

    return lambda row, build, modules: modules | {name: changed(modules[name], change)}


def before_the_loop(predicate, opcode, operands):
    def mutate(row, build, modules):
        out = {}
        for name, kernel in modules.items():
            loop = find_loop(kernel).instructions
            extra = SassInstruction(loop[0].address - 8, predicate, opcode, operands)
            labels = (*kernel.labels, (".L_behind", loop[-1].address + 16), ("$routine", 1 << 24))
            code = sorted((*kernel.instructions, extra), key=lambda i: i.address)
            out[name] = replace(kernel, instructions=tuple(code), labels=labels)
        return out

    return mutate


def skip_the_copies(row, build, modules):
    """A forward branch over the body, in all kernels."""
    out = {}
    for name, kernel in modules.items():
        loop = find_loop(kernel).instructions
        extra = SassInstruction(loop[0].address + 8, "@P1", "BRA", "`(.L_skip)")
        code = sorted((*kernel.instructions, extra), key=lambda i: i.address)
        labels = (*kernel.labels, (".L_skip", loop[-1].address))
        out[name] = replace(kernel, instructions=tuple(code), labels=labels)
    return out


def no_barrier(loop):
    return [i for i in loop if i.base != "BAR"]


def other_bound(loop):
    return [
        replace(i, operands=re.sub(r"\b(U?RZ), (U?PT)$|\b(U?RZ), (U?R\d+)", "0x7, PT", i.operands))
        if "SETP.NE" in i.opcode
        else i
        for i in loop
    ]


def other_start(row, build, modules):
    def moved(i):
        return replace(
            i, operands=re.sub(r"(?<=\[)0x(180|230|3a0)(?=\])", "0x14", i.operands).replace("0x20", "0x24")
        )

    return {
        name: replace(k, instructions=tuple(moved(i) for i in k.instructions)) for name, k in modules.items()
    }


def one_more(row, build, modules):
    def change(loop):
        at = copies_of(row, build, loop)[0]
        return [*loop[: at + 1], *loop[at:]]

    return modules | {"target": changed(modules["target"], change)}


MUTATIONS = {
    "all copies under @!PT": each_copy(guarded("@!PT")),
    "all copies under a predicate from before the loop": each_copy(guarded("@P5")),
    "all copies but in the last pass": each_copy(by_the_loops_own),
    "one copy under @!PT": each_copy(guarded("@!PT"), only_first=True),
    "one copy under a predicate": each_copy(guarded("@P5"), only_first=True),
    "a counter by two in target": counter_by_two("target"),
    "a counter by two in overhead": counter_by_two("overhead"),
    "a counter by two in 2N": counter_by_two("target_2n"),
    "another bound of the counter": in_all(other_bound),
    "another start of the counter": other_start,
    "warps that leave before the loop": before_the_loop("@P0", "EXIT", ""),
    "a branch over the loop": before_the_loop("@P0", "BRA", "`(.L_behind)"),
    "a call before the loop": before_the_loop("", "CALL.REL.NOINC", "`($routine)"),
    "a forward branch over the copies": skip_the_copies,
    "no barriers": in_all(no_barrier),
    "one copy more": one_more,
    "an operand that is RZ": each_copy(operand(-1, "RZ")),
    "an operand of one copy that is RZ": each_copy(operand(-1, "RZ"), only_first=True),
    "an operand in the constant bank": each_copy(operand(-1, "c[0x0][0x168]")),
    "an operand in a uniform register": each_copy(operand(-1, "UR4")),
}


@pytest.mark.parametrize("build", BUILDS, ids=lambda b: "-".join(map(str, b)))
def test_the_untouched_loops_pass(build):
    for row in ROWS:
        assert checked(row, build, kernels(row, build)).passed, row.name


@pytest.mark.parametrize(
    "name", ["redux.sync.add.u32", "mad.hi.s64", "clz.b64", "rem.u32", "cvt.rn.bf16.f32:pair"]
)
@pytest.mark.parametrize("form", Form)
def test_what_ptxas_arranges_otherwise_at_the_ends_of_a_pass_is_taken(name, form):
    loop_check = built(name, OptLevel.O3, form).loop_check
    assert loop_check.passed, loop_check.reason


def _held(row, build):
    """Operands are not counted where a copy is several instructions: there one opcode says little."""
    return row.expected(build[1], build[0], build[2]).text.count(" ") == 0


@pytest.mark.parametrize("build", BUILDS, ids=lambda b: "-".join(map(str, b)))
@pytest.mark.parametrize("what", MUTATIONS)
def test_every_mutated_loop_is_refused(what, build):
    for row in ROWS:
        if "operand" in what and not _held(row, build) and "one copy" not in what:
            continue
        if "operand" in what and row.family not in ("arithmetic", "mixed"):
            continue
        modules = kernels(row, build)
        loop_check = checked(row, build, MUTATIONS[what](row, build, modules))
        assert loop_check.verdict is Verdict.REFUSED, (row.name, what)
        assert loop_check.reason


def test_there_are_as_many_mutations_as_promised():
    assert len(MUTATIONS) * len(BUILDS) * len(ROWS) >= 1000


def result_lost(i, loop):
    return replace(i, operands=re.sub(r"^R\d+", "RZ", i.operands))


@pytest.mark.parametrize("build", BUILDS, ids=lambda b: "-".join(map(str, b)))
@pytest.mark.parametrize("name", ["fma.rn.f32", "add.u32", "sub.f32", "xor.b32", "min.f32", "mul.f32"])
def test_results_that_go_to_rz_are_refused(name, build):
    row = find_instruction(name)
    mutated = each_copy(result_lost)(row, build, kernels(row, build))
    assert not checked(row, build, mutated).passed


# Rows whose copies have the same opcodes, but are different operations.
TWINS = (
    *(("and.b32", "xor.b32"), ("or.b32", "and.b32"), ("xor.b32", "or.b32")),
    *(("add.u32", "sub.u32"), ("add.f32", "sub.f32")),
)


@pytest.mark.parametrize("build", BUILDS, ids=lambda b: "-".join(map(str, b)))
@pytest.mark.parametrize(("one", "other"), TWINS)
def test_another_operation_under_the_same_opcode_is_refused(one, other, build):
    for asked, given in ((one, other), (other, one)):
        loop_check = checked(find_instruction(asked), build, kernels(find_instruction(given), build))
        assert loop_check.verdict is Verdict.REFUSED, (asked, given)


@pytest.mark.parametrize("build", BUILDS, ids=lambda b: "-".join(map(str, b)))
@pytest.mark.parametrize("name", ["min.u32", "max.s32", "min.f32", "max.f32"])
def test_the_other_extreme_is_refused(name, build):
    def other(i, loop):
        turned = i.operands.replace("!PT", "?").replace("PT", "!PT").replace("?", "PT")
        return replace(i, operands=turned)

    row = find_instruction(name)
    assert checked(row, build, kernels(row, build)).passed
    assert "takes the" in checked(row, build, each_copy(other)(row, build, kernels(row, build))).reason


def test_a_choice_by_the_opposite_of_what_was_compared_is_refused():
    build, row = BUILDS[0], find_instruction("setp.lt.s32")

    def change(loop):
        swap = {"P": "!P", "!P": "P"}
        return [
            replace(i, operands=re.sub(r"(!?P)(\d)$", lambda m: swap[m[1]] + m[2], i.operands))
            if i.base == "SEL"
            else i
            for i in loop
        ]

    modules = kernels(row, build)
    mutated = modules | {name: changed(modules[name], change) for name in ("target", "target_2n")}
    assert not checked(row, build, mutated).passed


def test_a_row_that_the_catalogue_refuses_is_refused_without_a_look_at_its_sass():
    row = find_instruction("abs.f32")
    reason = row.refusal(OptLevel.O3, "sm_90a", Form.LATENCY)
    loop_check = check_loops(row, OptLevel.O3, {}, "sm_90a")
    assert reason
    assert (loop_check.verdict, loop_check.reason) == (Verdict.REFUSED, reason)
    assert not check_loops(row, OptLevel.O3, kernels(ROWS[0], BUILDS[0]), "sm_90a").passed
