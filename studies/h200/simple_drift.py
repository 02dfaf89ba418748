"""Try a simpler drift model: robust regression with a total-variation penalty on the offset.

    python studies/h200/simple_drift.py repeats results/nvidia-h200/table-01d0{,-repeat}
    python studies/h200/simple_drift.py intervals --profile h200-steps --runs 6 --rows 10

For trial i of kernel k at temperature T and time t,

    ln(P_i - P_static) = a_k + b T_i + s(t_i) + noise

with the loss of Huber (Ann. Math. Stat. 35, 1964) and a penalty on the sum of |s_{i+1} - s_i| (the fused
lasso: Tibshirani et al., J. R. Stat. Soc. B 67, 2005), by iteratively reweighted least squares. The jumps
that this finds are then fitted again without the penalty, which makes them too small.

`repeats` prints how the rows of the first run agree with those of each other run: as their tables have them,
and solved again from the same trials by this model. The runs need their kernels
(runners/archive_readings.py). `intervals` runs benchmarks/interval_coverage.py with this model.
"""

from __future__ import annotations

import math
import runpy
import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import spsolve

from ptxbench.analysis.drift import NO_STEPS, Drift
from ptxbench.analysis.dynamic_energy import dynamic_rows
from ptxbench.analysis.level_covariance import level_covariance
from ptxbench.analysis.operating_point import kernel_of, limited_trials
from ptxbench.analysis.static_power import StaticPower
from ptxbench.analysis.statistics import error_of_series
from ptxbench.core.condition import DYNAMIC, OptLevel
from ptxbench.core.errors import PtxbenchError
from ptxbench.core.status import Status
from ptxbench.devices.replay import ReplayGpu
from ptxbench.experiment.build import Builder
from ptxbench.experiment.built_kernels import BuiltKernels
from ptxbench.experiment.plan import plan_subjects
from ptxbench.report.diff import agreement, diff_rows
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import Role, TableRow, TrialRecord

ROOT = Path(__file__).parents[2]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]

_HUBER = 1.345
_OUTLYING = 3.0
_NORMAL_MAD = 0.6745
# How far offsets are from zero, as in ptxbench/analysis/hmm.py.
_SPREAD = 0.012
_FIRST_NOISE = 0.001
_NOISE_PASSES = 3
_STEPS = 40
_APART_S = 1.0
_FEWEST = 20


@dataclass(frozen=True)
class OffsetFit:
    """Offset of each trial.

    Attributes:
        offset: ln of the factor on its power, shape (n,).
        piece: Number of the piece of constant offset that it lies in, shape (n,).
        away: What is left, in standard deviations of a trial, shape (n,).
        noise: Standard deviation of a trial, a fraction of its power.
    """

    offset: Floats
    piece: Ints
    away: Floats
    noise: float


def fit_offset(
    log_power: Floats, scale: Floats, kernel: Ints, temperature_c: Floats, apart: Bools
) -> OffsetFit:
    """Fit a piecewise-constant offset that all kernels share.

    The penalty is the universal threshold sqrt(2 ln n), in standard deviations of a trial (Donoho and
    Johnstone, Biometrika 81, 1994).

    Args:
        log_power: ln(P - P_static), in the order of time, shape (n,).
        scale: P / (P - P_static), shape (n,): noise is a fraction of P.
        kernel: Number of the kernel, shape (n,).
        temperature_c: Temperature of the GPU above any one, shape (n,).
        apart: Whether a pause lies before the trial, shape (n,): nothing ties its offset to the one before.
    """
    n = len(log_power)
    known = sparse.csr_matrix((np.ones(n), (np.arange(n), kernel)))
    known = sparse.hstack([known, temperature_c[:, None] - temperature_c.mean()]).tocsr()
    steps = sparse.diags([-1.0, 1.0], [0, 1], shape=(n - 1, n)).tocsr()[~apart[1:]]
    penalty, noise = np.sqrt(2 * np.log(n)), _FIRST_NOISE
    offset = np.zeros(n)
    for _ in range(_NOISE_PASSES):
        sigma = noise * scale
        offset, away = _reweighted(
            log_power, sigma, known, sparse.identity(n), offset, steps, penalty / noise
        )
        jumped = apart.copy()
        jumped[1:] |= np.abs(np.diff(offset)) > 0.5 * noise
        jumped[0] = False
        piece = np.cumsum(jumped)
        pieces = sparse.csr_matrix((np.ones(n), (np.arange(n), piece)))
        level, away = _reweighted(log_power, sigma, known, pieces, np.zeros(piece[-1] + 1), None, 0.0)
        noise *= float(np.median(np.abs(away))) / _NORMAL_MAD
    return OffsetFit(level[piece], piece, away, noise)


