"""Fit the energy model of every shipped table again, judge it, and write the figures of its pages.

    python runners/fit_model.py [h200] [h100] [--only-judge]

Needs no GPU, and takes six minutes a table. Run it after rows of a table have changed (build_atlas.py). The
energies of opcodes are those of the atlas. Terms are fitted to the fit kernels of results/GPU/validation and
results/GPU/suite, intervals to the same kernels left out by family (`validate_kernels.py estimate`,
spread_code.py), and models that know less likewise (compare_baselines.py). It writes model.json,
baselines.json and kernel_validation.csv beside the run and the shipped table, and the blocks between
marks of docs/model.md and studies/model/fit.md, and the picture of the former.
`--only-judge` fits nothing: it writes the blocks by the terms that are there. Exit codes are those of
`ptxbench`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill

import numpy as np
import numpy.typing as npt
from baseline_models import drawn_by_family, fit_baselines
from code_ratios import CodeRatio, code_spreads, coverage_by_family, inside
from model_fit import SHARES, left_out_residuals
from model_validation import (
    ValidatedKernel,
    fit_kernels,
    judge_terms,
    mean_absolute_error_pct,
    validate_model,
    write_validated,
)
from page_blocks import table, write_blocks
from spread_code import Profiled, fit_time, profiled, ratios
from transfer_model import Transferred, machine_of, transfer
from validation_file import Purpose

from ptxbench.core.errors import PtxbenchError
from ptxbench.model.atlas import open_atlas
from ptxbench.model.baselines import FILE as BASELINES
from ptxbench.model.baselines import Form, class_medians, constant, read_baselines
from ptxbench.model.estimate import STATIC, SetErrors
from ptxbench.model.fit_kernel import FitKernel
from ptxbench.model.opcode_energies import OpcodeEnergies
from ptxbench.model.terms import FILE, MOSTLY_DYNAMIC, CodeSpread, Terms
from ptxbench.report.figure import new_figure, save_pages
from ptxbench.storage.document import write_beside
from ptxbench.storage.shipped import SHIPPED

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
ANSWER, PICTURE = ROOT / "docs" / "model.md", ROOT / "docs" / "images" / "model_judged.png"
PAGE = ROOT / "studies" / "model" / "fit.md"
README = ROOT / "README.md"
RUNS = {"h200": "table-6eda", "h100": "table-57c3"}
# Sessions of this GPU were counted; the others run the same machine code.
COUNTED = RESULTS / "nvidia-h200"
SETS = {"library": "validation", "suite": "suite"}
_CSV = "kernel_validation.csv"
_CLOSE = 0.95
_SHOWN_LACKING = 15
# One constant is as good as another once activities and memory are fitted beside it.
_ANY_PJ = 12.0
# Table, whose terms (None: its own), and whose kernels.
_TRANSFERS: tuple[tuple[str, str | None, str], ...] = (
    ("h100", None, "h100"),
    ("h100", "h200", "h100"),
    ("h200", None, "h200"),
    ("h200", "h100", "h200"),
    ("h200", None, "h100"),
    ("h100", None, "h200"),
)


@dataclass(frozen=True)
class Judged:
    """What a table comes to on its GPU's judged kernels.

    Attributes:
        gpu: Name of the table.
        terms: Its terms.
        kernels: Judged kernels, by set.
        baselines: Errors of the table and of the baselines, by set.
        ratios: Measured over estimated energy of the judged kernels where less is known, by set.
        by_families: How many fit cases the intervals of the other families hold, by what is known, and of how
            many.
        lacking: Opcodes without a row of their own, by their mean share of what judged kernels execute, the
            largest first.
    """

    gpu: str
    terms: Terms
    kernels: Mapping[str, Sequence[ValidatedKernel]]
    baselines: Sequence[tuple[str, Sequence[SetErrors]]]
    ratios: Mapping[str, Sequence[CodeRatio]]
    by_families: Mapping[tuple[bool, bool, bool, bool], tuple[int, int]]
    lacking: Sequence[tuple[str, float]]


def main() -> int:
    """Fit, judge and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gpus", nargs="*", choices=(*RUNS, []), default=[])
    parser.add_argument("--only-judge", action="store_true", help="keep the terms that are there")
    arguments = parser.parse_args()
    if not arguments.only_judge:
        for gpu in arguments.gpus or RUNS:
            fit(gpu)
    judged = [judge(gpu) for gpu in RUNS]
    found = blocks(judged)
    write_blocks(ANSWER, {"answers": found.pop("answers")})
    write_blocks(PAGE, found)
    draw(judged)
    write_blocks(README, {"estimate": summary(judged)})
    return 0


