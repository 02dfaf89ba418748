"""How many passes of its loop a kernel executes, read from its SASS."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ptxbench.sass.operand import Kind, Operand
from ptxbench.sass.program import SassInstruction, SassKernel
from ptxbench.sass.written import written

# Where p_iterations lies in constant bank 0: its offset among the parameters behind the first parameter's
# address, which is 0x160 up to sm_89, 0x210 on sm_90 and 0x380 from sm_100 on.
_ITERATIONS_AT = frozenset(first + 0x20 for first in (0x160, 0x210, 0x380))
_CONSTANT = re.compile(r"c\[0x0\]\[(?:(?P<register>U?R\d+|U?RZ)\+?)?(?P<offset>0x[0-9a-f]+)?\]")
# A back edge is taken by one predicate; others are taken where threads differ.
_BACK_EDGES = frozenset({"BRA", "BRA.U", "UBRA", "JMP"})
_COPIES = frozenset({"MOV", "UMOV", "R2UR", "LDC", "ULDC", "LDCU", "S2UR"})
_ADDS = frozenset({"IADD3", "UIADD3", "VIADD", "IADD", "UIADD"})
_REGISTERS = (Kind.REGISTER, Kind.UNIFORM)
_ZEROS = (Kind.ZERO, Kind.UNIFORM_ZERO)


@dataclass(frozen=True)
class _Value:
    """A number as the sum of something named, or of nothing (""), and a whole number."""

    base: str
    offset: int

    def plus(self, other: _Value) -> _Value | None:
        if self.base and other.base:
            return None
        return _Value(self.base or other.base, _signed(self.offset + other.offset))


_ITERATIONS = _Value("p_iterations", 0)
_Values = dict[str, _Value | None]


def check_passes(kernel: SassKernel, body: tuple[SassInstruction, ...]) -> str:
    """Return why the loop is not executed p_iterations times, or "".

    The loop must be left where a counter is 0 that begins at p_iterations and falls by one in each pass.

    Args:
        kernel: The kernel.
        body: Its loop from the branch's target to the branch.
    """
    branch = _deciding_branch(kernel, body)
    compared = _compared(body, branch) if branch else None
    if compared is None:
        return "what ends the loop is no comparison with 0 of a counter that nothing overwrites"
    step = _after({compared.base: _Value(compared.base, 0)}, body).get(compared.base)
    if step is None or step.base != compared.base:
        return "the loop's counter is not counted down"
    if step.offset != -1:
        return f"the loop's counter changes by {step.offset:+d} in each pass, not by -1"
    begin = body[0].address
    first = _after({}, (i for i in kernel.instructions if i.address < begin)).get(compared.base)
    if first is None:
        return "the loop's counter does not begin at p_iterations"
    # The comparison sees what the counter was at the begin of the pass, and compared.offset.
    more = first.offset + compared.offset + 1
    if first.base != _ITERATIONS.base or more:
        return f"the loop is executed {_text(first, more)} times, not p_iterations times"
    return ""


def _text(first: _Value, more: int) -> str:
    return f"{first.base or first.offset}{f'{more:+d}' if more else ''}"


def _deciding_branch(kernel: SassKernel, body: tuple[SassInstruction, ...]) -> SassInstruction | None:
    """Return the back edge, or the guarded call before it that leaves a long loop; None is neither."""
    back = body[-1]
    if back.predicate or len(back.operand_list) > 1:
        return back if back.opcode in _BACK_EDGES else None
    before = [i for i in kernel.instructions if i.address < back.address]
    return before[-1] if before and before[-1].base == "CALL" else None


def _compared(body: tuple[SassInstruction, ...], branch: SassInstruction) -> _Value | None:
    """Return the register that is compared with 0, and what was added to it in this pass by then."""
    guards = [branch.predicate, *(o.text for o in branch.operand_list if o.kind is not Kind.LABEL)]
    conditions = [text for text in guards if text]
    if len(conditions) != 1:
        return None
    guard, inverted = conditions[0].lstrip("@!"), "!" in conditions[0]
    leaves = branch.base == "CALL"
    at = next((n for n in range(len(body) - 2, -1, -1) if guard in written(body[n])), None)
    if at is None or body[at].predicate:
        return None
    comparison = body[at]
    parts = comparison.opcode.split(".")
    if parts[0] not in ("ISETP", "UISETP") or parts[-1] != "AND":
        return None
    operands = comparison.operand_list
    if len(operands) != 5 or operands[4].shape not in ("PT", "UPT") or operands[0].name != guard:
        return None
    if ("NE" if inverted == leaves else "EQ") not in parts:
        return None
    registers = [o for o in operands[2:4] if o.kind in _REGISTERS and not o.negative and not o.suffix]
    if len(registers) != 1 or not any(o.kind in _ZEROS or o.number == 0 for o in operands[2:4]):
        return None
    # Every register is itself at the begin of a pass.
    entry: _Values = {o.name: _Value(o.name, 0) for i in body for o in i.operand_list if o.kind in _REGISTERS}
    return _after(entry, body[:at]).get(registers[0].name)


def _after(values: _Values, instructions: Iterable[SassInstruction]) -> _Values:
    """Return the registers' values after straight code; what is not followed is None."""
    values = dict(values)
    for instruction in instructions:
        operands = instruction.operand_list
        is_followed = operands and operands[0].kind in _REGISTERS and not instruction.predicate
        value = _result(instruction, operands, values) if is_followed else None
        values |= dict.fromkeys(written(instruction))
        if is_followed:
            values[operands[0].name] = value
    return values


def _result(instruction: SassInstruction, operands: tuple[Operand, ...], values: _Values) -> _Value | None:
    sources = [o for o in operands[1:] if o.kind not in (Kind.TRUE, Kind.UNIFORM_TRUE)]
    if instruction.base in _COPIES and sources:
        return _read(sources[0], values)
    if instruction.opcode.startswith(("IMAD.MOV", "IMAD.U32")) and len(sources) == 3:
        return _read(sources[2], values) if any(s.kind in _ZEROS for s in sources[:2]) else None
    if instruction.opcode.startswith("IMAD.IADD") and len(sources) == 3 and sources[1].number == 1:
        sources = [sources[0], sources[2]]
    elif instruction.base not in _ADDS or "." in instruction.opcode.removesuffix(".U32"):
        return None
    total: _Value | None = _Value("", 0)
    for source in sources:
        value = _read(source, values)
        total = total.plus(value) if total and value else None
    return total


def _read(operand: Operand, values: _Values) -> _Value | None:
    if operand.kind in _ZEROS:
        return _Value("", 0)
    if operand.kind is Kind.IMMEDIATE:
        number = operand.number
        return None if number is None else _Value("", _signed(number))
    if operand.negative or operand.absolute or operand.suffix:
        return None
    if operand.kind in _REGISTERS:
        return values.get(operand.name)
    if operand.kind is Kind.CONSTANT:
        return _parameter(operand.text, values)
    return None


def _parameter(text: str, values: _Values) -> _Value | None:
    found = _CONSTANT.fullmatch(text)
    if not found:
        return None
    address = int(found["offset"] or "0", 16)
    register = found["register"]
    if register and not register.endswith("Z"):
        base = values.get(register)
        if base is None or base.base:
            return None
        address += base.offset
    return _ITERATIONS if address in _ITERATIONS_AT else None


def _signed(number: int) -> int:
    """Return the number as 32-bit arithmetic has it."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)
