"""Counts of executed opcodes, and what a cubin says of its kernels' needs."""

import pytest
from fakes.modules import built

from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.core.condition import OptLevel
from ptxbench.core.errors import RefusedModuleError
from ptxbench.sass.executed import looped_kernel
from ptxbench.sass.listing import parse_listing
from ptxbench.sass.loop import LoopError
from ptxbench.sass.resources import cubin_capability, kernel_resources

LISTING = """
.text.k:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_0:
        /*0010*/                   FFMA R2, R2, R3, R4 ;
        /*0020*/              @!PT LDS RZ, [RZ] ;
        /*0030*/              @P1  LDG.E R5, [R6.64] ;
        /*0040*/              @P0  BRA `(.L_x_0) ;
        /*0050*/                   FFMA R2, R2, R3, R4 ;
        /*0060*/                   EXIT ;
.L_x_1:
        /*0070*/                   BRA `(.L_x_1);
        /*0080*/                   NOP;
"""


def test_the_loop_counts_by_trips_and_the_rest_once():
    counts = looped_kernel(parse_listing(LISTING)["k"]).executed(100)
    assert counts == {"MOV": 1, "FFMA": 101, "LDG.E": 100, "BRA": 100, "EXIT": 1}


def test_a_kernel_without_a_loop_has_no_such_counts():
    with pytest.raises(LoopError):
        looped_kernel(parse_listing(LISTING.replace("@P0  BRA `(.L_x_0)", "NOP"))["k"])


def test_resources_of_every_kernel_of_a_module():
    found = kernel_resources(built("fma.rn.f32").cubin.image)
    assert {"target", "overhead", "target_2n"} <= set(found)
    assert all(8 <= one.registers <= 255 and one.stack_bytes == 0 for one in found.values())


FRAME = """
.version 8.0
.target TARGET
.address_size 64
.visible .entry k(.param .u64 at) .maxntid 64, 4 {
.local .align 16 .b8 frame[400]; .shared .align 4 .b8 space[4000];
.reg .b64 %rd<4>; .reg .f32 %f<2>;
ld.param.u64 %rd1, [at];
mov.u64 %rd2, frame;
add.u64 %rd3, %rd2, %rd1;
st.local.f32 [%rd3], 0f00000000;
ld.local.f32 %f1, [%rd3];
st.shared.f32 [space], %f1;
st.global.f32 [%rd1], %f1;
ret;
}
.visible .entry of_96() .reqntid 96 { ret; }
"""


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_resources_are_those_that_a_kernel_declares(target):
    image = assemble_ptx(FRAME.replace("TARGET", target), target, OptLevel.O3).image
    found = kernel_resources(image)
    assert (found["k"].stack_bytes, found["k"].shared_bytes) == (400, 4000)
    assert (found["k"].max_threads, found["k"].required_threads) == (256, 0)
    assert (found["of_96"].max_threads, found["of_96"].required_threads) == (0, 96)
    assert (found["of_96"].stack_bytes, found["of_96"].shared_bytes) == (0, 0)
    with pytest.raises(RefusedModuleError, match="is no cubin"):
        cubin_capability(image[:0x33])


@pytest.mark.parametrize("image", [b"", b"\x7fELF\x02\x01" + bytes(60), b"MZ" + bytes(100)])
def test_what_is_no_cubin_is_refused(image):
    with pytest.raises(RefusedModuleError, match="does not say"):
        kernel_resources(image)
