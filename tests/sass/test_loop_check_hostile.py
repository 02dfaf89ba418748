"""Loops that do other work than their opcode counts say; the loop check must refuse every one of them."""

import re
from dataclasses import replace
from functools import cache

import pytest
from fakes.modules import kernels_by_row, kernels_of, kernels_of_each

from ptxbench.catalogue.load import find_instruction
from ptxbench.catalogue.model import Form
from ptxbench.codegen.render import batch_prefix, render_batch, render_module
from ptxbench.core.condition import OptLevel
from ptxbench.core.target import find_target
from ptxbench.sass.loop import find_loop
from ptxbench.sass.loop_check import Verdict, check_loops
from ptxbench.sass.program import SassInstruction
from ptxbench.sass.verify import verify_instructions

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


def place_of(loop, where):
    """Where a test puts an instruction or a label, beside those that are there."""
    return {
        "begin": loop[0].address + 8,
        "middle": loop[len(loop) // 2].address,
        "end": loop[-1].address,
        "before the branch": loop[-1].address - 8,
        "behind": loop[-1].address + 8,
    }[where]


def in_every_kernel(predicate, opcode, operands, at="begin", to="end"):
    """Add one instruction to every kernel, so that no count differs; the label .L_new stands at `to`.

    What a predicate holds by is a comparison in the loop.
    """

    def mutate(row, build, modules):
        out = {}
        for name, kernel in modules.items():
            loop = find_loop(kernel).instructions
            text = operands(loop) if callable(operands) else operands
            extra = [SassInstruction(place_of(loop, at), predicate, opcode, text)]
            if predicate:
                compared = "P6, PT, R62, RZ, PT"
                extra += [SassInstruction(place_of(loop, "begin"), "", "ISETP.NE.AND", compared)]
            # They stand behind what is at their address already, the comparison first.
            code = sorted((*kernel.instructions, *reversed(extra)), key=lambda i: i.address)
            labels = (*kernel.labels, (".L_new", place_of(loop, to)))
            out[name] = replace(kernel, instructions=tuple(code), labels=labels)
        return out

    return mutate


def condition_of(loop):
    """The predicate that the loop goes on by."""
    return re.search(r"U?P\d", loop[-1].predicate or loop[-1].operands).group()


def counter_of(loop):
    """The register that the loop counts down, and the first of a pair that ends in it."""
    down = re.compile(r"(U?R)(\d+), (?:U?PT, )*\1\2, (?:-0x1|0xffffffff)\b")
    file, number = next(found for i in loop if (found := down.match(i.operands))).groups()
    return f"{file}{number}", f"{file}{int(number) - 1}"


def uniform(text, loop):
    """The same operands on the datapath that the loop's own condition or counter is on."""
    return re.sub(r"\b([RP])(?=[\dTZ])", r"U\1", text) if "U" in loop else text


def carry_into_the_condition(loop):
    name = condition_of(loop)
    return uniform("R62, PT, ", name) + name + uniform(", R62, 0x1, RZ", name)


def over_the_condition(row, build, modules):
    """An add whose second carry is the loop's condition, behind the comparison."""
    loop = find_loop(modules["target"]).instructions
    opcode = "UIADD3" if condition_of(loop)[0] == "U" else "IADD3"
    return in_every_kernel("", opcode, carry_into_the_condition, "before the branch")(row, build, modules)


def barrier_of(change):
    return in_all(lambda loop: [change(i) if i.base == "BAR" else i for i in loop])


def back_edge(change):
    return in_all(lambda loop: [*loop[:-1], change(loop[-1])])


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
    "a branch over the copies": in_every_kernel("", "BRA", "`(.L_new)"),
    "a branch over half of the copies": in_every_kernel("", "BRA", "`(.L_new)", to="middle"),
    "a branch over the copies where a predicate holds": in_every_kernel("@P6", "BRA", "`(.L_new)"),
    "a branch over the copies by a uniform predicate": in_every_kernel("", "BRA.U", "UP1, `(.L_new)"),
    "a branch over the copies where threads agree": in_every_kernel("", "BRA.CONV", "`(.L_new)"),
    "a branch over the copies where threads differ": in_every_kernel("", "BRA.DIV", "UR4, `(.L_new)"),
    "a branch out of the loop": in_every_kernel("", "BRA", "`(.L_new)", to="behind"),
    "a branch out of the loop where a predicate holds": in_every_kernel(
        "@P6", "BRA", "`(.L_new)", to="behind"
    ),
    "a branch to where nobody knows": in_every_kernel("@P6", "BRA", "0x170"),
    "a jump by a register": in_every_kernel("", "JMX", "R62"),
    "a branch by a table": in_every_kernel("", "BRX", 'R62 -0x720 (*"BRANCH_TARGETS .L_new"*)'),
    "a meeting of threads behind the copies": in_every_kernel("", "BSSY", "B0, `(.L_new)"),
    "copies that some threads do for the others": in_every_kernel(
        "", "WARPSYNC.COLLECTIVE", "R62, `(.L_new)"
    ),
    "a jump into the loop from behind it": in_every_kernel("", "JMX", "R62", at="behind"),
    "a table into the loop from behind it": in_every_kernel("", "BRX", "R62 -0x720", at="behind"),
    "a return into the loop from behind it": in_every_kernel(
        "", "RET.REL.NODEC", "R62 `(target)", at="behind"
    ),
    "a meeting in the loop, told behind it": in_every_kernel(
        "", "BSSY", "B0, `(.L_new)", at="behind", to="middle"
    ),
    "a branch behind the loop to where nobody knows": in_every_kernel("@P6", "BRA", "0x170", at="behind"),
    "a carry into the loop's condition": over_the_condition,
    "a barrier with a count": barrier_of(lambda i: replace(i, operands=f"{i.operands}, 0x40")),
    "a barrier with a count in a register": barrier_of(lambda i: replace(i, operands="R62, R61")),
    "a second barrier with a count": in_every_kernel("", "BAR.SYNC", "0x0, 0x40"),
    "an arrival beside the barrier": in_every_kernel("", "BAR.ARV", "0x1, 0x40"),
    "a loop that goes on by two predicates": back_edge(lambda i: replace(i, operands=f"P5, {i.operands}")),
    "a loop that goes on where threads differ": back_edge(lambda i: replace(i, opcode="BRA.DIV")),
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


def test_what_ptxas_arranges_otherwise_at_the_ends_of_a_pass_is_taken():
    names = ("redux.sync.add.u32", "mad.hi.s64", "clz.b64", "rem.u32", "cvt.rn.bf16.f32:pair")
    rows = verify_instructions(tuple(map(find_instruction, names)), [find_target("sm_90a")], (OptLevel.O3,))
    assert {(row.instruction, row.form) for row in rows} >= {(name, Form.LATENCY) for name in names}
    assert len(rows) > len(names)
    assert {row.reason for row in rows} == {""}


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


# Their copies make pairs of registers. Where the counter is uniform, no copy can reach it.
PAIRS = {
    "mul.wide.u32": "IMAD.WIDE.U32",
    "add.f64": "DADD",
    "fma.rn.f64": "DFMA",
    "cvt.f64.f32:pair": "F2F.F64.F32",
}
OF_COUNTER = tuple((target, OptLevel.O0) for target in ("sm_75", "sm_90a", "sm_120a"))


@cache
def pairs(target, level):
    return kernels_by_row(tuple(map(find_instruction, PAIRS)), level, target)


def ends_in_the_counter(kernel, opcode):
    """Let one copy write the pair whose upper half is the counter."""
    loop = list(find_loop(kernel).instructions)
    at = next(n for n, i in enumerate(loop) if i.opcode == opcode)
    first = counter_of(loop)[1]
    loop[at] = replace(loop[at], operands=re.sub(r"^R\d+", first, loop[at].operands))
    return changed(kernel, lambda _: loop)


@pytest.mark.parametrize("build", OF_COUNTER, ids=lambda b: "-".join(map(str, b)))
@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_whose_upper_half_is_the_counter_is_refused(name, build):
    target, level = build
    row, modules = find_instruction(name), pairs(target, level)[name]
    assert check_loops(row, level, modules, target).passed
    for kernel in ("target", "target_2n"):
        mutated = modules | {kernel: ends_in_the_counter(modules[kernel], PAIRS[name])}
        reason = check_loops(row, level, mutated, target).reason
        # Where the copy's other registers tell it apart from its neighbours, that is found first.
        assert "a counter that nothing overwrites" in reason or "not all copies are alike" in reason


# Rows whose copy is several instructions; in some of them, some stand under a predicate that others write.
EXPANSIONS = (
    *(("add.u64", OptLevel.O3), ("sub.u64", OptLevel.O3)),
    *(("popc.b32", OptLevel.O0), ("abs.s64", OptLevel.O0), ("min.f64", OptLevel.O3)),
    *(("div.u32", OptLevel.O3), ("bfind.u64", OptLevel.O3), ("fns.b32", OptLevel.O3)),
)


@cache
def expansions(level):
    names = dict.fromkeys(name for name, at in EXPANSIONS if at is level)
    return kernels_by_row(tuple(map(find_instruction, names)), level, "sm_90a")


def under_their_own(opcodes, share):
    """Guard what copies become by a predicate that the first of them writes: all, or one in `share`."""

    def change(loop):
        counter, _ = counter_of(loop)
        mine = [n for n, i in enumerate(loop) if i.opcode in opcodes and counter not in i.operands]
        first, *others = [n for n in mine if loop[n].base not in ("MOV", "BRA") and not loop[n].predicate]
        result, _, sources = loop[first].operands.partition(", ")
        if result[0] != "P":
            loop[first] = replace(loop[first], operands=f"{result}, P6, {sources}")
        for n in others[::share]:
            loop[n] = replace(loop[n], predicate=f"@{result}" if result[0] == "P" else "@P6")
        return loop

    return change


@pytest.mark.parametrize("share", [1, 2])
@pytest.mark.parametrize(("name", "level"), EXPANSIONS)
def test_expansions_under_a_predicate_that_they_write_are_refused(name, level, share):
    row, modules = find_instruction(name), expansions(level)[name]
    opcodes = {o for alternatives, _ in row.expected(level).counts for o in alternatives.split("|")}
    assert check_loops(row, level, modules, "sm_90a").passed
    change = under_their_own(opcodes, share)
    mutated = modules | {kernel: changed(modules[kernel], change) for kernel in ("target", "target_2n")}
    loop_check = check_loops(row, level, mutated, "sm_90a")
    assert re.search(r"\d+ instructions stand under a predicate where (64|16) copies", loop_check.reason)


# Of each kind of row that declares a branch, or a call, one.
DECLARED = ("bra.uni", "bra:divergent", "brx.idx", "call.uni", "div.rn.f32", "bfind.u64", "sqrt.rn.f32")


@cache
def declared():
    return kernels_by_row(tuple(map(find_instruction, DECLARED)), OptLevel.O3, "sm_90a")


def leads(where):
    """Let one branch of the copies lead elsewhere."""

    def change(kernel):
        loop = list(find_loop(kernel).instructions)
        at = next(n for n, i in enumerate(loop[:-1]) if i.base in ("BRA", "BRX", "CALL", "BSSY"))
        loop[at] = replace(loop[at], operands=re.sub(r"\.L_\w+|(?<=\()\$[^)]*", ".L_new", loop[at].operands))
        labels = (*kernel.labels, (".L_new", place_of(loop, where)))
        return replace(changed(kernel, lambda _: loop), labels=labels)

    return change


@pytest.mark.parametrize("where", ["end", "middle"])
@pytest.mark.parametrize("name", DECLARED)
def test_a_declared_branch_that_leads_past_other_copies_is_refused(name, where):
    row, modules = find_instruction(name), declared()[name]
    assert check_loops(row, OptLevel.O3, modules, "sm_90a").passed
    mutated = modules | {kernel: leads(where)(modules[kernel]) for kernel in ("target", "target_2n")}
    loop_check = check_loops(row, OptLevel.O3, mutated, "sm_90a")
    assert "it does not lead on within its copy" in loop_check.reason


@pytest.mark.parametrize("name", DECLARED)
@pytest.mark.parametrize("what", ["a branch over the copies", "a jump into the loop from behind it"])
def test_rows_that_declare_a_branch_may_have_no_other(name, what):
    row, modules = find_instruction(name), declared()[name]
    mutated = MUTATIONS[what](row, BUILDS[0], modules)
    assert not check_loops(row, OptLevel.O3, mutated, "sm_90a").passed


def test_a_return_is_taken_only_where_something_calls():
    """The routine of another row's kernel, put behind kernels that call nothing."""
    routine = SassInstruction(1 << 23, "", "RET.REL.NODEC", "R62 `(target)")
    modules = {
        name: replace(
            kernel,
            instructions=(*kernel.instructions, routine),
            labels=(*kernel.labels, ("$routine", 1 << 23)),
        )
        for name, kernel in kernels(ROWS[0], BUILDS[0]).items()
    }
    assert "may lead back into it" in checked(ROWS[0], BUILDS[0], modules).reason


def of_entries(ptx, change):
    """Return a module after `change` was made to the loop of each kernel, with another predicate declared."""
    first, *entries = re.split(r"(?=\.visible \.entry)", ptx)
    changed_entries = []
    for entry in entries:
        name = re.match(r"\.visible \.entry (\w+)", entry)[1]
        head, _, loop = entry.partition("again:\n")
        body, anchor, tail = loop.partition("    xor.b32")
        head = head.replace("%never;", "%never, %skip;", 1)
        changed_entries.append(f"{head}again:\n{change(body, name)}{anchor}{tail}")
    return first + "".join(changed_entries)


def over_half_of_the_copies(body, name):
    """A branch in every kernel that leaps over half of the copies, and over enough for ptxas to keep it."""
    pragma, barrier, *copies = [line for line in body.splitlines() if line.strip()]
    pairs = (("xor", "i"), ("or", "index"), ("xor", "thread"), ("and", "i"))
    more = [f"    {op}.b32 %anchor, %anchor, %{by};" for op, by in pairs] * 8
    skip = ["    setp.eq.u32 %skip, %i, 77;", f"    @%skip bra half_{name};", *more]
    half = len(copies) // 2
    return "\n".join([pragma, barrier, *skip, *copies[:half], f"half_{name}:", *copies[half:], ""])


def of_some_threads(body, name):
    return re.sub(r"(bar\.sync +0);", r"\1, 64;", body)


OTHER_WORK = (
    *(
        (name, over_half_of_the_copies, "a branch that the row does not declare")
        for name in ("add.u32", "popc.b32", "fma.rn.f32")
    ),
    ("fma.rn.f32", of_some_threads, "waits for a number of threads"),
    ("popc.b32", of_some_threads, "waits for a number of threads"),
)


@pytest.mark.parametrize("target", ["sm_75", "sm_90a", "sm_120a"])
def test_what_ptxas_makes_of_ptx_that_does_other_work_is_refused(target):
    rows = [find_instruction(name) for name, _, _ in OTHER_WORK]
    changed_modules = [
        of_entries(render_module(row, find_target(target), Form.LATENCY), change)
        for row, (_, change, _) in zip(rows, OTHER_WORK, strict=True)
    ]
    found = kernels_of_each(changed_modules, OptLevel.O3, target)
    for row, (name, _, reason), modules in zip(rows, OTHER_WORK, found, strict=True):
        loop_check = check_loops(row, OptLevel.O3, modules, target, Form.LATENCY)
        assert reason in loop_check.reason, name
