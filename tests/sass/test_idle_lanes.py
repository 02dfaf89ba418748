"""Those lanes leave before the loop that are to be idle, by the machine code, and no others."""

import re

import pytest
from fakes.modules import kernels_of

from ptxbench.catalogue.load import find_instruction
from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.codegen.render import render_module
from ptxbench.core.condition import Form, OptLevel
from ptxbench.core.errors import NotMeasurableError
from ptxbench.core.target import find_target
from ptxbench.sass.loop_check import check_loops
from ptxbench.sass.module import build_module

HOPPER = find_target("sm_90a")
FMA = find_instruction("fma.rn.f32")


def checked(ptx, lanes, opt_level=OptLevel.O3):
    return check_loops(FMA, opt_level, kernels_of(ptx, opt_level), lanes=lanes)


@pytest.mark.parametrize("opt_level", OptLevel)
@pytest.mark.parametrize(
    "name", ["fma.rn.f32", "ld.global.b32:l1", "st.global.b32", "popc.b64", "div.rn.f32"]
)
@pytest.mark.parametrize("target", ["sm_75", "sm_90a", "sm_120a"])
def test_the_loops_are_those_of_whole_warps(name, opt_level, target):
    whole, some = (
        build_module(
            find_instruction(name),
            find_target(target),
            opt_level,
            Form.LATENCY,
            lambda ptx, level: assemble_ptx(ptx, target, level),
            lanes,
        ).loop_check
        for lanes in (32, 8)
    )
    assert some.passed, some.reason
    assert (some.sass, some.overhead) == (whole.sass, whole.overhead)


@pytest.mark.parametrize("opt_level", OptLevel)
@pytest.mark.parametrize(
    "change",
    [
        ("%lane, 16;", "%lane, 8;"),
        ("%laneid", "%warpid"),
        ("setp.ge.u32        %idle", "setp.lt.u32        %idle"),
        ("@%idle ret;", "@!%idle ret;"),
        ("@%idle ret;", ""),
        ("@%idle ret;", "@%idle ret;\n    setp.eq.u32 %first, %i, 77;\n    @%first ret;"),
    ],
)
def test_other_lanes_that_leave_are_refused(change, opt_level):
    ptx = render_module(FMA, HOPPER, Form.LATENCY, 16)
    assert checked(ptx, 16, opt_level).passed
    wrong = ptx.replace(*change)
    assert wrong != ptx
    assert re.search("leave before the loop|before the loop", checked(wrong, 16, opt_level).reason)


def test_whole_warps_of_which_lanes_leave_and_the_other_way_round_are_refused():
    assert "EXIT before the loop" in checked(render_module(FMA, HOPPER, Form.LATENCY, 16), 32).reason
    assert "not those lanes alone leave" in checked(render_module(FMA, HOPPER, Form.LATENCY), 16).reason


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("mma.m16n8k16.f32.f16.f16.f32", "whole warp executes"),
        ("wgmma.m64n8k16.f32.f16.f16", "whole warpgroup executes"),
        ("shfl.sync.idx.b32", "whole warp"),
        ("ldmatrix.x4", "whole warp"),
        ("vote.sync.ballot.b32", "whole warp"),
        ("bar.sync", "whole warp"),
        ("cp.async.ca.4", "all threads of a block"),
        ("add.u32:divergent", "lanes are off"),
    ],
)
def test_what_needs_its_whole_warp_is_refused_with_its_reason(name, why):
    with pytest.raises(NotMeasurableError, match=rf"{name} cannot be measured with 16 of 32 lanes: .*{why}"):
        render_module(find_instruction(name), HOPPER, Form.LATENCY, 16)
