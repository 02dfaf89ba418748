"""CUDA C++ as people write it: templates, headers, options, types that numpy lacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tune.fakes_kernel import AddingGpu, write_spec
from tune.test_user_kernel import require_nvcc

import ptxbench
from ptxbench.core import demangle
from ptxbench.core.errors import InputError, RefusedModuleError
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.tune.compiler_options import compiler_options, find_entry, named_in, with_values
from ptxbench.tune.element import ELEMENTS
from ptxbench.tune.objective import Goal, Objective
from ptxbench.tune.spec_file import load_spec
from ptxbench.tune.tuning import Tuning, tune
from ptxbench.tune.user_kernel import ArgumentMismatchError, BuiltKernel, UserKernel, parameter_kinds
from ptxbench.tune.variant_runner import TrialOptions

CODE = """
#include "scale.cuh"
#include <offset.cuh>
namespace mine {
struct Half { unsigned short bits; };
__device__ float wide(Half x) { return __uint_as_float(unsigned(x.bits) << 16); }
template <typename T, int N> __global__ void scale(T* y, const T* x, Half a, int n)
{
    static_assert(FAST == 1 && __cplusplus >= 202002L);
    int i = blockIdx.x * N + threadIdx.x;
    if (i < n) y[i].bits = __float_as_uint(wide(x[i]) * SCALE * wide(a) + OFFSET) >> 16;
}
}
void host(mine::Half* y) { mine::scale<mine::Half, 32><<<1, 32>>>(y, y, mine::Half{}, 1); }
"""
SPEC = """
[kernel]
name = "mine::scale<mine::Half, BLOCK>"
source = "scale.cu"
include = ["inc"]
std = "c++20"
defines = { FAST = true }
options = ["--use_fast_math", "-maxrregcount={REGS}"]
[sizes]
M = 4096
[axes]
BLOCK = [64, 128]
REGS = [32]
[launch]
grid = "ceil_div(M, BLOCK)"
block = "BLOCK"
[[arguments]]
name = "y"
dtype = "bf16"
shape = ["M"]
role = "output"
[[arguments]]
name = "x"
dtype = "bf16"
shape = ["M"]
[[arguments]]
name = "a"
dtype = "bf16"
value = 1.0
[[arguments]]
name = "n"
dtype = "i32"
value = "M"
[reference]
function = "add"
arguments = ["x", "x"]
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    require_nvcc()
    folder = tmp_path_factory.mktemp("cuda")
    (folder / "inc").mkdir()
    (folder / "scale.cu").write_text(CODE)
    (folder / "scale.cuh").write_text("#define SCALE 2.0f\n")
    (folder / "inc" / "offset.cuh").write_text("#define OFFSET 0.0f\n")
    (folder / "scale.toml").write_text(SPEC)
    return folder


def test_a_template_with_headers_and_options_is_built_as_it_is(written: Path) -> None:
    kernel = UserKernel(load_spec(written / "scale.toml"))
    (variant, _) = kernel.space("sm_90a").variants
    built = kernel.build(variant, "sm_90a")
    assert isinstance(built, BuiltKernel), built
    assert built.entry.startswith("_ZN4mine5scaleINS_4HalfELi64EE")
    launch = kernel.launch(built)
    assert [one.kind for one in launch.parameters or ()] == ["u32", "u32", "u16", "i32"]
    assert (launch.parameters or ())[2].value == 0x3F80
    assert built.resources.registers <= 32


def test_ten_lines_of_python_tune_a_template_with_headers_and_options(written: Path) -> None:
    x = np.ones(4096, np.uint16)
    found = ptxbench.tune_kernel(
        "simulated", written / "scale.cu", "mine::scale<mine::Half, BLOCK>", axes={"BLOCK": [64, 128]},
        options=["--use_fast_math"], include=[str(written / "inc")], std="c++20", defines={"FAST": 1},
        arguments={"y": 0 * x, "x": x, "a": ("bf16", 1), "n": np.int32(4096)}, answer={"y": x},
        grid="4096 // BLOCK", block="BLOCK", trials=2, window_s=0.3,
    )  # fmt: skip
    assert found.best.energy_j > 0
    assert found.searched == 2


