"""Bytes by memory level from a kernel's code: addresses by a sample, lines, sectors, bank conflicts."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes.run import GPU

import ptxbench
from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.core.condition import OptLevel
from ptxbench.model.addresses import Launch
from ptxbench.model.code_work import _caches, kernel_in
from ptxbench.model.executed import executions
from ptxbench.model.traffic import UNKNOWN_BYTES, Caches, GivenBytes, _of_array, _union, traffic_of
from ptxbench.model.work import Access, Level
from ptxbench.sass.listing import disassemble, parse_listing

KERNELS = Path(__file__).parent / "kernels"
L2_BYTES = 50 * 2**20
L1_BYTES = 256 * 1024
SMS = 132

BODY = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 pitch)
{
    .reg .pred %p<4>; .reg .b32 %r<40>; .reg .b64 %d<20>; .shared .align 16 .b8 tile[32768];
    ld.param.u64 %d0, [x]; ld.param.u64 %d1, [y]; ld.param.u32 %r9, [pitch];
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;
    mad.lo.u32 %r3, %r1, %r2, %r0;
    CODE
    ret;
}
"""
# Reads a word at index %r4 of x and writes it to the thread's own place in y.
COPY = """
    mul.wide.u32 %d2, %r4, 4; add.u64 %d3, %d0, %d2; ld.global.u32 %r5, [%d3];
    mul.wide.u32 %d4, %r3, 4; add.u64 %d5, %d1, %d4; st.global.u32 [%d5], %r5;
"""


def traffic(code, *, grid=4096, block=256, trips=None, given=UNKNOWN_BYTES, l2_size=L2_BYTES):
    """The traffic of a kernel of some PTX, and its bytes and accesses by level and kind."""
    text = BODY.replace("CODE", code) if ".entry" not in code else code
    kernels = parse_listing(disassemble(assemble_ptx(text, "sm_90a", OptLevel.O3).image))
    (kernel,) = kernels.values()
    launch = Launch.of(grid, block, "sm_90a")
    found = executions(kernel, trips or {}, launch=launch)
    times = {at: found.placed[f"{at:#x}"][1] for at in found.accesses}
    caches = Caches(l2_size, L1_BYTES / 8, 8 * SMS)
    result = traffic_of(found.accesses, times, launch, found.passes, caches, given)
    return result, dict(result.bytes_moved), dict(result.accesses)


# Each of two loops reads the 64 KiB of a block; L2 is 50 MiB, and 1,056 blocks run at once.
AGAIN = (
    """
    shl.b32 %r5, %r1, 14; add.u32 %r5, %r5, %r0; mul.wide.u32 %d2, %r5, 4; add.u64 %d3, %d0, %d2;
    mov.u32 %r7, 0;
"""
    + "".join(
        f"""
    mov.u64 %d6, %d3; mov.u32 %r6, 0;
L{n}: .pragma "nounroll"; ld.global.u32 %r8, [%d6]; {work} %r7, %r7, %r8; add.u64 %d6, %d6, 1024;
    add.u32 %r6, %r6, 1; setp.lt.u32 %p0, %r6, 64; @%p0 bra L{n};
"""
        for n, work in ((1, "add.u32"), (2, "xor.b32"))
    )
    + "mul.wide.u32 %d4, %r3, 4; add.u64 %d5, %d1, %d4; st.global.u32 [%d5], %r7;"
)


@pytest.mark.parametrize(("l2_size", "times"), [(L2_BYTES, 2), (2 * L2_BYTES, 1)])
def test_what_running_blocks_read_twice_comes_from_dram_twice_where_l2_cannot_hold_it(l2_size, times):
    found, moved, _ = traffic(AGAIN, grid=2**13, l2_size=l2_size)
    array, written = 2**13 * 2**16, 2**13 * 2**10
    assert moved[Level.DRAM] == times * array + written
    assert any("once for each loop" in note for note in found.notes) is (times == 2)


# Word (tid + 256 pass) & mask of x, 64 passes.
WRAPS = """
    mov.u32 %r6, 0; mov.u32 %r7, 0;
L1: .pragma "nounroll"; shl.b32 %r5, %r6, 8; add.u32 %r5, %r5, %r0; and.b32 %r5, %r5, MASK;
    mul.wide.u32 %d2, %r5, 4; add.u64 %d3, %d0, %d2; ld.global.u32 %r8, [%d3]; add.u32 %r7, %r7, %r8;
    add.u32 %r6, %r6, 1; setp.lt.u32 %p0, %r6, 64; @%p0 bra L1;
    mul.wide.u32 %d4, %r3, 4; add.u64 %d5, %d1, %d4; st.global.u32 [%d5], %r7;
"""


@pytest.mark.parametrize(("mask", "known"), [(0x3FFF, True), (0xFFF, False)])
def test_an_address_that_wraps_round_in_a_later_pass_is_not_known(mask, known):
    found, _, _ = traffic(WRAPS.replace("MASK", hex(mask)))
    assert bool(found.missing) is not known


