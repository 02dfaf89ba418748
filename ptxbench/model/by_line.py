"""Where the joules of a kernel go by the source lines of its code."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

from ptxbench.model.estimate import KernelEstimate, Machine, Part, opcode_joules
from ptxbench.model.executed import Placed
from ptxbench.model.opcodes import OpcodeClass, opcode_class
from ptxbench.model.work import Access, Activity, KernelWork, Level

# What has no line: routines that CUDA adds, and code without line information.
ELSEWHERE = "(no source line)"
_OF_SHARED = Level.SHARED.value
_OF_GLOBAL = frozenset({*(level.value for level in Level), *(kind.value for kind in Access)}) - {_OF_SHARED}


def joules_by_line(
    found: KernelEstimate,
    work: KernelWork,
    machine: Machine,
    activity: Activity,
    placed: Placed,
    requested: Mapping[int, float],
    lines: Mapping[str, str],
) -> tuple[Part, ...]:
    """Return the energy of each source line: of its instructions, and of the bytes that they move.

    An instruction has its share of its opcode's energy, by executions. A load or store has its share of what
    memory levels and accesses take, by the bytes that it asks for. Errors are those of the opcodes, which
    err alike in all lines; what memory leaves open is in the parts.

    Args:
        found: The estimate, for its clock and its parts.
        work: What it is of.
        machine: The GPU.
        activity: Of its operands.
        placed: Executions by place.
        requested: Bytes that accesses ask for, by address.
        lines: Source line by place.
    """
    scale = machine.law.scale(found.clock_ratio)
    opcodes = opcode_joules(work, machine, activity)
    whole: dict[str, float] = defaultdict(float)
    for opcode, n, idle in placed.values():
        whole[opcode] += n + idle
    energy_j: dict[str, float] = defaultdict(float)
    error_j: dict[str, float] = defaultdict(float)
    for place, (opcode, n, idle) in placed.items():
        line = lines.get(place, ELSEWHERE)
        share = (n + idle) / whole[opcode] if whole[opcode] else 0.0
        joules, error = opcodes.get(opcode, (0.0, 0.0))
        energy_j[line] += scale * share * joules
        error_j[line] = math.hypot(error_j[line], scale * share * error)
    for names, of_shared in ((_OF_GLOBAL, False), ({_OF_SHARED}, True)):
        memory_j = sum(part.energy_j for part in found.parts if part.name in names)
        own = {at: n for at, n in requested.items() if _is_shared(placed[f"{at:#x}"][0]) is of_shared}
        for at, n in own.items():
            energy_j[lines.get(f"{at:#x}", ELSEWHERE)] += memory_j * n / sum(own.values())
    parts = [Part(line, joules, error_j[line]) for line, joules in energy_j.items() if joules]
    return tuple(sorted(parts, key=lambda part: -part.energy_j))


def _is_shared(opcode: str) -> bool:
    return opcode_class(opcode) in (OpcodeClass.SHARED, OpcodeClass.SHARED_ATOMIC)
