"""Windows that are compared on a kernel at the power limit, and kept tunings that are measured again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.script import load_script
from tune.fakes_tune import SMALL, VARIANT, trial

from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import H200
from ptxbench.tune.folder import TuningFolder, tuning_manifest
from ptxbench.tune.gemm import Gemm
from ptxbench.tune.variant import DType, Problem
from ptxbench.tune.variant_runner import TrialOptions

ROOT = Path(__file__).parents[2]
LARGE = Problem(DType.F32, 4096, 4096, 4096)
CAPPED = replace(H200, board=replace(H200.board, power_cap_w=350.0))
windows = load_script(ROOT / "runners" / "compare_windows.py")
again = load_script(ROOT / "runners" / "remeasure_tunings.py")


def test_the_old_way_hangs_on_the_window_and_the_new_one_does_not() -> None:
    made = windows.measured(SimulatedGpu(CAPPED), Gemm(LARGE), VARIANT, 3, 60.0)
    assert len(made) == 2 * 2 * 3
    by_way = {
        (way, length_s): [m for m in made if (m.way, m.window_s) == (way, length_s)]
        for way in ("old", "new")
        for length_s in (0.4, 5.0)
    }
    for (way, length_s), some in by_way.items():
        for one in some:
            assert one.capped
            assert (one.power_w > 370) is ((way, length_s) == ("old", 0.4))
        if way == "new":
            assert all(one.power_w == pytest.approx(350, rel=0.01) for one in some)
            assert all(one.reason == "" for one in some)
    text = windows.table(made)
    assert text.count("\nold") == text.count("\nnew") == 2
    # What a model of the regulation is fitted to.
    assert len(made[0].course_w) > 15
    assert len(made[0].launch_times_s) == 16


def test_no_measurement_begins_after_its_time() -> None:
    assert windows.measured(SimulatedGpu(CAPPED), Gemm(LARGE), VARIANT, 3, -1.0) == ()


def kept(path: Path, *trials: object) -> None:
    manifest = tuning_manifest(SimulatedGpu(CAPPED), SMALL, TrialOptions(), "")
    folder = TuningFolder.create(path, manifest)
    for one in trials:
        folder.add(one)
    folder.close()


def test_what_ran_too_shortly_at_the_limit_is_measured_again_and_nothing_else(tmp_path: Path) -> None:
    free = [trial(n, 1e-3, 0.3 + n / 1000, power_w=300.0) for n in (4, 8)]
    kept(tmp_path / "free", *free)
    kept(
        tmp_path / "capped",
        trial(4, 1e-3, 0.30, power_w=300.0, capped=True),
        trial(8, 1e-3, 0.31, power_w=310.0),
        trial(16, 0.9e-3, 0.36, power_w=400.0),
        trial(32, 1e-3, 0.50, power_w=500.0),
    )
    (one,) = again.affected(tmp_path)
    assert (one.name, len(one.trials)) == ("capped", 3)
    assert set(one.roles.values()) == {"least energy", "near", "fastest"}
    made = list(again.measured(SimulatedGpu(CAPPED), [one], 60.0))
    assert [m.role for m in made] == ["least energy", "near", "fastest"]
    assert [m.kept.at_limit for m in made] == ["capped, untested", "-", "capped, untested"]
    assert all(m.again.energy_j > 0 for m in made)
    text = again.table(made)
    assert text.count(" kept ") == text.count(" now ") == 3
    again._write(SimulatedGpu(CAPPED), tmp_path, made)
    document = json.loads((tmp_path / "again.json").read_text())
    assert len(document["kept_and_again"]) == 3
    assert list(again.measured(SimulatedGpu(CAPPED), [one], -1.0)) == []


def test_the_kept_tunings_that_must_be_measured_again_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    found = {one.name for one in again.affected(again.KEPT)}
    assert found == {
        *("gemm-f16-mma", "gemm-f16-wgmma", "gemm-f64-mma"),
        *(f"gemm-f16-sizes/{size:05d}" for size in (2048, 3072, 6144, 8192)),
    }
