"""Our observer for Kernel Tuner beside that of its own, which here only reads: the same launches for both.

    python runners/observe_kernel_tuner.py --out runs/observer.json

20 variants of the reduction in examples/tune are measured by both at once, three times each; then by each
alone, for the seconds that a configuration takes. On a GPU this takes three minutes. Written are, of each
observer, the energies of each variant, the scatter of the repeats, how many of the best five are the same
from repeat to repeat, and the seconds of a configuration alone. No GPU is set.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from kernel_tuner_beside import imported, nvml_observer, observed

from ptxbench.devices.select import open_gpu
from ptxbench.storage.atomic import write_text
from ptxbench.tune.configuration import Configuration
from ptxbench.tune.spec import KernelSpec
from ptxbench.tune.spec_file import load_spec

EXAMPLES = Path(__file__).parents[1] / "examples" / "tune"
PER_BLOCK = ("BLOCK", "VECTOR", "PER_THREAD")
# What each observer calls the energy of a launch.
ENERGIES = {"ptxbench": "energy_j", "kernel_tuner": "nvml_energy"}
_BEST = 5
_LIMIT_S = 480.0


def chosen(spec: KernelSpec, count: int, seed: int) -> list[tuple[Any, ...]]:
    """Return some variants that meet the filters, drawn at random."""
    kept = [one for one, refused in spec.variants() if refused is None]
    drawn: list[Configuration] = random.Random(seed).sample(kept, min(count, len(kept)))  # noqa: S311
    return [tuple(one.values) for one in drawn]


def summary(repeats: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Return how far the energies of repeats are apart, and whether their best five are the same.

    Args:
        repeats: Energy of each variant, of each repeat; infinite where it is not known.
    """
    known = [name for name in repeats[0] if all(math.isfinite(one.get(name, math.inf)) for one in repeats)]
    scatters = [
        stdev([one[name] for one in repeats]) / fmean([one[name] for one in repeats])
        for name in known
        if len(repeats) > 1
    ]
    best = [set(sorted(known, key=one.__getitem__)[:_BEST]) for one in repeats]
    shared = [len(a & b) for a, b in combinations(best, 2)]
    return {
        "variants": len(known),
        "scatter_median": median(scatters) if scatters else math.nan,
        "scatter_most": max(scatters, default=math.nan),
        "best_shared": fmean(shared) if shared else math.nan,
        "energies_j": {name: [one[name] for one in repeats] for name in known},
    }


def measure(
    spec: KernelSpec,
    configurations: Sequence[tuple[Any, ...]],
    makers: dict[str, Callable[[], Any]],
    repeats: int,
) -> dict[str, Any]:
    """Let both observe the same launches, some times, and each alone once.

    Args:
        spec: The kernel.
        configurations: Its variants.
        makers: Make the observers, by name.
        repeats: How often both observe.

    Raises:
        InputError: Kernel Tuner, CuPy or pynvml is not installed.
    """
    axes = [axis.name for axis in spec.axes]

    def run(names: Sequence[str]) -> tuple[list[dict[str, Any]], float]:
        observers = [makers[name]() for name in names]
        results, _, wall_s = observed(spec, EXAMPLES, configurations, PER_BLOCK, observers, _LIMIT_S)
        return [one for one in results if isinstance(one.get("time"), int | float)], wall_s

    together = [run(list(makers))[0] for _ in range(repeats)]
    found: dict[str, Any] = {"variants": len(configurations), "repeats": repeats}
    for name in makers:
        energies = [
            {" ".join(f"{axis}={one[axis]}" for axis in axes): float(one[ENERGIES[name]]) for one in results}
            for results in together
        ]
        alone, wall_s = run([name])
        found[name] = {**summary(energies), "seconds_a_variant": wall_s / max(1, len(alone))}
    found["settled"] = [sum(bool(one.get("settled")) for one in results) for results in together]
    ours, theirs = (found[name]["energies_j"] for name in ENERGIES)
    ratios = sorted(fmean(theirs[name]) / fmean(ours[name]) for name in ours.keys() & theirs.keys())
    if ratios:
        found["theirs_over_ours"] = {"least": ratios[0], "median": median(ratios), "most": ratios[-1]}
    return found


def main() -> int:
    """Run the script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--variants", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    imported()
    from ptxbench.kernel_tuner import EnergyObserver

    spec = load_spec(EXAMPLES / "reduction.toml")
    makers = {"ptxbench": lambda: EnergyObserver(0), "kernel_tuner": nvml_observer}
    gpu = open_gpu("0")
    document = {"gpu": asdict(gpu.info), "created": datetime.now(UTC).isoformat()}
    gpu.close()
    found = measure(spec, chosen(spec, arguments.variants, arguments.seed), makers, arguments.repeats)
    found = {**document, **found}
    write_text(arguments.out, json.dumps(found, indent=1) + "\n")
    print(json.dumps({name: found.get(name) for name in ("settled", "theirs_over_ours")}))
    for name in makers:
        figures = {key: value for key, value in found[name].items() if key != "energies_j"}
        print(name, json.dumps(figures))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
