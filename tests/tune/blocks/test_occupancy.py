"""How many blocks an SM holds, against NVIDIA's own calculator and, on a GPU, the driver's."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from fakes.register_kernel import ptx_of_registers

from ptxbench.catalogue.architecture import sm_facts
from ptxbench.catalogue.occupancy import BlockNeeds, blocks_per_sm, residency
from ptxbench.codegen.assemble import assemble_ptx
from ptxbench.core.condition import OptLevel
from ptxbench.core.errors import InputError
from ptxbench.sass.resources import cubin_capability, kernel_resources
from ptxbench.tune.blocks.code_occupancy import code_occupancy, read_code
from ptxbench.tune.expression import parse

DATA = Path(__file__).parents[1] / "data"
GEMM = Path(__file__).parents[3] / "results" / "nvidia-h200" / "gemm"
NOTHING = parse("0", "here", ())


def test_blocks_are_those_of_nvidias_calculator() -> None:
    # Made by occupancy_reference.cpp beside it, which calls cuda_occupancy.h.
    rows = list(csv.DictReader((DATA / "occupancy_reference.csv").read_text().splitlines()))
    assert len(rows) == 7 * 18 * 16 * 2
    for row in rows:
        needs = BlockNeeds(int(row["threads"]), int(row["registers"]), int(row["shared_bytes"]))
        assert blocks_per_sm(needs, sm_facts(row["target"])) == int(row["blocks"]), row


def test_ten_of_the_measured_variants_hold_fewer_blocks_than_one_register_file_would() -> None:
    differ = total = 0
    for dtype in ("f32", "f64"):
        for row in csv.DictReader((GEMM / dtype / "variants.csv").read_text().splitlines()):
            if row["status"] == "ok":
                threads, registers = int(row["dim_m"]) * int(row["dim_n"]), int(row["registers"])
                found = residency(BlockNeeds(threads, registers, 0), sm_facts("sm_90a")).by_registers
                one_file = 65536 // (-(-registers // 8) * 256) // (threads // 32)
                assert found <= one_file
                differ, total = differ + (found != one_file), total + 1
    assert (differ, total) == (10, 209)


def test_every_limit_is_named() -> None:
    h200 = sm_facts("sm_90a")
    assert residency(BlockNeeds(32, 16, 0), h200).limiters == ("blocks",)
    assert residency(BlockNeeds(1024, 16, 0), h200).limiters == ("warps",)
    assert residency(BlockNeeds(64, 16, 100_000), h200).limiters == ("shared memory",)
    assert residency(BlockNeeds(256, 200, 0), h200).limiters == ("registers",)
    found = residency(BlockNeeds(128, 32, 0), h200)
    assert (found.blocks, found.occupancy, found.limiters) == (16, 1.0, ("warps", "registers"))


@pytest.mark.parametrize("target", ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_120a"])
def test_what_a_cubin_says_is_read_alike_on_every_target(target: str) -> None:
    image = assemble_ptx(ptx_of_registers(40, target, ".maxntid 64, 4", 4000), target, OptLevel.O3).image
    taken = kernel_resources(image)["k"]
    assert cubin_capability(image) == int(target.removeprefix("sm_").rstrip("a"))
    assert taken.registers >= 40
    # Since sm_90 the section of static shared memory holds a KiB more, which is the system's.
    assert taken.shared_bytes == 4000
    assert (taken.max_threads, taken.required_threads) == (256, 0)


def test_sizes_keep_to_the_launch_bounds(tmp_path: Path) -> None:
    file = tmp_path / "k.ptx"
    file.write_text(ptx_of_registers(20, "sm_80", ".maxntid 128"))
    sizes = code_occupancy(read_code(file, "sm_80", None), NOTHING).sizes
    assert [one.threads for one in sizes] == [32, 64, 96, 128]
    file.write_text(ptx_of_registers(20, "sm_80", ".reqntid 96"))
    code = read_code(file, "sm_80", None)
    assert [one.threads for one in code_occupancy(code, NOTHING).sizes] == [96]
    with pytest.raises(InputError, match="its launch bounds want 96"):
        code_occupancy(code, NOTHING, sizes=[64])


def test_shared_memory_and_registers_can_be_given(tmp_path: Path) -> None:
    file = tmp_path / "k.ptx"
    file.write_text(ptx_of_registers(20, "sm_80"))
    code = read_code(file, "sm_80", "k")
    # 164 KiB over 1024 x 40 + 1024 bytes is 4 blocks; 2048 threads let in 2 of 1024.
    (found,) = code_occupancy(code, parse("40 * threads", "here", ["threads"]), 32, [1024]).sizes
    assert (found.by_shared, found.by_registers, found.blocks) == (4, 2, 2)
    with pytest.raises(InputError, match="whole number"):
        code_occupancy(code, parse("threads / 3", "here", ["threads"]))


def test_a_kernel_of_cpp_is_found_by_its_plain_name(tmp_path: Path) -> None:
    file = tmp_path / "k.ptx"
    file.write_text(ptx_of_registers(20, "sm_80").replace(".entry k(", ".entry _Z5scalePfi("))
    assert read_code(file, "sm_80", "scale").entry == "_Z5scalePfi"


def test_a_file_that_does_not_fit_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "k.cubin"
    file.write_bytes(assemble_ptx(ptx_of_registers(20, "sm_80"), "sm_80", OptLevel.O3).image)
    with pytest.raises(InputError, match="assembled for sm_80, not sm_89"):
        read_code(file, "sm_89", None)
    with pytest.raises(InputError, match="no kernel other, only k; choose one with `entry`"):
        read_code(file, None, "other")
    file.write_bytes(b"\x7fELF no cubin")
    with pytest.raises(InputError, match="cannot be read"):
        read_code(file, None, None)
    with pytest.raises(InputError, match=r"cannot read .*name a \.ptx or \.cubin file"):
        read_code(tmp_path / "missing.ptx", None, None)


@pytest.mark.gpu
def test_blocks_are_those_of_the_driver() -> None:
    from ptxbench.devices.cuda import CudaGpu

    gpu = CudaGpu(0)
    try:
        target = gpu.info.target
        seen = set()
        for values in (4, 20, 30, 36, 44, 60, 76, 100, 124, 150, 180, 210, 240):
            for shared_bytes in (0, 9000, 33000):
                ptx = ptx_of_registers(values, target, shared_bytes=shared_bytes)
                cubin = gpu.assemble(ptx, OptLevel.O3)
                taken = kernel_resources(cubin.image)["k"]
                for threads in range(32, 1025, 32):
                    needs = BlockNeeds(threads, taken.registers, taken.shared_bytes)
                    found = residency(needs, sm_facts(target))
                    assert found.blocks == gpu.blocks_per_sm(cubin, "k", threads), needs
                    seen |= set(found.limiters)
        assert seen == {"blocks", "warps", "shared memory", "registers"}
    finally:
        gpu.close()
