"""Table IV of Guerreiro et al. (2015): block sizes of kernels alone and at once, by few runs and by all.

    python runners/tune_blocks.py --gpu 0 --out results/nvidia-h100/blocks --limit-s 400
    python runners/tune_blocks.py --gpu simulated:h200-ridge --clocks 8 --repeats 0 --window 0.2 \
        --out runs/blocks --write docs/block_sizes.md

Runs every block size of the kernels in examples/tune, alone and in pairs in streams, in random order, and
plays the algorithms on what was measured. Then it runs what they chose, the best and the default again, in
turn. A folder that is there goes on. Clocks are set on a simulated GPU only. --write puts the rows by energy
of a simulated GPU into the page's table. It writes

    manifest.json   GPU, tool, settings
    trials.jsonl    one line a run
    table.csv       one row an algorithm and case
"""

from __future__ import annotations

import argparse
import csv
import io
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from block_table import ENERGY, BlockCase, BlockRow, block_rows
from page_blocks import table, write_blocks

from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.devices.base import Gpu
from ptxbench.devices.select import open_gpu
from ptxbench.devices.settings import applied
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.storage.atomic import write_text
from ptxbench.storage.folder_kind import MANIFEST, Kind
from ptxbench.storage.journal import Lines
from ptxbench.storage.location import require_place
from ptxbench.storage.manifest import Manifest, new_manifest, read_manifest, write_manifest
from ptxbench.tune.blocks.concurrent import ConcurrentRunner, ConcurrentTrial, run_name
from ptxbench.tune.blocks.search import BlockVariant, block_variants
from ptxbench.tune.spec import KernelSpec
from ptxbench.tune.spec_file import load_spec
from ptxbench.tune.user_kernel import UserKernel

EXAMPLES = Path(__file__).parents[1] / "examples" / "tune"
# Sizes with which a kernel takes 0.05 ms (reduction, whose sum must fit 32 bits) to 2 ms (nbody) on an H100.
SIZES = {
    "stencil": {"NX": 8192, "NY": 4096},
    "reduction": {"N": 33554432},
    "nbody": {"N": 32768},
}
CASES = (
    ("stencil",),
    ("reduction",),
    ("nbody",),
    ("stencil", "nbody"),
    ("nbody", "stencil"),
    ("nbody", "reduction"),
    ("stencil", "reduction"),
)
_HEADINGS = (
    *("case", "algorithm", "objective", "chosen", "best", "default", "iterations", "high_occupancy"),
    *("possible", "gap", "saved", "energy_saved", "slower", "chosen_time_s", "chosen_energy_j"),
    *("in_turn_time_s", "in_turn_energy_j"),
    *("again_gap", "again_gap_error", "again_saved", "again_saved_error", "repeats", "kind"),
)


@dataclass(frozen=True, kw_only=True)
class BlocksPart:
    """What only a folder of this runner has."""

    cases: tuple[str, ...]
    clocks_mhz: tuple[int, ...]
    window_s: float
    seed: int


@dataclass(frozen=True)
class KeptTrial:
    """One run of one case.

    Attributes:
        case: Names of the kernels, joined by "+".
        repeat: 0 for the first, 1 and more for those that were run again.
        trial: The run.
    """

    case: str
    repeat: int
    trial: ConcurrentTrial

    @property
    def key(self) -> tuple[str, int, str]:
        """What no two have alike."""
        return self.case, self.repeat, self.trial.name


class Kept:
    """The runs of a folder, written as they come."""

    def __init__(self, file: Path) -> None:
        self._lines = Lines(file, KeptTrial, lambda one: one.key).open()
        self.trials = self._lines.by_name
        self.close = self._lines.close

    def get(self, case: str, repeat: int, name: str, make: Callable[[], ConcurrentTrial]) -> ConcurrentTrial:
        """Return a run, which is made and kept where it is not there."""
        if (case, repeat, name) not in self.trials:
            self._lines.add(KeptTrial(case, repeat, make()))
        return self.trials[case, repeat, name].trial


