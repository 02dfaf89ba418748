"""Regenerate the instruction-energy table of a GPU: the worked example of the public API.

    python runners/regenerate_table.py --gpu 0 --out results/nvidia-h200/first

Goes on with the run in --out where there is one. Exit codes are those of `ptxbench`: 1 where some
rows are not valid.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ptxbench.errors import PtxbenchError
from ptxbench.gpu.select import open_gpu
from ptxbench.measure.asked import Asked
from ptxbench.measure.run import measure_table
from ptxbench.measure.start import resume_run, start_run
from ptxbench.report.text import print_tables
from ptxbench.store.schema import Protocol, TrialRecord


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("instructions", nargs="*", help="catalogue names (default: twelve of the commonest)")
    parser.add_argument("--gpu", default="0", help="index, UUID, simulated[:profile] or replay:RUN")
    parser.add_argument(
        "--out", type=Path, required=True, help="run folder; an old run in it is gone on with"
    )
    parser.add_argument("--protocol", action="append", default=[], choices=list(Protocol))
    parser.add_argument("--operands", action="append", default=[], choices=["random", "zeros"])
    parser.add_argument("--max-repeats", type=int)
    arguments = parser.parse_args()
    asked = Asked(
        instructions=tuple(arguments.instructions),
        protocols=tuple(Protocol(p) for p in arguments.protocol),
        patterns=tuple(arguments.operands),
        max_repeats=arguments.max_repeats,
    )
    gpu = open_gpu(arguments.gpu)
    try:
        if (arguments.out / "manifest.json").exists():
            folder = resume_run(gpu, asked, arguments.out, allow_other_board=False)
        else:
            folder = start_run(gpu, asked, arguments.out)
        with folder:
            rows = measure_table(gpu, folder, on_trial=_say)
    finally:
        gpu.close()
    print_tables(rows, gpu.info)
    return int(any(row.status != "ok" for row in rows))


def _say(record: TrialRecord) -> None:
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