def draw(judged: Sequence[Judged]) -> None:
    """Draw by how much each judged kernel is off, against its power."""
    figure = new_figure(9, 3.6)
    for panel, one in zip(figure.subplots(1, len(judged), sharey=True), judged, strict=True):
        panel.axhspan(-10, 10, color="0.92")
        for name, color in (("library", "tab:blue"), ("suite", "tab:orange")):
            kernels = one.kernels[name]
            label = {"library": "library kernels", "suite": "bound by instructions"}[name]
            panel.scatter(
                [k.power_w for k in kernels], [k.error_pct for k in kernels], s=14, color=color, label=label
            )
        panel.set(title=f"{one.gpu.upper()}: kernels that set no number", xlabel="measured power, W")
    figure.axes[0].set_ylabel("estimate is off by, %")
    figure.axes[0].legend()
    save_pages([figure], PICTURE)


def folders_of(gpu: str) -> tuple[Path, Path]:
    """Return the two folders that have a table's files: the shipped one, and its run's."""
    return SHIPPED[gpu], RESULTS / SHIPPED[gpu].name / RUNS[gpu]


def sessions_of(gpu: str) -> dict[str, Path]:
    """Return the sessions of a GPU that are fitted to and judged by, by set."""
    return {name: RESULTS / SHIPPED[gpu].name / folder for name, folder in SETS.items()}


def fit(gpu: str) -> None:
    """Fit terms, intervals and baselines of a table, and write them beside it and its run."""
    atlas, sessions = open_atlas(gpu), sessions_of(gpu)
    found = validate_model(sessions["library"], atlas.opcode_energies, [sessions["suite"]], COUNTED)
    kept = _profiled(sessions, Purpose.FIT)
    whole = atlas.with_terms(found.terms)
    time = fit_time([one for of_set in kept.values() for one in of_set], whole)
    timed = whole.with_terms(replace(found.terms, time=time))
    spreads = code_spreads([one for of_set in kept.values() for one in ratios(of_set, timed)])
    terms = replace(timed.terms, code_spreads=spreads)
    models = fit_baselines(list(sessions.values()), atlas.opcode_energies, COUNTED, with_shuffled=False)
    baselines = models.kept([(name, models.judged_by(path, COUNTED)) for name, path in sessions.items()])
    for folder in folders_of(gpu):
        write_beside(folder / FILE, terms)
        write_beside(folder / BASELINES, baselines)
    write_validated(folders_of(gpu)[1] / _CSV, found.kernels)
    print(
        f"{gpu}: {len(terms.kernels)} fit kernels, left out {100 * terms.left_out_error:.2f}%,"
        f" an opcode keeps {terms.opcode_share:.0%}, gamma {terms.gamma:.2f} ± {terms.gamma_error:.2f};"
        f" library {mean_absolute_error_pct(found.kernels):.2f}%",
        flush=True,
    )


def judge(gpu: str) -> Judged:
    """Judge a table by its terms as they are."""
    atlas, sessions = open_atlas(gpu), sessions_of(gpu)
    kernels = {
        name: judge_terms(path, atlas.opcode_energies, atlas.terms, COUNTED).kernels
        for name, path in sessions.items()
    }
    kept = read_baselines(atlas.path)
    baselines = [("the table", kept.table)]
    for one in kept.models:
        shown = f"every opcode at {one.constant_pj:g} pJ" if one.form is Form.CONSTANT else str(one.form)
        baselines.append((shown, one.errors))
    fit_ratios = [
        one for of_set in _profiled(sessions, Purpose.FIT).values() for one in ratios(of_set, atlas)
    ]
    profiles = _profiled(sessions, Purpose.JUDGED)
    return Judged(
        gpu,
        atlas.terms,
        kernels,
        baselines,
        {name: ratios(of_set, atlas) for name, of_set in profiles.items()},
        {spread.inputs: _held(fit_ratios, spread) for spread in atlas.terms.code_spreads},
        _without_row([one for of_set in profiles.values() for one in of_set], atlas.opcode_energies.own_rows),
    )


def _without_row(kernels: Sequence[Profiled], own_rows: frozenset[str]) -> list[tuple[str, float]]:
    shares: dict[str, float] = {}
    for one in kernels:
        for opcode, count in one.work.opcodes:
            if opcode not in own_rows:
                shares[opcode] = shares.get(opcode, 0.0) + count / one.work.executions / len(kernels)
    return sorted(shares.items(), key=lambda one: -one[1])


