import json
import runpy
import sys
from pathlib import Path

import pytest

from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import find_profile
from ptxbench.storage import codec
from ptxbench.storage.recording import Recording

RTX2080TI = find_profile("rtx2080ti")

RUNNER = Path(__file__).parents[2] / "runners" / "compare_sampling.py"


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", [str(RUNNER), *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(RUNNER), run_name="__main__")
    return end.value.code


@pytest.fixture
def quick(monkeypatch):
    """Fewer runs, and what `ptxbench doctor sensor` would find taken from the simulated GPU."""
    gpu = SimulatedGpu(RTX2080TI)
    monkeypatch.setattr("ptxbench.experiment.sampling.RUNS", {0.1: 2})
    monkeypatch.setattr("ptxbench.devices.select.open_gpu", lambda _: gpu)
    monkeypatch.setattr(
        "ptxbench.experiment.sensor_choice.sensors_for", lambda path, _: (gpu.sensors, path)[0]
    )
    return gpu


def test_keeps_the_comparison_and_its_picture(quick, tmp_path, monkeypatch, capsys):
    out = tmp_path / "methods"
    assert run(monkeypatch, "--sensor", tmp_path / "sensor", "--out", out) == 0
    printed = capsys.readouterr()
    assert "constant 0.1 s, mtsm on usage: " in printed.out
    assert json.loads((out / "methods.json").read_text())["points"]
    assert (out / "methods.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "methods-sensor").exists()
    assert printed.err.splitlines()[-1].startswith("14/14")


def stop(*_):
    raise KeyboardInterrupt


def test_measures_the_sensor_where_none_is_given(quick, tmp_path, monkeypatch):
    called = []
    monkeypatch.setattr(
        "ptxbench.experiment.sensor_study.sense", lambda _, path: (None, called.append(path) or path)
    )
    monkeypatch.setattr("ptxbench.storage.recording.RecordingFolder.add", stop)
    assert run(monkeypatch, "--out", tmp_path / "m") == 130
    assert called == [tmp_path / "m-sensor"]


def test_ctrl_c_ends_in_one_line(quick, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("ptxbench.storage.recording.RecordingFolder.add", stop)
    # Two of the six runs were made on another board, and one of its references.
    made = [
        Recording(name, 0, 1, 50.0, 50.0, (), ())
        for name in ("constant/0.1/0", "bursty/0.1/1", "reference/1/0")
    ]
    (tmp_path / "recordings.json").write_text(codec.to_text(made))
    named = ("--sensor", tmp_path / "sensor", "--out", tmp_path / "m", "--without", tmp_path)
    assert run(monkeypatch, *named) == 130
    printed = capsys.readouterr().err
    assert "0/12 reference/0.25/0" in printed
    assert "stopped" in printed
