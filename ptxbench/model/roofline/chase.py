"""Energy of a byte from a pointer chase: Eqs. 11 and 12 of Choi and Vuduc (2012).

    eps_L2 = (E - W eps_flop - Q eps_mem - pi_0 T) / Q_L2
    eps_L1 = (E - W eps_flop - Q eps_mem - pi_0 T - Q_L2 eps_L2) / Q_L1

A chase does no flop, and what it takes from the levels below is known from its array: W and Q are 0 but for
the first touch. The constant power, and the instructions of its loop, are those of the roofline's fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.core.distributions import student_quantile
from ptxbench.core.estimate import Estimate
from ptxbench.model.roofline.fit import RooflineFit


@dataclass(frozen=True)
class Chase:
    """One launch of a pointer chase.

    Attributes:
        bytes_moved: Bytes from its level.
        energy_j: Its energy, J.
        error_j: Standard error of that.
        others: How much it has of each term of the fit, such as {"constant": its time}.
        l2_bytes: Bytes that it takes from L2 besides.
    """

    bytes_moved: float
    energy_j: float
    error_j: float
    others: Mapping[str, float]
    l2_bytes: float = 0.0


def chased_byte(fit: RooflineFit, chases: Sequence[Chase], l2_byte: Estimate | None = None) -> Estimate:
    """Return the energy of a byte of one level, J, the mean of some chases.

    Its 95% interval holds the errors of the fit, which all chases share, and their own: the scatter of three
    or more, or else that of the readings.

    Args:
        fit: The roofline's fit.
        chases: The chases.
        l2_byte: Energy of a byte of L2, J; None: no chase takes any besides.
    """
    n = len(chases)
    per_byte = [{name: amount / one.bytes_moved / n for name, amount in one.others.items()} for one in chases]
    names = {name for one in per_byte for name in one}
    other = fit.sum_of({name: sum(one.get(name, 0.0) for one in per_byte) for name in names})
    from_l2 = (l2_byte or Estimate(0.0, 0.0)).scaled(
        sum(one.l2_bytes / one.bytes_moved for one in chases) / n
    )
    total = np.array([one.energy_j / one.bytes_moved for one in chases])
    if n > 2:
        alone = np.array([fit.sum_of(one.others).value / one.bytes_moved for one in chases])
        own = student_quantile(n - 1) * float(np.std(total - alone, ddof=1)) / math.sqrt(n)
    else:
        own = student_quantile(math.inf) * math.hypot(*(c.error_j / c.bytes_moved for c in chases)) / n
    value = float(total.mean()) - other.value - from_l2.value
    return Estimate(value, math.hypot(other.uncertainty, from_l2.uncertainty, own))