def test_arguments_that_are_not_the_parameters_are_said_before_any_trial(written: Path) -> None:
    text = (written / "scale.toml").read_text()
    (written / "wide.toml").write_text(
        text.replace('name = "a"\ndtype = "bf16"', 'name = "a"\ndtype = "f32"')
    )
    tuning = Tuning(load_spec(written / "wide.toml"), Goal(Objective.ENERGY), TrialOptions(), budget=2)
    with pytest.raises(ArgumentMismatchError, match=r"argument a is f32, which has 4 bytes, .* takes 2"):
        tune(SimulatedGpu(), tuning, written / "out")
    assert not (written / "out").exists()


@pytest.mark.parametrize(
    ("entry", "ptx", "kinds"),
    [
        ("_Z5scalePffi", "", ("", "f", "i")),
        ("_ZN2ns4softIfLi64EEEvPT_PKS1_ijd", "", ("", "", "i", "i", "f")),
        ("twice", "", ()),
        ("_Z1kPKfS0_S0_S0_S0_S0_S0_N2ns1BE", "", ()),
        ("twice", ".visible .entry twice(\n.param .u64 .ptr .align 1 a, .param .f32 b,", ()),
        ("t", ".entry t(.param .f32 b,\n.param .s32 c, .param .align 2 .b8 d[2])", ("f", "i", "")),
    ],
)  # fmt: skip
def test_a_name_or_its_ptx_tells_whole_numbers_from_others(entry: str, ptx: str, kinds: tuple) -> None:
    assert parameter_kinds(entry, ptx) == kinds


def test_a_number_of_the_other_kind_is_said_before_any_trial(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, ('name = "count"\ndtype = "u32"', 'name = "count"\ndtype = "f32"'))
    kernel = UserKernel(load_spec(spec))
    with pytest.raises(
        ArgumentMismatchError, match=r"argument count is f32, and the kernel twice takes a whole"
    ):
        kernel.build(kernel.space("sm_90a").variants[0], "sm_90a")


def test_a_launch_gives_back_the_arrays_that_it_writes(tmp_path: Path) -> None:
    spec = write_spec(
        tmp_path, ('"f32"\nshape = ["n"]\n[[arguments]]', '"f32"\nshape = ["2 * n"]\n[[arguments]]')
    )
    kernel = UserKernel(load_spec(spec))
    built = kernel.build(kernel.space("sm_90a").variants[0], "sm_90a")
    assert isinstance(built, BuiltKernel)
    assert kernel.launch(built).result_bytes == 4 * 262144


def test_the_reference_runs_before_the_first_trial(written: Path) -> None:
    text = (
        SPEC.partition("[reference]")[0]
        + '[reference]\nkernel = "none.cu"\nname = "none"\ngrid = 1\nblock = 1\n'
    )
    (written / "none.cu").write_text('extern "C" __global__ void none(int) {}\n')
    (written / "none.toml").write_text(text)
    tuning = Tuning(load_spec(written / "none.toml"), Goal(Objective.ENERGY), TrialOptions(), budget=2)
    with pytest.raises(InputError, match="the kernel none has 1 parameters, and there are 4 arguments"):
        tune(AddingGpu(), tuning, written / "out")


def options_of(folder: Path, name: str = "k.cu", includes: bool = False, **kernel: object):
    return compiler_options(kernel, "s.toml: [kernel]", folder / name, folder, includes)


