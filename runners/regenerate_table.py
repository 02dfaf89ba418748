"""Regenerate the instruction-energy table of a GPU.

    python runners/regenerate_table.py '*' --gpu 0 --protocol dynamic --out results/nvidia-h200/full

Goes on with the run in --out where there is one. On a real GPU the measuring is a process of its own:
where a kernel breaks it, the run goes on without that kernel. Exit codes are those of `ptxbench`: 1
where some rows are not valid, or were not reached.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path

from ptxbench.catalogue.select import chosen
from ptxbench.core.condition import OptLevel, Pattern
from ptxbench.core.errors import PtxbenchError
from ptxbench.devices.select import open_gpu
from ptxbench.experiment.isolate import table_work
from ptxbench.experiment.linearity import Linearity
from ptxbench.experiment.protocols import protocol_names
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.run_options import RunOptions
from ptxbench.experiment.sensor_choice import sensors_for
from ptxbench.experiment.session import resume_run, start_run
from ptxbench.experiment.supervise import supervise
from ptxbench.experiment.table_options import TableOptions
from ptxbench.report.text import cost_sentence, tables_text
from ptxbench.report.text_table import output_width
from ptxbench.storage.known_rows import known_rows
from ptxbench.storage.schema import TrialRecord


def main() -> int:
    """Measure, print, and return the exit code."""
    arguments = _parser().parse_args()
    if arguments.gpu.partition(":")[0] in ("simulated", "replay") or arguments.in_process:
        return _measure(arguments)

    def command(passed_s: float) -> list[str]:
        words = [sys.executable, *sys.argv, "--in-process"]
        if math.isfinite(arguments.budget_minutes):
            left = max(arguments.budget_minutes - passed_s / 60, 0.01)
            words.append(f"--budget-minutes={left:.3f}")
        return words

    work = table_work(TableOptions(isolate=True), arguments.out)
    (ended,) = supervise([replace(work, command=command)], lambda text: print(text, file=sys.stderr))
    return ended.shell_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "instructions", nargs="*", help="catalogue names or globs (default: twelve of the commonest)"
    )
    parser.add_argument("--gpu", default="0", help="index, UUID, simulated[:profile] or replay:RUN")
    parser.add_argument(
        "--out", type=Path, required=True, help="run folder; an old run in it is gone on with"
    )
    parser.add_argument("--category", default="", help="only the instructions of this category")
    parser.add_argument("--opt-level", action="append", default=[], choices=list(OptLevel))
    parser.add_argument("--protocol", action="append", default=[], choices=protocol_names())
    parser.add_argument("--operands", action="append", default=[], choices=["random", "zeros"])
    parser.add_argument("--sensor", type=Path, help="what `ptxbench doctor sensor` found, for a new run")
    parser.add_argument("--precision", type=float, help="stop a row at this 95%% half-width, as a fraction")
    parser.add_argument("--min-repeats", type=int)
    parser.add_argument("--max-repeats", type=int)
    parser.add_argument("--window", type=float, help="kernel duration, s")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--check-linearity", choices=list(Linearity))
    parser.add_argument(
        "--budget-minutes", type=float, default=math.inf, help="measure for so many minutes at most"
    )
    parser.add_argument("--quiet", action="store_true", help="say each round instead of each trial")
    parser.add_argument("--in-process", action="store_true", help="measure in this very process")
    return parser


def _measure(arguments: argparse.Namespace) -> int:
    options = RunOptions(
        instructions=chosen(arguments.instructions, arguments.category).names,
        opt_levels=tuple(OptLevel(level) for level in arguments.opt_level),
        protocols=tuple(arguments.protocol),
        patterns=tuple(Pattern(name) for name in arguments.operands),
        precision=arguments.precision,
        min_repeats=arguments.min_repeats,
        max_repeats=arguments.max_repeats,
        window_s=arguments.window,
        seed=arguments.seed,
        linearity=Linearity(arguments.check_linearity) if arguments.check_linearity else None,
    )
    gpu = open_gpu(arguments.gpu)
    try:
        if (arguments.out / "manifest.json").exists():
            folder = resume_run(gpu, options, arguments.out)
        else:
            sensors = sensors_for(arguments.sensor, gpu) if arguments.sensor else ()
            folder = start_run(gpu, options, arguments.out, sensors)
        with folder:
            rows = measure_table(
                gpu,
                folder,
                show=_say_round if arguments.quiet else lambda *_: None,
                on_trial=(lambda _: None) if arguments.quiet else _say_trial,
                budget_s=60 * arguments.budget_minutes,
            )
    finally:
        gpu.close()
    rows = known_rows(rows, folder.manifest)
    print(tables_text(rows, gpu.info, output_width()))
    if folder.manifest.part.cost is not None:
        print(f"\n{cost_sentence(folder.manifest.part.cost)}")
    return int(any(row.status != "ok" for row in rows))


def _say_round(done: int, total: int, what: str) -> None:
    print(f"{done} of {total}: {what}", file=sys.stderr)


def _say_trial(record: TrialRecord) -> None:
    print(
        f"{record.trial_id}: {record.elapsed_s:.4f} s, {record.steady_power_w:.2f} W, "
        f"{record.temperature_after_c:.0f} C, {record.sm_clock_mhz:.0f} MHz, {record.status} {record.reason}",
        file=sys.stderr,
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"regenerate_table: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
