"""How often the dynamic protocol's 95% intervals hold the truth: many simulated, independent runs.

    python benchmarks/interval_coverage.py --runs 20

Each run measures a batch of instructions on a simulated GPU whose sensors have another noise and phase, by
the whole pipeline, and compares every row with the hidden energy of the very machine code that ran. It
prints the share of intervals that hold it, by level, and what the intervals look like. The numbers
are simulated: they judge the arithmetic of the intervals, not a GPU.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ptxbench.catalogue.load import find_instruction, load_catalogue
from ptxbench.gpu.protocol import Cubin, OptLevel
from ptxbench.gpu.simulated import find_profile
from ptxbench.gpu.simulated.gpu import SimulatedGpu
from ptxbench.gpu.simulated.profile import Profile
from ptxbench.gpu.simulated.truth import instruction_energy_pj
from ptxbench.measure.asked import Asked
from ptxbench.measure.plan import Linearity
from ptxbench.measure.run import measure_table
from ptxbench.measure.start import start_run
from ptxbench.ptx.assemble import assemble_ptx
from ptxbench.ptx.render import render_module
from ptxbench.ptx.target import find_target
from ptxbench.sass.listing import parse_listing
from ptxbench.sass.loop import find_loop
from ptxbench.status import Status
from ptxbench.store.run_folder import RunFolder
from ptxbench.store.schema import Protocol, TableRow

# The goal that a benchmark of calibrated intervals is held to.
_LEAST, _MOST = 0.93, 0.97


class _RememberingGpu(SimulatedGpu):
    """A simulated GPU that assembles each text once a process: only sensors differ between runs."""

    _assembled: dict[tuple[str, str, OptLevel], Cubin] = {}  # noqa: RUF012

    def assemble(self, ptx: str, opt_level: OptLevel) -> Cubin:
        key = (ptx, self.info.target, opt_level)
        if key not in self._assembled:
            self._assembled[key] = assemble_ptx(ptx, self.info.target, opt_level)
        return self._assembled[key]


def main() -> int:
    """Run, print, and return 0 where the share of intervals that hold the truth is as asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="h200", help="simulated GPU")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rows", type=int, default=20, help="instructions a run, spread over the catalogue")
    parser.add_argument("--min-repeats", type=int)
    parser.add_argument("--max-repeats", type=int)
    parser.add_argument("--precision", type=float)
    arguments = parser.parse_args()
    profile = find_profile(arguments.profile)
    target = find_target(profile.chip.target)
    known = [row.name for row in load_catalogue() if not row.refused and row.exists_on(target)]
    names = tuple(known[:: max(1, len(known) // arguments.rows)])
    asked = Asked(
        instructions=names,
        protocols=(Protocol.DYNAMIC,),
        min_repeats=arguments.min_repeats,
        max_repeats=arguments.max_repeats,
        precision=arguments.precision,
        seed=1,
        linearity=Linearity.NONE,
    )
    found: dict[OptLevel, list[tuple[float, float, float]]] = {level: [] for level in OptLevel}
    for seed in range(arguments.runs):
        for row, truth_pj in _rows(_RememberingGpu(profile, seed, poll_interval_s=0.02), asked, profile):
            width = row.dynamic_ci95_pj
            found[row.opt_level].append(((row.dynamic_pj - truth_pj) / width, width / truth_pj, truth_pj))
    everything = [one for level in OptLevel for one in found[level]]
    print(f"{profile.title} (simulated), {arguments.runs} runs of {len(names)} instructions")
    for label, ones in (*found.items(), ("all", everything)):
        z, width, _ = np.array(ones).T
        print(
            f"{label}: {len(z)} rows, {np.mean(abs(z) <= 1):.1%} of intervals hold the truth; "
            f"half-width median {np.median(width):.2%}; error median {np.median(abs(z * width)):.2%}, "
            f"95th percentile {np.percentile(abs(z * width), 95):.2%}, under 0.5% in "
            f"{np.mean(abs(z * width) < 0.005):.1%}; mean error {np.mean(z * width):+.3%}"
        )
    share = float(np.mean([abs(z) <= 1 for z, _, _ in everything]))
    return int(not _LEAST <= share <= _MOST)


def _rows(gpu: SimulatedGpu, asked: Asked, profile: Profile) -> Iterator[tuple[TableRow, float]]:
    """Yield every valid row of one run with its hidden energy."""
    with tempfile.TemporaryDirectory() as place, start_run(gpu, asked, Path(place, "run")) as folder:
        for row in measure_table(gpu, folder):
            if row.status is Status.OK:
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
