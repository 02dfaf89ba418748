"""Judge the shipped tables by the third suite, which no term was fitted to; write the figures of the pages.

    python runners/judge_field.py

Needs nvcc and no GPU, and fits nothing: the table and the models that know less are those that come with
ptxbench (model.json, baselines.json). Kernels are those of field_split.toml, measured on an H100 and an H200
(results/GPU/field); one count serves both, which run the same machine code. Each estimate knows counts, time,
clock and temperature. Kernels that ncu has not counted yet are counted by their code, with the passes of
their loops as their sources have them (`_PASSES`).
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import fill

import numpy as np
from baseline_models import drawn_by_family
from fit_model import COUNTED, PAGE, README, RESULTS
from judge_code import cubin_of
from page_blocks import table, write_blocks
from suite_split import FIELD, read_split
from transfer_model import Transferred, transfer
from validation_file import MEASURED

from ptxbench.core.errors import PtxbenchError
from ptxbench.model.addresses import Launch
from ptxbench.model.atlas import Atlas, open_atlas
from ptxbench.model.baselines import Form, baseline_machines
from ptxbench.model.code_work import read_kernel, static_work
from ptxbench.model.traffic import UNKNOWN_BYTES, GivenBytes
from ptxbench.model.work import KernelWork
from ptxbench.storage.shipped import SHIPPED

# Those whose results are there.
GPUS = tuple(gpu for gpu in ("h200", "h100") if (RESULTS / SHIPPED[gpu].name / FIELD / MEASURED).exists())
THE_TABLE = "the table"
_SHOWN = {Form.CONSTANT: "one energy for every opcode", Form.MEDIANS: "median of each opcode's class"}
_LESS = {_SHOWN[Form.CONSTANT]: "one energy for all", _SHOWN[Form.MEDIANS]: "the median of each class"}
_BOUNDS = ("instructions", "memory")
# Passes of each loop of a kernel's machine code by one thread, with what its compiler unrolled; and, where
# its addresses wrap round, bytes of DRAM and L2 as its source has them. In the large kernels threads share
# elements.
_THREADS, _WARPS, _BLOCKS = 132 * 8 * 256, 132 * 64, 132 * 8
_TILE = {"0": 4.0}
_IN_L2 = 4 * 132 * 4 * 256
_PASSES: Mapping[str, tuple[Mapping[str, float], GivenBytes]] = {
    "hotspot": ({**_TILE, "1": 1000}, UNKNOWN_BYTES),
    "pathfinder": ({"0": 5000, "1": 0}, GivenBytes(0.0, 20_000 * 2 * _IN_L2)),
    "srad": ({**_TILE, "1": 1000}, UNKNOWN_BYTES),
    "lbm": ({"0": 2**24 / _THREADS}, GivenBytes(18 * 2**26, 18 * 2**26)),
    "fdtd": ({"0": 2**26 / _THREADS}, GivenBytes(5 * 2**28, 6 * 2**28)),
    "mvt": ({**_TILE, "1": 2**16 / _WARPS}, UNKNOWN_BYTES),
    "lud": ({"0": 800, "1": 15}, GivenBytes(0.0, 800 * 4 * _IN_L2)),
    "rmsnorm": ({"0": 2**17 / _BLOCKS}, UNKNOWN_BYTES),
    "product_q8": ({**_TILE, "1": 2**16 / _WARPS}, UNKNOWN_BYTES),
    "product_q4": ({**_TILE, "1": 7500}, UNKNOWN_BYTES),
    "attend": ({**_TILE, "1": 8000}, UNKNOWN_BYTES),
    "adamw": ({"0": 2**26 / _THREADS}, UNKNOWN_BYTES),
    "bitonic": ({"0": 300, "1": 10, "2": 5.5}, GivenBytes(0.0, 300 * 4 * _IN_L2)),
    "rank": ({"0": 5000}, GivenBytes(0.0, 5000 * _IN_L2)),
    "prefix": ({"0": 2**16 / _BLOCKS}, UNKNOWN_BYTES),
}


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
        return [one for one in self.models[model] if bound in (None, _bounds()[one.case])]


def works_by_code(atlas: Atlas) -> dict[str, KernelWork]:
    """Return what the kernels of `_PASSES` execute by their code, by the name of their cases."""
    works, target = {}, atlas.gpu.target
    with tempfile.TemporaryDirectory() as folder:
        for one in read_split(FIELD):
            if one.name in _PASSES:
                passes, given = _PASSES[one.name]
                code = read_kernel(cubin_of(Path(folder), one, target), one.name, atlas)
                launch = Launch.of(one.blocks_per_sm * atlas.gpu.sm_count, one.threads, target)
                works[one.case] = static_work(code, launch, passes, math.nan, atlas, given=given).work
    return works


def judge(gpu: str) -> Judged:
    """Judge a table and its baselines as they are.

    Raises:
        InputError: The suite was not measured on this GPU.
    """
    atlas, session = open_atlas(gpu), RESULTS / SHIPPED[gpu].name / FIELD
    baselines = baseline_machines(atlas.baselines, atlas.opcode_energies, atlas.machine)
    machines = {
        THE_TABLE: atlas.machine,
        **{_SHOWN.get(form, str(form)): one for form, one in baselines.items()},
    }
    works = works_by_code(atlas)
    return Judged(
        gpu, {name: transfer(session, COUNTED / FIELD, one, works) for name, one in machines.items()}
    )


def main() -> int:
    """Judge and write."""
    judged = [judge(gpu) for gpu in GPUS]
    write_blocks(PAGE, blocks(judged))
    write_blocks(README, {FIELD: summary(judged)})
    return 0


def blocks(judged: Sequence[Judged]) -> dict[str, str]:
    """Return every block of the page by its name, in Markdown."""
    return {
        **{f"field-{one.gpu}": _models(one) for one in judged},
        "field-families": _families(judged),
        "field-intervals": _intervals(judged),
    }


def summary(judged: Sequence[Judged]) -> str:
    """Return what the README says."""
    told = []
    for one in judged:
        off = {model: float(np.mean(_absolute(cases))) for model, cases in one.models.items()}
        less = ", ".join(f"{off[name]:.1f}% with {shown}" for name, shown in _LESS.items())
        told.append(f"{off[THE_TABLE]:.1f}% on an {one.gpu.upper()} ({less})")
    text = (
        f"On {len(judged[0].models[THE_TABLE])} cases of kernels after public programs, which set no term,"
        f" they are off by {', '.join(told)}."
    )
    return fill(text, 100, break_long_words=False) + "\n"


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
        cells = [_bounds()[kernel]]
        for one in judged:
            own = [case for case in one.models[THE_TABLE] if case.case == kernel]
            cells.append(", ".join(f"{case.operands} {case.error_pct:+.0f}" for case in own))
        rows.append([kernel, *cells])
    return table(
        ("kernel", "bound by", *(f"{one.gpu.upper()}, %" for one in judged)), rows, left=2 + len(judged)
    )


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


@cache
def _bounds() -> Mapping[str, str]:
    """Return what is thought to bound each case."""
    return {one.case: one.bound for one in read_split(FIELD)}


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"judge_field: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
