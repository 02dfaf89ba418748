"""A search as text, as a CSV, and as a page for a browser."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.printable import number, render_csv
from ptxbench.report.chart import Chart
from ptxbench.report.sections import Section, sections_page
from ptxbench.report.text_table import Column, Kind, render_table
from ptxbench.tune.analysis import TARGETS, Analysis, Figures, VariantFigures
from ptxbench.tune.evaluate import FEW, choices, ranking
from ptxbench.tune.folder import TuningManifest
from ptxbench.tune.outcome import Settled, TrialStatus
from ptxbench.tune.trial import Trial

_LIMIT = "power limit"
_DOCS = ("docs/howto/tune_kernel.md", "docs/tuning.md")
_FIGURES = ("variant", "time ms", "power W", "energy J", "± J", "GFLOP/s", "GFLOP/s/W", _LIMIT)
_WORDS = ("by", "variant", "metric", "model", "step", "way", "choice", _LIMIT)
_SPLITS_SHOWN = 12
_CSV = (
    *("variant", "time_s", "power_w", "energy_j", "energy_half_j", "gflops", "gflops_per_w"),
    *("measured", "capped", "settled", "front", "hull", "alpha_low", "alpha_high", "estimated_j"),
    "foreseen_j",
)


def sections(
    manifest: TuningManifest, trials: Sequence[Trial], found: Analysis, scale: str = ""
) -> tuple[Section, ...]:
    """Return what a report says, in order; `scale` is what the energy counter says of all energies."""
    failed = sum(not t.ok for t in trials)
    kind = "measured" if found.best.measured else "estimated"
    head = (
        ", ".join(_of_board(manifest.gpu)),
        f"{len(trials)} variants tried, {failed} not valid; energy {kind} of {len(found.figures)}",
        *manifest.part.options.remarks,
        *_limit_lines(trials),
        *filter(None, (scale,)),
    )
    winners = [("fastest", found.fastest), ("least energy", found.best)]
    winners.append(("least energy times time", min(found.figures, key=lambda f: f.energy_j * f.time_s)))
    return (
        Section(manifest.part.problem.title, head),
        Section(
            "Winners",
            _verdict(found),
            ("by", *_FIGURES),
            tuple((by, *_cells(one)) for by, one in winners),
        ),
        *_beside_section(found),
        Section("Front of time and energy", (), _FIGURES, tuple(map(_cells, found.front))),
        Section(
            "Best by alpha",
            ("alpha t + (1 - alpha) e, relative to the variant of least energy",),
            ("variant", "from alpha", "to alpha", "time ms", "energy J"),
            tuple(
                (
                    c.figures.name,
                    f"{c.alpha_low:.3f}",
                    f"{c.alpha_high:.3f}",
                    f"{1e3 * c.figures.time_s:.4g}",
                    f"{c.figures.energy_j:.4g}",
                )
                for c in found.arc
            ),
        ),
        Section(
            "Energy at about equal speed",
            (
                f"{found.faster} variants are faster than the one of least energy, {found.thriftier} take"
                f" less energy than the fastest, {found.both} are both",
            ),
            ("times ms", "variants", "most over least"),
            tuple(
                (f"{1e3 * s.from_s:.4g} to {1e3 * s.to_s:.4g}", str(s.variants), f"{s.ratio:.3f}")
                for s in found.spreads
            ),
        ),
        _correlation_section(found),
        *_linear_section(found),
        *_split_section(found),
        *_level_section(found),
        *_ranking_section(trials),
        *_choice_section(trials),
        _cost_section(trials),
    )


def _of_board(gpu: GpuInfo) -> Iterator[str]:
    yield gpu.title
    yield from (f"{name} {text}" for name, text in (("driver", gpu.driver), ("board", gpu.uuid_hash)) if text)


def _limit_lines(trials: Sequence[Trial]) -> tuple[str, ...]:
    """Say how many variants met the power limit, and of how many it is not known that they settled there."""
    capped = [t for t in trials if t.ok and t.capped]
    untested = sum(t.settled is Settled.UNTESTED for t in capped)
    restless = sum(t.status is TrialStatus.NOT_SETTLED for t in trials)
    lines = []
    if capped:
        lines.append(f"{len(capped)} variants met the power limit, or heat slowed them down")
    if untested:
        lines.append(f"{untested} of them ran too shortly to settle there: do not quote their energies")
    if restless:
        lines.append(f"{restless} variants had not settled and do not count")
    return tuple(lines)


def _verdict(found: Analysis) -> tuple[str, ...]:
    """Say whether the fastest and the most efficient are the same."""
    best, fastest = found.best, found.fastest
    if best is fastest:
        return ("The fastest variant is the one of least energy.",)
    more, slower = fastest.energy_j / best.energy_j - 1, best.time_s / fastest.time_s - 1
    text = f"The fastest takes {more:.1%} more energy; the one of least energy is {slower:.1%} slower."
    if Settled.UNTESTED in (best.trial.settled_at_limit, fastest.trial.settled_at_limit):
        return (text, "They are not told apart: nobody tested whether the power of both had settled.")
    if math.isnan(best.half_j + fastest.half_j):
        return (text, "They are not told apart: the interval of their energies is not known.")
    if not found.told_apart:
        return (text, "Their intervals of energy meet: they are not told apart by energy.")
    return (text,)


def _correlation_section(found: Analysis) -> Section:
    by_metric: dict[str, dict[str, str]] = {}
    for one in found.correlations:
        cell = f"{one.rho:+.2f} ({one.low:+.2f} to {one.high:+.2f})"
        by_metric.setdefault(one.metric, {})[one.target] = cell
    return Section(
        "Rank correlation with 95% intervals",
        ("An interval that holds zero says nothing. A correlation is no cause: metrics go along together.",),
        ("metric", *TARGETS),
        tuple(
            (metric, *(cells.get(target, "-") for target in TARGETS)) for metric, cells in by_metric.items()
        ),
    )


def _linear_section(found: Analysis) -> tuple[Section, ...]:
    if not found.linear:
        return ()
    rows = [
        (one.metric, *(f"{value:+.2f}" for value in (one.gflops, one.gflops_per_w, one.product)))
        for one in found.linear
    ]
    columns = ("metric", "GFLOP/s", "GFLOP/s/W", "their product")
    return (Section("Linear correlation with speed and efficiency", (), columns, tuple(rows)),)


def _split_section(found: Analysis) -> tuple[Section, ...]:
    if not found.splits:
        return ()
    rows = [
        (
            one.metric,
            f"{one.above} / {one.below}",
            f"{one.time:.2f} ({one.time_low:.2f} to {one.time_high:.2f})",
            f"{one.energy:.2f} ({one.energy_low:.2f} to {one.energy_high:.2f})",
        )
        for one in found.splits[:_SPLITS_SHOWN]
    ]
    return (
        Section(
            "Variants above the mean of a metric over those below",
            ("geometric means, with 95% intervals",),
            ("metric", "above / below", "time", "energy"),
            tuple(rows),
        ),
    )


def _level_section(found: Analysis) -> tuple[Section, ...]:
    if not found.levels:
        return ()
    rows = [
        (
            f"{one.occupancy:.1%}",
            str(one.variants),
            f"{1e3 * one.time_s:.4g}",
            f"{one.energy_j:.4g}",
            number(one.gflops, ".0f"),
            number(one.gflops_per_w, ".2f"),
        )
        for one in found.levels
    ]
    columns = ("occupancy", "variants", "time ms", "energy J", "GFLOP/s", "GFLOP/s/W")
    return (Section("Means by occupancy", (), columns, tuple(rows)),)


def _beside_section(found: Analysis) -> tuple[Section, ...]:
    """Say what a library takes for the same, and how far the best variants are from it."""
    if not found.beside:
        return ()
    lines = []
    last = found.beside[-1]
    lines.append(f"the fastest variant takes {found.fastest.time_s / last.time_s:.2f} times its time")
    if math.isfinite(last.energy_j):
        lines.append(
            f"the one of least energy takes {found.best.energy_j / last.energy_j:.2f} times its energy"
        )
    if len(found.beside) > 1:
        moved = last.time_s / found.beside[0].time_s - 1
        lines.append(f"its own time moved by {moved:+.1%} from the first measurement to the last")
    if not all(one.trial.correct for one in found.beside):
        lines.append("its result is not the right one")
    return (
        Section(
            "A library's product beside",
            tuple(lines),
            ("by", *_FIGURES[1:]),
            tuple((one.name, *_numbers(one)) for one in found.beside),
        ),
    )


def _choice_section(trials: Sequence[Trial]) -> tuple[Section, ...]:
    """Say what each way of tuning would have chosen, what it loses, and how long the GPU works for it."""
    found = choices(trials)
    if len(found) < 3:
        return ()
    return (
        Section(
            "What each way of tuning chooses, for energy",
            ("loss: more energy than the best measured; seconds: of comparing, timing and reading power",),
            ("way", "energy J", "loss", "seconds", "choice"),
            tuple(
                (one.way, f"{one.energy_j:.4g}", f"{one.loss:.1%}", f"{one.gpu_s:.1f}", one.variant or "-")
                for one in found
            ),
        ),
    )


def _ranking_section(trials: Sequence[Trial]) -> tuple[Section, ...]:
    one = ranking(trials)
    if one is None:
        return ()
    choice = (
        f"the best of the {min(FEW, one.variants)} that it puts first takes {one.chosen_loss:.1%} more"
        f" energy than the best measured, the fastest {one.fastest_loss:.1%}"
    )
    which = "drawn at random" if one.sampled else "that were tried"
    return (
        Section(
            "The estimate beside models that know less",
            (f"on {one.variants} variants {which}", choice),
            ("model", "rank correlation", "mean error"),
            (
                ("estimate", number(one.estimate, ".2f"), f"{one.estimate_error:.1%}"),
                ("time alone", number(one.time, ".2f"), f"{one.time_error:.1%}"),
                ("constant energy", "-", f"{one.constant_error:.1%}"),
            ),
        ),
    )


def _cost_section(trials: Sequence[Trial]) -> Section:
    """Say what the search took: with power, and what it would have taken by short timings alone."""
    walls = {
        "building (processor time)": [t.build_wall_s for t in trials],
        "comparing results": [t.check_wall_s for t in trials],
        "short timings": [t.timing_wall_s for t in trials],
        "reading power": [t.power_wall_s for t in trials],
    }
    known = {name: sum(s for s in seconds if math.isfinite(s)) for name, seconds in walls.items()}
    timing_s, power_s = known["short timings"], known["reading power"]
    ratio: tuple[str, ...] = ()
    if timing_s > 0 and power_s > 0:
        ratio = (f"Power took {(timing_s + power_s) / timing_s:.0f} times as long as timings alone.",)
    return Section(
        "What it took",
        ratio,
        ("step", "seconds"),
        tuple((name, f"{seconds:.2f}") for name, seconds in known.items()),
    )


def as_text(parts: Sequence[Section], width: int | None) -> str:
    """Return a report as text."""
    blocks = []
    for part in parts:
        lines = [part.heading, *part.lines]
        if part.rows:
            names = [Column(name, Kind.TEXT if name in _WORDS else Kind.NUMBER) for name in part.columns]
            lines.append(render_table(names, part.rows, width))
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def as_csv(found: Analysis) -> str:
    """Return a row for each variant that counts, with every metric, and one for each of a library's."""
    corners = {id(c.figures): c for c in found.arc}
    front, hull = {id(f) for f in found.front}, {id(f) for f in found.hull}
    rows: list[Sequence[object]] = [(*_CSV, *found.metrics)]
    for n, one in enumerate(found.figures):
        corner = corners.get(id(one))
        rows.append(
            (
                *_csv_cells(one),
                *(id(one) in front, id(one) in hull),
                *((f"{corner.alpha_low:.4f}", f"{corner.alpha_high:.4f}") if corner else ("", "")),
                *(number(value, ".6g", "") for value in (one.trial.estimated_j, one.trial.foreseen_j)),
                *(number(values[n], ".6g", "") for values in found.metrics.values()),
            )
        )
    rows += [_csv_cells(one) for one in found.beside]
    return render_csv(rows)


def _csv_cells(one: Figures[Any]) -> tuple[object, ...]:
    figures = (one.time_s, one.power_w, one.energy_j, one.half_j, one.gflops, one.gflops_per_w)
    numbers = (number(value, ".6g", "") for value in figures)
    return (one.name, *numbers, one.measured, one.trial.capped, one.trial.settled)


def as_page(parts: Sequence[Section], charts: Sequence[Chart]) -> str:
    """Return one page for a browser, with its charts below the tables."""
    return sections_page(parts, _DOCS, charts)


def _cells(one: VariantFigures) -> tuple[str, ...]:
    return (one.name, *_numbers(one))


def _numbers(one: Figures[Any]) -> tuple[str, ...]:
    return (
        f"{1e3 * one.time_s:.4g}",
        number(one.power_w, ".1f"),
        number(one.energy_j, ".4g"),
        number(one.half_j, ".2g"),
        number(one.gflops, ".0f"),
        number(one.gflops_per_w, ".2f"),
        one.at_limit,
    )
