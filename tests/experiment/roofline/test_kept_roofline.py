"""The kept rooflines of a real H200 are worked out again from their readings."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from fakes.script import load_script

from ptxbench.catalogue.product import clock_exponent
from ptxbench.cli.main import run
from ptxbench.cli.roofline import command
from ptxbench.core.estimate import Estimate

KEPT = Path(__file__).parents[3] / "results" / "nvidia-h200" / "roofline"
H100 = Path(__file__).parents[3] / "results" / "nvidia-h100"
NAMES = {"h200": "NVIDIA H200", "h100": "NVIDIA H100 80GB HBM3"}


def test_the_page_says_what_the_readings_of_the_kept_run_give():
    result = CliRunner().invoke(command, ["show", str(KEPT / "f64")], catch_exceptions=False)
    assert result.exit_code == 0
    assert "18.03 ± 1  pJ/flop" in result.stdout
    assert "99.03 ± 2  pJ/byte" in result.stdout
    assert "125.3 ± 16  W" in result.stdout
    assert "simulated" not in result.stdout


def test_the_levels_of_an_h100_agree_with_the_table_of_h200s_within_a_tenth(capsys):
    run_path = str(H100 / "roofline" / "f32-levels")
    assert run(["roofline", "show", run_path, "--table", "h200", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    fitted = {one["name"]: one["value"] for one in found["energies"]}
    # A row of the table pays for DRAM at work, too.
    average_pj = found["machines"][0]["quantities"][-2]
    assert average_pj["name"] == "average_byte_pj"
    given_pj = {name: one["value"] for name, one in fitted.items()} | {"dram": average_pj["value"]}
    for name in ("f32", "dram", "l2", "l1", "shared"):
        assert given_pj[name] == pytest.approx(found["table_pj"][name], rel=0.1), name
    # What docs/roofline.md says of them.
    said = {"f32": (7.14, 0.30), "dram": (112.6, 5.8), "l2": (35.33, 0.58), "shared": (3.961, 0.42)}
    for name, (value, uncertainty) in said.items():
        assert fitted[name]["value"] == pytest.approx(value, rel=1e-3), name
        assert fitted[name]["uncertainty"] == pytest.approx(uncertainty, rel=0.03), name


def test_counts_are_those_of_kernels(tmp_path, capsys):
    assert run(["roofline", "show", str(KEPT / "f32"), "--counts", str(tmp_path)]) == 2
    assert "--counts needs --kernels" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("product", "kind", "of"),
    [
        ("h200", "tensor", "mma-"),
        ("h200", "f64", "f64"),
        ("h200", "f32", ("f32", "f16x2")),
        ("h100", "tensor", "mma-"),
    ],
)
def test_the_exponents_of_a_product_are_those_of_its_kept_runs(product, kind, of):
    runs = (KEPT.parents[1] / f"nvidia-{product}" / "roofline").glob("*/roofline.json")
    found = [
        one["exponent"]
        for run_path in runs
        for one in json.loads(run_path.read_text())["exponents"]
        if one["kind"].startswith(of)
    ]
    runner = load_script("runners/refresh_roofline.py")
    joint = runner.joint_exponent(
        [Estimate(one["value"]["value"], one["value"]["uncertainty"]) for one in found]
    )
    used = clock_exponent(NAMES[product], {"tensor": "mma-f16"}.get(kind, kind))
    assert used.value == pytest.approx(joint.value, abs=0.01)
    assert used.error >= joint.error - 0.01
    assert used.lowest_ratio == pytest.approx(min(one["lowest_ratio"] for one in found), abs=0.001)
    # No run bends, and no two runs of a product differ beyond chance.
    assert all(one["misfit"] is None or one["misfit"] > 0.01 for one in found)
    assert not joint.alike < 0.01