class OutOfTimeError(Exception):
    """The limit of time was met; what was run is kept."""


class Runner:
    """Runs cases on one GPU until a limit of time.

    Args:
        gpu: The GPU.
        kept: Where runs are kept.
        arguments: The command line.
    """

    def __init__(self, gpu: Gpu, kept: Kept, arguments: argparse.Namespace) -> None:
        self._gpu = gpu
        self._kept = kept
        self._arguments = arguments
        self._end_s = time.monotonic() + arguments.limit_s
        self._checked: dict[tuple[str, str], str] = {}
        self._built: dict[str, tuple[UserKernel, tuple[BlockVariant, ...]]] = {}

    def case(self, names: Sequence[str], clocks_mhz: Sequence[int], set_clock: Callable[[int], None]) -> None:
        """Run every combination of a case, and again what matters; print and keep it."""
        arguments, label = self._arguments, "+".join(names)
        kernels, sizes = zip(*(self._kernel(name) for name in names), strict=True)
        runner = ConcurrentRunner(self._gpu, kernels, arguments.window, checked=self._checked)
        case = BlockCase(tuple(names), tuple(sizes), tuple(clocks_mhz), {})
        held: dict[str, ConcurrentTrial] = {}
        generator = random.Random(arguments.seed)  # noqa: S311 - an order, no secret
        for clock_mhz in sorted(clocks_mhz, reverse=True):
            set_clock(clock_mhz)
            for chosen in generator.sample(case.combinations, len(case.combinations)):
                trial = self._run(label, 0, runner, chosen, clock_mhz)
                held[trial.name] = trial
        case = replace(case, trials=held)
        by_name = {
            case.trial(chosen, clock).name: chosen for chosen in case.combinations for clock in clocks_mhz
        }
        matter = {
            one.name: one
            for row in block_rows(case)
            for one in (row.chosen, row.best, row.default, row.fastest)
            if one.ok
        }
        print(f"{label}: {len(held)} runs, {len(matter)} to run again", file=sys.stderr, flush=True)
        for repeat in range(1, arguments.repeats + 1):
            for name in generator.sample(sorted(matter), len(matter)):
                set_clock(matter[name].clock_mhz)
                self._run(label, repeat, runner, by_name[name], matter[name].clock_mhz)

    def rows(self, names: Sequence[str], clocks_mhz: Sequence[int]) -> list[tuple[BlockRow, tuple[str, ...]]]:
        """Return the rows of a case that was run wholly, with their cells; [] where some runs are missing."""
        label = "+".join(names)
        _, sizes = zip(*(self._kernel(name) for name in names), strict=True)
        first = {key[2]: one.trial for key, one in self._kept.trials.items() if key[:2] == (label, 0)}
        case = BlockCase(tuple(names), tuple(sizes), tuple(clocks_mhz), first)
        try:
            rows = block_rows(case)
        except KeyError:
            return []
        return [(row, self._cells(label, row)) for row in rows]

    def _kernel(self, name: str) -> tuple[UserKernel, tuple[BlockVariant, ...]]:
        if name not in self._built:
            spec: KernelSpec = load_spec(EXAMPLES / f"{name}.toml", SIZES[name])
            kernel = UserKernel(spec, self._arguments.seed)
            jobs = os.cpu_count() or 1
            self._built[name] = kernel, block_variants(kernel, self._gpu.info.target, jobs)
        return self._built[name]

    def _run(
        self,
        label: str,
        repeat: int,
        runner: ConcurrentRunner,
        chosen: Sequence[BlockVariant],
        clock_mhz: int,
    ) -> ConcurrentTrial:
        def make() -> ConcurrentTrial:
            if time.monotonic() > self._end_s:
                raise OutOfTimeError
            return runner.measure(chosen, clock_mhz)

        name = run_name([one.variant for one in chosen], clock_mhz)
        return self._kept.get(label, repeat, name, make)

    def _cells(self, label: str, row: BlockRow) -> tuple[str, ...]:
        gap, gap_error, repeats = self._again(label, row, row.chosen, row.best)
        saved, saved_error, _ = self._again(label, row, row.chosen, row.default)
        figures = (row.gap, row.saved, row.energy_saved, row.slower, row.chosen.time_s, row.chosen.energy_j)
        in_turn = self._in_turn(row.chosen, row.kernels)
        again = (gap - 1, gap_error, 1 - saved, saved_error)
        return (
            label,
            str(row.algorithm),
            row.objective,
            *(one.name for one in (row.chosen, row.best, row.default)),
            *(str(n) for n in (row.iterations, row.tried, row.possible)),
            *("" if math.isnan(n) else f"{n:.6g}" for n in (*figures, *in_turn, *again)),
            str(repeats),
            str(self._gpu.info.kind),
        )

    def _in_turn(self, trial: ConcurrentTrial, kernels: Sequence[str]) -> tuple[float, float]:
        """Return time and energy of the kernels alone, one after the other; NaN where one was not run."""
        alone = [
            self._kept.trials.get((kernel, 0, run_name([variant], trial.clock_mhz)))
            for kernel, variant in zip(kernels, trial.variants, strict=True)
        ]
        found = [one.trial for one in alone if one is not None and one.trial.ok]
        if len(found) < len(kernels):
            return math.nan, math.nan
        return sum(one.time_s for one in found), sum(one.energy_j for one in found)

    def _again(
        self, label: str, row: BlockRow, one: ConcurrentTrial, other: ConcurrentTrial
    ) -> tuple[float, float, int]:
        """Return the mean ratio of the costs of two runs made again, its standard error, and how often."""
        ratios = []
        for repeat in range(1, self._arguments.repeats + 1):
            pair = [self._kept.trials.get((label, repeat, trial.name)) for trial in (one, other)]
            costs = [_cost(kept.trial, row.objective) for kept in pair if kept and kept.trial.ok]
            if len(costs) == 2:
                ratios.append(costs[0] / costs[1])
        if len(ratios) < 2:
            return math.nan, math.nan, len(ratios)
        error = statistics.stdev(ratios) / math.sqrt(len(ratios))
        return statistics.mean(ratios), error, len(ratios)