def _held(found: Sequence[CodeRatio], spread: CodeSpread) -> tuple[int, int]:
    by_family = coverage_by_family([one for one in found if one.inputs == spread.inputs])
    return sum(n for n, _ in by_family.values()), sum(of for _, of in by_family.values())


def _profiled(sessions: Mapping[str, Path], purpose: Purpose) -> dict[str, list[Profiled]]:
    return {name: profiled(path, purpose, COUNTED) for name, path in sessions.items()}


def blocks(judged: Sequence[Judged], *, left_out: bool = True) -> dict[str, str]:
    """Return every block of the page by its name, in Markdown.

    Args:
        judged: What each table comes to.
        left_out: Whether that of all cases left out by family is among them, which takes a minute.
    """
    return {
        "answers": _answers(judged),
        **{f"baselines-{one.gpu}": _baselines(one) for one in judged},
        "coverage": _coverage(judged),
        "lacking": _lacking(judged),
        "library": _library(judged[0]),
        "families": _families(judged),
        "code": _code(judged[0]),
        "transfer": _transfer(),
        "terms": _terms(judged),
        **({"left-out": _left_out()} if left_out else {}),
    }


def summary(judged: Sequence[Judged]) -> str:
    """Return what the README says: errors on judged kernels, beside those of one energy for all opcodes."""
    found = []
    for one in judged:
        library, suite = (mean_absolute_error_pct(one.kernels[of_set]) for of_set in SETS)
        same = next(errors for name, errors in one.baselines if name.startswith("every opcode at"))
        less = [errors.mean_absolute_pct for errors in same]
        found.append(
            f"{library:.1f} and {suite:.1f}% on an {one.gpu.upper()}"
            f" ({less[0]:.1f} and {less[1]:.1f}% with one energy for all opcodes)"
        )
    library, suite = (len(judged[0].kernels[of_set]) for of_set in SETS)
    text = (
        f"With ncu's counts and a measured time, estimates of {library} library kernels and of {suite}"
        f" kernels bound by instructions are off by {', '.join(found)}, on average."
    )
    return fill(text, 100, break_long_words=False) + "\n"


def _answers(judged: Sequence[Judged]) -> str:
    rows = []
    for one in judged:
        known: list[tuple[str, tuple[bool, bool] | None]] = [("counts by ncu, measured time and clock", None)]
        known += [("counts by ncu, modelled time", (True, True))]
        known += [("opcodes and shape, measured time, no bytes", (False, False))]
        known += [("opcodes and shape alone", (True, False))]
        for name, inputs in known:
            cells = []
            for of_set in SETS:
                if inputs is None:
                    kernels = one.kernels[of_set]
                    cells += [
                        f"{mean_absolute_error_pct(kernels):.1f}%",
                        f"{_inside(kernels)} of {len(kernels)}",
                    ]
                    continue
                found = [r for r in one.ratios[of_set] if (r.modelled_time, r.bytes_counted) == inputs]
                told = [r for r in found if r.global_memory is (of_set == "library")]
                held = f"{inside(found, one.terms.code_spreads)} of {len(found)}"
                cells += [f"{_error_pct(told):.0f}%", held]
            rows.append([one.gpu.upper(), name, *cells])
    head = ("GPU", "what is known beside the table", "library", "inside", "bound by instructions", "inside")
    return table(head, rows, left=2)


def _baselines(one: Judged) -> str:
    rows = []
    for name, errors in one.baselines:
        cells = []
        for of_set in errors:
            worse = (
                "" if name == "the table" else f"{of_set.worse_low_pct:+.1f} to {of_set.worse_high_pct:+.1f}"
            )
            cells += [f"{of_set.mean_absolute_pct:.1f}", f"{of_set.worst_pct:.1f}", worse]
        rows.append([name, *cells])
    counts = [len(one.kernels[of_set]) for of_set in SETS]
    head = [f"model, {one.gpu.upper()}"]
    head += [f"{counts[0]} library cases, %", "worst", "worse by"]
    head += [f"{counts[1]} cases bound by instructions, %", "worst", "worse by"]
    return table(head, rows)


