"""How often the dynamic protocol's 95% intervals hold the truth: many simulated, independent runs.

    python benchmarks/interval_coverage.py --runs 20 --profile h200 --profile b200

Each run measures other instructions on a simulated GPU whose sensors have another noise and phase, by the
whole pipeline, and compares every row with the hidden energy of the very machine code that ran. It prints the
share of intervals that hold it, by optimization level and the rounds that rows took, and what the intervals
look like. The numbers are simulated: they judge the arithmetic of the intervals, not a GPU.

Where a simulated supply voltage moves in steps, the energies of a run are those of its mean level, which is
the run's own: its rows are judged by what is left beside their common factor.

Rows of one run share static power, overhead loops and how warm the GPU was, so that the share's standard
error is that over runs. Instructions change from run to run, because the same ones in the same order would
meet the same temperatures again, and the part of a degree that the thermometer hides is an error.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ptxbench.catalogue.load import find_instruction, load_catalogue
from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.codegen.render import render_module
from ptxbench.core.condition import DYNAMIC, OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.target import find_target
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.ground_truth import instruction_energy_pj
from ptxbench.devices.simulated.load import find_profile, profile_names
from ptxbench.devices.simulated.profile import Profile
from ptxbench.experiment.linearity import Linearity
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.run_options import RunOptions
from ptxbench.experiment.session import start_run
from ptxbench.sass.listing import parse_listing
from ptxbench.sass.loop import find_loop
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import TableRow

# The goal that a benchmark of calibrated intervals is held to.
_LEAST, _MOST = 0.93, 0.97
# rms: of the error over a standard error. half: 95% half-width; its median, and the share under 1%.
# mean: of the errors, each weighted by 1 / half². A row that is known to 10% says nothing of a bias of 0.1%.
_HEADER = "           rows    hold   +-   rms     half    <1%   error    95th   <0.5%     mean"


class _RememberingGpu(SimulatedGpu):
    """A simulated GPU that assembles each text once a process: only sensors differ between runs."""

    _assembled: dict[tuple[str, str, OptLevel], Cubin] = {}  # noqa: RUF012

    def assemble(self, ptx: str, opt_level: OptLevel) -> Cubin:
        key = (ptx, self.info.target, opt_level)
        if key not in self._assembled:
            self._assembled[key] = assemble_ptx(ptx, self.info.target, opt_level)
        return self._assembled[key]


@dataclass(frozen=True)
class _Judged:
    """One valid row beside the truth.

    Attributes:
        run: Seed of its run.
        row: The row.
        error: Error of its energy, as a fraction of the truth.
        width: Half-width of its interval, likewise.
    """

    run: int
    row: TableRow
    error: float
    width: float

    @property
    def held(self) -> bool:
        return abs(self.error) <= self.width


def main() -> int:
    """Run, print, and return 0 where every profile's share of intervals that hold the truth is as wanted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--profile", action="append", choices=profile_names(), help="simulated GPU; h200 unless told"
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rows", type=int, default=20, help="instructions a run, spread over the catalogue")
    parser.add_argument("--min-repeats", type=int)
    parser.add_argument("--max-repeats", type=int)
    parser.add_argument("--precision", type=float)
    parser.add_argument("--poll", type=float, default=0.02, help="time between two polls, s (default: 0.02)")
    arguments = parser.parse_args()
    shares = [_share(find_profile(name), arguments) for name in arguments.profile or ["h200"]]
    return int(not all(_LEAST <= share <= _MOST for share in shares))


