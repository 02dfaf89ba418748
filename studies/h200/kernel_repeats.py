"""Compare the power of the very same kernels in two runs, apart from one common factor.

    python studies/h200/kernel_repeats.py results/nvidia-h200/table-021e results/nvidia-h200/table-021e-repeat

Powers are those at the mean level of the supply of their run and at one temperature, so that what differs is
neither a row's arithmetic nor its overhead loop. Prints, for each further run, how much one run's powers
scatter apart from the factor and how much its rounds alone explain, and which kernels are far off: of those
whose trials disagree, of which the fewer are set aside and may be right, and of those of which clearly more
count. Exit codes are those of `ptxbench`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ptxbench.analysis.loop_energy import is_clear_majority, shared_by
from ptxbench.analysis.static_power import StaticPower
from ptxbench.core.condition import DYNAMIC
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.core.status import Status
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import Role, TrialRecord

# Median of the absolute deviation of a normal distribution, in standard deviations.
_NORMAL_MAD = 0.6745
_PERCENT = 100.0
_AT_C = 50.0
_FAR = 0.005
# A kernel is machine code in one launch shape; how often it loops does not matter.
Key = tuple[str, str, int, int]


@dataclass(frozen=True)
class KernelPower:
    """What a kernel draws in one run.

    Attributes:
        name: Instruction, level and role.
        power_w: Mean of its trials.
        error: Standard error of that mean by the scatter of its trials, as a fraction.
        clear: Whether clearly more of its trials count than are set aside (`is_clear_majority`).
    """

    name: str
    power_w: float
    error: float
    clear: bool


@dataclass(frozen=True)
class Agreement:
    """How the kernels of two runs agree.

    Attributes:
        factor: Median ratio of the second run's powers to the first's.
        away: What is left of each kernel's ratio, less one, from the lowest on.
        names: Their kernels.
        clear: Whether clearly more of their trials count than are set aside, in both runs.
        rounds: Median of what the scatter of the trials makes of one run's power.
    """

    factor: float
    away: tuple[float, ...]
    names: tuple[str, ...]
    clear: tuple[bool, ...]
    rounds: float

    @property
    def scatter(self) -> float:
        """Robust standard deviation of one run's powers apart from the factor, as a fraction."""
        return float(np.median(np.abs(self.away))) / _NORMAL_MAD / math.sqrt(2)

    @property
    def far(self) -> list[tuple[str, float]]:
        """Kernels that are far off, and by what."""
        return [pair for pair in zip(self.names, self.away, strict=True) if abs(pair[1]) > _FAR]

    def far_of(self, *, clear: bool) -> str:
        """Return how many are far off, of how many, of those whose trials agree clearly or do not."""
        away = [abs(one) for one, is_clear in zip(self.away, self.clear, strict=True) if is_clear is clear]
        return f"{sum(one > _FAR for one in away)} of {len(away)}"


def main() -> int:
    """Compare, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="run folder with rows of the dynamic protocol")
    parser.add_argument("others", type=Path, nargs="+", metavar="other", help="what to compare it with")
    arguments = parser.parse_args()
    first = powers_of(arguments.run)
    for other in arguments.others:
        print(f"{arguments.run.name}, {other.name}: {sentence(agreement(first, powers_of(other)))}")
    return 0


def powers_of(run: Path) -> dict[Key, KernelPower]:
    """Return the power of each kernel of a run that two trials at known levels tell.

    Raises:
        InputError: The folder cannot be read.
    """
    with RunFolder.open(run) as folder:
        info, records = folder.manifest.gpu, folder.records()
    common = shared_by(records, info)
    aside, misfits = common.drift.unsure, common.drift.misfits
    kernels: dict[Key, list[TrialRecord]] = defaultdict(list)
    for r in records:
        counts = r.repeat >= 0 and r.status is Status.OK and r.protocol == DYNAMIC
        if counts and r.role is not Role.STATIC:
            kernels[r.cubin_sha256, r.kernel, r.grid, r.block].append(r)
    found = {}
    for key, valid in kernels.items():
        trials = [r for r in valid if r.trial_id not in aside]
        power_w = np.array([common.drift.power_w(r) - _warmer_w(common.static, r) for r in trials])
        if len(trials) > 1 and np.isfinite(power_w).all():
            name = f"{trials[0].instruction} -{trials[0].opt_level} {trials[0].role}"
            mean_w = float(power_w.mean())
            error = float(power_w.std(ddof=1)) / math.sqrt(len(trials)) / mean_w
            disagree = sum(r.trial_id in misfits for r in valid)
            clear = is_clear_majority(len(trials), len(valid) - len(trials), disagree)
            found[key] = KernelPower(name, mean_w, error, clear)
    return found


def _warmer_w(static: StaticPower, record: TrialRecord) -> float:
    """Return how much more static power takes than at `_AT_C`, W; 0 where no slope is known."""
    return static.slope_w_per_c * (record.temperature_c - _AT_C) if static.slope_w_per_c else 0.0


def agreement(first: dict[Key, KernelPower], second: dict[Key, KernelPower]) -> Agreement:
    """Return how the kernels that two runs share agree.

    Raises:
        InputError: They share none.
    """
    shared = [key for key in first if key in second]
    if not shared:
        raise InputError("the two runs have no kernel in common that two trials of each tell")
    ratios = [second[key].power_w / first[key].power_w for key in shared]
    factor = float(np.median(ratios))
    away = [ratio / factor - 1 for ratio in ratios]
    order = sorted(range(len(shared)), key=away.__getitem__)
    names = tuple(first[shared[n]].name for n in order)
    clear = tuple(first[shared[n]].clear and second[shared[n]].clear for n in order)
    rounds = float(np.median([one[key].error for one in (first, second) for key in shared]))
    return Agreement(factor, tuple(away[n] for n in order), names, clear, rounds)


def sentence(found: Agreement) -> str:
    """Return what is printed of two runs."""
    far: Sequence[str] = [f"{name} {_PERCENT * away:+.1f}%" for name, away in found.far]
    return (
        f"{len(found.away)} kernels, factor {_PERCENT * (found.factor - 1):+.1f}%; beside it one run scatters"
        f" by {_PERCENT * found.scatter:.2f}% (its rounds alone: {_PERCENT * found.rounds:.2f}%),"
        f" more than {_PERCENT * _FAR:.1f}% apart are {found.far_of(clear=False)} of which hardly more trials"
        f" count than are set aside, and {found.far_of(clear=True)} others"
        + (": " + ", ".join(far) if far else "")
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"kernel_repeats: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
