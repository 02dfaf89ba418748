import re
from dataclasses import replace

import pytest
from fakes.modules import built, catalogue_kernels, judged, kernels_of
from fakes.sample import STARTER_ROWS

from ptxbench.catalogue.load import find_instruction
from ptxbench.codegen.render import render_module
from ptxbench.core.condition import Form, OptLevel
from ptxbench.core.target import find_target
from ptxbench.sass.listing import parse_listing
from ptxbench.sass.loop import find_loop
from ptxbench.sass.loop_check import Verdict, check_loops

HOPPER = find_target("sm_90a")
FMA = find_instruction("fma.rn.f32")
ADD = find_instruction("add.u32")


def ptx_of(row, form=Form.LATENCY):
    return render_module(row, find_target("sm_90a"), form)


def mutated(name, change):
    """Judge fma.rn.f32 after `change` was made to the loop of one of its kernels."""
    return all_mutated({name: change})


def all_mutated(changes):
    """Judge fma.rn.f32 after the loop of each kernel named was changed."""
    kernels = parse_listing(built("fma.rn.f32").listing)
    for name, change in changes.items():
        kernel = kernels[name]
        loop = list(find_loop(kernel).instructions)
        before = [i for i in kernel.instructions if i.address < loop[0].address]
        after = [i for i in kernel.instructions if i.address > loop[-1].address]
        kernels[name] = replace(kernel, instructions=(*before, *change(loop), *after))
    return check_loops(FMA, OptLevel.O3, kernels)


def drop_one(loop):
    victim = next(i for i in loop if i.opcode == "FFMA")
    return [i for i in loop if i is not victim]


def insert(opcode, operands):
    def change(loop):
        return [loop[0], replace(loop[1], opcode=opcode, predicate="", operands=operands), *loop[1:]]

    return change


def swap(loop):
    index = next(n for n, i in enumerate(loop) if i.opcode == "FFMA")
    return [*loop[:index], replace(loop[index], opcode="FADD"), *loop[index + 1 :]]


def second_loop(loop):
    return [*loop[:4], replace(loop[-1], address=loop[3].address + 8), *loop[4:]]


def with_an_add(opcode):
    return insert(opcode, "R9, R9, 0x1")


def test_an_add_of_the_loops_own_may_be_either_of_two_instructions():
    adds = {"target": "IADD3", "target_2n": "VIADD", "overhead": "VIADD"}
    loop_check = all_mutated({name: with_an_add(opcode) for name, opcode in adds.items()})
    assert (loop_check.verdict, loop_check.sass) == (Verdict.EXACT, (("FFMA", 1.0),))


def test_an_add_that_only_the_target_has_is_refused():
    loop_check = mutated("target", with_an_add("VIADD"))
    assert loop_check.verdict is Verdict.REFUSED
    assert "+1 VIADD" in loop_check.reason


def test_the_untouched_kernel_passes():
    loop_check = mutated("target", lambda loop: loop)
    assert (loop_check.verdict, loop_check.sass, loop_check.reason) == (Verdict.EXACT, (("FFMA", 1.0),), "")


@pytest.mark.parametrize("name", ["target", "target_2n"])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            drop_one,
            r"kernel: (63|127) FFMA where (64|128) copies make (64|128), so copies were merged or dropped",
        ),
        (insert("MOV", "R9, R8"), r"kernel: \+1 register moves against the overhead loop"),
        (insert("FFMA", "R9, R8, R8, R9"), "kernel: (65|129) FFMA where (64|128) copies make"),
        (insert("S2R", "R9, SR_TID.X"), r"kernel: what the catalogue does not expect \(\+1 S2R"),
        (insert("CALL.REL.NOINC", "`($f)"), r"kernel: a call of a routine .* \(\+1 CALL.REL.NOINC\)"),
        (insert("UMOV", "UR9, UR8"), r"kernel: work moved to the uniform datapath \(\+1 UMOV"),
        (swap, r"kernel: (63|127) FFMA .*; what the catalogue does not expect \(\+1 FADD"),
        (insert("STL", "[R1], R9"), r"kernel: local memory in the loop \(STL\): registers spilled"),
        (insert("LDL.LU", "R9, [R1]"), r"kernel: local memory in the loop \(LDL.LU\)"),
        (second_loop, "kernel: 2 back edges where one loop was expected"),
        (lambda loop: loop[:-1], "kernel: no loop: the assembler removed it"),
    ],
)
def test_a_mutated_loop_is_refused_with_its_reason(name, change, reason):
    loop_check = mutated(name, change)
    assert loop_check.verdict is Verdict.REFUSED
    assert not loop_check.passed
    assert loop_check.reason.startswith(f"{name} kernel: ")
    assert re.search(reason, loop_check.reason), loop_check.reason


@pytest.mark.parametrize("opcode", ["FFMA", "MOV", "S2R", "LDG.E", "NANOSLEEP"])
def test_whatever_stands_in_the_overhead_loop_alone_is_refused(opcode):
    assert not mutated("overhead", insert(opcode, "R9, R8")).passed


