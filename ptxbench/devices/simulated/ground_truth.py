"""The hidden truth: what each SASS opcode costs on a simulated GPU.

Where the supply voltage has steps, it is what an opcode costs at factor 1.
Only the simulated GPU and the tests that compare with it may import this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from ptxbench.core.condition import Pattern
from ptxbench.core.errors import InputError
from ptxbench.core.threads import WARP
from ptxbench.devices.simulated.profile import Profile
from ptxbench.devices.simulated.rng import hashed_unit
from ptxbench.sass.program import Loop

_GLOBAL = ("LDG", "STG")
_L2_LOAD = "LDG.STRONG"

# A whole warp's instruction in the control logic; what the threads themselves add is nothing.
_CONTROL_WARP_PJ = 16.0

_PIPES = {
    "control": "BRA BRX JMP CALL RET EXIT BSSY BSYNC BREAK BMOV WARPSYNC YIELD NOP BAR DEPBAR NANOSLEEP",
    "fp32": "FFMA FADD FMUL HFMA2 HADD2 HMUL2",
    "imad": "IMAD IDP IMUL",
    "fp64": "DFMA DADD DMUL DSETP DMNMX",
    "special": "MUFU POPC FLO BREV I2F F2I F2F FRND I2I",
    "load": "LDG LDS LDL LD LDC STS STL SHFL LDTM",
    "exchange": "STG ST LDSM ATOM ATOMS ATOMG RED REDUX STTM UTCCP",
    "tensor": "HMMA IMMA DMMA QMMA BMMA HGMMA IGMMA QGMMA UTCHMMA UTCQMMA UTCIMMA UTCOMMA",
}
_PIPE_OF = {opcode: pipe for pipe, opcodes in _PIPES.items() for opcode in opcodes.split()}

# Cycles in which a sub-partition takes one warp instruction; "fp32" and "fp64" are the profile's.
_ISSUE_CYCLES = {
    "control": 1.0,
    "uniform": 2.0,
    "alu": 2.0,
    "imad": 2.0,
    "special": 8.0,
    "load": 4.0,
    "exchange": 16.0,
    "tensor": 8.0,
}

# Cycles until the next instruction of a dependent chain can issue.
_LATENCY_CYCLES = {
    "control": 4.0,
    "uniform": 6.0,
    "alu": 4.0,
    "fp32": 4.0,
    "imad": 5.0,
    "fp64": 8.0,
    "special": 18.0,
    "load": 33.0,
    "exchange": 40.0,
    "tensor": 33.0,
}
_L2_LATENCY_CYCLES = 260.0
_SLEEP_S = 1e-6

# Of what operand bits cost that change, the share of those that change in time. The others change from one
# half of the warp to the other, which a unit of 16 lanes takes one after the other.
_IN_TIME = 0.4
# A random word differs from another in half of its bits.
_RANDOM_BITS = 16
# Where few bits that differ between the halves cost nearly as much as many.
_SATURATING = ("fp32", "imad", "fp64", "tensor", "special")


def loop_energy_pj(loop: Loop, pattern: str, profile: Profile, lanes: int = WARP) -> float:
    """Return what one iteration of a loop costs one active thread, pJ.

    Every instruction of the loop is charged once an iteration, whatever its predicate says. A loop
    that sleeps is charged nothing at all, so that the static power it shows is exactly the board's.

    Args:
        loop: The loop's body.
        pattern: Operand pattern of the launch.
        profile: The GPU.
        lanes: Active lanes of each warp.

    Raises:
        InputError: The simulated GPU does not know the pattern.
    """
    return 0.0 if sleeps(loop) else counted_energy_pj(loop.counts, pattern, profile, lanes)


def counted_energy_pj(
    counts: Mapping[str, float], pattern: str, profile: Profile, lanes: int = WARP
) -> float:
    """Return what so many executions of each opcode cost one active thread, pJ.

    Raises:
        InputError: The simulated GPU does not know the pattern.
    """
    total_pj = sum(n * opcode_energy_pj(opcode, pattern, profile, lanes) for opcode, n in counts.items())
    return total_pj * profile.chip.energy_scale


def global_bytes(loop: Loop) -> int:
    """Return the bytes that one thread loads from and stores to global memory in one iteration."""
    return sum(n * _access_bytes(opcode) for opcode, n in loop.counts.items() if opcode.startswith(_GLOBAL))


def counted_global_bytes(counts: Mapping[str, float]) -> float:
    """Return the bytes that so many executions by one thread move to and from global memory."""
    return sum(n * _access_bytes(opcode) for opcode, n in counts.items() if opcode.startswith(_GLOBAL))


def counted_without_global(counts: Mapping[str, float]) -> dict[str, float]:
    """Return counts without what moves bytes to and from global memory, whose bytes are charged instead."""
    return {opcode: n for opcode, n in counts.items() if not opcode.startswith(_GLOBAL)}


def without_global(loop: Loop) -> Loop:
    """Return a loop without its accesses to global memory, whose bytes are charged by themselves."""
    return Loop(tuple(i for i in loop.instructions if i.base not in _GLOBAL))


def _access_bytes(opcode: str) -> int:
    words = opcode.split(".")
    return next((bits // 8 for bits in (128, 64) if str(bits) in words), 4)


def instruction_energy_pj(
    target: Loop, overhead: Loop, copies: int, pattern: str, profile: Profile, lanes: int = WARP
) -> float:
    """Return what one of `copies` copies in the target loop adds over the overhead loop, pJ a thread.

    Raises:
        InputError: The simulated GPU does not know the pattern.
    """
    target_pj = loop_energy_pj(target, pattern, profile, lanes)
    return (target_pj - loop_energy_pj(overhead, pattern, profile, lanes)) / copies


def opcode_energy_pj(opcode: str, pattern: str, profile: Profile, lanes: int = WARP) -> float:
    """Return one active thread's share of one instruction before the profile's energy scale, pJ.

    Of what bits cost that do not change one part is spent whatever the lanes of a warp do. What differs from
    one half of it to the other costs where lanes i and i + 16 are both active.

    Raises:
        InputError: The simulated GPU does not know the pattern.
    """
    if pattern not in tuple(Pattern):
        known = ", ".join(Pattern)
        raise InputError(f"the simulated GPU has no operand pattern {pattern!r}, only {known}")
    pipe = pipe_of(opcode)
    if pipe == "control":
        return _CONTROL_WARP_PJ / lanes
    if pipe == "uniform":
        return (20 + 40 * _chance("uniform", opcode)) / lanes
    still = 0.34 + 0.12 * _chance("still", opcode)
    by_warp = 0.6 + 0.2 * _chance("warp", opcode)
    in_time, by_halves = _toggling(Pattern(pattern), pipe)
    pairs = max(lanes - WARP // 2, 0)
    moving = _IN_TIME * in_time + (1 - _IN_TIME) * by_halves * 2 * pairs / lanes
    share = still * (by_warp * WARP / lanes + 1 - by_warp) + (1 - still) * moving
    return _random_energy_pj(opcode, profile.energy_pj) * share


def _toggling(pattern: Pattern, pipe: str) -> tuple[float, float]:
    """Return how much is left of what bits cost that change in time, and between halves: 1 if random."""
    if pattern is Pattern.ZEROS:
        return 0.0, 0.0
    apart = 0 if pattern is Pattern.UNIFORM else pattern.bits_apart
    bits = _RANDOM_BITS if apart is None else apart
    share = bits / (bits + 1) * (1 + 1 / _RANDOM_BITS) if pipe in _SATURATING else bits / _RANDOM_BITS
    return float(not pattern.is_still), share


# A profile has some dozens of opcodes, and each launch asks for them anew.
_chance = cache(hashed_unit)


def _random_energy_pj(opcode: str, energy_pj: Mapping[str, float]) -> float:
    """Energy on random operands: of the profile where it knows the opcode, or else hashed."""
    if opcode in energy_pj:
        return energy_pj[opcode]
    if _reaches_l2(opcode) and _L2_LOAD in energy_pj:
        return energy_pj[_L2_LOAD]
    words = opcode.split(".")
    known = energy_pj.get(".".join(words[:2])) or energy_pj.get(words[0])
    if known is None:
        return 5 + 20 * _chance("energy", opcode)
    return known * (0.85 + 0.15 * _chance("modifiers", opcode))


def pipe_of(opcode: str) -> str:
    """Return the pipe that executes an opcode."""
    base = opcode.partition(".")[0]
    return _PIPE_OF.get(base, "uniform" if base.startswith("U") else "alu")


def issue_cycles(loop: Loop, profile: Profile) -> float:
    """Return the cycles that one warp's iteration takes of a sub-partition.

    They are the busiest pipe's, or one for each instruction that is issued.
    """
    return counted_issue_cycles(loop.counts, profile)


def counted_issue_cycles(counts: Mapping[str, float], profile: Profile) -> float:
    """Return the cycles that so many executions of each opcode by one warp take of a sub-partition."""
    return max(counted_pipe_cycles(counts, profile).values())


def counted_pipe_cycles(counts: Mapping[str, float], profile: Profile) -> dict[str, float]:
    """Return for how many cycles so many executions by one warp keep each pipe, and the issue, busy."""
    chip = profile.chip
    rates = _ISSUE_CYCLES | {"fp32": chip.fp32_cycles, "fp64": chip.fp64_cycles}
    busy = dict.fromkeys(rates, 0.0)
    for opcode, n in counts.items():
        pipe = pipe_of(opcode)
        busy[pipe] += n * rates[pipe]
    return busy | {"issue": float(sum(counts.values()))}


def latency_cycles(loop: Loop, profile: Profile) -> float:
    """Return the cycles of one warp's iteration, every instruction waiting for the one before it."""
    return sum(_latency_cycles(i.opcode, profile) for i in loop.instructions)


def _latency_cycles(opcode: str, profile: Profile) -> float:
    if opcode.startswith("NANOSLEEP"):
        return _SLEEP_S * profile.chip.clock_mhz * 1e6
    if _reaches_l2(opcode):
        return _L2_LATENCY_CYCLES
    return _LATENCY_CYCLES[pipe_of(opcode)]


def sleeps(loop: Loop) -> bool:
    """Tell whether the loop's warps do nothing but wait."""
    return any(i.base == "NANOSLEEP" for i in loop.instructions)


def _reaches_l2(opcode: str) -> bool:
    """Tell whether a load passes by L1: the opcode is all that the simulation knows of the memory level."""
    return opcode.startswith("LDG.") and "STRONG" in opcode
