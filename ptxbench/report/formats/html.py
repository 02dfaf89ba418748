"""One page for a browser, of one or several runs, without a network: search, filters, plots and exports.

The page is ptxbench/report/page.html with the runs' rows in it as JSON.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import cache, lru_cache

from ptxbench.catalogue.load import load_named
from ptxbench.catalogue.model import Instruction
from ptxbench.codegen.render import render_target
from ptxbench.core.condition import ARAFA, DYNAMIC, Form, lanes_key
from ptxbench.core.errors import InputError, ToolError
from ptxbench.core.target import Target, find_target
from ptxbench.core.version import VERSION
from ptxbench.report.cost import Cost, row_costs
from ptxbench.report.formats import RunReport
from ptxbench.report.row_trials import RowTrials
from ptxbench.report.web_page import fill_page, plain
from ptxbench.sass.text import target_loop_text
from ptxbench.storage.kernels import KernelEntry, KernelStore
from ptxbench.storage.schema import TableRow

_TEMPLATE = "page.html"
# The loop of the target kernel, and how much of its body is shown.
_LOOP = re.compile(r"^again:\n(.*?)^ {4}@%more bra[^\n]*\n", re.DOTALL | re.MULTILINE)
_BODY_LINES = 8
# Lines of a SASS loop that are shown: its begin and its end.
_SASS_HEAD, _SASS_TAIL = 14, 8
_TRACE_DIGITS = 4
# Of a row, what `Cost` has and the page shows; then what the row itself has beside it.
_COST_COLUMNS = (
    *("instruction", "category", "type", "opt_level", "protocol", "operands", "unit", "energy_pj", "ci95_pj"),
    *("pj_per_flop", "pj_per_byte", "cycles", "sass", "sass_per_ptx", "boards", "boards_pj"),
    *("boards_scatter", "status", "reason"),
)
_ROW_COLUMNS = (
    *("sma_nj", "papi_nj", "mtsm_nj", "counter_nj", "power_w", "static_w", "clock_mhz", "temperature_c"),
    *("repeats", "count", "threads"),
)


def render(reports: Sequence[RunReport], width: int | None) -> str:  # noqa: ARG001
    """Return the page."""
    title = "Energy of PTX instructions: " + ", ".join(_titles(reports))
    return fill_page(_TEMPLATE, title, _document(reports))


def _titles(reports: Sequence[RunReport]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(report.gpu.title for report in reports))


def _document(reports: Sequence[RunReport]) -> dict[str, object]:
    rows: list[list[object]] = []
    names: dict[str, Target | None] = {}
    loops: dict[str, int] = {}
    shown_rows = [_shown(report) for report in reports]
    for number, (report, shown) in enumerate(zip(reports, shown_rows, strict=True)):
        catalogue = load_named(frozenset(row.instruction for row, _ in shown))
        for row, cost in shown:
            loop = _sass_loop(report.kernels, row, catalogue.get(row.instruction))
            place = loops.setdefault(loop, len(loops)) if loop else None
            trials = report.trials.get(row.subject)
            rows.append([number, *map(plain, _values(row, cost)), place, _trials(trials)])
            names.setdefault(row.instruction, _target(report))
    catalogue = load_named(frozenset(names))
    return {
        "version": VERSION,
        "runs": [_run(report, len(shown)) for report, shown in zip(reports, shown_rows, strict=True)],
        "columns": ["run", *_COST_COLUMNS, *_ROW_COLUMNS, "sass_loop", "trials"],
        "loops": list(loops),
        "rows": rows,
        "instructions": {
            name: _about(catalogue[name], target) for name, target in names.items() if name in catalogue
        },
    }


def _shown(report: RunReport) -> list[tuple[TableRow, Cost]]:
    """Return the rows of a run, or of another board of its GPU, each with what it costs."""
    shown = {row.key for row in report.shown}
    costs = row_costs(report.path, report.gpu, report.rows, report.spread)
    return [
        (row, cost) for row, cost in zip(report.rows, costs, strict=True) if row.key in shown or cost.boards
    ]


def _values(row: TableRow, cost: Cost) -> Iterable[object]:
    # The page tells conditions apart by the column of operands.
    yield from (row.operands_text if name == "operands" else getattr(cost, name) for name in _COST_COLUMNS)
    yield from (getattr(row, name) for name in _ROW_COLUMNS)


def _trials(trials: RowTrials | None) -> dict[str, object] | None:
    if trials is None:
        return None
    return {
        "source": trials.source,
        "powers_w": [_short(power_w) for power_w in trials.powers_w],
        "duration_ms": _short(trials.duration_ms),
        "trace": [
            [_short(at_ms), _short(w)] for at_ms, w in zip(trials.time_ms, trials.power_w, strict=True)
        ],
        "energies_j": [[name, _short(j)] for name, j in trials.energies_j.items() if math.isfinite(j)],
    }


def _short(value: float) -> float | None:
    """Return a number to the digits that a plot or a list of repeats needs."""
    return float(f"{value:.{_TRACE_DIGITS}g}") if math.isfinite(value) else None


def _run(report: RunReport, shown: int) -> dict[str, object]:
    gpu, manifest = report.gpu, report.manifest
    return {
        "name": report.path,
        "title": gpu.title,
        "kind": gpu.kind,
        "target": gpu.target,
        "board": gpu.uuid_hash,
        "driver": gpu.driver,
        "vbios": gpu.vbios,
        "power_limit_w": plain(gpu.power_limit_w),
        "left_out": len(report.rows) - shown,
        "created": manifest.day if manifest else "",
        "commit": (manifest.commit or "") if manifest else "",
        "source": str(manifest.part.source) if manifest else "",
        "scale_ci95": manifest.part.scale_ci95 if manifest else None,
        "boards": [asdict(board) for board in report.spread.boards] if report.spread else [],
    }


def _target(report: RunReport) -> Target | None:
    try:
        return find_target(report.gpu.target)
    except InputError:
        return None


def _about(instruction: Instruction, target: Target | None) -> dict[str, object]:
    return {"alive": instruction.alive, "note": instruction.note, "ptx": _ptx_loop(instruction, target)}


def _sass_loop(kernels: KernelStore | None, row: TableRow, instruction: Instruction | None) -> str:
    """Return the begin and the end of the SASS loop that ran, "" where the run does not hold it."""
    if kernels is None or instruction is None or row.protocol not in (ARAFA, DYNAMIC):
        return ""
    form = instruction.forms(row.opt_level)[-1] if row.protocol == DYNAMIC else Form.LATENCY
    name = "/".join((row.instruction, form, *lanes_key(row.lanes)))
    entry = next((e for e in kernels.entries if (e.name, e.opt_level) == (name, row.opt_level)), None)
    return "" if entry is None else _shown_loop(kernels, entry)


@lru_cache(maxsize=4096)  # several pages show one run
def _shown_loop(kernels: KernelStore, entry: KernelEntry) -> str:
    try:
        lines = target_loop_text(kernels.sass(entry)).splitlines()
    except (ToolError, KeyError):
        return ""
    left = len(lines) - 1 - _SASS_HEAD - _SASS_TAIL
    if left <= 1:
        return "\n".join(lines)
    return "\n".join([*lines[: _SASS_HEAD + 1], f"// ... {left} more", *lines[-_SASS_TAIL:]])


@cache
def _ptx_loop(instruction: Instruction, target: Target | None) -> str:
    """Return the loop of the target kernel with the first copies, "" where there is none."""
    if target is None:
        return ""
    try:
        module = render_target(instruction, target, Form.LATENCY)
    except InputError:
        return ""
    loop = _LOOP.search(module)
    if loop is None:
        return ""
    lines = loop.group(0).splitlines()
    head, tail = lines[: _BODY_LINES + 3], lines[-3:]
    left = len(lines) - len(head) - len(tail)
    middle = [f"    // ... and so on, {instruction.copies} copies in all"] if left > 0 else []
    return "\n".join([*head, *middle, *tail] if middle else lines)
