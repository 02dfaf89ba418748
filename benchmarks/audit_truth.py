"""What `ptxbench audit` foretells, beside recordings in which the true energy is known.

    python runners/archive_readings.py restore results/nvidia-h200/methods results/nvidia-h100/methods
    python benchmarks/audit_truth.py results/nvidia-h200/methods results/nvidia-h100/methods
    python benchmarks/audit_truth.py --tools results/nvidia-h200/tools/readings.csv

A recording of `ptxbench doctor methods` has the readings of every source around a kernel, whose energy
follows from the same source's power under the same load when it lasts. From each are made the numbers that
others would have written down: the mean of the readings within the kernel, polled every 20 ms, 100 ms or 1 s,
times its length, and the difference of the energy counter. `audit` gets them with the readings around them
(log), or alone (alone). A line says in how many cases its interval holds the truth, and what it said of them.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ptxbench.audit.boards import board_named
from ptxbench.audit.claim import Before, Claim, Span, State, Verdict, Way
from ptxbench.audit.judge import judge
from ptxbench.audit.logs import claims_of
from ptxbench.audit.readers.contents import Log
from ptxbench.core.errors import PtxbenchError
from ptxbench.meter.readers.nvml import LabelledWindow
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.trace import KernelWindow, Series
from ptxbench.storage.document import read_document
from ptxbench.storage.methods_file import MethodsFile
from ptxbench.storage.recording import RecordingFolder

TOLERANCE = 0.03
POLLS_S = (0.02, 0.1, 1.0)
SOURCES = (SourceName.USAGE, SourceName.INSTANT, SourceName.COUNTER)


def polled(series: Series, period_s: float, begin_ns: int) -> Series:
    """Return the readings that calls at even times would have seen."""
    good = series.good()
    at_ns = np.arange(max(begin_ns, int(good.end_ns[0])), int(good.end_ns[-1]), round(period_s * 1e9))
    seen = np.searchsorted(good.end_ns, at_ns, side="right") - 1
    return Series.unstamped(series.source, at_ns, good.value[seen])


def cases(folder: Path) -> Iterator[tuple[str, str, float, float, Verdict]]:
    """Yield group, way, length and true energy of each number, and what audit said of it."""
    methods = read_document(folder / "methods.json", MethodsFile, "methods_version")
    recorded = RecordingFolder.open(folder, "methods")
    board = board_named(methods.gpu.name)
    truths = {(p.kind, p.requested_s, p.source): p.reference_j / p.duration_s for p in methods.points}
    for one in recorded.recordings:
        kind, length, *_ = one.name.split("/")
        if kind == "reference":
            continue
        start_ns, end_ns = one.windows[0].start_ns, one.windows[-1].end_ns
        length_s = (end_ns - start_ns) * 1e-9
        window = LabelledWindow(KernelWindow(start_ns, end_ns, length_s), one.name)
        trace = recorded.trace(one.name)
        for source in SOURCES:
            series = trace.of(source)
            power_w = truths.get((kind, float(length), source))
            if series is None or power_w is None:
                continue
            for poll_s in POLLS_S:
                log = Log("", methods.gpu.name, (polled(series, poll_s, one.begin_ns),))
                for claim in claims_of(log, board, (window,)):
                    if not math.isfinite(claim.value):
                        continue
                    alone = Claim(
                        claim.label,
                        "J",
                        claim.value,
                        claim.power_w,
                        claim.way,
                        claim.source,
                        claim.window_s,
                        claim.poll_s,
                        before=Before.IDLE,
                    )
                    group = f"{kind} {source} every {poll_s:g} s"
                    yield group, "log", length_s, power_w * length_s, judge(claim, board, TOLERANCE)
                    if kind == "constant":  # of what it cannot know, even power is taken
                        yield group, "alone", length_s, power_w * length_s, judge(alone, board, TOLERANCE)


def tools(path: Path) -> Iterator[tuple[str, str, float, float, Verdict]]:
    """Yield the same of what Zeus and Kernel Tuner said of kernels (benchmarks/compare_tools.py)."""
    board = board_named("H200" if "h200" in str(path) else "H100")
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            length_s, energy_j = float(row["elapsed_s"]), float(row["energy_j"])
            tool = row["tool"]
            if not math.isfinite(energy_j) or tool.startswith("ptxbench") or "approx" in tool:
                continue
            way, source, window_s, poll_s = Way.COUNTER, SourceName.COUNTER, length_s, 0.0
            if tool.startswith("Kernel Tuner"):
                way, source, window_s, poll_s = Way.MEDIAN, SourceName.INSTANT, max(1.0, length_s), 0.01
            claim = Claim(
                tool,
                "J",
                energy_j,
                energy_j / length_s,
                way,
                source,
                Span(window_s, window_s),
                poll_s,
                before=Before.IDLE,
            )
            yield tool, "alone", length_s, float(row["reference_j"]), judge(claim, board, TOLERANCE)


def main() -> None:
    """Print a table of what held."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", help="folders of methods, with their readings")
    parser.add_argument("--tools", action="store_true", help="they are readings.csv of compare_tools.py")
    arguments = parser.parse_args()
    print("folder, number, way: cases, interval holds the truth, verdicts, verdicts that are right")
    for folder in arguments.folders:
        held: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for group, way, _, true_j, verdict in (tools if arguments.tools else cases)(folder):
            count = held[group, way]
            count["all"] += 1
            count[verdict.state] += 1
            if verdict.truth is None:
                continue
            count["held"] += verdict.truth.low <= true_j <= verdict.truth.high
            count["bounded"] += 1
            off = verdict.claim.value / true_j - 1
            right = {
                State.VALID: abs(off) <= TOLERANCE,
                State.BIASED: verdict.bias is not None and off * verdict.bias.low > 0,
                State.UNKNOWN: True,
            }[verdict.state]
            count["right"] += right
        for (group, way), count in sorted(held.items()):
            states = ", ".join(f"{count[state]} {state}" for state in State if count[state])
            print(
                f"{folder}: {group}, {way}: {count['all']} cases, {count['held']} of {count['bounded']} hold;"
                f" {states}; {count['right']} right"
            )


if __name__ == "__main__":
    try:
        main()
    except PtxbenchError as error:
        print(f"audit_truth: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
