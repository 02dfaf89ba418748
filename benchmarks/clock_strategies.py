"""The strategies of Schoonhoven et al. (2022) on three kernels of the SIMULATED GPU, against a full sweep.

    python benchmarks/clock_strategies.py --out FOLDER [--clocks 16] [--limits 7] [--only strategies|products]

One kernel is bound by the SM clock, one by memory, one by either, as the clock says. Each has variants that
trade time for energy: some of its work by many cheap instructions or by a few slow ones (`SPECIAL`), and part
of its operands read again or computed again (`AGAIN`). The sweep tries every variant at every clock and under
every power limit; the table says what each strategy chooses of it and how many of these trials it needs.

The second table is Table II of the paper, on simulated products: the fastest variant at the highest clock,
and the same at the best clock within 10% of that which the power curve of a load names.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, stdev

from ptxbench.core.gpu_settings import evenly
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import find_profile
from ptxbench.devices.simulated.profile import Profile
from ptxbench.experiment.clock_sweep import sweep_clocks
from ptxbench.experiment.load import prepare_load
from ptxbench.model.clocks.ridge import fit_ridge
from ptxbench.tune.clocks.axes import SettingAxes, Values
from ptxbench.tune.clocks.strategies import Comparison, compare
from ptxbench.tune.folder import TuningFolder
from ptxbench.tune.objective import Goal, Objective
from ptxbench.tune.spec_file import load_spec
from ptxbench.tune.trial import Trial
from ptxbench.tune.tuning import Tuning, tune
from ptxbench.tune.variant_runner import TrialOptions

PROFILE = "h200-clocks"
# Simulated products with their ridges, MHz: the A100's as published, the others made up.
PRODUCTS = {PROFILE: 1200.0, "a100": 1020.0, "rtx3090-memory": 1290.0}
_WARM_UP_S = 100.0
# What the slowest power sensor of the products needs.
_SLOWEST_WINDOW_S = 1.4
KERNEL = """
.version 8.0
.target {{ target }}
.address_size 64
.visible .entry work(.param .u64 in, .param .u64 out, .param .u32 n)
{
    .reg .b64 %rd<6>;
    .reg .b32 %r<6>;
    .reg .f32 %f<3>;
    ld.param.u64 %rd1, [in];
    ld.param.u64 %rd2, [out];
    ld.param.u32 %r5, [n];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r1, {{ BLOCK }}, %r2;
    mul.wide.u32 %rd3, %r3, 4;
    mul.wide.u32 %rd5, %r5, 4;
    add.u64 %rd4, %rd1, %rd3;
    add.u64 %rd2, %rd2, %rd3;
    mov.f32 %f1, 0f3F800000;
{% for n in range(LOADS + AGAIN) %}
    ld.volatile.global.f32 %f2, [%rd4];
    add.u64 %rd4, %rd4, %rd5;
    add.f32 %f1, %f1, %f2;
{% endfor %}
{% for n in range(8 * (2 - AGAIN)) %}
    fma.rn.f32 %f1, %f1, %f1, %f2;
{% endfor %}
{% for n in range(UNITS) %}
{% if n % 8 < SPECIAL %}
    ex2.approx.ftz.f32 %f1, %f1;
{% else %}
{% for m in range(5) %}
    fma.rn.f32 %f1, %f1, %f1, %f2;
{% endfor %}
{% endif %}
{% endfor %}
    st.global.f32 [%rd2], %f1;
    ret;
}
"""
SPEC = """
[kernel]
name = "work"
source = "work.ptx.j2"
[sizes]
n = 4194304
LOADS = {loads}
UNITS = {units}
[axes]
BLOCK = [256]
SPECIAL = [0, 2, 3, 4, 5, 6]
AGAIN = [0, 1, 2]
[launch]
grid = "n // BLOCK"
block = "BLOCK"
[[arguments]]
name = "in"
dtype = "f32"
shape = ["n", "LOADS + 2"]
[[arguments]]
name = "out"
dtype = "f32"
shape = ["n"]
role = "output"
[[arguments]]
name = "count"
dtype = "u32"
value = "n"
[reference]
function = "copy"
arguments = ["in"]
[work]
flops = "n * UNITS * 10"
dram_bytes = "4 * n * (LOADS + AGAIN + 1)"
"""


@dataclass(frozen=True)
class Case:
    """One kernel.

    Attributes:
        name: What bounds it.
        loads: Words that a thread reads at least.
        units: Units of its work: five multiply-adds, or one slow instruction.
    """

    name: str
    loads: int
    units: int


CASES = (Case("compute-bound", 1, 64), Case("memory-bound", 8, 8), Case("balanced", 2, 24))


def write_case(case: Case, folder: Path, target: str = "sm_90a") -> Path:
    """Write the kernel and its specification; return the specification's path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "work.ptx.j2").write_text(KERNEL.replace("{{ target }}", target))
    (folder / "spec.toml").write_text(SPEC.format(loads=case.loads, units=case.units))
    return folder / "spec.toml"


def sweep(case: Case, folder: Path, clocks: int, limits: int) -> TuningFolder:
    """Try every variant at every clock, then under every power limit; resume what is there."""
    spec = load_spec(write_case(case, folder / "spec"))
    out = folder / "sweep"
    for axes in (SettingAxes(Values(even=clocks)), SettingAxes(None, None, Values(even=limits))):
        tuning = Tuning(
            spec,
            Goal(Objective.ENERGY),
            TrialOptions(window_s=0.3),
            strategy="random",
            budget=100_000,
            axes=axes,
            allow_settings=True,
        )
        there = (out / "manifest.json").exists()
        gpu = SimulatedGpu(find_profile(PROFILE))
        # Else the first trials would run on a cooler chip, which draws less.
        gpu.run(prepare_load(gpu).launch("warm-up", _WARM_UP_S))
        tune(gpu, tuning, None if there else out, out if there else None)
    return TuningFolder.read(out)


