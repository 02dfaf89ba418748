from dataclasses import replace

import pytest
from fakes.modules import built, kernels_of

from ptxbench.core import toolchain
from ptxbench.core.condition import OptLevel
from ptxbench.core.errors import RefusedModuleError
from ptxbench.sass.listing import disassemble, parse_listing, source_lines
from ptxbench.sass.loop import LoopError, find_loop

BRANCHY = """
.version 8.0
.target {target}
.address_size 64
.visible .entry twice(.param .u64 p, .param .u32 n)
{{
    .reg .b32 %x, %n, %i;
    .reg .b64 %p;
    .reg .pred %more;
    ld.param.u64 %p, [p];
    ld.param.u32 %n, [n];
    ld.global.u32 %x, [%p];
    mov.u32 %i, %n;
first:
    mad.lo.u32 %x, %x, %x, %n;
    sub.u32 %i, %i, 1;
    setp.ne.u32 %more, %i, 0;
    .pragma "nounroll";
    @%more bra first;
{second}
    st.global.u32 [%p], %x;
    ret;
}}
"""
SECOND = """
second:
    mul.lo.u32 %x, %x, %x;
    add.u32 %i, %i, 1;
    setp.ne.u32 %more, %i, %n;
    .pragma "nounroll";
    @%more bra second;
"""


def test_every_line_of_code_is_parsed():
    listing = built("div.u32", OptLevel.O0).listing
    kernels = parse_listing(listing)
    assert set(kernels) == {"target", "overhead", "target_2n"}
    parsed = sum(len(kernel.instructions) for kernel in kernels.values())
    assert parsed == sum(line.lstrip().startswith("/*") and ";" in line for line in listing.splitlines())


def test_addresses_predicates_opcodes_and_operands_are_as_printed():
    listing = built("fma.rn.f32").listing
    for kernel in parse_listing(listing).values():
        assert [i.address for i in kernel.instructions] == list(range(0, 16 * len(kernel.instructions), 16))
        guarded = [i for i in kernel.instructions if i.predicate]
        assert guarded
        assert {i.predicate[0] for i in guarded} == {"@"}
        assert all(f"{i.opcode} {i.operands}".strip() in listing for i in kernel.instructions)


def test_registers_are_counted_as_ptxas_allocates_them():
    kernels = parse_listing(built("fma.rn.f32").listing)
    assert 8 < kernels["target"].registers < 40


def test_a_listing_without_code_and_a_line_that_does_not_parse_are_refused():
    with pytest.raises(RefusedModuleError, match="holds no kernel"):
        parse_listing("\t.headerflags\n")
    listing = built("fma.rn.f32").listing.replace(" FFMA ", " ??? ", 1)
    with pytest.raises(RefusedModuleError, match=r"listing of \w+ has a line that does not parse: .*\?\?\?"):
        parse_listing(listing)


def test_a_module_is_disassembled_once_and_a_damaged_listing_again(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tmp_path.chmod(0o700)
    image = built("fma.rn.f32").cubin.image
    started = []

    def run_tool(tool, *arguments):
        started.append(tool)
        return toolchain.run_tool(tool, *arguments)

    monkeypatch.setattr("ptxbench.sass.listing.run_tool", run_tool)
    first = disassemble(image)
    assert "FFMA" in first
    assert (disassemble(image), started) == (first, ["nvdisasm"])
    (kept,) = (path for path in tmp_path.rglob("*") if path.is_file())
    kept.write_bytes(kept.read_bytes()[:-9])
    assert (disassemble(image), started) == (first, ["nvdisasm"] * 2)


def test_what_is_no_cubin_is_refused_in_one_line():
    with pytest.raises(RefusedModuleError, match="nvdisasm failed: ") as caught:
        disassemble(b"not an ELF image")
    assert "\n" not in str(caught.value)
    assert "/" not in str(caught.value).replace("module.cubin", ""), "no random path"


@pytest.mark.parametrize("target", ["sm_75", "sm_90a", "sm_120a"])
def test_one_loop_is_found_and_two_are_refused(target):
    one = kernels_of(BRANCHY.format(target=target, second="").replace("8.0", "8.7"), target=target)
    loop = find_loop(one["twice"])
    assert loop.instructions[-1].base == "BRA"
    assert loop.counts["IMAD"] == 1
    two = kernels_of(BRANCHY.format(target=target, second=SECOND).replace("8.0", "8.7"), target=target)
    with pytest.raises(LoopError, match="2 back edges"):
        find_loop(two["twice"])


def test_the_call_that_leaves_a_long_loop_before_sm_90_is_part_of_the_back_edge():
    module = built("popc.b32", OptLevel.O3, target="sm_80")
    assert "CALL.REL.NOINC" in module.listing
    assert module.loop_check.passed
    loops = [find_loop(kernel) for kernel in parse_listing(module.listing).values()]
    assert not any(op.startswith("CALL") for loop in loops for op in loop.counts)


def test_the_routine_behind_a_division_is_not_part_of_it_even_with_a_loop_of_its_own():
    kernel = parse_listing(built("div.rn.f32").listing)["target"]
    start = min(address for label, address in kernel.labels if label.startswith("$"))
    first = next(i for i in kernel.instructions if i.address == start)
    back = replace(first, address=start + 8, opcode="BRA", operands="`(.L_again)")
    looping = replace(
        kernel,
        instructions=(*kernel.instructions, back),
        labels=(*kernel.labels, (".L_again", start)),
    )
    assert find_loop(looping) == find_loop(kernel)
    assert find_loop(kernel).instructions[-1].address < start


def test_the_line_of_inlined_code_is_that_of_the_outermost_function():
    text = """
.text.other:
\t//## File "/src/other.cu", line 1
        /*0000*/                   EXIT ;
.text.k:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
\t//## File "/src/k.cu", line 7
        /*0010*/                   S2R R0, SR_TID.X ;
        /*0020*/                   S2R R2, SR_TID.Y ;
\t//## File "/cuda/shuffle.hpp", line 449 inlined at "/src/k.cu", line 9
\t//## File "/src/k.cu", line 9
        /*0030*/                   EXIT ;
"""
    assert source_lines(text, "k") == {0x10: "/src/k.cu:7", 0x20: "/src/k.cu:7", 0x30: "/src/k.cu:9"}
    assert source_lines(text, "none") == {}
