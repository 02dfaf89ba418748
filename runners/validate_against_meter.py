"""Check a run, or an NVML log, against an external power meter: the worked example of the public API.

    python runners/validate_against_meter.py METER NVML WINDOWS
    python runners/validate_against_meter.py METER RUN --burst FOLDER --burst FOLDER

Prints one line a source and one a method; `ptxbench meter validate` does the same with more options.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ptxbench.core.errors import PtxbenchError
from ptxbench.core.estimate import Estimate
from ptxbench.meter.host import log_from_csv, log_from_run
from ptxbench.meter.readers import read_meter
from ptxbench.meter.result import statements
from ptxbench.meter.validation import validate


def main() -> int:
    """Compare, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("meter", type=Path, help="the meter's capture")
    parser.add_argument("log", type=Path, help="run folder, or CSV of the GPU's readings")
    parser.add_argument("windows", type=Path, nargs="?", help="CSV of the kernels' windows, with an NVML log")
    parser.add_argument(
        "--burst", type=Path, action="append", default=[], help="folder of `ptxbench meter sync`, with a run"
    )
    arguments = parser.parse_args()
    if arguments.windows is None:
        log = log_from_run(arguments.log, arguments.burst)
    else:
        log = log_from_csv(arguments.log, arguments.windows)
    result = validate(read_meter(arguments.meter), log)
    clocks = result.alignment
    print(f"clocks: offset {_shown(clocks.offset_ms)} ms, drift {_shown(clocks.drift_ppm)} ppm")
    for source in result.sources:
        fit = source.fit
        lag_ms = fit.lag_s.scaled(1e3)
        print(
            f"{fit.source}: gain {_shown(fit.gain)}, offset {_shown(fit.offset_w)} W, lag {_shown(lag_ms)} ms"
        )
    for one in result.methods:
        print(
            f"{one.method} on {one.source}: MAPE {one.mape_pct:.2f}%, corrected {one.mape_corrected_pct:.2f}%"
        )
    for sentence in (*result.notes, *statements(result)):
        print(sentence)
    return 0


def _shown(estimate: Estimate) -> str:
    return f"{estimate.value:.4g} +- {estimate.uncertainty:.2g}"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        sys.exit(f"validate_against_meter: {error}")
