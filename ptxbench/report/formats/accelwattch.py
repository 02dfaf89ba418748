"""Energies beside the dynamic parameters of AccelWattch, in XML, as estimates: its units are not ours.

A parameter of AccelWattch (`accelwattch_sass_sim.xml`) is a factor without a unit, of the energy that McPAT
gives its own component at run time. So nothing here is an attribute `value`, which AccelWattch would read:
whoever runs it prints McPAT's energy of an access, and divides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import quoteattr

from ptxbench.core.condition import DYNAMIC, OptLevel, Pattern
from ptxbench.core.printable import printable
from ptxbench.core.threads import WARP
from ptxbench.report.formats import RunReport
from ptxbench.storage.schema import TableRow

_COMPUTES = "its fetch, issue, registers and pipeline are in it, which TOT_INST, FP_INT, REG_RD, PIPE_A count"
_LOADS = "a whole instruction of 16 bytes a thread, and every level down to the one named"
# The instruction that stands for a parameter, and what of it is counted elsewhere there.
PARAMETERS: Mapping[str, tuple[str, str]] = {
    "INT_ACC": ("add.u32", _COMPUTES),
    "INT_MUL_ACC": ("mad.lo.u32", _COMPUTES),
    "FP_ACC": ("add.f32", _COMPUTES),
    "FP_MUL_ACC": ("fma.rn.f32", _COMPUTES),
    "DP_ACC": ("add.f64", _COMPUTES),
    "DP_MUL_ACC": ("fma.rn.f64", _COMPUTES),
    "FP_SQRT_ACC": ("sqrt.approx.ftz.f32", _COMPUTES),
    "FP_LG_ACC": ("lg2.approx.ftz.f32", _COMPUTES),
    "FP_SIN_ACC": ("sin.approx.ftz.f32", _COMPUTES),
    "FP_EXP_ACC": ("ex2.approx.ftz.f32", _COMPUTES),
    "TENSOR_ACC": ("mma.m16n8k16.f32.f16.f16.f32", _COMPUTES),
    "SHRD_ACC": ("ld.shared.v4.b32:shared", _LOADS),
    "DC_RH": ("ld.global.ca.v4.b32:l1", _LOADS),
    "L2_RH": ("ld.global.cg.v4.b32:l2", _LOADS),
    "L2_WH": ("st.global.v4.b32:l2", _LOADS),
    "MEM_RD": ("ld.global.v4.b32:hbm", _LOADS),
    "MEM_WR": ("st.global.v4.b32:hbm", _LOADS),
}
_HEAD = """\
<?xml version="1.0" encoding="UTF-8"?>
<!-- Estimates. A parameter of AccelWattch is a factor of the energy that McPAT gives its component: print
     that, and divide energy_pj by it. No attribute is called value, so that none is taken for a factor. -->
<estimates>"""


def render(reports: Sequence[RunReport], width: int | None) -> str:  # noqa: ARG001
    """Return one document with the parameters that rows of each run stand beside."""
    return "\n".join([_HEAD, *(line for report in reports for line in _gpu(report)), "</estimates>"])


def _gpu(report: RunReport) -> Iterator[str]:
    gpu = report.gpu
    yield f"  <gpu{_attributes(table=report.path, name=gpu.title, board=gpu.uuid_hash, driver=gpu.driver)}>"
    rows = {row.instruction: row for row in report.rows if _stands(row)}
    for parameter, (instruction, counted) in PARAMETERS.items():
        if instruction in rows:
            yield f"    <estimate{_of(parameter, rows[instruction], counted)}/>"
    yield "  </gpu>"


def _stands(row: TableRow) -> bool:
    """Return whether a row is what a compiler's code costs: at -O3, all lanes, random operands."""
    condition = (row.opt_level, row.protocol, row.operands, row.lanes)
    return row.status.has_number and condition == (OptLevel.O3, DYNAMIC, Pattern.RANDOM, WARP)


def _of(parameter: str, row: TableRow, counted: str) -> str:
    energies = {"energy_pj": f"{row.energy_pj:.5g}", "ci95_pj": f"{row.ci95_pj:.2g}"}
    return _attributes(
        parameter=parameter,
        **energies,
        per=row.unit,
        instruction=row.instruction,
        sass=row.sass,
        status=row.status,
        differs=counted,
    )


def _attributes(**values: str) -> str:
    return "".join(f" {name}={quoteattr(printable(value))}" for name, value in values.items())
