"""Measure what the power sampler costs the kernel that it watches.

    python benchmarks/sampler_cost.py --gpu 0 --out results/nvidia-h200/sampler-cost.json

One fixed kernel is launched again and again, with the sampler polling at its interval and with it asleep
from before the launch until after the end, in pairs whose order turns round (ABBA), so that drift cancels.
Prints by how much the kernel takes longer, with the 95% interval. Exit codes: 0 where the interval lies
within the limit, 1 where it does not, 2 and 3 as `ptxbench`.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from ptxbench.analysis.statistics import Estimate, estimate
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.devices.base import Gpu
from ptxbench.devices.select import open_gpu
from ptxbench.experiment.load import INSTRUCTION, Load, prepare_load
from ptxbench.sensors.base import SourceName
from ptxbench.storage import codec
from ptxbench.storage.atomic import write_text
from ptxbench.storage.commit import made_by
from ptxbench.storage.location import require_place

# The kernel ends long before the next poll would come.
ASLEEP_S = 3600.0
_PERCENT = 100.0


@dataclass(frozen=True)
class Pair:
    """Two launches, one after the other.

    Attributes:
        polled_first: Whether the one that was polled came first.
        polled_s: Duration of the kernel with the sampler polling, by the GPU's events.
        asleep_s: Duration with the sampler asleep.
        polled_ns: The first by the kernel's own %globaltimer.
        asleep_ns: The second by it.
        polls: Readings of the temperature that fell into the polled kernel: one a poll.
        clock_mhz: Mean SM clock of the two.
    """

    polled_first: bool
    polled_s: float
    asleep_s: float
    polled_ns: int
    asleep_ns: int
    polls: int
    clock_mhz: float


def main() -> int:
    """Measure, print, write, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="0", help="index, UUID or simulated[:profile]")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--pairs", type=int, default=24, help="pairs of launches (default: 24)")
    parser.add_argument(
        "--kernel", type=float, default=0.3, help="duration of the kernel in s (default: 0.3)"
    )
    parser.add_argument("--poll", type=float, help="time between two polls in s (default: the GPU's own)")
    parser.add_argument("--limit", type=float, default=0.2, help="what is nothing, in percent (default: 0.2)")
    arguments = parser.parse_args()
    if arguments.pairs < 2:
        raise InputError(f"--pairs {arguments.pairs} must be at least 2")
    if not 0.001 <= arguments.kernel <= 60:
        raise InputError(f"--kernel {arguments.kernel:g} must be 0.001 to 60 s")
    gpu = open_gpu(arguments.gpu)
    if arguments.out is not None:
        require_place(arguments.out, gpu.info.kind)
    began = datetime.now(UTC)
    try:
        load = prepare_load(gpu)
        pairs = [
            measure_pair(gpu, load, arguments.kernel, arguments.poll, polled_first=n % 2 == 0)
            for n in range(-1, arguments.pairs)
        ][1:]  # the first one warms up
    finally:
        gpu.close()
    by_events = cost_percent([p.polled_s for p in pairs], [p.asleep_s for p in pairs])
    by_timer = cost_percent([p.polled_ns for p in pairs], [p.asleep_ns for p in pairs])
    is_nothing = abs(by_events.mean) + by_events.ci95 < arguments.limit
    kind = "" if gpu.info.kind == "real" else f" ({gpu.info.kind.upper()}, no measurement)"
    length_s, polls = np.mean([p.asleep_s for p in pairs]), np.mean([p.polls for p in pairs])
    print(f"{gpu.info.name}{kind}, driver {gpu.info.driver}, board {gpu.info.uuid_hash}")
    print(f"{len(pairs)} pairs of a {length_s:.3f} s kernel, {polls:.0f} polls in each")
    print(f"by events:       {by_events.mean:+.4f} ± {by_events.ci95:.4f}%")
    print(f"by %globaltimer: {by_timer.mean:+.4f} ± {by_timer.ci95:.4f}%")
    print(f"{'under' if is_nothing else 'NOT shown to be under'} {arguments.limit:g}%")
    if arguments.out is not None:
        manifest = {
            "gpu": codec.encode(gpu.info),
            **made_by(Path(__file__).parents[1], began),
            "arguments": {"pairs": arguments.pairs, "kernel_s": arguments.kernel, "poll_s": arguments.poll},
            "instruction": INSTRUCTION,
        }
        found = {"by_events_pct": codec.encode(by_events), "by_globaltimer_pct": codec.encode(by_timer)}
        document = {"manifest": manifest, **found, "pairs": codec.encode(pairs)}
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        write_text(arguments.out, json.dumps(document, indent=1) + "\n")
    return int(not is_nothing)


def measure_pair(gpu: Gpu, load: Load, kernel_s: float, poll_s: float | None, *, polled_first: bool) -> Pair:
    """Launch the kernel with the sampler polling and with it asleep.

    Args:
        gpu: Where it runs.
        load: The kernel.
        kernel_s: How long it lasts.
        poll_s: Time between two polls; None: the GPU's own.
        polled_first: Which comes first.

    Raises:
        LaunchError: The kernel did not run.
        GpuError: The GPU stopped answering.
    """
    launch = load.launch("sampler cost", kernel_s)
    intervals = {True: poll_s, False: ASLEEP_S}
    runs = {
        polled: gpu.run_sequence((launch,), (), intervals[polled])
        for polled in (polled_first, not polled_first)
    }
    (polled,), (asleep,) = runs[True].windows, runs[False].windows
    temperature = runs[True].trace.of(SourceName.TEMPERATURE)
    taken_ns = np.empty(0) if temperature is None else temperature.end_ns
    return Pair(
        polled_first=polled_first,
        polled_s=polled.elapsed_s,
        asleep_s=asleep.elapsed_s,
        polled_ns=polled.globaltimer_ns,
        asleep_ns=asleep.globaltimer_ns,
        polls=int(((taken_ns >= polled.start_ns) & (taken_ns <= polled.end_ns)).sum()),
        clock_mhz=(polled.clock_mhz + asleep.clock_mhz) / 2,
    )


def cost_percent(polled: list[float], asleep: list[float]) -> Estimate:
    """Return by how many percent the first of each pair exceeds the second: mean with its 95% interval."""
    return estimate([_PERCENT * (a / b - 1) for a, b in zip(polled, asleep, strict=True)])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"sampler_cost: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
