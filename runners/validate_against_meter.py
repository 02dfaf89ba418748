"""Check a run, or an NVML log, against an external power meter: the worked example of the public API.

    python runners/validate_against_meter.py METER NVML WINDOWS
    python runners/validate_against_meter.py METER RUN

Prints one line a source and one a method; `ptxbench validate` does the same with more options.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ptxbench.errors import PtxbenchError
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
    arguments = parser.parse_args()
    if arguments.windows is None:
        log = log_from_run(arguments.log)
    else:
        log = log_from_csv(arguments.log, arguments.windows)
    result = validate(read_meter(arguments.meter), log)
    offset, drift = result.alignment.offset_ms, result.alignment.drift_ppm
    print(
        f"clocks: {offset.value:.3f} ms +- {offset.uncertainty:.3f}, {drift.value:.1f} ppm +- {drift.uncertainty:.1f}"
    )
    for source in result.sources:
        fit = source.fit
        print(
            f"{fit.source}: gain {fit.gain.value:.4f} +- {fit.gain.uncertainty:.4f}, "
            f"offset {fit.offset_w.value:.2f} W +- {fit.offset_w.uncertainty:.2f}, lag {1e3 * fit.lag_s.value:.1f} ms"
        )
    for one in result.methods:
        print(
            f"{one.method} on {one.source}: MAPE {one.mape_pct:.2f}%, corrected {one.mape_corrected_pct:.2f}%"
        )
    print(*statements(result), sep="\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        sys.exit(f"validate_against_meter: {error}")
