"""The energy of a kernel whose operands are known by emulation: what was fitted for that, beside a table.

E = s sum_op n_op (e_zeros + a_op (e_random - e_zeros)) and the bytes, as in `model.estimate`, with an
activity for each opcode. One number is fitted, the factor s, and no power of an active chip: what rows of an
opcode leave out goes with its operands, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.model.estimate import Machine
from ptxbench.model.terms import CountedSpread
from ptxbench.storage import codec

FILE = "emulation.json"


@dataclass(frozen=True)
class EmulationTerms:
    """What was fitted to kernels whose operands were emulated.

    Attributes:
        scale: Factor on the energies of opcodes.
        low: Lower end of measured over estimated dynamic energy, of fit kernels left out by family.
        high: Upper end.
        kernels: How many cases these are by.
        families: How many families these are of.
    """

    scale: float
    low: float
    high: float
    kernels: int
    families: int


def read_emulation(folder: Path) -> EmulationTerms:
    """Return what was fitted for a table.

    Raises:
        InputError: It has none, or the file does not fit.
    """
    path = folder / FILE
    if not path.exists():
        raise InputError(
            f"{folder} has no {FILE}, which an estimate by emulation needs; name a table that has it, such as"
            " h200, or write it with `runners/fit_emulation.py`"
        )
    found = codec.read_file(EmulationTerms, path)
    if not found.scale > 0:
        raise InputError(f"{path}: scale must be above 0, not {found.scale:g}")
    return found


def by_emulation(machine: Machine, terms: EmulationTerms) -> Machine:
    """Return a GPU as the model sees it where operands are known by emulation."""
    own = CountedSpread(terms.low, terms.high, terms.kernels, terms.families, False)
    # Kernels that use global memory were not fitted: they keep the spread that they have.
    others = tuple(one for one in machine.terms.counted_spreads if one.global_memory is not False)
    fitted = replace(machine.terms, active_w=0.0, counted_spreads=(own, *others))
    return replace(machine, opcode_energies=machine.opcode_energies.scaled(terms.scale), terms=fitted)
