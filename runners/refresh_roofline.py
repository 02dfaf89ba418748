"""Write what kept rooflines give into the tables of docs/roofline.md and of two studies.

    python runners/refresh_roofline.py [--refit]

Needs no GPU. It reads every results/*/roofline/*/roofline.json; `--refit` first works those out again whose
readings are here. A board has a letter, in the order in which the boards of its product were first measured.
A fit on one number of SMs is left out.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from page_blocks import table, write_blocks

from ptxbench.catalogue.product import clock_exponent
from ptxbench.core.distributions import chi_square_tail
from ptxbench.core.estimate import COVERAGE_FACTOR, Estimate
from ptxbench.experiment.roofline.point import open_folder
from ptxbench.experiment.roofline.result import RESULT, write_result

ROOT = Path(__file__).resolve().parents[1]
_KINDS = ("f32", "f64", "f16x2", "mma-f16", "mma-f64", "mma-tf32")
_LEVELS = {"dram": "DRAM", "l2": "L2", "l1": "L1", "shared": "shared memory"}
_BOARDS = ("GPU, flop", "pJ/flop", "pJ a byte more", "at most TB/s", "constant, W", "DRAM, W", "B_tau",
           "B_eps", "half at", "Gflop/J")  # fmt: skip
_THIRD = ("GPU, flop", "unseen, %", "residual, %", "by SMs, %", "constant, W", "AIC", "asleep, W")
_MODELS = ("no limit", "work waits", "work waits, limit fitted", "clock falls")
_LIMITED = ("GPU, flop", "kernels", "no limit", "work waits (2014)", "its limit fitted", "clock falls")
# Of one kernel alone no limit can be fitted to the others.
_FEWEST_LIMITED = 2
_GAMMAS = ("GPU", "tensor kernels", "f64", "f32")
_EXPONENTS = ("GPU, flop, bytes from", "gamma", "kernels", "down to", "scatter", "bent, p")


@dataclass(frozen=True)
class Kept:
    """One kept roofline.

    Attributes:
        product: "H100" or "H200".
        board: Letter of its board.
        document: Its roofline.json (`RooflineDocument`).
    """

    product: str
    board: str
    document: dict[str, Any]

    @property
    def kind(self) -> str:
        """Kind of its flops."""
        return str(self.document["machines"][0]["kind"])

    @property
    def name(self) -> str:
        """GPU, flop and operands, as the tables have them."""
        first, _, rest = self.kind.partition("-")
        flop = f"{rest} by {first}" if rest else first
        zeros = "" if self.document["pattern"] == "random" else f", {self.document['pattern']}"
        return f"{self.product} {self.board}, {flop}{zeros}"

    @property
    def order(self) -> tuple[bool, int, bool, str]:
        """One kind after the other, the H200 first."""
        of_kind = _KINDS.index(self.kind)
        return self.document["pattern"] != "random", of_kind, self.product != "H200", self.board

    @property
    def plain(self) -> dict[str, Any]:
        """The fit of Eq. 4 alone."""
        return dict(self.document["tried"][0])

    @property
    def chosen(self) -> dict[str, Any]:
        """The fit that was taken."""
        return dict(next(one for one in self.document["tried"] if one["chosen"]))

    @property
    def chased(self) -> dict[str, str]:
        """A byte of each level by its pointer chases, which other kernels of its kind only stand beside."""
        return {one["level"]: shown(*one["value"].values()) for one in self.document["chased"]}

    @property
    def has_third(self) -> bool:
        """Whether DRAM has a power of its own in it; runs on one number of SMs cannot tell."""
        return self.chosen["name"] == "DRAM awake" and not self.chased

    def energy(self, name: str) -> str:
        """Return a fitted energy or power with its interval."""
        return shown(*next(one["value"].values() for one in self.document["energies"] if one["name"] == name))

    def machine(self, level: str = "dram") -> dict[str, Any]:
        """Return what follows for flops and a memory level."""
        return dict(next(one for one in self.document["machines"] if one["level"] == level))

    def quantity(self, name: str, level: str = "dram") -> dict[str, float]:
        """Return one quantity of it."""
        return dict(next(one for one in self.machine(level)["quantities"] if one["name"] == name))


def shown(value: float, uncertainty: float, most: int = 2) -> str:
    """Return a number with its interval: two digits of the latter, at most so many behind the point."""
    places = max(0, min(most, 1 - math.floor(math.log10(uncertainty))))
    return f"{value:.{places}f} ± {uncertainty:.{places}f}"


def kept_rooflines() -> tuple[Kept, ...]:
    """Return every kept roofline."""
    found = []
    for path in sorted((ROOT / "results").glob("*/roofline/*/roofline.json")):
        manifest = json.loads((path.parent / "manifest.json").read_text(encoding="utf-8"))
        gpu = manifest["gpu"] if "gpu" in manifest else manifest["gpus"][0]
        product = gpu["name"].split()[1]
        found.append((product, manifest["created"], gpu["uuid_hash"], json.loads(path.read_text("utf-8"))))
    letters: dict[tuple[str, str], str] = {}
    for product, _, uuid, _ in sorted(found, key=lambda one: one[:2]):
        before = sum(known == product for known, _ in letters)
        letters.setdefault((product, uuid), chr(ord("A") + before))
    kept = (Kept(of, letters[of, uuid], doc) for of, _, uuid, doc in found)
    return tuple(sorted(kept, key=lambda one: one.order))


def board_rows(kept: Iterable[Kept]) -> Iterator[tuple[str, ...]]:
    """Yield what each roofline says of its board."""
    for one in kept:
        if one.has_third:
            names = ("energy_balance_flop_per_byte", "half_efficiency_flop_per_byte")
            yield (
                one.name,
                *(one.energy(name) for name in (one.kind, "dram")),
                f"{one.quantity('average_byte_pj')['value']:.1f}",
                *(one.energy(name) for name in ("constant", "DRAM awake")),
                f"{one.quantity('time_balance_flop_per_byte')['value']:.3g}",
                *(f"{q['value']:.3g} ({q['low']:.3g} to {q['high']:.3g})" for q in map(one.quantity, names)),
                f"{one.quantity('best_gflops_per_w')['value']:.3g}",
            )


def third_rows(kept: Iterable[Kept]) -> Iterator[tuple[str, ...]]:
    """Yield what a power of DRAM at work brings, against Eq. 4."""
    for one in kept:
        if one.has_third:
            before, after = one.plain, one.chosen
            by_sms = (", ".join(f"{sms}: {off:+.1f}" for sms, off in of["by_sms"]) for of in (before, after))
            yield (
                one.name,
                *(f"{before[name]:.2f} to {after[name]:.2f}" for name in ("unseen_pct", "rms_pct")),
                " to ".join(by_sms),
                one.energy("constant"),
                f"{after['aic'] - before['aic']:.0f}",
                f"{one.document['sleeping_w']:.0f}",
            )


def exponent_rows(kept: Iterable[Kept]) -> Iterator[tuple[str, ...]]:
    """Yield how the energy of a flop goes with the clock."""
    for one in kept:
        for found in one.document["exponents"] if len(one.chosen["by_sms"]) > 1 else ():
            gamma = found["exponent"]
            level = _LEVELS[one.document["machines"][0]["level"]]
            yield (
                f"{one.name}, {level}",
                shown(*gamma["value"].values()),
                str(gamma["kernels"]),
                f"{gamma['lowest_ratio']:.0%}",
                f"{gamma['scatter']:.1%}",
                "-" if gamma["misfit"] is None else f"{gamma['misfit']:.2f}",
            )


def levels_table(kept: Iterable[Kept]) -> str:
    """Return what a byte of each memory level costs, by fits and by pointer chases, H100 beside H200."""
    several = [one for one in kept if len(one.document["machines"]) > 1]
    whole = sorted(several, key=lambda one: (one.product, one.board))
    chases = [one for one in whole if one.chased]
    fits = [one for one in whole if not one.chased]
    newest = {one.product: one for one in fits}.values()
    rows = [
        (
            _LEVELS[level],
            *(one.energy(level) for one in fits),
            *(one.chased[level] for one in chases),
            ", ".join(f"{one.machine(level)['bytes_per_s'] / 1e12:.3g}" for one in newest),
            ", ".join(
                f"{one.quantity('half_efficiency_flop_per_byte', level)['value']:.2g}" for one in newest
            ),
        )
        for level in _LEVELS
    ]
    average = (f"{one.quantity('average_byte_pj')['value']:.1f}" for one in fits)
    rows.insert(1, ("DRAM, at most TB/s", *average, *("" for _ in chases), "", ""))
    heads = [f"{one.product} {one.board}" for one in (*fits, *chases)]
    heads[len(fits) :] = [f"chase, {head}" for head in heads[len(fits) :]]
    both = ", ".join(one.product for one in newest)
    return table(("pJ/byte", *heads, f"TB/s, {both}", f"half at, {both}"), rows)


def limited_rows(kept: Iterable[Kept]) -> Iterator[tuple[str, ...]]:
    """Yield the mean errors of time and power of each model of the power limit, in percent."""
    for one in kept:
        points = one.document["machines"][0]["limited"]
        count = len({point["kernel"] for point in points})
        if one.has_third and count >= _FEWEST_LIMITED:
            off = (
                [mean(abs(p[of]) for p in points if p["model"] == name) for of in ("time_pct", "power_pct")]
                for name in _MODELS
            )
            yield one.name, str(count), *(f"{time:.2g}%, {power:.2g}%" for time, power in off)


def gamma_rows() -> Iterator[tuple[str, ...]]:
    """Yield the exponents of the clock that estimates and verdicts take, with 95% intervals."""
    for name in ("NVIDIA H200", "NVIDIA H100 80GB HBM3"):
        known = (clock_exponent(name, kind) for kind in ("mma-f16", "f64", "f32"))
        yield (
            name.split()[1],
            *("-" if g is None else shown(g.value, COVERAGE_FACTOR * g.error) for g in known),
        )


PAGES: dict[str, tuple[str, Callable[[Sequence[Kept]], str]]] = {
    "boards": ("docs/roofline.md", lambda kept: table(_BOARDS, board_rows(kept))),
    "levels": ("docs/roofline.md", levels_table),
    "limited": ("studies/roofline/fit.md", lambda kept: table(_LIMITED, limited_rows(kept))),
    "gammas": ("docs/clocks.md", lambda _: table(_GAMMAS, gamma_rows())),
    "third": ("studies/roofline/fit.md", lambda kept: table(_THIRD, third_rows(kept), 5)),
    "exponents": ("studies/clocks/fit.md", lambda kept: table(_EXPONENTS, exponent_rows(kept))),
}


def refit() -> None:
    """Write the result of every roofline whose readings are here again."""
    for result in sorted((ROOT / "results").glob(f"*/roofline/*/{RESULT}")):
        if (result.parent / "traces.parquet").exists() or (result.parent / "partial").exists():
            write_result(
                open_folder(result.parent), json.loads(result.read_text(encoding="utf-8"))["pattern"]
            )


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--refit", action="store_true", help="work every roofline.json out again first")
    if parser.parse_args().refit:
        refit()
    kept = kept_rooflines()
    for name, (path, block) in PAGES.items():
        write_blocks(ROOT / path, {name: block(kept)})


@dataclass(frozen=True)
class JointExponent:
    """gamma of several runs.

    Attributes:
        value: Their mean.
        error: Standard error of gamma on another board: that of the mean, and how runs differ beyond theirs.
        alike: Probability that runs of one gamma differ as much.
    """

    value: float
    error: float
    alike: float


def joint_exponent(runs: Sequence[Estimate]) -> JointExponent:
    """Return gamma of several runs, each with its 95% interval (DerSimonian and Laird 1986).

    Args:
        runs: At least one.
    """
    values = np.array([one.value for one in runs])
    variances = np.array([one.uncertainty / COVERAGE_FACTOR for one in runs]) ** 2
    weights = 1 / variances
    mean = float(weights @ values / weights.sum())
    square, spare = float(weights @ (values - mean) ** 2), len(values) - 1
    between = 0.0
    if spare:
        between = max(0.0, (square - spare) / float(weights.sum() - weights @ weights / weights.sum()))
    weights = 1 / (variances + between)
    return JointExponent(
        value=float(weights @ values / weights.sum()),
        error=math.sqrt(1 / float(weights.sum()) + between),
        alike=chi_square_tail(spare, square / spare) if spare else math.nan,
    )


if __name__ == "__main__":
    main()
