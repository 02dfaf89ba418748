"""The memory of a GPU is that of the device; of a GPU that never said, that of its product; else unknown."""

import math
from dataclasses import replace

import pytest
from fakes import run as fake

from ptxbench.catalogue.product import dram_bytes_per_s, l2_bytes
from ptxbench.devices.simulated import SimulatedGpu, find_profile

MIB = 2**20


def test_what_the_device_said_counts():
    asked = replace(fake.GPU, name="NVIDIA H200", l2_bytes=60.0 * MIB, dram_bytes_per_s=4.9e12)
    assert (l2_bytes(asked), dram_bytes_per_s(asked)) == (60 * MIB, 4.9e12)


def test_older_runs_have_the_memory_of_their_product_and_others_none():
    old = replace(fake.GPU, name="NVIDIA H200", l2_bytes=math.nan, dram_bytes_per_s=math.nan)
    assert (l2_bytes(old), dram_bytes_per_s(old)) == (50 * MIB, 4.8e12)
    unknown = replace(old, name="NVIDIA GeForce RTX 3090")
    assert math.isnan(l2_bytes(unknown))
    assert math.isnan(dram_bytes_per_s(unknown))


@pytest.mark.parametrize(("name", "size"), [("a100", 40), ("rtx3090", 6), ("rtx5090", 96)])
def test_gpus_of_one_generation_have_their_own_l2(name, size):
    assert l2_bytes(SimulatedGpu(find_profile(name)).info) == size * MIB
