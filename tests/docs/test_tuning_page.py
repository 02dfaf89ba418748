"""What docs/tuning.md says of the search space is so."""

from pathlib import Path

from ptxbench.tune.space import load_axes, search_space
from ptxbench.tune.strategies import STRATEGIES
from ptxbench.tune.variant import PARAMETERS, Core, DType, Problem

PAGE = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text()
TEXT = " ".join(PAGE.split())


def test_the_sizes_of_the_spaces():
    sizes = [len(search_space(Problem(dtype, 4096, 4096, 4096), "sm_90a").variants) for dtype in DType]
    f32, f64, f16, c64, c128 = (f"{size:,}" for size in sizes)
    assert f"{f32} variants of f32, {f64} of f64, {f16} of f16, {c64} of c64 and {c128} of c128" in TEXT
    doubles = load_axes(DType.F64, core=Core.MMA)
    tensor = len(search_space(Problem(DType.F64, 4096, 4096, 4096), "sm_90a", doubles).variants)
    assert f"Of f64 on the tensor cores there are {tensor:,}." in TEXT


def test_every_parameter_and_strategy_is_there():
    assert all(f"`{name}`" in PAGE for name in PARAMETERS)
    assert ", ".join(STRATEGIES) in TEXT