def test_residue_in_all_loops_is_refused_unless_it_is_the_loops_own():
    kernels = parse_listing(built("fma.rn.f32").listing)
    for name, kernel in kernels.items():
        loop = find_loop(kernel).instructions
        at = kernel.instructions.index(loop[1])
        extra = replace(loop[1], opcode="LDG.E", predicate="", operands="R9, [R8]")
        kernels[name] = replace(
            kernel, instructions=(*kernel.instructions[:at], extra, *kernel.instructions[at:])
        )
    loop_check = check_loops(FMA, OptLevel.O3, kernels)
    assert re.match(r"overhead kernel: more than the loop's own .*LDG\.E", loop_check.reason)


def test_a_kernel_that_is_not_there_is_refused():
    kernels = parse_listing(built("fma.rn.f32").listing)
    del kernels["target_2n"]
    assert check_loops(FMA, OptLevel.O3, kernels).reason == "the cubin has no kernel target_2n"


def test_an_empty_loop_that_ptxas_removes_is_refused():
    kept = [
        line for line in ptx_of(FMA).splitlines() if not re.match(r" +(bar\.sync|xor\.b32|@%never mov)", line)
    ]
    loop_check = judged(FMA, "\n".join(kept))
    assert loop_check.reason == "overhead kernel: no loop: the assembler removed it"


def test_a_chain_of_adds_that_merge_in_pairs_is_refused():
    bare = replace(ADD, family="arithmetic", operands=("x", "x", "b"), companions=0)
    loop_check = judged(bare, ptx_of(bare))
    assert loop_check.reason.startswith(
        "target kernel: 32 IADD3 where 64 copies make 64, so copies were merged"
    )


@pytest.mark.parametrize(("row", "uniform"), [(ADD, "UIADD3"), (find_instruction("xor.b32"), "ULOP3.LUT")])
def test_operands_that_are_the_same_in_all_threads_go_to_the_uniform_datapath_and_are_refused(row, uniform):
    # A constant, and a loop counter that ptxas keeps in a uniform register.
    same = re.sub(rf"({re.escape(row.opcode)} +%y0), %x0, %\w+;", r"\1, %i, 1001;", ptx_of(row))
    loop_check = judged(row, same)
    assert loop_check.verdict is Verdict.REFUSED
    assert re.search(rf"work moved to the uniform datapath \(.*\+1 {uniform}", loop_check.reason), (
        loop_check.reason
    )


@pytest.mark.parametrize("level", OptLevel)
def test_a_body_with_one_copy_less_is_refused(level):
    expected = FMA.expected(level).counts[0][0]
    ptx = re.sub(r"\n {4}fma\.rn\.f32 .*", "", ptx_of(FMA), count=1)
    assert judged(FMA, ptx, level).reason.startswith(f"target kernel: 63 {expected} where 64 copies make 64")


def test_a_body_that_spills_is_refused():
    row = replace(FMA, copies=8)
    limited = ptx_of(row, Form.THROUGHPUT).replace("\n{\n", "\n.maxnreg 16\n{\n")
    kernels = kernels_of(limited)
    assert not check_loops(row, OptLevel.O3, kernels).passed


@pytest.mark.parametrize("level", OptLevel)
@pytest.mark.parametrize("row", STARTER_ROWS, ids=lambda row: row.name)
def test_no_opcode_of_an_expectation_is_there_for_nothing(row, level):
    """Leaving out or doubling any opcode that the catalogue expects must be noticed."""
    if not row.exists_on(HOPPER) or row.refusal(level, HOPPER.name, Form.LATENCY):
        return
    kernels = catalogue_kernels(level)[row.name]
    expected = row.expected(level, HOPPER.name)
    assert check_loops(row, level, kernels, HOPPER.name).passed
    for position in range(len(expected.counts)):
        for change in (0.0, 2.0):
            counts = [(op, n * change if at == position else n) for at, (op, n) in enumerate(expected.counts)]
            wrong = replace(expected, counts=tuple(pair for pair in counts if pair[1]))
            altered = replace(row, sass=tuple(wrong if e is expected else e for e in row.sass))
            assert not check_loops(altered, level, kernels, HOPPER.name).passed, (
                expected.counts[position],
                change,
            )


def test_verdicts_name_what_became_of_the_instruction():
    assert built("fma.rn.f16x2").loop_check.verdict is Verdict.MIXTURE
    assert built("popc.b32", OptLevel.O0).loop_check.verdict is Verdict.EXPANDS
    assert built("popc.b32", OptLevel.O0).loop_check.sass_text == "LOP3.LUT*2 POPC"
    assert built("popc.b32", OptLevel.O0).loop_check.sass_per_ptx == 3
    assert built("div.rn.f32").loop_check.verdict is Verdict.CALLS


def test_the_opcode_that_most_of_a_copy_becomes_comes_first():
    counts = [count for _, count in built("div.rn.f32").loop_check.sass]
    assert len(set(counts)) > 2
    assert counts == sorted(counts, reverse=True)
