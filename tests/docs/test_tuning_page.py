"""What docs/tuning.md says of parameters and strategies is so; of sizes, tests/tune/test_space.py."""

from pathlib import Path

from ptxbench.tune.strategies import STRATEGIES
from ptxbench.tune.variant import PARAMETERS

PAGE = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text()


def test_every_parameter_and_strategy_is_there():
    assert all(f"`{name}`" in PAGE for name in PARAMETERS)
    assert ", ".join(STRATEGIES) in " ".join(PAGE.split())
