"""The kept rooflines of a real H200 are worked out again from their readings."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ptxbench.cli.main import run
from ptxbench.cli.roofline import command

KEPT = Path(__file__).parents[3] / "results" / "nvidia-h200" / "roofline"


@pytest.mark.parametrize(
    ("kind", "flop_pj", "byte_pj"),
    [("f32", "8.168 ± 0.86", "103.4 ± 2.3"), ("f64", "15.88 ± 1.4", "103.7 ± 2.2")],
)
def test_the_page_says_what_the_readings_of_the_kept_run_give(kind, flop_pj, byte_pj):
    result = CliRunner().invoke(command, ["show", str(KEPT / kind)], catch_exceptions=False)
    assert result.exit_code == 0
    assert f"{flop_pj}  pJ/flop" in result.stdout
    assert f"{byte_pj}  pJ/byte" in result.stdout
    assert "simulated" not in result.stdout


def test_library_kernels_lie_under_the_line_on_random_data(capsys):
    folder = str(KEPT.parent / "validation")
    assert run(["roofline", "show", str(KEPT / "f32"), "--kernels", folder, "--json"]) == 0
    placed = {(k["name"], k["operands"]): k for k in json.loads(capsys.readouterr().out)["kernels"]}
    gemm = placed["gemm-f32-4096", "random"]
    # 2 x 4096^3 flops in 2.72 ms at 699 W, and what ncu counted of DRAM.
    assert gemm["gflops"] == pytest.approx(2 * 4096**3 / 2.72e-3 / 1e9, rel=0.01)
    assert gemm["gflops_per_w"] == pytest.approx(gemm["gflops"] / gemm["power_w"], rel=0.01)
    assert gemm["intensity"] == pytest.approx(341, rel=0.01)
    assert 0.65 < gemm["of_line"] < 0.85
    assert all(k["of_line"] < 1.25 for (_, operands), k in placed.items() if operands == "random")


def test_kernels_without_counts_are_one_line(tmp_path, capsys):
    folder = KEPT.parents[1] / "nvidia-h100" / "suite"
    assert run(["roofline", "show", str(KEPT / "f32"), "--kernels", str(folder)]) == 2
    assert "name the folder by --counts" in capsys.readouterr().err
    assert run(["roofline", "show", str(KEPT / "f32"), "--counts", str(tmp_path)]) == 2
    assert "--counts needs --kernels" in capsys.readouterr().err
