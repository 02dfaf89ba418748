"""Work the figures of docs/tuning.md and studies/tuning out again from kept searches and the shipped tables.

    python runners/refresh_tuning.py

Needs no GPU, and takes a minute. Energies are those that were measured; estimates are those of the tables as
they are now, with the work and the short timings that the searches keep. A search of an H100 is estimated by
`h100`, one of an H200 by `h200`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import fmean

from fit_model import ROOT
from page_blocks import table, write_blocks

from ptxbench.core.errors import PtxbenchError
from ptxbench.model.atlas import open_atlas
from ptxbench.model.baselines import Form, baseline_machines
from ptxbench.model.estimate import Machine
from ptxbench.storage.shipped import SHIPPED
from ptxbench.tune.evaluate import choices, estimated_again, rank_of, ranking
from ptxbench.tune.folder import TuningFolder
from ptxbench.tune.model_energy import ModelEnergy
from ptxbench.tune.repeats import FIRST
from ptxbench.tune.trial import Trial

# The blocks of each page.
PAGES = {
    ROOT / "docs" / "tuning.md": ("first-five",),
    ROOT / "studies" / "tuning" / "searches.md": ("ranks", "gemm-h200", "adds", "ways"),
}
RESULTS = ROOT / "results"
# Each kept search of ten variants and more by what the page calls it.
SEARCHES = {
    "GEMM f32, H200": "nvidia-h200/gemm/f32",
    "GEMM f64, H200": "nvidia-h200/gemm/f64",
    "GEMM f32, the estimate's first, H200": "nvidia-h200/gemm-best/f32",
    "GEMM f16, the estimate's first, H200": "nvidia-h200/gemm-best/f16",
    "GEMM f16, mma.sync": "nvidia-h100/tunings/gemm-f16-mma",
    "GEMM f16, wgmma": "nvidia-h100/tunings/gemm-f16-wgmma",
    "GEMM f64, tensor cores": "nvidia-h100/tunings/gemm-f64-mma",
    "GEMM f64, the paper's space": "nvidia-h100/tunings/gemm-beast",
    "n-body": "nvidia-h100/tunings/nbody",
    "n-body, another board": "nvidia-h100/tunings/nbody-2",
    "stencil": "nvidia-h100/tunings/stencil",
    "reduction": "nvidia-h100/tunings/reduction",
}
H200 = tuple(SEARCHES)[:4]
OWN_KERNELS = ("n-body", "stencil", "reduction")
THE_TABLE = "the table"
_MODELS = {Form.CONSTANT: "one energy for all opcodes", Form.NOTHING: "no energy of opcodes"}


@dataclass(frozen=True)
class Search:
    """A kept search.

    Attributes:
        name: What the page calls it.
        trials: What was measured, estimated by each model.
    """

    name: str
    trials: dict[str, tuple[Trial, ...]]

    @property
    def measured(self) -> tuple[Trial, ...]:
        """Trials that have an energy, estimated by the table."""
        return _measured(self.trials[THE_TABLE])


def read_search(name: str) -> Search:
    """Return a kept search with the estimates of the table, and of models that know less.

    Raises:
        InputError: Its folder is none.
    """
    folder = TuningFolder.read(RESULTS / SEARCHES[name])
    gpu, part = folder.manifest.gpu, folder.manifest.part
    of_gpu = next(one for one in SHIPPED if one.upper() in gpu.name)
    atlas = open_atlas(of_gpu)
    baselines = baseline_machines(atlas.baselines, atlas.opcode_energies, atlas.machine)
    less = {_MODELS[form]: machine for form, machine in baselines.items() if form in _MODELS}
    machines: dict[str, Machine] = {THE_TABLE: atlas.machine, **less}
    held, _ = folder.believed()
    pattern, full_mhz = part.options.pattern, gpu.max_sm_clock_mhz
    return Search(
        name,
        {
            model: estimated_again(held, part.problem, ModelEnergy(machine, pattern, full_mhz))
            for model, machine in machines.items()
        },
    )


def main() -> int:
    """Work out and write."""
    searches = {name: read_search(name) for name in SEARCHES}
    made = blocks(searches)
    for page, names in PAGES.items():
        write_blocks(page, {name: made[name] for name in names})
    return 0


def blocks(searches: Mapping[str, Search]) -> dict[str, str]:
    """Return every block of the pages by its name, in Markdown."""
    return {
        "first-five": _first_five([*searches.values()]),
        "ranks": _ranks([*searches.values()]),
        "gemm-h200": _gemm([searches[name] for name in H200]),
        "adds": _adds([searches[name] for name in OWN_KERNELS]),
        "ways": _ways([searches[name] for name in OWN_KERNELS]),
    }


def loss(trials: Sequence[Trial], figure: Callable[[Trial], float]) -> float:
    """Return how much more than the least energy the best of the first five by a figure takes, relative."""
    first = sorted(trials, key=figure)[:FIRST]
    return min(t.energy_j for t in first) / min(t.energy_j for t in trials) - 1


def _first_five(searches: Sequence[Search]) -> str:
    rows = []
    for one in searches:
        losses = [loss(one.measured, attrgetter("time_s"))]
        losses += [loss(_measured(trials), attrgetter("estimated_j")) for trials in one.trials.values()]
        rows.append([one.name, str(len(one.measured)), *(f"{100 * lost:.1f}%" for lost in losses)])
    models = next(iter(searches)).trials
    return table(("search", "variants", "by time alone", *(f"by {model}" for model in models)), rows)


def _ranks(searches: Sequence[Search]) -> str:
    rows = []
    for one in searches:
        ranks = [rank_of(one.measured, attrgetter("time_s"))]
        ranks += [rank_of(_measured(trials), attrgetter("estimated_j")) for trials in one.trials.values()]
        rows.append([one.name, *(f"{rank:.2f}" for rank in ranks)])
    models = next(iter(searches)).trials
    return table(("search", "time alone", *models), rows)


def _gemm(searches: Sequence[Search]) -> str:
    every = [one.measured for one in searches]
    known = [ranking(trials) for trials in every]
    walls = {name: [sum(getattr(t, f"{name}_wall_s") for t in trials) for trials in every]
             for name in ("build", "check", "timing", "power")}  # fmt: skip
    besides_s = [sum(some) for some in zip(walls["build"], walls["check"], walls["timing"], strict=True)]
    rows = [
        ["variants measured", *(str(len(trials)) for trials in every)],
        ["of them at the power limit", *(str(sum(t.capped for t in trials)) for trials in every)],
        [
            "rank correlation (Spearman) with measured energy",
            *(f"{rank_of(trials, attrgetter('estimated_j')):.3f}" for trials in every),
        ],
        ["mean error of the estimates", *(f"{_mean_error(trials):.1%}" for trials in every)],
        ["mean error of one power times time", *(f"{r.time_error:.1%}" if r else "" for r in known)],
        [
            "best of the estimator's first ten, over the best",
            *(f"{r.chosen_loss:.1%}" if r else "" for r in known),
        ],
        ["the fastest, over the best", *(f"{r.fastest_loss:.1%}" if r else "" for r in known)],
        ["building, one core, s", *(f"{s:.0f}" for s in walls["build"])],
        [
            "comparing and short timings, s",
            *(f"{sum(some):.1f}" for some in zip(walls["check"], walls["timing"], strict=True)),
        ],
        ["power windows, s", *(f"{s:.1f}" for s in walls["power"])],
        [
            "power of all, over short timings of all",
            *(f"{1 + r:.0f} times" for r in _over(walls["power"], walls["timing"])),
        ],
        [
            "the same with building and comparing",
            *(f"{1 + r:.1f} times" for r in _over(walls["power"], besides_s)),
        ],
    ]
    return table(("", *(one.name.removesuffix(", H200") for one in searches)), rows)


def _over(some: Sequence[float], others: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(some, others, strict=True)]


def _mean_error(trials: Sequence[Trial]) -> float:
    return fmean(abs(t.estimated_j / t.energy_j - 1) for t in trials)


def _adds(searches: Sequence[Search]) -> str:
    found = [ranking(one.trials[THE_TABLE]) for one in searches]
    known = [one for one in found if one is not None]
    rows = [
        ["variants drawn at random", *(str(one.variants) for one in known)],
        ["rank correlation, estimate", *(f"{one.estimate:.2f}" for one in known)],
        ["rank correlation, time alone", *(f"{one.time:.2f}" for one in known)],
        ["mean error, estimate", *(f"{one.estimate_error:.1%}" for one in known)],
        ["mean error, one power times time", *(f"{one.time_error:.1%}" for one in known)],
        ["mean error, one energy for all", *(f"{one.constant_error:.1%}" for one in known)],
    ]
    return table(("", *(one.name for one in searches)), rows)


def _ways(searches: Sequence[Search]) -> str:
    found = [{one.way: one for one in choices(search.trials[THE_TABLE])} for search in searches]
    rows = []
    for way in found[0]:
        cells = [f"{100 * of[way].loss:.1f}%, {of[way].gpu_s:.1f} s" if way in of else "" for of in found]
        rows.append([way, *cells])
    return table(("", *(one.name for one in searches)), rows)


def _measured(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    return tuple(t for t in trials if t.ok and math.isfinite(t.energy_j) and math.isfinite(t.estimated_j))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"refresh_tuning: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
