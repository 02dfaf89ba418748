"""The loop check: decide whether a cubin's loops hold exactly what the catalogue claims; it fails closed.

It counts opcodes (here), and reads what counts do not show: whether every thread executes the loop as often
as requested (loop_counter.py, loop_path.py), and whether the copies are alike and are the operation that the
row names (copy_check.py, operation.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ptxbench.catalogue.model import Expectation, Instruction, Unit
from ptxbench.codegen.render import OVERHEAD, OVERHEAD_2N, TARGET, TARGET_2N
from ptxbench.core.condition import Form, OptLevel
from ptxbench.core.opcode_counts import counts_text
from ptxbench.core.threads import WARP
from ptxbench.sass.copy_check import check_alike, check_guarded, check_results, shapes_beyond
from ptxbench.sass.loop import LoopError, find_loop
from ptxbench.sass.loop_counter import check_passes
from ptxbench.sass.loop_path import check_barrier, check_branches, check_guards, check_path
from ptxbench.sass.operation import check_operation, check_sources
from ptxbench.sass.program import Loop, SassKernel

# What a loop may hold besides the copies: its counter, compare, branch, anchor and held registers.
RESIDUE = frozenset(
    {"UIADD3", "IADD3", "VIADD", "ISETP", "UISETP", "LOP3", "SEL", "FSEL", "MOV", "BRA", "BAR", "WARPSYNC"}
)
# A warpgroup's products come in groups: the loop opens and waits for one, which holds one product.
_GROUP_RESIDUE = frozenset({"WARPGROUP", "HGMMA", "UMOV", "R2UR", "PLOP3", "VOTEU"})
# An SM's products and copies of tensor memory are committed to a barrier object, whose phase is waited for.
_COMMIT_RESIDUE = frozenset({"UTCBAR", "SYNCS", "SHF"})
# Instructions of an overhead loop besides its row's; chosen.
RESIDUE_LIMIT = 64
# The family whose template asks for tensor memory.
_TENSOR_MEMORY = "tcgen05"
MOVES = frozenset({"MOV", "IMAD.MOV.U32"})
_LOCAL = frozenset({"LDL", "STL"})


class Verdict(StrEnum):
    """What one PTX instruction became; ABSENT is a target that does not have it, which is no failure."""

    EXACT = "exact"
    MIXTURE = "mixture"
    EXPANDS = "expands"
    CALLS = "calls"
    REFUSED = "refused"
    ABSENT = "absent"


@dataclass(frozen=True)
class LoopCheck:
    """The loop check's answer for one instruction at one optimization level.

    Attributes:
        verdict: Class of the row; REFUSED where anything is not as the catalogue says.
        sass: Opcode and its count for one copy, as found in the target loop, most frequent first.
        overhead: What the overhead loop holds, for the reader.
        reason: One sentence where refused, else "".
    """

    verdict: Verdict
    sass: tuple[tuple[str, float], ...]
    overhead: tuple[tuple[str, int], ...]
    reason: str

    @property
    def passed(self) -> bool:
        """Whether a measurement of these loops is valid."""
        return self.verdict is not Verdict.REFUSED

    @property
    def sass_per_ptx(self) -> float:
        """SASS instructions for one PTX instruction."""
        return sum(count for _, count in self.sass)

    @property
    def sass_text(self) -> str:
        """Such as "FFMA" or "HFMA2*0.5 HFMA2.MMA*0.5"."""
        return counts_text(self.sass)


class _RefusedError(Exception):
    """Carries the reason from a check to `check_loops`."""


def check_loops(
    instruction: Instruction,
    opt_level: OptLevel,
    kernels: Mapping[str, SassKernel],
    target: str = "",
    form: Form = Form.LATENCY,
    lanes: int = WARP,
) -> LoopCheck:
    """Check the kernels of one module.

    Args:
        instruction: The catalogue row that the module was rendered from.
        opt_level: Optimization level that it was assembled at.
        kernels: The cubin's kernels by entry name.
        target: Assembler target, where the catalogue expects other SASS there.
        form: Latency or throughput form.
        lanes: Active lanes of each warp.

    Returns:
        What they are by ptxas's expectation, or by the driver's where only that one is met.
    """
    checked = _check(instruction, instruction.expected(opt_level, target, form), kernels, lanes)
    other = instruction.expected_of_driver(opt_level, form)
    if checked.passed or other is None:
        return checked
    of_driver = _check(instruction, other, kernels, lanes)
    return of_driver if of_driver.passed else checked


def _check(
    instruction: Instruction, expected: Expectation, kernels: Mapping[str, SassKernel], lanes: int
) -> LoopCheck:
    """Check the kernels by one expectation."""
    if expected.refused:
        return LoopCheck(Verdict.REFUSED, (), (), expected.refused)
    per_copy: Counter[str] = Counter()
    overhead: Counter[str] = Counter()
    declared = {option for opcodes, _ in expected.counts for option in opcodes.split("|")}
    try:
        bodies = {name: _loop(kernels, name, declared) for name in _entry_names(instruction)}
        loops = {name: body.counts for name, body in bodies.items()}
        overhead = loops[OVERHEAD]
        per_copy = _difference(loops[TARGET], overhead)
        twice = _difference(loops[TARGET_2N], loops.get(OVERHEAD_2N, overhead))
        _check_content(per_copy, expected, instruction.copies, TARGET)
        _check_content(twice, expected, 2 * instruction.copies, TARGET_2N)
        _check_residue(instruction, loops)
        for name, body in bodies.items():
            if reason := _execution_fault(instruction, expected, name, kernels[name], body, lanes):
                raise _RefusedError(f"{name} kernel: {reason}")
        _check_copies(instruction, expected, bodies)
    except _RefusedError as refusal:
        return LoopCheck(
            Verdict.REFUSED, _shares(per_copy, instruction.copies), _sorted(overhead), str(refusal)
        )
    shares = _shares(_without_constants(per_copy, expected), instruction.copies)
    return LoopCheck(_classify(expected, shares), shares, _sorted(overhead), "")


def _entry_names(instruction: Instruction) -> tuple[str, ...]:
    return (TARGET, OVERHEAD, TARGET_2N, *((OVERHEAD_2N,) if instruction.companions else ()))


def _loop(kernels: Mapping[str, SassKernel], name: str, declared: Collection[str]) -> Loop:
    if name not in kernels:
        raise _RefusedError(f"the cubin has no kernel {name}")
    try:
        loop = find_loop(kernels[name])
    except LoopError as error:
        raise _RefusedError(f"{name} kernel: {error}") from error
    local = sorted({i.opcode for i in loop.instructions if i.base in _LOCAL and i.opcode not in declared})
    if local:
        raise _RefusedError(
            f"{name} kernel: local memory in the loop ({', '.join(local)}): registers spilled"
        )
    return loop


def _opcodes(expected: Expectation) -> frozenset[str]:
    return frozenset(opcode for alternatives, _ in expected.counts for opcode in alternatives.split("|"))


def _calls(expected: Expectation) -> bool:
    return any(opcode.startswith("CALL") for opcode in _opcodes(expected))


def _execution_fault(
    instruction: Instruction, expected: Expectation, name: str, kernel: SassKernel, loop: Loop, lanes: int
) -> str:
    """Return why not every active thread executes all of the loop p_iterations times, or ""."""
    body, copies = loop.instructions, _opcodes(expected)
    besides = frozenset(opcode for alternatives, _ in expected.once for opcode in alternatives.split("|"))
    declared = copies | besides if name in (TARGET, TARGET_2N) else frozenset()
    length = sum(n for _, n in expected.counts)
    fills_memory, has_tensor_memory = instruction.family == "level", instruction.family == _TENSOR_MEMORY
    return (
        check_path(
            kernel,
            body,
            calls=_calls(expected),
            fills_memory=fills_memory,
            has_tensor_memory=has_tensor_memory,
            lanes=lanes,
        )
        or check_branches(kernel, body, declared, length)
        or check_barrier(body, declared)
        or check_guards(body, copies, besides, guarded=bool(instruction.guard), single=length == 1)
        or check_passes(kernel, body)
    )


def _check_copies(instruction: Instruction, expected: Expectation, bodies: Mapping[str, Loop]) -> None:
    """Check that the copies are alike, and what the row names. Of a routine's call only guards are read."""
    # The back edge is checked with the counter.
    loops = {name: loop.instructions[:-1] for name, loop in bodies.items()}
    once = shapes_beyond(loops[TARGET], loops[OVERHEAD])
    twice = shapes_beyond(loops[TARGET_2N], loops.get(OVERHEAD_2N, loops[OVERHEAD]))
    counted = ((TARGET, once, instruction.copies), (TARGET_2N, twice, 2 * instruction.copies))
    for name, shapes, copies in counted:
        if not instruction.guard and (reason := check_guarded(expected, shapes, copies)):
            raise _RefusedError(f"{name} kernel: {reason}")
    if _calls(expected):
        return
    reason = check_alike(expected, once, twice)
    if reason:
        raise _RefusedError(f"{TARGET} kernel against {TARGET_2N}: {reason}")
    single = sum(n for _, n in expected.counts) == 1
    besides = sum(abs(n) for _, n in expected.once)
    for name, shapes, _ in counted:
        own = {key: n for key, n in shapes.items() if key[0] in _opcodes(expected)}
        reason = (
            check_results(shapes)
            or check_operation(instruction, expected.opt_level, shapes)
            or (check_sources(instruction, own, besides) if single else "")
        )
        if reason:
            raise _RefusedError(f"{name} kernel: {reason}")