def _reweighted(
    log_power: Floats,
    sigma: Floats,
    known: sparse.csr_matrix,
    pieces: sparse.spmatrix,
    level: Floats,
    steps: sparse.csr_matrix | None,
    penalty: float,
) -> tuple[Floats, Floats]:
    """Return the levels of least loss and penalty, and what is left of each trial in standard deviations."""
    design, count = sparse.hstack([known, pieces]).tocsr(), known.shape[1]
    weights = sigma**-2.0
    # Where the levels are free kernels and levels could move against each other.
    ridge = np.concatenate([np.full(count, 1e-6), np.full(pieces.shape[1], _SPREAD**-2.0)])
    away = np.zeros(len(sigma))
    for number in range(_STEPS if steps is not None else _STEPS // 4):
        normal = design.T @ sparse.diags(weights) @ design + sparse.diags(ridge)
        if steps is not None:
            least = max(1e-3 * 0.5**number, 1e-7)
            tied = steps.T @ sparse.diags(penalty / np.maximum(np.abs(steps @ level), least)) @ steps
            normal = normal + sparse.block_diag([sparse.csr_matrix((count, count)), tied])
        found = spsolve(normal.tocsc(), design.T @ (weights * log_power), permc_spec="MMD_AT_PLUS_A")
        level = found[count:]
        away = (log_power - design @ found) / sigma
        weights = np.minimum(1.0, _HUBER / np.maximum(np.abs(away), _HUBER)) / sigma**2
    return level, away


def find_simple_drift(
    records: Iterable[TrialRecord],
    static: StaticPower,
    dipped: Collection[str],  # noqa: ARG001
    near: Drift | None = None,  # noqa: ARG001
    *,
    step: float = 0.0,  # noqa: ARG001
    power_limit_w: float = math.nan,
) -> Drift:
    """Find the drift by the simple model, with the interface of `ptxbench.analysis.drift.find_drift`."""
    known = [r for r in records if r.repeat >= 0 and r.protocol == DYNAMIC and r.status is Status.OK]
    busy = [r for r in known if np.isfinite(r.steady_power_w) and r.role is not Role.STATIC]
    limited = limited_trials(known, power_limit_w)
    trials = sorted((r for r in busy if r.trial_id not in limited), key=lambda r: r.start_ns)
    if len(trials) < _FEWEST or not np.isfinite(static.power_w):
        return NO_STEPS
    power_w = np.array([r.steady_power_w for r in trials])
    temperature_c = np.nan_to_num(np.array([r.temperature_c for r in trials]) - static.temperature_c)
    static_w = np.array([static.at(r.temperature_c, r.start_ns) for r in trials])
    above_w = np.maximum(power_w - static_w, 0.1 * power_w)
    names = [kernel_of(r) for r in trials]
    kernel = np.unique(names, return_inverse=True)[1]
    began_s, ended_s = (np.array([getattr(r, at) for r in trials]) / 1e9 for at in ("start_ns", "end_ns"))
    apart = np.concatenate(([True], began_s[1:] - ended_s[:-1] > _APART_S))
    fit = fit_offset(np.log(above_w), power_w / above_w, kernel, temperature_c, apart)
    off = np.abs(fit.away) > _OUTLYING
    offset = fit.offset - fit.offset[~off].mean()
    noise = fit.noise * float((power_w / above_w).mean())
    errors = noise / np.sqrt(np.bincount(fit.piece))[fit.piece]
    ids = [r.trial_id for r in trials]
    unsure = frozenset(one for one, is_off in zip(ids, off, strict=True) if is_off)
    return Drift(
        unfed_w=static.power_w,
        level=dict(zip(ids, offset.tolist(), strict=True)),
        trial_error=dict(zip(ids, errors.tolist(), strict=True)),
        unsure=unsure,
        misfits=unsure,
        level_error=error_of_series(offset[~off]),
        covariance=level_covariance(names, fit.piece, ~off, noise, float(offset.std()) + fit.noise),
        noise=fit.noise,
        static=static,
        off_by_dip=dict.fromkeys(OptLevel, 0.0),
    )


def simple_model() -> AbstractContextManager[object]:
    """Let the simple model stand in the place of `find_drift` in everything that solves a run."""
    return patch("ptxbench.analysis.loop_energy.find_drift", find_simple_drift)


def table_rows(path: Path) -> tuple[list[TableRow], float]:
    """Return the valid dynamic rows that a run has, and the relative error of its mean level."""
    with RunFolder.open(path) as run:
        rows = [row for row in run.rows() if row.protocol == DYNAMIC and row.status is Status.OK]
        return rows, run.manifest.part.level_error or 0.0


def simple_rows(path: Path, wanted: Collection[str]) -> tuple[list[TableRow], float]:
    """Return the same by the simple model.

    Args:
        path: The run, with its kernels.
        wanted: Names of subjects.
    """
    with TemporaryDirectory() as place, RunFolder.open(path) as run:
        manifest = run.manifest
        planned = [subject for subject in plan_subjects(manifest.part.arguments) if subject.name in wanted]
        with (
            RunFolder.create(Path(place, "run"), manifest) as again,
            Builder(ReplayGpu(run), again) as builder,
        ):
            outcomes = builder.begin(planned).result()
        subjects = [one.subject for one in outcomes if isinstance(one, BuiltKernels)]
        with simple_model():
            solved = dynamic_rows(subjects, run.records(), manifest.gpu)
        return [row for row in solved.rows.values() if row.status is Status.OK], solved.level_error


def repeats(first: Path, others: Sequence[Path]) -> None:
    """Print how a run agrees with others by both models."""
    for other in others:
        tables = [table_rows(path) for path in (first, other)]
        shared = set.intersection(*({row.subject for row in rows} for rows, _ in tables))
        both = ("ptxbench", tables), ("simple", [simple_rows(path, shared) for path in (first, other)])
        for name, ((a, a_error), (b, b_error)) in both:
            one = agreement(DYNAMIC, diff_rows(a, b, a_error, b_error))
            print(
                f"{other.name} {name}: {one.rows} rows, factor {one.factor - 1:+.2%}, beside it median"
                f" {one.median_left:.2%}, 95th percentile {one.p95_left:.2%}, beyond both {one.beyond_left}"
            )


def main() -> int:
    """Judge the simple model."""
    what, *rest = sys.argv[1:]
    if what == "repeats":
        repeats(Path(rest[0]), [Path(path) for path in rest[1:]])
        return 0
    benchmark = ROOT / "benchmarks" / "interval_coverage.py"
    sys.argv = [str(benchmark), *rest]
    with simple_model():
        runpy.run_path(str(benchmark), run_name="__main__")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"simple_drift: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
