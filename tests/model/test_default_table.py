"""The table that is taken where none is named."""

import re

import pytest

import ptxbench
from ptxbench.core.errors import GpuError
from ptxbench.model.default_table import default_table


def nothing():
    raise GpuError("no driver")


@pytest.mark.parametrize(
    ("gpu", "name", "said"),
    [
        (("NVIDIA H100 80GB HBM3", "sm_90"), "h100", "that of the GPU at hand"),
        (("NVIDIA H200", "sm_90"), "h200", "that of the GPU at hand"),
        (("NVIDIA H100 PCIe", "sm_90"), "h100", "no table of an NVIDIA H100 PCIe .* same compute capability"),
    ],
)
def test_it_is_that_of_the_gpu_at_hand(gpu, name, said):
    found, why = default_table(lambda: gpu)
    assert found == name
    assert re.search(said, why)


def test_without_a_gpu_it_is_that_of_the_h200_and_said():
    assert default_table(nothing) == ("h200", "no GPU is at hand: the table is h200, of an NVIDIA H200")


def test_a_gpu_of_another_capability_must_name_one():
    with pytest.raises(ptxbench.InputError, match=r"A100.*sm_80.*another compute capability"):
        default_table(lambda: ("NVIDIA A100-SXM4-80GB", "sm_80"))
