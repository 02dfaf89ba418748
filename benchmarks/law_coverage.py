"""How often 95% intervals hold the truth: of the ridge point and the best clock, and of rooflines.

    python benchmarks/law_coverage.py [--draws 300] [--only ridge|roofline]

Every number is of made-up GPUs. The ridge: power P = 55 + 0.10 f v^2 W at 28 SM clocks, where the voltage v
is one that was published of an A100 (tests/model/data), or one of a law, with relative normal scatter.
Rooflines: kernels of 1/8 to 512 flop/byte, each on two of five numbers of SMs, of GPUs that differ in what a
flop, a byte and a second cost and in the power that they have beside Eq. 4. A kernel is off by itself, with
those of its octave of intensity, and with those on as many SMs, by 0.3% each.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ptxbench.core.estimate import Estimate
from ptxbench.model.clocks.ridge import PowerSample, fit_ridge
from ptxbench.model.roofline.fit import RooflineFit, RooflinePoint, choose_fit
from ptxbench.model.roofline.third_power import ThirdPower

Floats = npt.NDArray[np.float64]

PUBLISHED = Path(__file__).parents[1] / "tests" / "model" / "data" / "a100_idle.csv"
RIDGE_MHZ = 1020.0
_CLOCKS = 28
_OFF = 0.003
_SM_SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
_INTENSITIES = [2 ** (n / 2) for n in range(-6, 19)]
# Half of the SMs fill the bandwidth.
_FILLS = 2.0


@dataclass(frozen=True)
class VoltageCase:
    """A voltage over the SM clock.

    Attributes:
        name: What it is.
        clocks_mhz: Clocks that are sampled, MHz.
        voltage: Its voltage at a clock, over the lowest.
        scatter: Relative scatter of the powers.
        has_ridge: Whether it rises at all.
    """

    name: str
    clocks_mhz: Floats
    voltage: Callable[[Floats], Floats]
    scatter: float
    has_ridge: bool = True

    @property
    def best_mhz(self) -> float:
        """Clock of least energy of a kernel that is bound by the clock, MHz."""
        clocks = np.linspace(self.clocks_mhz[0], self.clocks_mhz[-1], 20_000)
        return float(clocks[np.argmin(self.power_w(clocks) / clocks)])

    def power_w(self, clocks_mhz: Floats) -> Floats:
        """Return the power at clocks, W."""
        power_w: Floats = 55 + 0.10 * clocks_mhz * self.voltage(clocks_mhz) ** 2
        return power_w


def voltage_cases() -> tuple[VoltageCase, ...]:
    """Return the voltages: one that was published, and some by a law."""
    with PUBLISHED.open(newline="", encoding="utf-8") as file:
        rows = [(float(row["clock_mhz"]), float(row["voltage_mv"])) for row in csv.DictReader(file)]
    known, millivolts = np.array(rows).T

    def published(clocks: Floats) -> Floats:
        voltage: Floats = np.interp(clocks, known, millivolts / millivolts.min())
        return voltage

    def rising(rise: float, top_mhz: float, power: int) -> Callable[[Floats], Floats]:
        return lambda clocks: 1 + rise * (np.maximum(0, clocks - RIDGE_MHZ) / (top_mhz - RIDGE_MHZ)) ** power

    low = np.linspace(210, 1410, _CLOCKS)
    high = np.linspace(345, 1965, _CLOCKS)
    return (
        VoltageCase("of the A100", low, published, 0.005),
        VoltageCase("of the A100, scatter 2%", low, published, 0.02),
        VoltageCase("quadratic, to 1410 MHz", low, rising(0.29, 1410, 2), 0.005),
        VoltageCase("quadratic, to 1965 MHz", high, rising(0.4, 1965, 2), 0.005),
        VoltageCase("in a line, to 1410 MHz", low, rising(0.29, 1410, 1), 0.005),
        VoltageCase("flat", low, rising(0.0, 1410, 1), 0.005, has_ridge=False),
    )


def ridge_row(case: VoltageCase, draws: int) -> tuple[str, ...]:
    """Return how often intervals hold the ridge and the best clock, and how often there is no ridge."""
    found = []
    for seed in range(draws):
        scatter = 1 + case.scatter * np.random.default_rng(seed).normal(size=len(case.clocks_mhz))
        powers = case.power_w(case.clocks_mhz) * scatter
        pairs = zip(case.clocks_mhz, powers, strict=True)
        found.append(fit_ridge([PowerSample(float(mhz), float(power_w)) for mhz, power_w in pairs]))
    with_ridge = [one.ridge_mhz for one in found if one.found]
    with_clock = [one.best_clock_mhz for one in found if np.isfinite(one.best_clock_mhz.value)]
    return (
        case.name,
        _held(with_ridge, RIDGE_MHZ) if case.has_ridge else "-",
        _held(with_clock, case.best_mhz),
        f"{100 * (1 - len(with_ridge) / draws):.1f}%",
    )


def _held(found: Sequence[Estimate], truth: float) -> str:
    if not found:
        return "-"
    held = np.mean([abs(one.value - truth) <= one.uncertainty for one in found])
    width = np.median([one.uncertainty for one in found])
    return f"{100 * held:.1f}% of ± {width:.0f}"


@dataclass(frozen=True)
class MadeUpGpu:
    """What a made-up GPU costs: J a flop and a byte, W, and its power beside Eq. 4 at its highest."""

    flop_j: float
    byte_j: float
    constant_w: float
    third: ThirdPower | None
    third_w: float

    @property
    def truth(self) -> dict[str, float]:
        """Every coefficient by the name that the fit gives it."""
        known = {"f32": self.flop_j, "dram": self.byte_j, "constant": self.constant_w}
        return known if self.third is None else known | {self.third: self.third_w}


def draw_gpu(third: ThirdPower | None, rng: np.random.Generator) -> MadeUpGpu:
    """Return a GPU whose figures are drawn."""
    low = np.array([5e-12, 80e-12, 110.0, 15.0])
    high = np.array([20e-12, 130e-12, 150.0, 40.0])
    flop_j, byte_j, constant_w, third_w = map(float, rng.uniform(low, high))
    return MadeUpGpu(flop_j, byte_j, constant_w, third, third_w if third else 0.0)


def kernels(gpu: MadeUpGpu, rng: np.random.Generator) -> Iterator[RooflinePoint]:
    """Yield its kernels, with their errors."""
    flop_s, byte_s, moved = 1 / 60e12, 1 / 4e12, 1e12
    of_sms = dict(zip(_SM_SHARES, rng.normal(size=len(_SM_SHARES)), strict=True))
    of_octave: dict[int, float] = {}
    for number, intensity in enumerate(_INTENSITIES):
        octave = of_octave.setdefault(int(np.floor(np.log2(intensity))), rng.normal())
        for share in (_SM_SHARES[number % 5], _SM_SHARES[(number + 2) % 5]):
            flops = intensity * moved
            time_s = max(flops * flop_s / share, moved * byte_s / min(1.0, _FILLS * share))
            used = moved * byte_s / time_s
            static_w = gpu.constant_w
            if gpu.third is not None:
                static_w += gpu.third_w * gpu.third.share(used, share)
            energy_j = flops * gpu.flop_j + moved * gpu.byte_j + static_w * time_s
            energy_j *= 1 + _OFF * (rng.normal() + octave + of_sms[share])
            yield RooflinePoint(
                f"{intensity:.3g}-{share:.3g}", "f32", flops, (("dram", moved),), time_s, energy_j,
                bandwidth_share=used, sms_share=share,
            )  # fmt: skip


def roofline_rows(third: ThirdPower | None, draws: int) -> Iterator[tuple[str, ...]]:
    """Yield how often intervals hold each energy, by Eq. 4 alone and by what the kernels choose."""
    held: dict[str, list[list[float]]] = {"Eq. 4": [], "chosen": []}
    right = 0
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        gpu = draw_gpu(third, rng)
        chosen, tried = choose_fit(tuple(kernels(gpu, rng)))
        right += chosen.third == third
        for name, fit in (("Eq. 4", tried[0]), ("chosen", chosen)):
            held[name].append([_holds(fit, one, truth) for one, truth in gpu.truth.items()])
    for name, rows in held.items():
        shares = [f"{100 * share:.1f}%" for share in np.nanmean(np.array(rows), axis=0)]
        if name == "Eq. 4" or third is None:
            shares[3:] = ["-"]
        yield (third or "none", name, *shares, f"{100 * right / draws:.1f}%" if name == "chosen" else "-")


def _holds(fit: RooflineFit, name: str, truth: float) -> float:
    """Return 1 where the interval of a coefficient holds the truth, 0 where not, NaN where there is none."""
    if name not in fit.names:
        return 0.0
    found = fit.coefficient(name)
    return float(abs(found.value - truth) <= found.uncertainty)


def main() -> None:
    """Print both tables, in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--draws", type=int, default=300, help="made-up GPUs of each kind")
    parser.add_argument("--only", choices=("ridge", "roofline"), help="one of the two tables")
    options = parser.parse_args()
    if options.only != "roofline":
        print("| voltage | ridge, MHz | best clock, MHz | no ridge |\n| --- | --- | --- | ---: |")
        for case in voltage_cases():
            print(f"| {' | '.join(ridge_row(case, options.draws))} |", flush=True)
    if options.only != "ridge":
        heads = "power beside Eq. 4 | fit | flop | byte | constant | that power | chosen rightly"
        print(f"| {heads} |\n| --- | --- |{' ---: |' * 5}")
        for third in (None, *ThirdPower):
            for row in roofline_rows(third, options.draws):
                print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
