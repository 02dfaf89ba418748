"""What moves one kernel's power: the comparison, and what the documentation says was found."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from fakes.script import load_script

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results/nvidia-h200/variants"


@pytest.fixture
def kernel_variants(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "studies/h200"))
    return load_script("studies/h200/kernel_variants.py")


def test_variants_are_compared_round_by_round(kernel_variants):
    # Each round is at another level, which all share; the last variant of the second kernel takes 1% more.
    level = np.array([1.0, 1.01, 0.99])[:, None, None]
    power_w = 300.0 * level * np.ones((1, 2, len(kernel_variants.VARIANTS)))
    power_w[:, 1, -1] *= 1.01
    *same, last = kernel_variants.differences(["a", "b"], power_w)
    assert all(one.power_percent.mean == pytest.approx(0.0) for one in same)
    assert (last.kernel, last.power_percent.mean) == ("b", pytest.approx(1.0))


def test_what_a_process_changes_of_all_kernels_is_a_factor(kernel_variants):
    first_w = np.full((3, 5, 4), 300.0)
    second_w = first_w * 1.02
    second_w[:, 4] *= 1.005
    factor, away = kernel_variants.of_another_process(first_w, second_w)
    assert factor == pytest.approx(1.02)
    assert away == pytest.approx([0, 0, 0, 0, 0.5])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rounds", "1"], "--rounds 1 must be at least 2"),
        (["fma.rn.f32"], "say INSTRUCTION:LEVEL:ROLE"),
        (["fma.rn.f32:O9:target"], "say INSTRUCTION:LEVEL:ROLE"),
        (["fma.rn.f99:O3:target"], "fma.rn.f99"),
        (["--beside", "nowhere.json"], "nowhere.json: no result of kernel_variants.py"),
        (["fma.rn.f32:O3:target", "--beside", str(RESULTS / "9f49-1.json")], "other kernels"),
    ],
)
def test_bad_input_is_named(kernel_variants, monkeypatch, arguments, said):
    monkeypatch.setattr(sys, "argv", ["kernel_variants.py", *arguments])
    with pytest.raises(kernel_variants.InputError, match=said):
        kernel_variants.main()


def test_a_run_is_written_and_another_process_compared_with_it(
    kernel_variants, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "one.json"
    asked = ["kernel_variants.py", "fma.rn.f32:O3:target", "--gpu", "simulated", "--rounds", "2"]
    monkeypatch.setattr(sys, "argv", [*asked, "--out", str(out)])
    assert kernel_variants.main() == 0
    written = json.loads(out.read_text())
    assert np.array(written["power_w"]).shape == (2, 1, len(kernel_variants.VARIANTS))
    assert written["manifest"]["gpu"]["kind"] == "simulated"
    monkeypatch.setattr(sys, "argv", [*asked, "--beside", str(out)])
    assert kernel_variants.main() == 0
    assert "this process: factor " in capsys.readouterr().out


@pytest.mark.parametrize("board", ["9f49", "d0db"])
def test_the_documentation_says_what_was_measured(kernel_variants, board):
    documents = [json.loads((RESULTS / f"{board}-{n}.json").read_text()) for n in (1, 2)]
    first_w, second_w = (np.array(one["power_w"]) for one in documents)
    kernels = documents[0]["manifest"]["kernels"]
    found = kernel_variants.differences(kernels, np.concatenate([first_w, second_w]))
    others = [one for one in found if (one.copy, one.seed) != kernel_variants.VARIANTS[0]]
    sizes = [abs(one.power_percent.mean) for one in others]
    beyond = sum(abs(one.power_percent.mean) > one.power_percent.ci95 for one in others)
    _, away = kernel_variants.of_another_process(first_w, second_w)
    uuid = documents[0]["manifest"]["gpu"]["uuid_hash"]
    text = (ROOT / "studies/h200/power.md").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {uuid} |")]
    assert f"| {np.median(sizes):.2f}% | {beyond} of {len(others)} |" in line
    assert f"| {np.median(away):.2f}% | {np.sort(away)[-2]:.2f}%" in line