def test_options_go_to_the_one_that_knows_them(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    given = ["-O3", "-maxrregcount={R}", "-Xptxas=-dlcm=cg,-v"]
    nvcc, ptxas = options_of(tmp_path, options=given, include=["inc"], std="17", defines={"A": 2, "B": ""})
    assert nvcc == ("-O3", f"-I{tmp_path / 'inc'}", "-std=c++17", "-DA=2", "-DB")
    assert with_values(ptxas, {"R": 64}) == ["-maxrregcount=64", "-dlcm=cg", "-v"]
    assert options_of(tmp_path, includes=True)[0] == (f"-I{tmp_path}",)
    with pytest.raises(InputError, match="there is no X"):
        with_values(["-DA={X}"], {})


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ({"options": ["-o=x"]}, "'-o=x' is none of the compiler, or says what is decided here"),
        ({"options": ["--gpu-architecture=sm_80"]}, "decided here"),
        ({"options": ["-gencode=arch=x"]}, "decided here"),
        ({"options": ["fast"]}, "'fast' is none of the compiler"),
        ({"options": "-O3"}, "options must be a list"),
        ({"include": ["nowhere"]}, "include 'nowhere' is no folder"),
        ({"std": "c++17 -o"}, "std must be such as"),
        ({"defines": {"A B": 1}}, "defines A B"),
        ({"defines": {"A": "1;"}}, "a name, and a number or plain word"),
        ({"defines": 3}, "defines must be a table"),
    ],
)
def test_what_is_wrong_with_options_is_one_line(tmp_path: Path, kernel: dict, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        options_of(tmp_path, **kernel)
    assert "\n" not in str(error.value)


def test_options_of_nvcc_need_a_cuda_source(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"k\.ptx is no CUDA source"):
        options_of(tmp_path, "k.ptx", defines={"A": 1})
    assert options_of(tmp_path, "k.ptx", options=["-maxrregcount=32"])[1] == ("-maxrregcount=32",)


def test_a_kernel_is_found_by_what_marks_it() -> None:
    one, other = "_ZN2ns4softIfLi64EEEvPT_PKS1_i", "_ZN2ns4softIfLi7EEEvPT_PKS1_i"
    marker = "_Z17ptxbench_entry_ofIXadL_ZN2ns4softIfLi64EEEvPT_PKS2_iEEEvv"
    assert find_entry("ns::soft<float, BLOCK>", (other, one, marker)) == one
    with pytest.raises(RefusedModuleError, match="no kernel"):
        find_entry("ns::soft<float, BLOCK>", (other, marker))
    assert find_entry("soft", (one, "_Z5soft2v")) == one
    assert named_in(b"x", "plain") == b"x"
    assert b"<&ns::soft<float, 4>>" in named_in(b"x", "ns::soft<float, 4>")


def test_a_plain_name_is_found_without_a_cpp_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demangle, "demangled", lambda name: name)
    entries = ("_Z5scalePffi", "_ZN12_GLOBAL__N_14softEv", "_ZN2ns4softIfLi64EEEvPT_PKS1_i", "_Z9scalePff")
    assert find_entry("scale", entries) == entries[0]
    with pytest.raises(
        RefusedModuleError, match=f"several kernels soft; take one of {entries[1]}, {entries[2]}"
    ):
        find_entry("soft", entries)
    assert "ns::soft" in demangle.short_names(entries[2])
    assert demangle.short_names("twice") == {"twice"}
    forged = f"_Z{'9' * 5000}"  # more digits than Python makes a number of
    assert forged in demangle.short_names(forged)


@pytest.mark.parametrize("name", ["bf16", "e4m3", "e5m2"])
def test_each_code_of_a_type_that_numpy_lacks_comes_back(name: str) -> None:
    element = ELEMENTS[name]
    codes = np.arange(1 << (8 * element.stored.itemsize), dtype=element.stored)
    numbers = element.numbers(codes.view(np.uint8))
    kept = np.isfinite(numbers)
    assert (element.bits(numbers[kept]).view(element.stored) == codes[kept]).all()
    # Half way between two numbers the even code is the nearest; beyond it the next.
    one = int(element.bits(np.ones(1)).view(element.stored)[0])
    low, high = numbers[one + 3], numbers[one + 4]
    middle = (np.float64(low) + np.float64(high)) / 2
    both = element.bits(np.array([middle, middle * (1 - 1e-6), -middle])).view(element.stored)
    assert both[0] == one + 4
    assert both[1] == one + 3
    assert element.numbers(both[2:].view(np.uint8))[0] == -high


def test_the_numbers_of_8_bits_are_those_of_the_standard() -> None:
    e4m3, e5m2 = (ELEMENTS[name].numbers(np.arange(256, dtype=np.uint8)) for name in ("e4m3", "e5m2"))
    assert (e4m3[0x38], e4m3[0x7E], e4m3[0x01]) == (1.0, 448.0, 2.0**-9)
    assert np.isnan(e4m3[0x7F])
    assert (e5m2[0x3C], e5m2[0x7B]) == (1.0, 57344.0)
    assert np.isinf(e5m2[0x7C])


def test_too_many_axes_are_one_line(tmp_path: Path) -> None:
    axes = "".join(f"A{n} = [1]\n" for n in range(1500))
    (tmp_path / "k.toml").write_text(SPEC.replace("[axes]\n", f"[axes]\n{axes}"))
    (tmp_path / "scale.cu").write_text(CODE)
    (tmp_path / "inc").mkdir()
    with pytest.raises(InputError, match="1502 axes are over 100"):
        load_spec(tmp_path / "k.toml")
