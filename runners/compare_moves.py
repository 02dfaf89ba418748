"""Say what moves the energy of an instruction beside its opcode, from what `--suite move` measured.

    python runners/validate_kernels.py --suite move measure --out FOLDER
    python runners/compare_moves.py FOLDER

Only the first needs a GPU. Prints a Markdown table: dynamic energy of each thread's instruction, and by how
much it differs from the case that it is compared with. What differs by over 5%, and by over two standard
errors, counts.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from model_validation import session_static
from move_cases import EXECUTED, MoveCase, move_cases
from validation_file import KernelSession, read_session

from ptxbench.core.errors import PtxbenchError

_SM_COUNT = 132
_PICO = 1e-12
_COUNTS = 0.05
# Kernels that execute another kernel's instruction are compared with that.
_BASES = {
    "two_registers": "ffma still",
    "body1024": "ffma still",
    "body4096": "ffma still",
    "body10240": "ffma still",
    "predicated": "predicated on",
    "divergent": "divergent on",
    "chain": "chain warps-4",
}


@dataclass(frozen=True)
class Move:
    """One case beside the one that it is compared with.

    Attributes:
        name: Kernel and condition.
        base: The same of what it is compared with.
        energy_pj: Dynamic energy of an instruction of one thread.
        change: Relative difference from the base.
        error: Standard error of the change, by the scatter of the rounds; NaN for a single round.
    """

    name: str
    base: str
    energy_pj: float
    change: float
    error: float

    @property
    def counts(self) -> bool:
        """Whether it moves energy by more than 5%, and by more than two standard errors."""
        return abs(self.change) > max(_COUNTS, 2 * self.error if math.isfinite(self.error) else math.inf)


def moves(session: KernelSession, sm_count: int = _SM_COUNT) -> list[Move]:
    """Return every measured case beside its base.

    Args:
        session: What `--suite move` measured.
        sm_count: SMs of the GPU; each has one block.

    Raises:
        InputError: There is no sleeping kernel.
    """
    static = session_static(session)
    known = {f"{one.kernel} {one.condition}": one for one in move_cases()}
    energies: dict[str, list[float]] = {}
    for trial in session.part.trials:
        case = session.part.cases[trial.case]
        name = f"{case.name.removeprefix('move/')} {case.operands}"
        if name in known and math.isfinite(trial.power_w):
            dynamic_j = (trial.power_w - static.at(trial.temperature_c)) * trial.time_s
            energies.setdefault(name, []).append(dynamic_j / (_executed(known[name], sm_count) * _PICO))
    return [
        _beside(name, _base(known[name]), energies)
        for name in known
        if name in energies and _base(known[name]) in energies
    ]


def _executed(case: MoveCase, sm_count: int) -> float:
    """Return the instructions that all threads execute in a call; a branch that diverges runs twice."""
    passes = EXECUTED // case.body
    return float(passes * case.body * case.threads * sm_count)


def _base(case: MoveCase) -> str:
    return _BASES.get(case.kernel, f"{case.kernel} still")


def _beside(name: str, base: str, energies: dict[str, list[float]]) -> Move:
    value, against = (float(np.mean(energies[one])) for one in (name, base))
    error = math.hypot(_relative_error(energies[name]), _relative_error(energies[base]))
    return Move(name, base, value, value / against - 1, error)


def _relative_error(values: Sequence[float]) -> float:
    if len(values) < 2:
        return math.nan
    return float(np.std(values, ddof=1) / math.sqrt(len(values)) / abs(np.mean(values)))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="what `--suite move measure` wrote")
    parser.add_argument("--sm-count", type=int, default=_SM_COUNT, help="SMs of the GPU (default: 132)")
    arguments = parser.parse_args()
    print("| case | compared with | pJ a thread | difference | counts |")
    print("| --- | --- | ---: | ---: | --- |")
    for one in moves(read_session(arguments.folder), arguments.sm_count):
        shown = f"{100 * one.change:+.1f}% ± {100 * one.error:.1f}%"
        print(f"| {one.name} | {one.base} | {one.energy_pj:.2f} | {shown} | {'yes' if one.counts else ''} |")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"compare_moves: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