def _cost(trial: ConcurrentTrial, objective: str) -> float:
    return trial.time_s if objective == "time" else trial.energy_j


def main() -> int:
    """Measure, write, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="0", help="index, UUID or simulated[:profile]")
    parser.add_argument("--case", action="append", help="kernels joined by '+' (may be repeated)")
    parser.add_argument("--clocks", type=int, default=0, help="so many clocks, on a simulated GPU")
    parser.add_argument("--window", type=float, default=0.4, help="seconds of rounds that power is read over")
    parser.add_argument("--repeats", type=int, default=5, help="how often what matters is run again")
    parser.add_argument("--limit-s", type=float, default=86_400.0, help="end after so many seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="folder; one that is there goes on")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="page whose table is written, simulated")
    arguments = parser.parse_args()
    cases = [tuple(one.split("+")) for one in arguments.case] if arguments.case else list(CASES)
    for name in {name for names in cases for name in names} - SIZES.keys():
        raise InputError(f"there is no kernel {name!r}; there are {', '.join(SIZES)}")
    gpu = open_gpu(arguments.gpu)
    try:
        if arguments.write and not isinstance(gpu, SimulatedGpu):
            raise InputError("--write is for the page's table, which is of --gpu simulated:h200-ridge")
        with _clocks(gpu, arguments.clocks) as (clocks_mhz, set_clock):
            return _measure(gpu, cases, clocks_mhz, set_clock, arguments)
    finally:
        gpu.close()


def _measure(
    gpu: Gpu,
    cases: Sequence[tuple[str, ...]],
    clocks_mhz: tuple[int, ...],
    set_clock: Callable[[int], None],
    arguments: argparse.Namespace,
) -> int:
    out: Path = arguments.out
    require_place(out, gpu.info.kind)
    out.mkdir(parents=True, exist_ok=True)
    labels = tuple("+".join(names) for names in cases)
    part = BlocksPart(cases=labels, clocks_mhz=clocks_mhz, window_s=arguments.window, seed=arguments.seed)
    if (out / MANIFEST).exists():
        held = read_manifest(out / MANIFEST, Manifest[BlocksPart], Kind.STUDY)
        if held.gpu.uuid_hash != gpu.info.uuid_hash:
            raise InputError(f"{out} is of another board; choose a new folder")
    else:
        write_manifest(out / MANIFEST, new_manifest(Kind.STUDY, part, (gpu.info,), gpu.sensors))
    code = 0
    with closing(Kept(out / "trials.jsonl")) as kept:
        runner = Runner(gpu, kept, arguments)
        for names in cases:
            try:
                runner.case(names, clocks_mhz, set_clock)
            except OutOfTimeError:
                print(f"{'+'.join(names)}: the limit of time was met", file=sys.stderr)
                code = 1
            rows = [row for one in cases for row in runner.rows(one, clocks_mhz)]
            _write(out, rows, gpu)
        if arguments.write and code == 0:
            write_blocks(arguments.write, {"simulated": _page_table(row for row, _ in rows)})
    return code


def _page_table(rows: Iterable[BlockRow]) -> str:
    """Return the rows by energy as the page has them."""
    head = ("kernels", "algorithm", "cost", "runs (of all)", "over the best", "saved", "slower than by time")
    return table(
        head,
        (
            (
                ", then ".join(row.kernels).replace("nbody", "n-body"),
                str(row.algorithm),
                row.objective,
                f"{row.iterations} ({row.possible})",
                *(f"{n:.1%}".replace("-0.0%", "0.0%") for n in (row.gap, row.saved, row.slower)),
            )
            for row in rows
            if row.objective == ENERGY
        ),
        left=1,
    )


def _write(out: Path, rows: Sequence[tuple[BlockRow, tuple[str, ...]]], gpu: Gpu) -> None:
    """Write and print the table as far as it is known."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_HEADINGS)
    writer.writerows(cells for _, cells in rows)
    write_text(out / "table.csv", text.getvalue())
    print(f"\n{gpu.info.title}")
    for row, cells in rows:
        figures = dict(zip(_HEADINGS, cells, strict=True))
        print(
            f"{figures['case']:>20} Alg. {row.algorithm} {row.objective:<6} {row.iterations:>3} of"
            f" {row.tried} ({row.possible}) runs, {row.gap:7.2%} over the best, {row.saved:7.2%} saved,"
            f" energy {row.energy_saved:7.2%} saved and {row.slower:7.2%} slower than by time:"
            f" {row.chosen.name}"
        )


@contextmanager
def _clocks(gpu: Gpu, count: int) -> Iterator[tuple[tuple[int, ...], Callable[[int], None]]]:
    """Yield the clocks that are tried, and what sets one; no real GPU is ever set."""
    if count < 2:
        yield (0,), lambda _: None
        return
    if not isinstance(gpu, SimulatedGpu):
        raise InputError("--clocks sets clocks on simulated GPUs only")
    every = gpu.settable.choices().clocks[-1].sm_clocks_mhz
    chosen = tuple(sorted({every[round(n * (len(every) - 1) / (count - 1))] for n in range(count)}))
    with applied(gpu.settable, GpuSettings(sm_clock_mhz=chosen[-1]), _say, allowed=True) as set_other:
        yield chosen, lambda clock_mhz: set_other(GpuSettings(sm_clock_mhz=clock_mhz))


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"tune_blocks: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
