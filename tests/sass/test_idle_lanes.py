"""Those lanes leave before the loop that are to be idle, by the machine code, and no others."""

import re
from functools import cache

import pytest
from fakes.modules import built, kernels_of_each

from ptxbench.catalogue.load import find_instruction
from ptxbench.codegen.render import render_module
from ptxbench.core.condition import Form, OptLevel
from ptxbench.core.errors import NotMeasurableError
from ptxbench.core.target import find_target
from ptxbench.sass.listing import parse_listing
from ptxbench.sass.loop_check import check_loops

HOPPER = find_target("sm_90a")
FMA = find_instruction("fma.rn.f32")


NAMES = ("fma.rn.f32", "ld.global.b32:l1", "st.global.b32", "popc.b64", "div.rn.f32")
ACTIVE = 16
# What of the module with 16 lanes is changed, so that other lanes leave.
CHANGES = (
    ("%lane, 16;", "%lane, 8;"),
    ("%laneid", "%warpid"),
    ("setp.ge.u32        %idle", "setp.lt.u32        %idle"),
    ("@%idle ret;", "@!%idle ret;"),
    ("@%idle ret;", ""),
    ("@%idle ret;", "@%idle ret;\n    setp.eq.u32 %first, %i, 77;\n    @%first ret;"),
)


@cache
def checks(target, opt_level):
    """Return the loop check of each row's module for whole warps, and for eight lanes."""
    cases = [(find_instruction(name), lanes) for name in NAMES for lanes in (32, 8)]
    modules = [render_module(row, find_target(target), Form.LATENCY, lanes) for row, lanes in cases]
    return {
        (row.name, lanes): check_loops(row, opt_level, kernels, target, lanes=lanes)
        for (row, lanes), kernels in zip(cases, kernels_of_each(modules, opt_level, target), strict=True)
    }


@cache
def changed(opt_level):
    """Return the kernels of a module with 16 lanes, and after each change."""
    ptx = render_module(FMA, HOPPER, Form.LATENCY, ACTIVE)
    wrong = [ptx.replace(*change) for change in CHANGES]
    assert ptx not in wrong
    return dict(zip((None, *CHANGES), kernels_of_each([ptx, *wrong], opt_level), strict=True))


def checked(kernels, lanes, opt_level=OptLevel.O3):
    return check_loops(FMA, opt_level, kernels, lanes=lanes)


@pytest.mark.parametrize("opt_level", OptLevel)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", ["sm_75", "sm_90a", "sm_120a"])
def test_the_loops_are_those_of_whole_warps(name, opt_level, target):
    whole, some = (checks(target, opt_level)[name, lanes] for lanes in (32, 8))
    assert some.passed, some.reason
    assert (some.sass, some.overhead) == (whole.sass, whole.overhead)


@pytest.mark.parametrize("opt_level", OptLevel)
@pytest.mark.parametrize("change", CHANGES)
def test_other_lanes_that_leave_are_refused(change, opt_level):
    assert checked(changed(opt_level)[None], ACTIVE, opt_level).passed
    reason = checked(changed(opt_level)[change], ACTIVE, opt_level).reason
    assert re.search("leave before the loop|before the loop", reason)


def test_whole_warps_of_which_lanes_leave_and_the_other_way_round_are_refused():
    assert "EXIT before the loop" in checked(changed(OptLevel.O3)[None], 32).reason
    whole = parse_listing(built(FMA).listing)
    assert "not those lanes alone leave" in checked(whole, ACTIVE).reason


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