@pytest.mark.parametrize("passes", [2, 3])
def test_an_address_in_a_loop_of_few_passes_is_known(passes):
    code = WRAPS.replace("MASK", "0x3fff").replace("%r6, 64", f"%r6, {passes}")
    found, moved, _ = traffic(code)
    assert not found.missing
    # Every block reads the same words, 256 a pass.
    assert moved[Level.CROSSBAR] == passes * 4096 * 256 * 4


def test_a_stream_moves_its_lines_once_through_every_level():
    _, moved, counted = traffic("mov.u32 %r4, %r3;" + COPY, grid=2**18)
    array = 4 * 256 * 2**18
    assert moved[Level.L1] == moved[Level.DRAM] == 2 * array
    assert moved[Level.CROSSBAR] == array
    # As ncu counted of copies: 1.5 times what DRAM moves, two requests and two misses a line.
    assert moved[Level.L2] == 3 * array
    assert counted[Access.L2_REQUEST] == counted[Access.L2_MISS] == 2 * (2 * array / 128)
    assert counted[Access.L1_WAVEFRONT] == 2 * (array / 128)


@pytest.mark.parametrize(
    ("index", "sectors", "wavefronts"),
    [
        ("mov.u32 %r4, %r3;", 4, 1),
        ("shl.b32 %r4, %r3, 1;", 8, 1),
        ("shl.b32 %r4, %r3, 5;", 32, 16),
        ("shl.b32 %r6, %r1, 8; and.b32 %r7, %r0, 31; shr.u32 %r8, %r0, 5; shl.b32 %r7, %r7, 3;"
         " add.u32 %r7, %r7, %r8; add.u32 %r4, %r6, %r7;", 32, 4),
        ("mov.u32 %r4, %r1;", 1, 1),
        ("mul.lo.u32 %r4, %r3, %r9;", 32, 16),
    ],
)  # fmt: skip
def test_a_warp_asks_for_the_sectors_that_its_lanes_touch(index, sectors, wavefronts):
    _, moved, counted = traffic(index + COPY)
    warps = 4096 * 8
    assert moved[Level.L1] == warps * (sectors + 4) * 32
    assert counted[Access.L1_WAVEFRONT] == warps * (wavefronts + 1)


def test_what_a_block_reads_again_comes_from_l1():
    # Lane by lane over rows of eight: each sector is read by every warp of its block.
    index = (
        "shl.b32 %r6, %r1, 8; and.b32 %r7, %r0, 31; shr.u32 %r8, %r0, 5; shl.b32 %r7, %r7, 3;"
        " add.u32 %r7, %r7, %r8; add.u32 %r4, %r6, %r7;"
    )
    _, moved, _ = traffic(index + COPY, grid=2**18)
    assert moved[Level.CROSSBAR] == 4 * 256 * 2**18


def test_data_that_l2_holds_is_taken_to_be_there_and_what_it_takes_cold_is_kept():
    found, moved, _ = traffic("mov.u32 %r4, %r3;" + COPY, grid=4096)
    assert moved[Level.DRAM] == 0
    assert found.cold_bytes == 2 * 4 * 256 * 4096
    assert "which L2 holds" in found.notes[0]
    _, moved, _ = traffic("mov.u32 %r4, %r3;" + COPY, grid=4096, l2_size=math.nan)
    assert moved[Level.DRAM] == 2 * 4 * 256 * 4096


GATHER = "mul.wide.u32 %d6, %r3, 4; add.u64 %d7, %d1, %d6; ld.global.u32 %r4, [%d7];" + COPY


def test_addresses_that_were_loaded_leave_bytes_open_unless_they_are_given():
    found, _, _ = traffic(GATHER)
    assert len(found.missing) == 2
    assert "`l2_bytes`" in found.missing[0]
    assert "`dram_bytes`" in found.missing[1]
    half, _, _ = traffic(GATHER, given=GivenBytes(dram_bytes=1e6))
    assert len(half.missing) == 1
    whole, moved, _ = traffic(GATHER, given=GivenBytes(1e6, 5e7))
    assert not whole.missing
    written = 4 * 256 * 4096
    assert moved[Level.DRAM] == 1e6
    assert moved[Level.CROSSBAR] == 5e7 - written
    assert moved[Level.L2] == 5e7 + 5e5


@pytest.mark.parametrize(("shift", "passes"), [(2, 1), (3, 2), (4, 4), (7, 32)])
def test_bank_conflicts_of_shared_memory_multiply_its_bytes(shift, passes):
    code = f"""
    mov.u32 %r10, tile; and.b32 %r11, %r0, 31; shl.b32 %r11, %r11, {shift}; add.u32 %r12, %r10, %r11;
    st.shared.u32 [%r12], %r3; bar.sync 0; ld.shared.u32 %r5, [%r12];
    mul.wide.u32 %d4, %r3, 4; add.u64 %d5, %d1, %d4; st.global.u32 [%d5], %r5;
    """
    _, moved, _ = traffic(code)
    assert moved[Level.SHARED] == 2 * passes * 128 * 4096 * 8


