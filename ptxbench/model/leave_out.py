"""How well kernels are predicted by the others: the error of a fit on what it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ptxbench.core.arrays import Bools, Floats

# Of what hangs on one kernel by more than this part, the others tell too little to predict it.
_ALONE = 0.9


def can_be_predicted(matrix: Floats, groups: Sequence[str]) -> Bools:
    """Return which equations the others tell enough of, shape (m,).

    Not one of a group that determines something alone, or nearly so: the largest leverage of what its
    equations make together (the largest eigenvalue of its block of the hat matrix; Hoaglin and Welsch, Am.
    Stat. 32, 1978) is above 0.9. Predicting it would be extrapolation.

    Args:
        matrix: Weighted equations, shape (m, n).
        groups: Group of each equation, such as the kernel that ran on two kinds of operands; length m.
    """
    names = np.array(groups)
    basis, singular, _ = np.linalg.svd(matrix / np.maximum(np.linalg.norm(matrix, axis=0), 1e-300))
    basis = basis[:, : int(np.sum(singular > singular[0] * 1e-9))]
    predicted = np.zeros(len(names), dtype=bool)
    for name in dict.fromkeys(groups):
        members = names == name
        leverage = np.linalg.norm(basis[members], ord=2) ** 2
        predicted[members] = leverage < _ALONE
    return predicted


def left_out_errors(
    matrix: Floats,
    right: Floats,
    groups: Sequence[str],
    predicted: Bools,
    solve: Callable[[Floats, Floats], Floats],
) -> Floats:
    """Return the residual of each equation by a solution that its whole group was kept out of, shape (m,).

    It is NaN for those that are not predicted.

    Args:
        matrix: Weighted equations, shape (m, n).
        right: Their right side, shape (m,).
        groups: Group of each equation; length m.
        predicted: Which of them are predicted, shape (m,).
        solve: Solves some of the equations for the n unknowns.
    """
    names = np.array(groups)
    errors = np.full(len(names), np.nan)
    for name in dict.fromkeys(groups):
        kept = names != name
        own = ~kept & predicted
        if own.any():
            values = solve(matrix[kept], right[kept])
            errors[own] = matrix[own] @ values - right[own]
    return errors
