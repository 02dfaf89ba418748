"""One page for a browser, of one or several runs, without a network: search, filters, plots and exports.

The page is ptxbench/report/page.html with the runs' rows in it as JSON, by column: most have few values or
none, so that 5,000 rows of 30 columns take half a megabyte.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING

from ptxbench.catalogue.load import load_named
from ptxbench.catalogue.model import Instruction
from ptxbench.catalogue.search import load_synonyms
from ptxbench.core.condition import ARAFA, DYNAMIC, Form, lanes_key
from ptxbench.core.errors import ToolError
from ptxbench.core.version import VERSION
from ptxbench.report.cost import Cost, row_costs
from ptxbench.report.formats import RunReport
from ptxbench.report.web_page import fill_page, plain
from ptxbench.storage.board_spread import factors_text
from ptxbench.storage.kernels import KernelEntry, KernelStore
from ptxbench.storage.schema import TableRow

if TYPE_CHECKING:
    from ptxbench.report.row_trials import RowTrials

_TEMPLATE = "page.html"
# The loop of the target kernel, which comes first.
_PTX_LOOP = re.compile(r"^again:\n.*?^ {4}@%more bra[^\n]*$", re.DOTALL | re.MULTILINE)
# Lines of a loop that are shown: its begin and its end.
_HEAD, _TAIL = 14, 8
# Of so many rows, a column with fewer values than this share names each value once.
_FEW = 0.5
_TRACE_DIGITS = 4
# Of a row, what `Cost` has and the page shows; then what the row itself has beside it.
_COST_COLUMNS = (
    *("instruction", "category", "type", "opt_level", "protocol", "operands", "unit", "energy_pj", "ci95_pj"),
    *("pj_per_flop", "pj_per_byte", "latency_cycles", "issue_cycles", "sass", "sass_per_ptx", "boards"),
    *("boards_pj", "boards_scatter", "status", "reason"),
)
_ROW_COLUMNS = (
    *("sma_pj", "papi_pj", "mtsm_pj", "counter_pj", "power_w", "static_w", "clock_mhz", "temperature_c"),
    *("repeats", "executions", "threads"),
)
_ABOUT_COLUMNS = ("name", "opcode", "family", "alive", "note")
_OPERANDS = _COST_COLUMNS.index("operands")
_of_cost, _of_row = attrgetter(*_COST_COLUMNS), attrgetter(*_ROW_COLUMNS)


def render(reports: Sequence[RunReport], width: int | None) -> str:  # noqa: ARG001
    """Return the page."""
    title = "Energy of PTX instructions: " + ", ".join(_titles(reports))
    return fill_page(_TEMPLATE, title, _document(reports))


def _titles(reports: Sequence[RunReport]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(report.gpu.title for report in reports))


def _document(reports: Sequence[RunReport]) -> dict[str, object]:
    rows: list[list[object]] = []
    loops: dict[tuple[str, str], int] = {}
    shown_rows = [_shown(report) for report in reports]
    catalogue = load_named(frozenset(row.instruction for shown in shown_rows for row, _ in shown))
    for number, (report, shown) in enumerate(zip(reports, shown_rows, strict=True)):
        for row, cost in shown:
            loop = _loop_that_ran(report.kernels, row, catalogue.get(row.instruction))
            place = loops.setdefault(loop, len(loops)) if loop else None
            trials = report.trials.get(row.subject)
            rows.append([number, *_values(row, cost), place, _trials(trials)])
    names = ("run", *_COST_COLUMNS, *_ROW_COLUMNS, "loop", "trials")
    known = list(catalogue.values())
    return {
        "version": VERSION,
        "runs": [_run(report, len(shown)) for report, shown in zip(reports, shown_rows, strict=True)],
        "columns": _columns(names, rows),
        "loops": [{"ptx": ptx, "sass": sass} for ptx, sass in loops],
        "instructions": _columns(
            _ABOUT_COLUMNS, [[getattr(one, of) for of in _ABOUT_COLUMNS] for one in known]
        ),
        "synonyms": {word: list(patterns) for word, patterns in load_synonyms().items()},
    }


def _columns(names: Sequence[str], rows: Sequence[Sequence[object]]) -> dict[str, object]:
    """Return rows as columns by name: all values, or those that there are and the place of each row's."""
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return {name: _packed(column) for name, column in zip(names, columns, strict=True)}


def _packed(values: Sequence[object]) -> object:
    # A number that is not known is unequal to itself, and would count as many.
    known = [None if value != value else value for value in values]
    try:
        distinct = list(dict.fromkeys(known))
    except TypeError:  # what a launch did, which no other row has
        return values
    if len(distinct) > _FEW * len(values):
        return [plain(value) for value in values]
    places = {value: place for place, value in enumerate(distinct)}
    at = [places[value] for value in known]
    return {"of": [plain(value) for value in distinct], "at": at if len(distinct) > 1 else []}


def _shown(report: RunReport) -> list[tuple[TableRow, Cost]]:
    """Return the rows of a run, or of another board of its GPU, each with what it costs."""
    shown = {row.key for row in report.shown}
    costs = row_costs(report.path, report.gpu, report.rows, report.spread)
    return [
        (row, cost) for row, cost in zip(report.rows, costs, strict=True) if row.key in shown or cost.boards
    ]


def _values(row: TableRow, cost: Cost) -> list[object]:
    values = [*_of_cost(cost), *_of_row(row)]
    # The page tells conditions apart by the column of operands.
    values[_OPERANDS] = row.operands_text
    return values


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
        "factors": factors_text(report.spread.boards) if report.spread and report.spread.boards else "",
    }


def _loop_that_ran(
    kernels: KernelStore | None, row: TableRow, instruction: Instruction | None
) -> tuple[str, str] | None:
    """Return the begin and the end of the loop that ran, as PTX and as SASS; None where the run lacks it."""
    if kernels is None or instruction is None or row.protocol not in (ARAFA, DYNAMIC):
        return None
    form = instruction.forms(row.opt_level)[-1] if row.protocol == DYNAMIC else Form.LATENCY
    name = "/".join((row.instruction, form, *lanes_key(row.lanes)))
    entry = next((e for e in kernels.entries if (e.name, e.opt_level) == (name, row.opt_level)), None)
    return None if entry is None else _shown_loop(kernels, entry)


@lru_cache(maxsize=4096)  # several pages show one run
def _shown_loop(kernels: KernelStore, entry: KernelEntry) -> tuple[str, str] | None:
    from ptxbench.sass.text import target_loop_text

    try:
        sass = target_loop_text(kernels.sass(entry))
        ptx = _PTX_LOOP.search(kernels.ptx(entry))
    except (ToolError, KeyError):
        return None
    return _abridged(ptx[0] if ptx else ""), _abridged(sass)


def _abridged(loop: str) -> str:
    """Return the begin and the end of a loop's lines."""
    lines = loop.splitlines()
    left = len(lines) - 1 - _HEAD - _TAIL
    if left <= 1:
        return "\n".join(lines)
    return "\n".join([*lines[: _HEAD + 1], f"// ... {left} more", *lines[-_TAIL:]])
