"""What an estimate of a kernel says, as sections."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import PurePath

from ptxbench.catalogue.common import measuring
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.model.estimate import Coverage, KernelEstimate, Part
from ptxbench.model.inputs import LEAST_SHARE
from ptxbench.report.sections import Section

DOCS = ("docs/model.md",)
_FILLS_SHOWN = 8
_LINES_SHOWN = 20
_LACKING_SHOWN = 3


def sections(result: KernelEstimate, gpu: GpuInfo, counts: str = "") -> tuple[Section, ...]:
    """Return what an estimate says, in order.

    Args:
        result: The estimate.
        gpu: The GPU that it is for.
        counts: The CSV of ncu that it rests on, "" for none.
    """
    head = [*_coverage(result.coverage, counts), energy_line(result)]
    head += [f"not known: {phrase}" for phrase in result.missing]
    if result.clock_ratio < 1:
        head.append(f"at {result.clock_ratio * gpu.max_sm_clock_mhz:.0f} MHz SM clock")
    return (
        Section(f"{result.kernel} on {gpu.title}", tuple(head)),
        Section("Where the joules go", (), ("where", "J", "%", "± J"), _rows(result.parts, result.known_j)),
        *_lines(result),
        *_fills(result),
        *_answers(result),
        Section("Notes", tuple(f"note: {note}" for note in result.notes)),
    )


def energy_line(result: KernelEstimate) -> str:
    """Return energy, power and time in a line; without a best value the range alone."""
    if result.missing:
        reach = f"{result.low_j:.4g} to {result.high_j:.4g} J (95%)"
        return f"{reach}, at least {result.time_s:.4g} s: no best value"
    return (
        f"{result.energy_j:.4g} J (95%: {result.low_j:.4g} to {result.high_j:.4g}), {result.power_w:.4g} W,"
        f" {result.time_s:.4g} s{', at the power limit' if result.capped else ''}"
    )


def _coverage(coverage: Coverage, counts: str) -> list[str]:
    """Return what of the executed instructions the table knows, and what would help most."""
    found = [
        f"rows of their own: {100 * coverage.own_row:.1f}% of the executed instructions; told with others:"
        f" {100 * coverage.together:.1f}%; stand-ins: {100 * coverage.stand_in:.1f}%"
    ]
    most = [(opcode, share) for opcode, share in coverage.lacking if share >= LEAST_SHARE][:_LACKING_SHOWN]
    names = measuring(opcode for opcode, _ in most)
    shown = [
        f"{opcode} ({100 * share:.1f}%, by {names[opcode]})"
        if opcode in names
        else f"{opcode} ({100 * share:.1f}%, which no instruction tells)"
        for opcode, share in most
    ]
    if shown:
        found.append(f"without a row, most executed: {', '.join(shown)}")
    if names:
        words = f"--for {shlex.quote(counts)}" if counts else " ".join(dict.fromkeys(names.values()))
        found.append(f"measure them on your GPU with: ptxbench table {words}")
    return found


def _rows(parts: Sequence[Part], whole_j: float) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            part.name,
            f"{part.energy_j:.4g}",
            f"{100 * part.energy_j / whole_j:.1f}",
            "" if math.isnan(part.error_j) else f"{part.error_j:.2g}",
        )
        for part in parts
    )


def _lines(result: KernelEstimate) -> tuple[Section, ...]:
    """Return where the joules go by source line, the files by their names."""
    if not result.lines:
        return ()
    shown, left = result.lines[:_LINES_SHOWN], result.lines[_LINES_SHOWN:]
    named = [Part(PurePath(part.name).name, part.energy_j, part.error_j) for part in shown]
    beside = f"{len(left)} more lines: {sum(part.energy_j for part in left):.4g} J"
    columns = ("source line", "J", "%", "± J")
    return (Section("By source line", (beside,) if left else (), columns, _rows(named, result.known_j)),)


def _fills(result: KernelEstimate) -> tuple[Section, ...]:
    if not result.fills:
        return ()
    lines = ["told by more or less than their own row, with their share of the executed instructions:"]
    lacking = {opcode for opcode, _ in result.coverage.lacking}
    for fill in result.fills[:_FILLS_SHOWN]:
        beside = f" ({fill.source})" if fill.source else ""
        # A row of a load or a store has the bytes that it moves, which an estimate counts by themselves.
        own = "" if fill.opcode in lacking else "its own row has its bytes in it; without them "
        lines.append(f"  {fill.opcode}, {100 * fill.share:.2f}%: {own}{fill.rule}{beside}")
    return (Section("Stand-ins", tuple(lines)),)


def _answers(result: KernelEstimate) -> tuple[Section, ...]:
    """Return what models that know less say, with their errors on judged kernels."""
    if not result.answers:
        return ()
    sets = [f"error %, {one.cases} {one.kernels}" for one in result.answers[0].errors]
    rows = tuple(
        (
            answer.name,
            f"{answer.energy_j:.4g}",
            # Not "-0.0" where the two differ by rounding alone.
            f"{round(100 * (answer.energy_j / result.known_j - 1), 1) + 0.0:+.1f}",
            *(f"{one.mean_absolute_pct:.1f}" for one in answer.errors),
        )
        for answer in result.answers
    )
    about = (
        "models that know less; error %: mean absolute error of the energy on kernels that no model was"
        " fitted to, with counts by ncu, measured time and clock"
    )
    return (Section("Models that know less", (about,), ("model", "J", "% from the table's", *sets), rows),)
