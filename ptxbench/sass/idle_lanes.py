"""Whether those lanes of each warp leave before the loop that are to be idle, and no others."""

from __future__ import annotations

from ptxbench.core.threads import WARP
from ptxbench.sass.operand import Kind
from ptxbench.sass.program import SassInstruction, SassKernel
from ptxbench.sass.written import written

_LEAVES = "EXIT"
_AT_LEAST = "ISETP.GE.U32.AND"
_LANE = "SR_LANEID"


def idle_lanes_leave(kernel: SassKernel, begin: int, lanes: int) -> SassInstruction | None:
    """Return the instruction by which the lanes from `lanes` on leave before the loop; None: there is none.

    It is an EXIT whose guard was set by a comparison of the lane's number, of at least `lanes`.

    Args:
        kernel: The kernel.
        begin: Address of its loop.
        lanes: Active lanes of each warp; of whole warps none leaves.
    """
    if lanes == WARP:
        return None
    before = [instruction for instruction in kernel.instructions if instruction.address < begin]
    leaving = [
        at for at, one in enumerate(before) if one.opcode == _LEAVES and one.predicate.startswith("@P")
    ]
    if len(leaving) != 1 or not _is_of_idle_lanes(before, leaving[0], lanes):
        return None
    return before[leaving[0]]


def _is_of_idle_lanes(before: list[SassInstruction], at: int, lanes: int) -> bool:
    place = _writer(before, at, before[at].predicate.removeprefix("@"))
    if place is None or before[place].opcode != _AT_LEAST or before[place].predicate:
        return False
    _, other, lane, least, and_also = before[place].operand_list
    if not other.lost or least.number != lanes or and_also.kind is not Kind.TRUE or lane.negative:
        return False
    read = _writer(before, place, lane.name)
    # At -O0 the number goes through moves.
    while read is not None and before[read].opcode == "MOV":
        read = _writer(before, read, before[read].operand_list[1].name)
    return read is not None and before[read].opcode == "S2R" and before[read].operands.endswith(_LANE)


def _writer(before: list[SassInstruction], at: int, name: str) -> int | None:
    """Return which instruction wrote a register or predicate last."""
    return next((index for index in range(at - 1, -1, -1) if name in written(before[index])), None)
