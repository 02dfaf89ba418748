"""What compilers emit, and no plain form gives, is the whole of a copy in some row of its own."""

from functools import cache

import pytest
from fakes.modules import built

from ptxbench.catalogue.load import load_catalogue
from ptxbench.codegen.operands import operand_bytes
from ptxbench.core.condition import Form, OptLevel, Pattern
from ptxbench.core.errors import NotMeasurableError
from ptxbench.core.target import find_target
from ptxbench.sass.verify import verify_instructions

EMITTED = {
    "setp.lt.f32:alone": "FSETP.GEU.AND",
    "setp.gt.ftz.f32:alone": "FSETP.GT.FTZ.AND",
    "setp.le.and.f32": "FSETP.LE.AND",
    "setp.le.and.s32": "ISETP.LE.AND",
    "mad.lo.u32:scaled": "LEA",
    "add.u32:immediate": "VIADD",
    "shl.b32:by16": "IMAD.U32",
    "xor.pred": "PLOP3.LUT*0.5",
    "bra:taken": "IMAD*16 BRA",
    "add.u32:uniform": "UIADD3",
    "mad.lo.u32:uniform": "UIMAD",
    "lop3.b32:uniform": "ULOP3.LUT",
    "shf.l.wrap.b32:uniform": "USHF.L.W.U32.HI",
}
ROWS = {row.name: row for row in load_catalogue()}


@cache
def verified(opt_level):
    """Return the verdicts of all of these rows that have one at a level."""
    rows = [row for row in map(ROWS.get, EMITTED) if not row.refusal(opt_level, "sm_90a", Form.LATENCY)]
    return verify_instructions(rows, [find_target("sm_90a")], (opt_level,))


@pytest.mark.parametrize(("name", "sass"), EMITTED.items())
def test_the_loop_of_a_row_holds_it_and_nothing_else(name, sass):
    found = [row for row in verified(OptLevel.O3) if row.instruction == name]
    assert [row.form for row in found] == list(ROWS[name].forms(OptLevel.O3))
    assert {(row.sass, row.reason) for row in found} == {(sass, "")}


@pytest.mark.parametrize("name", [name for name in EMITTED if not name.endswith(":uniform")])
def test_at_o0_the_loop_is_what_the_row_says(name):
    reasons = {row.reason for row in verified(OptLevel.O0) if row.instruction == name}
    assert reasons == {""}


@pytest.mark.parametrize("name", [name for name in EMITTED if name.endswith(":uniform")])
def test_what_a_warp_does_once_is_of_the_warp(name):
    assert ROWS[name].unit == "warp"
    with pytest.raises(NotMeasurableError, match="no pattern uniform"):
        operand_bytes(ROWS[name], Pattern.UNIFORM, 1)
    with pytest.raises(NotMeasurableError, match="ordinary registers"):
        built(name, OptLevel.O0, Form.LATENCY)
