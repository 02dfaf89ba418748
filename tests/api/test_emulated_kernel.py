"""Kernels estimated with their arrays: run in the emulator, so that their data count."""

from pathlib import Path

import numpy as np
import pytest

import ptxbench
from ptxbench.core.errors import InputError

PTX = Path(__file__).parents[1] / "model" / "kernels" / "elementwise.ptx"
PASSES, THREADS, BLOCKS = 40, 128, 64
SHAPE = {"grid": BLOCKS, "block": THREADS}
SIZE = PASSES * THREADS * BLOCKS
SPECIFICATION = f"""
[kernel]
name = "kernel"
source = "elementwise.ptx"
[sizes]
N = {PASSES}
[axes]
BLOCK = [{THREADS}, 64]
[launch]
grid = {BLOCKS}
block = "BLOCK"
[[arguments]]
name = "x"
dtype = "f32"
shape = ["N", {BLOCKS}, {THREADS}]
fill = "zeros"
[[arguments]]
name = "y"
dtype = "f32"
shape = ["N", {BLOCKS}, {THREADS}]
role = "output"
[[arguments]]
name = "n"
dtype = "u32"
value = "N"
[reference]
function = "copy"
arguments = ["x"]
"""


@pytest.fixture(scope="module")
def table():
    return ptxbench.load_table("h200")


def arguments(x):
    return [x, np.zeros_like(x), np.uint32(PASSES)]


@pytest.fixture(scope="module")
def found(table):
    """Return estimates by what the array holds."""
    random = np.random.default_rng(1).standard_normal(SIZE, np.float32)
    arrays = {
        "random": random,
        "zeros": np.zeros(SIZE, np.float32),
        "small": np.tile(random[:16], SIZE // 16),
    }
    return {
        name: ptxbench.estimate_kernel(PTX, table=table, arguments=arguments(x), explain=True, **SHAPE)
        for name, x in arrays.items()
    }


def part(found, name):
    return next(one.energy_j for one in found.parts if one.name == name)


def test_the_same_kernel_costs_what_its_data_cost(found):
    joules = {name: part(one, "fp32") for name, one in found.items()}
    assert joules["zeros"] < joules["small"] < joules["random"]
    assert part(found["zeros"], "control") == part(found["random"], "control")


def test_an_explanation_says_what_the_data_cost(found):
    notes = {name: " ".join(one.notes) for name, one in found.items()}
    assert "what its data cost" in notes["random"]
    more = {
        name: float(text.partition("random bits alone: ")[2].partition("%")[0])
        for name, text in notes.items()
    }
    assert more["zeros"] > more["random"] > 0
    costs = {
        name: float(text.partition("what its data cost: ")[2].partition("%")[0])
        for name, text in notes.items()
    }
    assert costs["zeros"] < costs["small"] < costs["random"] < 100
    # Without what the data cost all three take the same.
    still_j = [one.energy_j * (1 - costs[name] / 100) for name, one in found.items()]
    assert max(still_j) == pytest.approx(min(still_j), rel=0.015)


def test_its_bytes_are_those_of_its_arrays(found):
    assert any(f"work on about {8 * SIZE:.4g} bytes" in note for note in found["zeros"].notes)
    assert part(found["zeros"], "L2") == pytest.approx(part(found["zeros"], "L2 requests"), rel=10)


def test_a_specification_names_a_kernel_with_its_arrays(table, found, tmp_path):
    (tmp_path / "elementwise.ptx").write_bytes(PTX.read_bytes())
    path = tmp_path / "spec.toml"
    path.write_text(SPECIFICATION)
    by_file = ptxbench.estimate_kernel(path, table=table)
    assert part(by_file, "fp32") == pytest.approx(part(found["zeros"], "fp32"))
    assert any("BLOCK=128" in note for note in by_file.notes)
    other = ptxbench.estimate_kernel(path, table=table, sizes={"BLOCK": 64, "N": 20})
    assert part(other, "fp32") == pytest.approx(part(by_file, "fp32") / 4, rel=0.1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"operands": "zeros"}, "operands does not go with a kernel that is run in the emulator"),
        ({"trips": {0: 3}}, "trips does not go with"),
        ({"ncu": "counts.csv"}, "ncu does not go with"),
        ({"sizes": {"N": 3}}, "sizes are those of a specification"),
        ({"arguments": [3]}, r"arguments must be arrays and numpy numbers .* number 0 is int"),
        ({"arguments": [np.zeros(4, np.float32)]}, "takes 3 arguments, not 1"),
    ],
)
def test_what_does_not_go_with_a_run_is_refused(table, changed, message):
    options = {"arguments": arguments(np.zeros(4, np.float32)), **SHAPE, **changed}
    with pytest.raises(InputError, match=message):
        ptxbench.estimate_kernel(PTX, table=table, **options)


def test_a_variant_that_is_not_there_is_refused(table, tmp_path):
    (tmp_path / "elementwise.ptx").write_bytes(PTX.read_bytes())
    path = tmp_path / "spec.toml"
    path.write_text(SPECIFICATION)
    with pytest.raises(InputError, match="no variant has BLOCK=96"):
        ptxbench.estimate_kernel(path, table=table, sizes={"BLOCK": 96})