def _coverage(judged: Sequence[Judged]) -> str:
    rows = []
    for one in judged:
        for of_set, kernels in one.kernels.items():
            own = np.array([kernel.own_row_share for kernel in kernels])
            filled = np.array([kernel.uncovered_share for kernel in kernels])
            close = int(np.sum(own >= _CLOSE))
            rows.append(
                [
                    one.gpu.upper(),
                    of_set,
                    f"{100 * np.median(own):.0f}%",
                    f"{100 * np.min(own):.0f}%",
                    f"{close} of {len(own)}",
                    f"{100 * np.median(filled):.0f}%",
                ]
            )
    head = ("GPU", "judged kernels", "own row, median", "least", "95% or more", "stand-ins or weak, median")
    return table(head, rows, left=2)


def _lacking(judged: Sequence[Judged]) -> str:
    rows = []
    for one in judged:
        whole = sum(share for _, share in one.lacking)
        first = ", ".join(f"{opcode} {share:.1%}" for opcode, share in one.lacking[:_SHOWN_LACKING])
        rows.append([one.gpu.upper(), f"{1 - whole:.0%}", first])
    return table(("GPU", "own row, mean", "most of the rest"), rows, left=3)


def _library(one: Judged) -> str:
    every = one.kernels["library"]
    chosen = {
        "all": every,
        "capped": [k for k in every if k.capped],
        "uncapped": [k for k in every if not k.capped],
        "random operands": [k for k in every if k.operands == "random"],
        "zeros": [k for k in every if k.operands == "zeros"],
    }
    rows = []
    for name, kernels in chosen.items():
        off = {
            column: [abs(100 * (getattr(k, column) / k.measured_j - 1)) for k in kernels]
            for column in ("estimated_j", "estimated_by_limit_j", "full_clock_j")
        }
        rows.append(
            [
                name,
                str(len(kernels)),
                f"{np.mean(off['estimated_j']):.1f}%",
                f"{np.max(off['estimated_j']):.1f}%",
                str(_inside(kernels)),
                f"{np.mean(off['estimated_by_limit_j']):.1f}%",
                f"{np.mean(off['full_clock_j']):.1f}%",
            ]
        )
    head = ("validation kernels", "cases", "mean absolute error", "worst", "in the 95% interval")
    return table((*head, "by the limit", "without the clock term"), rows)


def _families(judged: Sequence[Judged]) -> str:
    suites = [one.kernels["suite"] for one in judged]
    rows = []
    for family in (*dict.fromkeys(_family(kernel) for kernel in suites[0]), "all"):
        cells: list[str] = []
        for at, kernels in enumerate(suites):
            own = [kernel for kernel in kernels if family in ("all", _family(kernel))]
            cells += [str(len(own))] if at == 0 else []
            mean = np.mean([kernel.error_pct for kernel in own])
            cells += [f"{mean_absolute_error_pct(own):.1f}", f"{mean:+.1f}", str(_inside(own))]
        rows.append([family, *cells])
    head = ["family", "cases"]
    head += [word for one in judged for word in (f"{one.gpu.upper()}, %", "mean", "inside")]
    return table(head, rows)


def _code(one: Judged) -> str:
    rows = []
    for spread in one.terms.code_spreads:
        held, of = one.by_families[spread.inputs]
        cells = [
            "modelled" if spread.modelled_time else "measured",
            "counted" if spread.bytes_counted else "not",
            "over 0.5%" if spread.global_memory else "up to 0.5%",
            "parts" if spread.scattered else "whole" if spread.bytes_counted and spread.global_memory else "",
            str(spread.kernels),
            f"{spread.low:.2f} to {spread.high:.1f}",
            f"{held} of {of}",
        ]
        for of_set in SETS:
            found = [r for r in one.ratios[of_set] if r.inputs == spread.inputs]
            cells.append(f"{inside(found, [spread])} of {len(found)}" if found else "")
            cells.append(f"{_error_pct(found):.0f}%" if found else "")
        rows.append(cells)
    head = ("time", "bytes", "global accesses", "lines", "fit cases", "measured over estimated")
    more = ("inside by other families", "library inside", "error", "suite inside", "error")
    return table((*head, *more), rows, left=4)


def _transfer() -> str:
    rows = []
    for name, terms, gpu in _TRANSFERS:
        machine = machine_of(name, terms)
        for of_set, path in sessions_of(gpu).items():
            found = transfer(path, COUNTED / path.name, machine)
            shown = terms.upper() if terms else "its own"
            rows.append([f"`{name}`", shown, *_shown(found, of_set, gpu)])
    return table(("table", "terms", "kernels", "error", "mean", "inside"), rows, left=3)


