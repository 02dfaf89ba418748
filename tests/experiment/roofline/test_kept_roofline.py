"""The kept rooflines of a real H200 are worked out again from their readings."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from ptxbench.cli.roofline import command

KEPT = Path(__file__).parents[3] / "results" / "nvidia-h200" / "roofline"


@pytest.mark.parametrize(
    ("kind", "flop_pj", "byte_pj"),
    [("f32", "6.526 ± 0.29", "105.8 ± 2.7"), ("f64", "15.47 ± 2", "109.2 ± 3.3")],
)
def test_the_page_says_what_the_readings_of_the_kept_run_give(kind, flop_pj, byte_pj):
    result = CliRunner().invoke(command, ["show", str(KEPT / kind)], catch_exceptions=False)
    assert result.exit_code == 0
    assert f"{flop_pj}  pJ/flop" in result.stdout
    assert f"{byte_pj}  pJ/byte" in result.stdout
    assert "simulated" not in result.stdout
