import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ptxbench.cli.meter_validate import validate
from ptxbench.core.errors import InputError

ROOT = Path(__file__).parents[2]
STEP = ROOT / "hw_validation" / "captures" / "rtx3090_step_6s"
FILES = [
    "--meter",
    str(STEP / "meter.csv.gz"),
    "--nvml",
    str(STEP / "nvml.csv"),
    "--windows",
    str(STEP / "windows.csv"),
]


def invoke(*arguments):
    return CliRunner().invoke(validate, [str(a) for a in arguments], catch_exceptions=False)


@pytest.fixture(scope="module")
def data():
    return json.loads(invoke(*FILES, "--json").output)


def test_json_is_one_document(data):
    assert data["source"] == "instant"
    assert data["kind"] == "real"
    assert 0 < data["offset_ms"]["value"] < 3
    assert data["meter"]["rails"] == ["cable1", "cable2", "slot", "cable3"]
    assert len(data["windows"]) == 1


def test_text_names_clocks_sensors_methods_and_limits(tmp_path):
    output = invoke(*FILES, "--plots", tmp_path / "plots").output
    for words in (
        "clocks: offset 1.2",
        "halves differ by 0.26 ms",
        "cross-validation error %",
        "mtsm",
        "usage is a mean over",
    ):
        assert words in output
    drawn = {path.name for path in (tmp_path / "plots").iterdir()}
    assert drawn == {"signals.png"} | {
        f"error_{name}.png" for name in ("sma", "papi", "mtsm", "corrected", "integral")
    }
    assert all(path.stat().st_size > 5000 for path in (tmp_path / "plots").iterdir())


def test_a_log_of_whole_seconds_says_what_its_lag_is_worth(tmp_path, data):
    rows = [line.split(",") for line in (STEP / "nvml.csv").read_text().splitlines()[1:]]
    seconds = {int(row[0]) // 10**6: row[4] for row in reversed(rows)}
    log = tmp_path / "dmon.csv"
    lines = [f"{second * 10**6},{watts}" for second, watts in sorted(seconds.items())]
    log.write_text("\n".join(["t_us,power_draw_w", *lines]))
    notes = json.loads(invoke(*FILES[:2], "--nvml", log, *FILES[4:], "--json").output)["notes"]
    said = "the times of usage are whole seconds: lag and averaging are not told better than that"
    assert said in notes
    assert said not in data["notes"]


def test_plots_without_matplotlib_say_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"pip install matplotlib"):
        invoke(*FILES, "--plots", tmp_path)


def test_mapping_is_used(tmp_path):
    mapping = tmp_path / "map.toml"
    mapping.write_text('[[rails]]\nname = "all"\nwatts = "nothing"\n', encoding="utf-8")
    with pytest.raises(InputError, match="no column 'nothing'"):
        invoke(*FILES, "--mapping", mapping)


def test_board_and_mapping_choose_from_a_log_without_names_of_two_gpus(tmp_path, data):
    rows = [line.split(",") for line in (STEP / "nvml.csv").read_text().splitlines()[1:]]
    log = tmp_path / "log.csv"
    lines = [f"{row[0]},{board},{row[6] if board == 0 else 29}" for row in rows for board in (0, 1)]
    log.write_text("\n".join(["when,index,watts", *lines]))
    mapping = tmp_path / "map.toml"
    mapping.write_text('[nvml]\ninstant = "watts"\n[nvml.time]\ncolumn = "when"\nunit = "us"\n')
    files = [*FILES[:2], "--nvml", log, *FILES[4:], "--mapping", mapping, "--json"]
    with pytest.raises(InputError, match=r"several GPUs \(index 0, 1\)"):
        invoke(*files)
    found = json.loads(invoke(*files, "--nvml-gpu", 0).output)
    assert found["gain"] == data["gain"]
    assert "of log.csv the rows with index 0 are taken" in found["notes"]
    with pytest.raises(InputError, match="--nvml-gpu goes with --nvml"):
        invoke(*FILES[:2], "--run", "x", "--nvml-gpu", 0)


@pytest.mark.parametrize(
    "arguments",
    [FILES[:2], FILES[:4], [*FILES, "--run", "x"], [*FILES[:2], "--run", "x", "--windows", "y"]],
)
def test_log_must_be_a_run_or_two_files(arguments):
    with pytest.raises(InputError, match="either --run, or --nvml and --windows"):
        invoke(*arguments)