def test_a_guard_that_threads_alone_decide_is_counted_as_it_is():
    code = "setp.eq.u32 %p1, %r0, 0; mov.u32 %r4, %r3; @%p1 bra DO; ret; DO:" + COPY
    _, moved, _ = traffic(code)
    # One of 256 threads: a sector each to read and to write.
    assert moved[Level.L1] == pytest.approx(4096 * 8 / 256 * 8 * 32)


@pytest.mark.parametrize(("name", "array_bytes"), [("elementwise", 2 * 4), ("reduction", 4), ("gemm", 0)])
def test_passes_of_a_loop_go_on_by_their_step(name, array_bytes):
    text = (KERNELS / f"{name}.ptx").read_text()
    found, moved, _ = traffic(text, grid=1056, trips={"0": 4096})
    assert not found.missing
    if array_bytes:
        assert moved[Level.DRAM] >= array_bytes * 1056 * 256 * 4096


@pytest.mark.parametrize(
    ("offsets", "dims", "touched"),
    [
        # Sixteen loads side by side, each of which goes on by what all of them took: a row, unrolled.
        ([128 * n for n in range(16)], ((4, 32.0), (2048, 8.0)), 16384),
        # A row and its neighbour of the next pass: only the last is new.
        ([0, 2048], ((4, 32.0), (2048, 8.0)), 128 * 9),
        # A word beside each.
        ([0, 4], ((4, 32.0), (2048, 8.0)), 132 * 8),
        ([0, 4], ((4, 1024.0),), 4100),
        ([0, 1 << 20], ((4, 1024.0),), 8192),
        ([0, 0], ((4, 1024.0),), 4096),
    ],
)
def test_accesses_that_go_alike_share_what_they_touch(offsets, dims, touched):
    assert _union(4, dims, offsets) == pytest.approx(touched)


def test_an_array_that_is_gone_over_twice_in_other_steps_is_touched_once():
    unrolled, plain = (4, ((4, 32.0), (512, 8.0))), (4, ((4, 32.0), (128, 32.0)))
    rows = {unrolled: [0, 128, 256, 384], plain: [0]}
    assert _of_array(rows) == 4096
    assert _of_array({unrolled: [0], plain: [1 << 20]}) == 128 * 8 + 4096


def test_the_time_of_a_stream_is_that_of_its_bytes():
    words = {"grid": 1056, "block": 256, "trips": {0: 4096}, "table": "h200"}
    found = ptxbench.estimate_kernel(KERNELS / "elementwise.ptx", **words)
    # 8.9 GB at 4.4 TB/s, the most that a kernel was measured to move on an H200.
    assert found.time_s == pytest.approx(2.02e-3, rel=0.02)
    assert found.high_j < 3 * found.energy_j
    less = ptxbench.estimate_kernel(KERNELS / "elementwise.ptx", dram_bytes=0, **words)
    assert less.time_s < found.time_s
    assert less.energy_j < found.energy_j


def test_without_bytes_that_matter_there_is_no_best_value():
    words = {"grid": 1056, "block": 256, "trips": {0: 4096}, "table": "h200"}
    found = ptxbench.estimate_kernel(KERNELS / "gather.ptx", **words)
    assert math.isnan(found.energy_j)
    assert math.isnan(found.power_w)
    assert 0 < found.low_j < found.high_j
    assert len(found.missing) == 2
    given = ptxbench.estimate_kernel(KERNELS / "gather.ptx", dram_bytes=4e9, l2_bytes=5e9, **words)
    assert not given.missing
    assert found.low_j < given.low_j < given.energy_j < given.high_j


@pytest.mark.parametrize(
    ("target", "threads", "at_once", "l1_kib"),
    [("sm_86", 256, 6, 128), ("sm_86", 32, 16, 128), ("sm_89", 32, 24, 128)],
)
def test_blocks_at_once_and_l1_are_those_of_the_target(target, threads, at_once, l1_kib):
    text = (
        BODY.replace("CODE", "").replace("sm_90a", target).replace(".shared .align 16 .b8 tile[32768];", "")
    )
    gpu = replace(GPU, target=target, l2_bytes=6e6, sm_count=100)
    code = kernel_in(assemble_ptx(text, target, OptLevel.O3).image, "k", None, SimpleNamespace(gpu=gpu))
    found = _caches(code, Launch.of(10**4, threads, target), gpu)
    assert found == Caches(6e6, l1_kib * 1024 // 128 // at_once * 128, 100 * at_once)
