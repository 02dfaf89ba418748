"""Files of Kernel Tuner: caches and T4 results are read and written, and `report` and `ridge` take them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tune.fakes_tune import SMALL, trial

from ptxbench.cli.main import run
from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.tune.folder import tuning_manifest
from ptxbench.tune.kernel_tuner_cache import t4_text
from ptxbench.tune.kernel_tuner_results import read_results
from ptxbench.tune.outcome import Settled, TrialStatus
from ptxbench.tune.variant_runner import TrialOptions

CLOCKS = range(900, 1980, 90)


def entry(block: int, clock_mhz: int, time_ms: float, power_w: float, **more: Any) -> dict[str, Any]:
    values = {"block_size_x": block, "nvml_gr_clock": clock_mhz, "time": time_ms, "nvml_power": power_w}
    return {**values, "nvml_energy": 1e-3 * time_ms * power_w, "GFLOP/s": 2000 / time_ms, **more}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache that was not closed, as a search that was ended leaves it."""
    # Flat voltage up to 1400 MHz, then power rises with its square.
    power = {mhz: 90 + 0.2 * mhz * (1 + max(0.0, (mhz - 1400) / 1400)) ** 2 for mhz in CLOCKS}
    entries = [entry(64, mhz, 1800 / mhz, power[mhz]) for mhz in CLOCKS]
    entries += [entry(128, 1980, 0.8, 430.0), entry(256, 1980, 1.0, 300.0)]
    entries.append(
        {**entry(512, 1980, 1, 1), "time": "CompilationFailedConfig", "__error__": "CompilationFailedConfig"}
    )
    head = {
        "device_name": "NVIDIA H100 80GB HBM3",
        "kernel_name": "saxpy",
        "problem_size": [1024],
        "tune_params_keys": ["block_size_x", "nvml_gr_clock"],
        "tune_params": {"block_size_x": [64, 128, 256, 512], "nvml_gr_clock": [*CLOCKS, 1980]},
        "objective": "time",
    }
    rows = [f'"{one["block_size_x"]},{one["nvml_gr_clock"]}": {json.dumps(one)}' for one in entries]
    path = tmp_path / "saxpy_cache.json"
    path.write_text(json.dumps(head)[:-1] + ', "cache": {\n' + ",\n".join(rows) + ",")
    return path


def test_a_cache_is_a_search_with_clocks_energies_and_failures(cache: Path) -> None:
    found = read_results(cache)
    assert found.manifest.gpu.title == "NVIDIA H100 80GB HBM3"
    assert found.manifest.part.problem.parameters == ("block_size_x",)
    by_name = {one.name: one for one in found.trials}
    one = by_name["block_size_x=128 @sm1980"]
    assert (one.time_s, one.power_w) == pytest.approx((0.8e-3, 430.0))
    assert one.energy_j == pytest.approx(0.8e-3 * 430)
    assert one.flops == pytest.approx(2e9)
    assert (one.settings, one.settled) == (GpuSettings(sm_clock_mhz=1980), Settled.UNTESTED)
    assert by_name["block_size_x=512 @sm1980"].status is TrialStatus.REFUSED


def test_what_our_observer_wrote_keeps_its_interval_and_what_had_not_settled_does_not_count(
    tmp_path: Path,
) -> None:
    ours = {"energy_j": 0.5, "energy_ci95_j": 0.01, "settled": True, "at_limit": True}
    entries = {"1": {"b": 1, "time": 1.0, **ours}, "2": {"b": 2, "time": 1.0, **ours, "settled": False}}
    head = {"kernel_name": "k", "device_name": "NVIDIA H200 (simulated)", "tune_params_keys": ["b"]}
    document = {**head, "cache": entries}
    (tmp_path / "c.json").write_text(json.dumps(document))
    one, other = read_results(tmp_path / "c.json").trials
    assert (one.ok, one.settled, one.at_limit) == (True, Settled.YES, "capped")
    assert 1.96 * one.power_error_w * one.time_s == pytest.approx(0.01, rel=0.01)
    assert other.status is TrialStatus.NOT_SETTLED
    for name in ("again.json", "again.t4.json"):
        assert run(["tune", "report", str(tmp_path / "c.json"), "--out", str(tmp_path / name)]) == 0
        again = read_results(tmp_path / name)
        assert again.trials[0].power_error_w == pytest.approx(one.power_error_w)
        assert (again.trials[0].settled, again.trials[0].at_limit) == (Settled.YES, "capped")
        assert again.manifest.gpu.kind == "simulated"


