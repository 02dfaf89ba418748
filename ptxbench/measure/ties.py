"""How well the powers of kernels are tied together where all stand on levels that are not known either.

Two kernels that were always at the same level are compared as well as the noise lets them; one that was
always at levels of its own is off by these, and its own trials do not show it. With levels c that hold for
stretches of a run, and kernels' own powers a, trial i of kernel k in stretch s is a_k + c_s + noise: least
squares with c around zero (a ridge; Hoerl and Kennard, Technometrics 12, 1970) give the covariance of c, and
so what the levels leave open of each kernel.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]


def errors_of_levels(kernel: Ints, stretch: Ints, noise: float, spread: float) -> Floats:
    """Return the standard error of each kernel's mean level against the mean level of all trials.

    Args:
        kernel: Number of the kernel of each trial, from 0 without gaps, shape (n,).
        stretch: Number of the stretch at one level that it lies in, likewise, shape (n,).
        noise: Standard deviation of a trial.
        spread: Standard deviation of the levels.

    Returns:
        Shape (kernels,).
    """
    counts = np.zeros((kernel.max() + 1, stretch.max() + 1))
    np.add.at(counts, (kernel, stretch), 1.0)
    shares = counts / counts.sum(1, keepdims=True)
    told = np.diag(counts.sum(0)) - counts.T @ shares
    covariance = np.linalg.inv(told / noise**2 + np.eye(len(told)) / spread**2)
    away = shares - counts.sum(0) / counts.sum()
    errors: Floats = np.sqrt(np.maximum(((away @ covariance) * away).sum(1), 0.0))
    return errors
