"""An audit as plain data, as text and as a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ptxbench.audit.audit import AuditedFile
from ptxbench.audit.claim import Span, State, Verdict
from ptxbench.report.sections import Section

DOCS = ("docs/howto/audit.md",)
COLUMNS = ("number", "value", "verdict", "bias", "should be", "why")
_STATES = (State.VALID, State.BIASED, State.UNKNOWN)
# From here on a bias is said as more than that.
_LARGE = 10.0


def as_json(files: Sequence[AuditedFile]) -> dict[str, Any]:
    """Return an audit in the form that `ptxbench audit --json` prints (docs/howto/audit.md)."""
    return {
        "audit_version": 1,
        "files": [
            {
                "file": one.path,
                "form": one.form,
                "sensors": list(one.origin),
                "counts": {state.value: one.count[state] for state in _STATES},
                "numbers": [_number_json(verdict) for verdict in one.verdicts],
                "notes": list(one.notes),
            }
            for one in files
        ],
    }


def _number_json(verdict: Verdict) -> dict[str, Any]:
    claim = verdict.claim
    bias = verdict.bias
    return {
        "number": claim.label,
        "value": claim.value,
        "unit": claim.unit,
        "verdict": verdict.state.value,
        "bias_pct": None if bias is None else [100 * bias.low, 100 * bias.high],
        "should_be": None if verdict.truth is None else [verdict.truth.low, verdict.truth.high],
        "way": claim.way.value,
        "source": claim.source,
        "window_s": [claim.window_s.low, claim.window_s.high],
        "gpu": claim.gpu,
        "boards": claim.boards,
        "reasons": [{"cause": reason.cause.value, "text": reason.text} for reason in verdict.reasons],
    }


def sections(files: Sequence[AuditedFile], most: int | None) -> list[Section]:
    """Return an audit as sections, one a file.

    Args:
        files: The files.
        most: Numbers to show of each; None for all.
    """
    head = Section("What others recorded, audited", tuple(map(_summary, files)))
    return [head, *(_section(one, most) for one in files)]


def _summary(file: AuditedFile) -> str:
    total = len(file.verdicts)
    counted = [(file.count[state], state) for state in _STATES if file.count[state]]
    shares = ", ".join(f"{number} ({number / total:.1%}) {state}" for number, state in counted)
    return f"{file.path} ({file.form}), {total} numbers: {shares}"


def _section(file: AuditedFile, most: int | None) -> Section:
    shown = file.verdicts if most is None else file.verdicts[:most]
    lines = [f"sensor of {text}" for text in file.origin] + list(file.notes)
    if len(shown) < len(file.verdicts):
        lines.append(f"{len(file.verdicts) - len(shown)} more numbers are not shown: ask for all rows")
    return Section(file.path, tuple(lines), COLUMNS, tuple(map(cells, shown)))


def cells(verdict: Verdict) -> tuple[str, ...]:
    """Return the cells of a number in a table."""
    claim = verdict.claim
    return (
        claim.label,
        f"{claim.value:.4g} {claim.unit}",
        verdict.state.value,
        _bias(verdict.bias),
        _span(verdict.truth, claim.unit),
        "; ".join(reason.text for reason in verdict.reasons),
    )


def _bias(bias: Span | None) -> str:
    if bias is None:
        return "-"
    return f"{_percent(bias.low)} to {_percent(bias.high)}"


def _percent(part: float) -> str:
    if not math.isfinite(part) or part > _LARGE:
        return "any"
    return f"{100 * part:+.1f}%"


def _span(span: Span | None, unit: str) -> str:
    if span is None or not math.isfinite(span.high):
        return "-" if span is None else f"{span.low:.4g} {unit} or more"
    return f"{span.low:.4g} to {span.high:.4g} {unit}"