def test_a_report_takes_a_cache_and_writes_both_formats(cache: Path, tmp_path: Path, capsys: Any) -> None:
    assert run(["tune", "report", str(cache)]) == 0
    shown = capsys.readouterr().out
    assert "read from saxpy_cache.json, a cache of Kernel Tuner" in shown
    assert "NVIDIA H100 80GB HBM3\n" in shown
    assert run(["tune", "report", str(cache), "--json"]) == 0
    before = json.loads(capsys.readouterr().out)
    assert "the interval of their energies is not known" in shown
    for name in ("again.json", "again.t4.json"):
        assert run(["tune", "report", str(cache), "--out", str(tmp_path / name)]) == 0
        assert run(["tune", "report", str(tmp_path / name), "--json"]) == 0
        after = json.loads(capsys.readouterr().out)
        assert after["least_energy"]["name"] == before["least_energy"]["name"]
        assert after["least_energy"]["energy_j"] == pytest.approx(before["least_energy"]["energy_j"])


def test_ridge_takes_a_cache_with_clocks(cache: Path, capsys: Any) -> None:
    assert run(["clocks", "ridge", "--samples", str(cache)]) == 0
    assert "samples of saxpy_cache.json, block_size_x=64" in capsys.readouterr().out
    few = json.loads(cache.read_text().removesuffix(",") + "}\n}")
    few["cache"] = {key: one for key, one in few["cache"].items() if one["block_size_x"] != 64}
    cache.write_text(json.dumps(few))
    assert run(["clocks", "ridge", "--samples", str(cache)]) == 2
    assert "no configuration has a power at two values of nvml_gr_clock" in capsys.readouterr().err


def test_t4_is_what_its_schema_wants() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="the extra tune is not installed")
    files = pytest.importorskip("kernel_tuner.file_utils", reason="the extra tune is not installed")
    wrong = trial(2, status=TrialStatus.WRONG)
    manifest = tuning_manifest(SimulatedGpu(), SMALL, TrialOptions(), "")
    document = json.loads(t4_text(manifest, [trial(1, 1e-3, 0.5), wrong]))
    jsonschema.validate(document, files.output_file_schema("results")[1])
    good, bad = document["results"]
    assert {one["name"]: one["value"] for one in good["measurements"]}["time"] == pytest.approx(1.0)
    assert (good["invalidity"], good["correctness"]) == ("correct", 1)
    assert (bad["invalidity"], bad["correctness"], bad["measurements"]) == ("correctness", 0, [])


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "neither a cache nor a T4 file"),
        ("[1]", "no object of JSON"),
        ("nothing", "is no JSON"),
        ('{"cache": {"1": {"time": 1}}, "tune_params_keys": ["b"]}', "has no value of b"),
        ('{"cache": {}, "tune_params_keys": 3}', "must be a list of names"),
        ('{"results": [{"configuration": 3}]}', "configuration of a result must be an object"),
        ('{"results": [{"times": []}]}', "times of a result must be an object"),
        ('{"results": [{"measurements": {}}]}', "measurements of a result must be a list"),
    ],
)
def test_another_file_is_refused_in_one_line(tmp_path: Path, capsys: Any, text: str, why: str) -> None:
    (tmp_path / "x.json").write_text(text)
    assert run(["tune", "report", str(tmp_path / "x.json")]) == 2
    said = capsys.readouterr().err
    assert why in said
    assert said.count("\n") == 1


@pytest.mark.hostile
def test_a_measurement_of_any_name_moves_no_parameter(tmp_path: Path) -> None:
    measured = [{"name": "configuration", "value": 5}, {"name": "time", "value": 2.0, "unit": "ms"}]
    results = [{"configuration": {"block": 64}, "measurements": measured}]
    (tmp_path / "x.json").write_text(json.dumps({"results": results}))
    (only,) = read_results(tmp_path / "x.json").trials
    assert (only.variant.name, only.best_time_s) == ("block=64", pytest.approx(2e-3))
