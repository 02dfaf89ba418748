"""What docs/tuning.md says of the search space is so."""

from pathlib import Path

from ptxbench.tune.space import search_space
from ptxbench.tune.strategies import STRATEGIES
from ptxbench.tune.variant import PARAMETERS, DType, Problem

PAGE = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text()
TEXT = " ".join(PAGE.split())


def test_the_sizes_of_the_spaces():
    sizes = [len(search_space(Problem(dtype, 4096, 4096, 4096), "sm_90a").variants) for dtype in DType]
    f32, f64, f16 = (f"{size:,}" for size in sizes)
    assert f"{f32} variants of f32, {f64} of f64 and {f16} of f16 pass" in TEXT


def test_every_parameter_and_strategy_is_there():
    assert all(f"`{name}`" in PAGE for name in PARAMETERS)
    assert ", ".join(STRATEGIES) in TEXT