def fitted_search_mhz(profile: Profile, clocks: int) -> tuple[float, float]:
    """Return the clocks that the power curve of a load names, from as many samples as there are clocks."""
    gpu = SimulatedGpu(profile)
    samples = sweep_clocks(gpu, gpu.settable, clocks, lambda _: None, allowed=True)
    return fit_ridge(samples, gpu.info.power_limit_w).search_mhz


@dataclass(frozen=True)
class Steered:
    """A row of Table II.

    Attributes:
        before: The fastest variant at the highest clock.
        after: The same at the best clock that the model names.
    """

    before: Trial
    after: Trial

    @property
    def cells(self) -> tuple[str, ...]:
        """Efficiency, Gflop/J, and speed, Tflop/s, before and after, with their changes, and the clock."""
        made = []
        for figure in (
            lambda trial: trial.flops / trial.best_energy_j / 1e9,
            lambda trial: trial.flops / trial.best_time_s / 1e12,
        ):
            before, after = figure(self.before), figure(self.after)
            made += [f"{before:.3g}", f"{after:.3g}", f"{100 * (after / before - 1):+.1f}%"]
        return (*made, f"{self.after.settings.sm_clock_mhz} MHz")


def steer(
    case: Case, profile: Profile, search_mhz: tuple[float, float], clocks: int, folder: Path
) -> Steered:
    """Tune for time at the highest clock, then the fastest variant's clock for energy within some clocks."""
    gpu = SimulatedGpu(profile)
    supported = gpu.settable.choices().clocks[-1].sm_clocks_mhz
    near = evenly([mhz for mhz in supported if search_mhz[0] <= mhz <= search_mhz[1]], clocks)
    tuning = Tuning(
        load_spec(write_case(case, folder / "spec", profile.chip.target)),
        Goal(Objective.ENERGY),
        TrialOptions(window_s=_SLOWEST_WINDOW_S),
        strategy="race-to-idle+clocks",
        budget=1000,
        axes=SettingAxes(Values((*near, max(supported)))),
        allow_settings=True,
    )
    # Else the first trials would run on a cooler chip, which draws less.
    gpu.run(prepare_load(gpu).launch("warm-up", _WARM_UP_S))
    trials = [trial for trial in tune(gpu, tuning, folder / "tuning").trials if trial.ok]
    at_highest = [trial for trial in trials if trial.settings.sm_clock_mhz == max(supported)]
    before = min(at_highest, key=lambda trial: trial.best_time_s)
    same = [trial for trial in trials if trial.variant == before.variant and trial is not before]
    return Steered(before, min(same, key=lambda trial: trial.best_energy_j))


def print_products(clocks: int, out: Path) -> None:
    """Print Table II of the paper for each simulated product."""
    print("| GPU, kernel | Gflop/J before | after | change | Tflop/s before | after | change | clock |")
    print("| --- |" + " ---: |" * 7)
    rows = []
    for name, ridge_mhz in PRODUCTS.items():
        found = find_profile(name)
        profile = replace(found, chip=replace(found.chip, ridge_mhz=ridge_mhz))
        search_mhz = fitted_search_mhz(profile, clocks)
        for case in CASES:
            rows.append(steer(case, profile, search_mhz, clocks, out / name / case.name))
            print(f"| {name}, {case.name} | {' | '.join(rows[-1].cells)} |", flush=True)
    gains = [one.before.best_energy_j / one.after.best_energy_j - 1 for one in rows]
    losses = [1 - one.before.best_time_s / one.after.best_time_s for one in rows]
    for what, shares in (("efficiency gained", gains), ("speed lost", losses)):
        print(f"{what}: {100 * mean(shares):.1f} ± {100 * stdev(shares):.1f}% (mean, standard deviation)")


def table(case: Case, found: Comparison, trials: int) -> str:
    """Return a table in Markdown."""
    lines = [
        f"{case.name}: least energy {1e3 * found.least.best_energy_j:.4g} mJ, {found.least.name},"
        f" of {trials} trials",
        "",
        "| strategy | choice | energy over least | saved against race-to-idle | time | runs |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {one.strategy} | {one.trial.name} | {100 * found.over_least(one):.1f}% "
        f"| {100 * found.saved(one):.1f}% | {1e3 * one.trial.best_time_s:.3f} ms | {one.runs} |"
        for one in found.chosen
    ]
    return "\n".join(lines)


def main() -> None:
    """Sweep the three kernels and print a table of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the sweeps; they are resumed")
    parser.add_argument("--clocks", type=int, default=16, help="clocks of the sweep, evenly spread")
    parser.add_argument("--limits", type=int, default=7, help="power limits of the sweep, evenly spread")
    parser.add_argument("--only", choices=("strategies", "products"), help="one of the two tables")
    options = parser.parse_args()
    if options.only != "strategies":
        print("SIMULATED, no measurement\n")
        print_products(options.clocks, options.out / "products")
    if options.only == "products":
        return
    low_mhz, high_mhz = fitted_search_mhz(find_profile(PROFILE), options.clocks)
    print(f"SIMULATED, no measurement: {PROFILE}; model-steered tries {low_mhz:.0f} to {high_mhz:.0f} MHz\n")
    for case in CASES:
        folder = sweep(case, options.out / case.name, options.clocks, options.limits)
        trials = tuple(folder.trials.values())
        found = compare(trials, math.nan, (low_mhz, high_mhz))
        print(table(case, found, len(trials)), end="\n\n")


if __name__ == "__main__":
    main()