def _difference(target: Counter[str], overhead: Counter[str]) -> Counter[str]:
    """Return target minus overhead with its sign, zeros dropped.

    One IADD3 more and one VIADD less, or the reverse, is no difference: for an add of the loop's own
    ptxas takes now one, now the other.
    """
    difference = Counter(target)
    difference.subtract(overhead)
    if {difference["IADD3"], difference["VIADD"]} == {1, -1}:
        del difference["IADD3"], difference["VIADD"]
    return Counter({opcode: n for opcode, n in difference.items() if n})


def _check_content(found: Counter[str], expected: Expectation, copies: int, kernel: str) -> None:
    """Compare what target holds beyond overhead with `copies` times the expectation, and what a pass has."""
    left = Counter(found)
    wrong = []
    once_a_pass = dict(expected.once)
    for alternatives, count in expected.counts:
        options = alternatives.split("|")
        present = sum(left.pop(opcode, 0) for opcode in options)
        wanted = count * copies + once_a_pass.pop(alternatives, 0)
        if present != wanted:
            merged = ", so copies were merged or dropped" if 0 < present < wanted else ""
            wrong.append(f"{present} {alternatives} where {copies} copies make {wanted:g}{merged}")
    for alternatives, times in once_a_pass.items():
        present = sum(left.pop(opcode, 0) for opcode in alternatives.split("|"))
        if present != times:
            wrong.append(f"{present} {alternatives} where a pass has {times}")
    moves = sum(left.pop(opcode, 0) for opcode in MOVES)
    if moves:
        wrong.append(f"{moves:+d} register moves against the overhead loop where none were expected")
    if left:
        wrong.append(_explain_unexpected(left))
    if wrong:
        raise _RefusedError(f"{kernel} kernel: {'; '.join(wrong)}")


