"""How well kernels are foretold by the others: the error of a fit on what it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def left_out_errors(
    matrix: Floats, right: Floats, groups: Sequence[str], solve: Callable[[Floats, Floats], Floats]
) -> Floats:
    """Return the residual of each equation by a solution that its whole group was kept out of.

    An equation with an unknown that no equation outside its group has cannot be foretold, and has none.

    Args:
        matrix: Weighted equations, shape (m, n).
        right: Their right side, shape (m,).
        groups: Group of each equation, such as the kernel that ran on two kinds of operands; length m.
        solve: Solves some of the equations for the n unknowns.
    """
    names = np.array(groups)
    errors: list[float] = []
    for name in dict.fromkeys(groups):
        kept = names != name
        known = np.any(matrix[kept] != 0, axis=0)
        foretold = [i for i in np.flatnonzero(~kept) if not np.any(matrix[i, ~known])]
        if foretold:
            values = solve(matrix[kept], right[kept])
            errors.extend(matrix[foretold] @ values - right[foretold])
    return np.array(errors)