def _share(profile: Profile, arguments: argparse.Namespace) -> float:
    """Run and print one profile; return the share of its intervals that hold the truth."""
    target = find_target(profile.chip.target)
    known = [row.name for row in load_catalogue() if not row.refused and row.exists_on(target)]
    step = max(1, len(known) // arguments.rows)
    options = RunOptions(
        protocols=(DYNAMIC,),
        min_repeats=arguments.min_repeats,
        max_repeats=arguments.max_repeats,
        precision=arguments.precision,
        linearity=Linearity.NONE,
    )
    judged = []
    spent_s = 0.0
    for run in range(arguments.runs):
        gpu = _RememberingGpu(profile, run, poll_interval_s=arguments.poll)
        begin_ns = gpu.clock.now_ns()
        of_run = replace(options, instructions=tuple(known[run % step :: step]), seed=run)
        rows = list(_rows(gpu, of_run, profile))
        spent_s += (gpu.clock.now_ns() - begin_ns) / 1e9
        level = float(np.median([row.dynamic_pj / pj for row, pj in rows])) if profile.voltage_steps else 1.0
        judged += [
            _Judged(run, row, row.dynamic_pj / pj / level - 1, row.dynamic_ci95_pj / pj) for row, pj in rows
        ]
    print(f"{profile.title} (simulated), {arguments.runs} runs of some {arguments.rows} instructions")
    print(_HEADER)
    for level in OptLevel:
        _print(level, [one for one in judged if one.row.opt_level is level])
    for n in sorted({one.row.repeats for one in judged}):
        _print(f"{n} rounds", [one for one in judged if one.row.repeats == n])
    _print("all", judged)
    print(f"{spent_s / len(judged):.2f} s of the simulated GPU a row")
    return float(np.mean([one.held for one in judged]))


def _print(label: str, judged: list[_Judged]) -> None:
    error = np.array([one.error for one in judged])
    width = np.array([one.width for one in judged])
    share = np.mean([one.held for one in judged])
    rms = np.sqrt(np.mean((1.96 * error / width) ** 2))
    mean = np.average(error, weights=1 / width**2)
    off = abs(error)
    print(
        f"{label:9}{len(judged):6}{share:8.1%}{_standard_error(judged):6.1%}{rms:6.2f}"
        f"{np.median(width):9.2%}{np.mean(width < 0.01):8.1%}{np.median(off):8.2%}"
        f"{np.percentile(off, 95):8.2%}{np.mean(off < 0.005):8.1%}{mean:+9.3%}"
    )


def _standard_error(judged: list[_Judged]) -> float:
    """Return the standard error of the share that held, from how it differs between runs; NaN for one run."""
    share = np.mean([one.held for one in judged])
    excess: dict[int, float] = {}
    for one in judged:
        excess[one.run] = excess.get(one.run, 0.0) + one.held - share
    n = len(excess)
    return float(np.sqrt(n / (n - 1) * sum(e**2 for e in excess.values()))) / len(judged) if n > 1 else np.nan


def _rows(gpu: SimulatedGpu, options: RunOptions, profile: Profile) -> Iterator[tuple[TableRow, float]]:
    """Yield every valid row of one run with its hidden energy."""
    with tempfile.TemporaryDirectory() as place, start_run(gpu, options, Path(place, "run")) as folder:
        for row in measure_table(gpu, folder):
            if row.status.has_number:
                yield row, _truth_pj(folder, row, profile)


def _truth_pj(folder: RunFolder, row: TableRow, profile: Profile) -> float:
    """Return the hidden energy of the machine code that the run kept, as the sensor's gain shows it."""
    instruction = find_instruction(row.instruction)
    ptx = render_module(instruction, find_target(profile.chip.target), instruction.forms(row.opt_level)[-1])
    entry = folder.kernels.find(ptx, row.opt_level)
    if entry is None:
        raise ValueError(f"the run holds no kernel of {row.instruction}")
    kernels = parse_listing(folder.kernels.sass(entry))
    loops = (find_loop(kernels[role]) for role in ("target", "overhead"))
    thread_pj = instruction_energy_pj(*loops, instruction.copies, row.operands, profile)
    return thread_pj * instruction.unit.threads * profile.sensors[0].gain


if __name__ == "__main__":
    sys.exit(main())