def _explain_unexpected(left: Counter[str]) -> str:
    text = ", ".join(f"{n:+d} {opcode}" for opcode, n in sorted(left.items()))
    if any(opcode.startswith("U") and n > 0 for opcode, n in left.items()):
        return f"work moved to the uniform datapath ({text} against the overhead loop)"
    if any(opcode.startswith("CALL") for opcode in left):
        return f"a call of a routine that the catalogue does not declare ({text})"
    return f"what the catalogue does not expect ({text} against the overhead loop)"


def _check_residue(instruction: Instruction, loops: Mapping[str, Counter[str]]) -> None:
    """Check that the overhead loop is a loop and its companions, and nothing else."""
    overhead = Counter(loops[OVERHEAD])
    if instruction.companions:
        # The companions of N more copies are what the 2N overhead has more; the rest is the loop's own.
        overhead.subtract(_difference(loops[OVERHEAD_2N], loops[OVERHEAD]))
    residue = {opcode: n for opcode, n in overhead.items() if n}
    allowed = RESIDUE | _GROUP_RESIDUE if instruction.unit is Unit.WARPGROUP else RESIDUE
    if instruction.family == _TENSOR_MEMORY:
        allowed |= _COMMIT_RESIDUE
    if instruction.type_of("x").endswith("16"):
        allowed |= {"PRMT"}  # a 16-bit register is held by a PRMT
    if instruction.type_of("x") == "pred":
        allowed |= {"PLOP3"}  # and a predicate by a PLOP3
    strange = {op: n for op, n in residue.items() if n < 0 or op.partition(".")[0] not in allowed}
    if strange or sum(residue.values()) > RESIDUE_LIMIT:
        text = ", ".join(f"{n} {opcode}" for opcode, n in sorted((strange or residue).items()))
        raise _RefusedError(f"overhead kernel: more than the loop's own counter, compare and branch ({text})")


def _without_constants(found: Counter[str], expected: Expectation) -> Counter[str]:
    """Take what one pass has besides out again, so that shares are per copy."""
    left = Counter(found)
    for alternatives, times in expected.once:
        # Those of which there are most go first; below 0 the overhead loop has more, and those which lack.
        for opcode in sorted(alternatives.split("|"), key=lambda o: left[o], reverse=times > 0):
            taken = min(times, max(left[opcode], 0))
            left[opcode] -= taken
            times -= taken
    return +left


def _shares(counts: Counter[str], copies: int) -> tuple[tuple[str, float], ...]:
    return tuple((opcode, n / copies) for opcode, n in _sorted(counts))


def _sorted(counts: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _classify(expected: Expectation, shares: tuple[tuple[str, float], ...]) -> Verdict:
    if any(opcode.startswith("CALL") for opcode, _ in shares):
        return Verdict.CALLS
    if len(shares) == 1 and shares[0][1] == 1:
        return Verdict.EXACT
    if len(expected.counts) == 1 and expected.counts[0][1] == 1:
        return Verdict.MIXTURE
    return Verdict.EXPANDS
