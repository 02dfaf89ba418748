"""Change constants of the drift fit one at a time, and print what that makes of kept runs.

    python studies/method/try_constants.py results/nvidia-h200/{table-6eda-repeat,operands,levels}

A line for each value: by how much the power of a kernel, brought to the mean drift level of its run,
changes at most and at the 95th percentile, for each run.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from ptxbench.analysis.loop_energy import shared_by
from ptxbench.core.condition import DYNAMIC
from ptxbench.storage.run_folder import RunFolder

# Module of ptxbench/analysis, constant, values beside its own.
TRIED = (
    ("drift", "_UNSURE", 0.002, 0.005),
    ("drift", "_WRONG", 0.3, 0.7),
    ("drift", "_APART_S", 0.5, 2.0),
    ("drift", "_FEWEST", 10, 40),
    ("drift_fit", "_FIRST_STEPS", 4, 16),
    ("drift_fit", "_STEPS", 10, 30),
    ("drift_fit", "_TURNS", 5, 20),
    ("drift_fit", "_CONVERGED", 1e-5, 4e-5),
    ("drift_fit", "_WORTH", 0.25, 1.0),
    ("drift_fit", "STRETCH", 0.001, 0.004),
    ("drift_fit", "_PIECE", 5, 20),
    ("drift_fit", "_STRIDE", 1.25, 1.75),
    ("drift_fit", "_GAIN", 5.0, 20.0),
    ("hmm", "_WRONG_SPREAD", 0.004, 0.009),
    ("hmm", "_LEAST", 1e-13, 1e-11),
    ("clock_dips", "_BEFORE", 0.2, 0.6),
    ("clock_dips", "_WORTH", 2.0, 8.0),
    ("level_covariance", "_HUBER", 1.2, 1.5),
    ("level_covariance", "_PASSES", 6, 24),
    ("loop_energy", "_TURNS", 2, 8),
    ("loop_energy", "_SAME_SLOPE_W_PER_C", 0.005, 0.02),
    ("thermal_slope", "_FEWEST", 15, 60),
    ("thermal_slope", "_LEAST_SPREAD_C", 0.15, 0.6),
    ("thermal_slope", "_OUTLYING", 4.0, 7.0),
    ("thermal_slope", "_PASSES", 2, 6),
)


def powers(folder: RunFolder) -> npt.NDArray[np.float64]:
    """Return the power of each kernel of a run at its mean drift level, W."""
    records = folder.records()
    drift = shared_by(records, folder.manifest.gpu).drift
    kernels = defaultdict(list)
    for one in records:
        if one.repeat >= 0 and one.protocol == DYNAMIC and one.status.has_number:
            kernels[one.subject, one.role, one.opt_level].append((drift.power_w(one), drift.weight(one)))
    known = [np.array(trials).T for trials in kernels.values()]
    return np.array([np.average(power_w, weights=weight) for power_w, weight in known if weight.any()])


def main() -> None:
    """Print a line for each constant and value."""
    folders = [RunFolder.open(Path(name)) for name in sys.argv[1:]]
    as_it_is = [powers(folder) for folder in folders]
    for module, name, *values in TRIED:
        home = import_module(f"ptxbench.analysis.{module}")
        for value in values:
            with patch.object(home, name, value):
                changes = [
                    np.abs(powers(folder) / own - 1) for folder, own in zip(folders, as_it_is, strict=True)
                ]
            said = "  ".join(f"{x.max():8.3%} {np.quantile(x, 0.95):8.3%}" for x in changes)
            print(f"{module}.{name} {getattr(home, name):g} -> {value:g}  {said}", flush=True)


if __name__ == "__main__":
    main()
