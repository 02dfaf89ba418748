"""The interval of an estimate without bytes or a time: as wide as kernels that were measured were off.

Code tells neither how many bytes pass each memory level nor what a kernel waits for. So the interval is by
the ratios of measured to estimated energy of the fit kernels (runners/code_ratios.py). Where bytes were
counted these scatter about one; without them most are above it.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ptxbench.model.estimate import KernelEstimate
from ptxbench.model.terms import Terms
from ptxbench.model.work import KernelWork

_NOT_KNOWN = (
    "no measured kernel says how far an estimate without bytes or without a measured time is off: the"
    " interval leaves out bytes and waiting, and is too narrow"
)


def reaching(found: KernelEstimate, least_j: float, most_j: float) -> KernelEstimate:
    """Return an estimate whose interval holds what branches leave open, beside what it held.

    Args:
        found: The estimate.
        least_j: Its energy along the cheaper side of each branch that nothing decides.
        most_j: That of both sides.
    """
    energy_j = found.energy_j
    below_j = math.hypot(energy_j - found.low_j, max(energy_j - least_j, 0.0))
    above_j = math.hypot(found.high_j - energy_j, max(most_j - energy_j, 0.0))
    return replace(found, low_j=max(energy_j - below_j, 0.0), high_j=energy_j + above_j)


def widened(found: KernelEstimate, work: KernelWork, terms: Terms, *, modelled_time: bool) -> KernelEstimate:
    """Return an estimate without bytes or without a time with the interval that measured kernels ask for.

    Args:
        found: The estimate, whose interval has no part for bytes and waiting.
        work: What it is of.
        terms: Have the spreads; without them the note says that the interval is too narrow.
        modelled_time: Whether the time was modelled.
    """
    counted, uses = bool(work.bytes_moved), work.uses_global_memory
    by_inputs = {one.inputs: one for one in terms.code_spreads}
    for scattered in dict.fromkeys((counted and work.scatters, False)):
        one = by_inputs.get((modelled_time, counted, uses, scattered))
        if one is not None:
            kind = "use global memory" if uses else "hardly use global memory"
            kind += " by parts of lines" if scattered else ""
            without = "with a modelled time" if counted else "without bytes"
            note = (
                f"the interval is that of {one.kernels} measured kernels that {kind}: they took"
                f" {one.low:.2f} to {one.high:.2f} times their estimate {without}"
            )
            return replace(
                found,
                low_j=min(found.low_j, one.low * found.energy_j),
                high_j=max(found.high_j, one.high * found.energy_j),
                notes=(*found.notes, note),
            )
    return replace(found, notes=(*found.notes, _NOT_KNOWN))
