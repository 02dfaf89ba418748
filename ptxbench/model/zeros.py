"""What opcodes cost on zeros beside random operands, for runs that have no trial on zeros.

Kinds of opcodes differ in this: what computes falls to a third, and a transcendental function to half. A load
does not fall at all, since its own energy is that of issue, address and tags. What the moved data cost is in
the bytes of a memory level, which are fitted on both patterns.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from statistics import median

from ptxbench.model.opcodes import ONCE_A_WARP, OpcodeClass, nearest, opcode_class

# Their operands are addresses, which are the same whatever the data are.
MEMORY = frozenset(
    {OpcodeClass.GLOBAL, OpcodeClass.SHARED, OpcodeClass.CONSTANT, OpcodeClass.ATOMIC, OpcodeClass.COPY}
)


@dataclass(frozen=True)
class ActivityRatios:
    """Energy on zeros over energy on random operands.

    Attributes:
        source: The run that they were measured in, and its GPU; "" for the run at hand.
        by_opcode: Measured ratios, between 0 and 1.
    """

    source: str
    by_opcode: Mapping[str, float]

    def of_kin(self, opcode: str) -> float | None:
        """Return the ratio of an opcode by those like it, None where none is.

        What a warp executes once (branches, barriers, counters) has no operands that are data: an overhead
        loop of such opcodes drew 20.6 pJ a pass on zeros and 20.7 on random operands on an H200 (patterns,
        `ld.global.u32`). Else it is the median of those that are most like it, of the same class, or of
        all that access memory.
        """
        kind = opcode_class(opcode)
        if kind in ONCE_A_WARP:
            return 1.0
        for alike in (
            nearest(opcode, self.by_opcode),
            [other for other in self.by_opcode if opcode_class(other) is kind],
            [other for other in self.by_opcode if kind in MEMORY and opcode_class(other) in MEMORY],
        ):
            if alike:
                return self._median(alike)
        return None

    def of_any(self) -> float:
        """Return the median of what computes, for opcodes that nothing measured is like."""
        return self._median([other for other in self.by_opcode if opcode_class(other) not in MEMORY])

    def _median(self, opcodes: list[str]) -> float:
        return median([self.by_opcode[opcode] for opcode in opcodes])


@lru_cache(maxsize=1)
def shipped_ratios() -> ActivityRatios:
    """Return the ratios that come with ptxbench, measured on an H200 (zeros_ratios.toml names the run)."""
    data = tomllib.loads(files("ptxbench.model").joinpath("zeros_ratios.toml").read_text(encoding="utf-8"))
    ratios = {
        opcode: min(zeros_pj / random_pj, 1.0) for opcode, (zeros_pj, random_pj) in data["opcodes"].items()
    }
    return ActivityRatios(f"{data['run']} ({data['gpu']})", ratios)