def _shown(found: Sequence[Transferred], of_set: str, gpu: str) -> list[str]:
    errors = np.array([one.error_pct for one in found])
    return [
        f"{len(found)} {of_set} cases on an {gpu.upper()}",
        f"{np.mean(np.abs(errors)):.1f}%",
        f"{np.mean(errors):+.1f}%",
        str(sum(one.inside for one in found)),
    ]


def _terms(judged: Sequence[Judged]) -> str:
    rows = []
    for one in judged:
        terms = one.terms
        for spread in terms.counted_spreads:
            like = [
                k
                for k in one.kernels["library" if spread.global_memory else "suite"]
                if (_dynamic_share(k) >= MOSTLY_DYNAMIC) is spread.mostly_dynamic
            ]
            halves = [(k.high_j - k.low_j) / 2 / k.estimated_j for k in like]
            rows.append(
                [
                    one.gpu.upper(),
                    "use global memory" if spread.global_memory else "hardly use it",
                    f"{'60% and more' if spread.mostly_dynamic else 'less'}",
                    f"{spread.kernels} of {spread.families} families",
                    f"{spread.low:.2f} to {spread.high:.2f}",
                    f"{_inside(like)} of {len(like)}",
                    f"{100 * float(np.median(halves)):.0f}%" if halves else "",
                    f"{terms.opcode_share:.0%}",
                    f"{terms.gamma:.2f} ± {terms.gamma_error:.2f}",
                    f"{100 * terms.left_out_error:.1f}%",
                ]
            )
    head = (
        "GPU",
        "kernels that",
        "dynamic share",
        "fit cases left out",
        "measured over estimated dynamic energy",
    )
    more = ("judged, inside", "half-width, median")
    last = ("share an opcode keeps", "gamma ± standard error", "left out, mean error")
    return table((*head, *more, *last), rows, left=3)


def _left_out() -> str:
    """Return errors of all cases, fit and judged, each whole family predicted from the others."""
    columns: list[list[str]] = []
    models = ("rows first", "loops of the run alone", str(Form.MEDIANS), str(Form.CONSTANT))
    for gpu in RUNS:
        atlas, sessions = open_atlas(gpu), sessions_of(gpu).values()
        sets = [fit_kernels(path, COUNTED, (Purpose.FIT, Purpose.JUDGED)) for path in sessions]
        kernels = [kernel for of_set in sets for kernel in of_set]
        energies = atlas.opcode_energies
        tried = (
            energies,
            atlas.solved.opcode_energies,
            class_medians(energies),
            constant(energies, _ANY_PJ),
        )
        off = [_least(kernels, one) for one in tried]
        for members in (slice(0, len(sets[0])), slice(len(sets[0]), None)):
            told = np.all([np.isfinite(one[members]) for one in off], axis=0)
            own = [one[members][told] for one in off]
            groups = [k.group for k, known in zip(kernels[members], told, strict=True) if known]
            columns.append([f"{np.mean(one):.1f}" for one in own])
            worse = [drawn_by_family(one - own[0], groups) for one in own[1:]]
            columns.append(["", *(f"{low:+.1f} to {high:+.1f}" for low, high in worse)])
    head = ["energies of opcodes"]
    head += [word for gpu in RUNS for of_set in SETS for word in (f"{gpu.upper()} {of_set}, %", "worse by")]
    return table(head, [[name, *(column[at] for column in columns)] for at, name in enumerate(models)])


def _least(kernels: Sequence[FitKernel], energies: OpcodeEnergies) -> npt.NDArray[np.float64]:
    """Return the errors of kernels left out by family, %, at the best share that an opcode keeps."""
    tried = [100 * np.abs(left_out_residuals(kernels, energies, share)) for share in SHARES]
    return min(tried, key=lambda off: float(np.nanmean(off)))


def _dynamic_share(kernel: ValidatedKernel) -> float:
    return 1 - float(json.loads(kernel.parts)[STATIC]) / kernel.estimated_j


def _inside(kernels: Iterable[ValidatedKernel]) -> int:
    return sum(kernel.low_j <= kernel.measured_j <= kernel.high_j for kernel in kernels)


def _family(kernel: ValidatedKernel) -> str:
    return kernel.kernel.partition("/")[0]


def _error_pct(found: Sequence[CodeRatio]) -> float:
    return float(np.mean([100 * abs(1 / one.ratio - 1) for one in found])) if found else float("nan")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"fit_model: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
