"""`ptxbench tune report` on kept runs and on a search that was just made."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from fakes.browser import data_of
from tune.fakes_kernel import write_spec

from ptxbench.cli.main import run

KEPT = Path(__file__).parents[2] / "results" / "nvidia-h200"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["gemm/f32", "gemm/f64", "gemm-best/f16"])
def test_kept_runs_are_reported_and_stay_as_they_are(name, tmp_path, monkeypatch, capsys):
    # matplotlib's part of it is not ours.
    monkeypatch.setattr("ptxbench.report.figure.picture_bytes", lambda *_: b"")
    before = contents(KEPT / name)
    plots = ["--plots", str(tmp_path / "p")] if name == "gemm/f64" else []
    assert run(["tune", "report", str(KEPT / name), *plots]) == 0
    shown = capsys.readouterr().out
    assert "The fastest takes" in shown
    assert "Best by alpha" in shown
    pictures = {f"{name}.png" for name in ("front", "path", "ranges", "hull", "correlations", "quadrants")}
    assert {path.name for path in tmp_path.glob("p/*")} == (pictures if plots else set())
    assert "What each way of tuning chooses" in shown
    assert "above the mean of a metric" in shown
    assert contents(KEPT / name) == before


def test_a_kept_run_has_cublas_beside(tmp_path, capsys):
    where = KEPT.parent / "nvidia-h100" / "tunings" / "gemm-f64-mma"
    before = contents(where)
    assert run(["tune", "report", str(where), "--table", "h100", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["correct"] for one in document["beside"]] == [True, True]
    times = document["least_energy"]["energy_j"] / document["beside"][-1]["energy_j"]
    assert times == pytest.approx(1.02, abs=0.01)
    by_way = {one["way"]: one for one in document["choices"]}
    assert by_way["time of all"]["loss"] > by_way["power of all"]["loss"] == 0
    assert contents(where) == before


def test_kept_variants_at_the_power_limit_are_marked_and_their_numbers_stay(capsys):
    where = KEPT.parent / "nvidia-h100" / "tunings"
    assert run(["tune", "report", str(where / "gemm-f16-sizes" / "08192")]) == 0
    shown = capsys.readouterr().out
    assert "2 of them ran too shortly to settle there: do not quote their energies" in shown
    assert shown.count("capped, untested") >= 5
    assert run(["tune", "report", str(where / "gemm-f16-mma"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    least = document["least_energy"]
    assert (round(least["energy_j"], 4), round(least["power_w"], 1)) == (0.3196, 687.6)
    assert (least["at_limit"], document["told_apart"]) == ("capped, untested", False)
    assert {one["at_limit"] for one in document["front"]} == {"capped, untested"}
    # Where the driver said nothing of the limit, the power does.
    assert run(["tune", "report", str(KEPT / "gemm" / "f32"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fastest"]["at_limit"] == "capped, untested"


def test_formats(tmp_path, capsys):
    where = str(KEPT / "gemm" / "f32")
    assert run(["tune", "report", where, "--out", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text()
    assert len(data_of(page)["charts"]) == 6
    assert "NVIDIA H200" in page
    assert run(["tune", "report", where, "--out", str(tmp_path / "r.csv")]) == 0
    rows = list(csv.DictReader((tmp_path / "r.csv").read_text().splitlines()))
    assert len(rows) == 105
    assert sum(row["front"] == "True" for row in rows) == 3
    assert all(float(row["L2 bytes"]) > 0 for row in rows)
    capsys.readouterr()
    assert run(["tune", "report", where, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["least_energy"]["energy_j"] == pytest.approx(1.758, abs=1e-3)
    assert document["fastest"]["energy_j"] == pytest.approx(1.967, abs=1e-3)


@pytest.mark.hostile
@pytest.mark.parametrize("words", [("tune", "report", str(KEPT / "gemm" / "f32")), ("report", "h200")])
def test_an_ending_that_names_no_format_is_refused_before_anything_is_read(words, tmp_path, capsys):
    assert run([*words, "--out", str(tmp_path / "x.nope")]) == 2
    said = capsys.readouterr().err
    assert "the ending .nope" in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.hostile
@pytest.mark.parametrize(
    "words",
    [("tune", "report", "RUN", "--out", "RUN/variants.csv"), ("tune", "report", "RUN", "--plots", "RUN")],
)
def test_nothing_is_written_into_the_folder_that_is_reported(words, tmp_path, capsys):
    where = tmp_path / "run"
    shutil.copytree(KEPT / "gemm" / "f32", where)
    before = contents(where)
    assert run([word.replace("RUN", str(where)) for word in words]) == 2
    assert "which stays as it is; write elsewhere" in capsys.readouterr().err
    assert contents(where) == before


def test_a_simulated_search_of_a_user_s_kernel_says_that_it_is_one(tmp_path, capsys):
    path = write_spec(tmp_path / "spec")
    arguments = ["--gpu", "simulated:h200", "--window", "0.1", "--out", str(tmp_path / "t")]
    assert run(["tune", "kernel", str(path), *arguments, "--heat-up", "0.5"]) == 0
    heated = "each ran for 0.5 s before its power was read"
    assert heated in capsys.readouterr().out
    manifest = tmp_path / "t" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"l2": "warm"', '"l2": "flushed"'))
    assert run(["tune", "report", str(tmp_path / "t")]) == 0
    shown = capsys.readouterr().out
    assert "SIMULATED, no measurement" in shown
    assert "MORE" in shown
    assert "L2 was emptied before each launch" in shown
    assert heated in shown


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("name", "value"),
    [("energy_j", -0.3), ("time_s", float("inf")), ("power_w", -650.0), ("estimated_j", float("inf"))],
)
def test_a_trial_that_cannot_be_is_refused(tmp_path, capsys, name, value):
    kept = KEPT / "gemm-best" / "f16"
    first, *others = (kept / "trials.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "trials.jsonl").write_text(
        json.dumps(json.loads(first) | {name: value}) + "\n" + "".join(others)
    )
    (tmp_path / "manifest.json").write_bytes((kept / "manifest.json").read_bytes())
    assert run(["tune", "report", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert f"line 1 has {name} {value:g}, which is negative or endless" in error
    assert error.count("\n") == 1


def test_what_is_no_search_is_one_line(tmp_path, capsys):
    assert run(["tune", "report", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


def test_kernel_tuner_reads_the_cache_file(tmp_path):
    util = pytest.importorskip("kernel_tuner.util", reason="the extra tune is not installed")
    searchspace = pytest.importorskip("kernel_tuner.searchspace")
    out = tmp_path / "cache.json"
    assert run(["tune", "report", str(KEPT / "gemm" / "f32"), "--out", str(out)]) == 0
    held = util.read_cache(str(out), open_cache=False)
    assert held["device_name"] == "NVIDIA H200"
    assert min(one["energy"] for one in held["cache"].values()) == pytest.approx(1.758, abs=1e-3)
    assert searchspace.Searchspace(None, None, None, from_cache=held).size == 105
