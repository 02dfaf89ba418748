"""Judge the shipped tables by the third suite, which no term was fitted to; write docs/model.md's figures.

    python runners/judge_field.py

Needs no GPU, and fits nothing: the table and the models that know less are those that come with ptxbench
(model.json, nulls.json). Kernels are those of field_split.toml, measured on an H100 and an H200
(results/GPU/field); one count serves both, which run the same machine code. Each estimate knows counts, time,
clock and temperature.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from fit_model import COUNTED, PAGE, RESULTS, table
from page_blocks import with_block
from suite_split import FIELD, read_split
from transfer_model import Transferred, transfer

from ptxbench.core.errors import PtxbenchError
from ptxbench.model.atlas import open_atlas
from ptxbench.model.kept_nulls import Form, null_machine
from ptxbench.model.null_models import drawn_by_family
from ptxbench.storage.atomic import write_text
from ptxbench.storage.shipped import SHIPPED

GPUS = ("h200", "h100")
THE_TABLE = "the table"
_SHOWN = {Form.CONSTANT: "one energy for every opcode", Form.MEDIANS: "median of each opcode's class"}
_BOUNDS = ("instructions", "memory")


@dataclass(frozen=True)
class Judged:
    """The suite on one GPU.

    Attributes:
        gpu: Name of the table.
        models: The judged cases by each model, the table first.
    """

    gpu: str
    models: Mapping[str, Sequence[Transferred]]

    def of_bound(self, model: str, bound: str | None) -> list[Transferred]:
        """Return the cases of a model that one thing bounds; None: all."""
        return [one for one in self.models[model] if bound in (None, _bound_of(one.case))]


def judge(gpu: str) -> Judged:
    """Judge a table and its null models as they are.

    Raises:
        InputError: The suite was not measured on this GPU.
    """
    atlas, session = open_atlas(gpu), RESULTS / SHIPPED[gpu].name / FIELD
    machines = {THE_TABLE: atlas.machine}
    for null in atlas.nulls.nulls:
        if null.terms is not None:
            machines[_SHOWN.get(null.form, str(null.form))] = null_machine(
                null, atlas.opcode_energies, atlas.machine
            )
    return Judged(gpu, {name: transfer(session, COUNTED / FIELD, one) for name, one in machines.items()})


def main() -> int:
    """Judge and write."""
    judged = [judge(gpu) for gpu in GPUS]
    page = PAGE.read_text(encoding="utf-8")
    for name, block in blocks(judged).items():
        page = with_block(page, name, block)
    write_text(PAGE, page)
    return 0


def blocks(judged: Sequence[Judged]) -> dict[str, str]:
    """Return every block of the page by its name, in Markdown."""
    return {
        **{f"field-{one.gpu}": _models(one) for one in judged},
        "field-families": _families(judged),
        "field-intervals": _intervals(judged),
    }


def _models(one: Judged) -> str:
    rows = []
    for model in one.models:
        cells = []
        for bound in (None, *_BOUNDS):
            own, by_table = one.of_bound(model, bound), one.of_bound(THE_TABLE, bound)
            errors = _absolute(own)
            cells += [f"{np.mean(errors):.1f}", f"{np.max(errors):.0f}"]
            gain = errors - _absolute(by_table)
            low, high = drawn_by_family(gain, [case.family for case in own])
            cells.append("" if model == THE_TABLE else f"{low:+.1f} to {high:+.1f}")
        rows.append([model, *cells])
    head = [f"model, {one.gpu.upper()}"]
    for bound in (None, *_BOUNDS):
        count = len(one.of_bound(THE_TABLE, bound))
        head += [f"{count} cases{f' bound by {bound}' if bound else ''}, %", "worst", "worse by"]
    return table(head, rows)


def _families(judged: Sequence[Judged]) -> str:
    rows = []
    for kernel in dict.fromkeys(case.case for case in judged[0].models[THE_TABLE]):
        cells = [_bound_of(kernel)]
        for one in judged:
            own = [case for case in one.models[THE_TABLE] if case.case == kernel]
            cells.append(", ".join(f"{case.operands} {case.error_pct:+.0f}" for case in own))
        rows.append([kernel, *cells])
    return table(("kernel", "bound by", *(f"{one.gpu.upper()}, %" for one in judged)), rows, left=4)


def _intervals(judged: Sequence[Judged]) -> str:
    rows = []
    for one in judged:
        for bound in (None, *_BOUNDS):
            own = one.of_bound(THE_TABLE, bound)
            inside = sum(case.inside for case in own)
            half, error = (
                float(np.mean([case.half_width_pct for case in own])),
                float(np.mean(_absolute(own))),
            )
            cells = [
                f"{inside} of {len(own)} ({inside / len(own):.0%})",
                f"{half:.0f}%",
                f"{half / error:.1f}",
            ]
            rows.append([one.gpu.upper(), bound or "either", *cells])
    head = ("GPU", "bound by", "inside", "half-width, mean", "half-width over mean error")
    return table(head, rows, left=2)


def _absolute(cases: Sequence[Transferred]) -> np.ndarray:
    return np.abs([case.error_pct for case in cases])


def _bound_of(case: str) -> str:
    return next(one.bound for one in read_split(FIELD) if one.case == case)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"judge_field: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
