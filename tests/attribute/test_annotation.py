"""A trace of the PyTorch profiler whose kernels get their energy."""

import gzip
import json
from pathlib import Path

import pytest

from ptxbench.attribute.annotation import annotate
from ptxbench.attribute.replay.profile import profile_of
from ptxbench.attribute.replay.replayed import ProfileFolder
from ptxbench.core.errors import InputError

RESULTS = Path(__file__).parents[2] / "results" / "nvidia-h100"
DECODE = RESULTS / "profiles" / "decode"
GEMM = "nvjet_sm90_tst_64x16_64x16_4x1_v_bz_TNT"

PART = {"gpu": "0", "energy_j": 5.0, "interval_j": [4, 6]}
MEMBERS = [{"kernel": "a", "mean_power_w": 250.0}, {"kernel": "b", "mean_power_w": None}]


def kernel(name, duration_us=10.0, grid=(4, 22, 1), block=(384, 1, 1)):
    arguments = {"stream": 7, "grid": list(grid), "block": list(block)}
    return {"ph": "X", "cat": "kernel", "name": name, "ts": 1, "dur": duration_us, "args": arguments}


@pytest.fixture
def trace(tmp_path):
    events = [
        {"ph": "X", "cat": "cpu_op", "name": GEMM, "ts": 0, "dur": 3},
        kernel(GEMM),
        kernel(GEMM, grid=(5, 22, 1)),
        kernel("another"),
        {"ph": "i", "cat": "kernel", "name": GEMM},
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def written(path):
    return json.loads(path.read_text())["traceEvents"]


def test_a_kernel_of_a_profile_is_found_by_name_and_launch_shape(trace, tmp_path):
    folder = ProfileFolder.open(DECODE)
    with folder.recordings:
        found = profile_of(folder)
    (row,) = [one for one in found.rows if one.name == GEMM]
    assert annotate(trace, found, tmp_path / "out.json") == 1
    events = written(tmp_path / "out.json")
    assert events[1]["args"]["energy (J)"] == pytest.approx(row.launch_j)
    assert events[1]["args"]["power (W)"] == pytest.approx(row.power_w)
    low_j, high_j = events[1]["args"]["energy interval (J)"]
    assert low_j < row.launch_j < high_j
    assert events[1]["args"]["stream"] == 7
    for other in (events[0], *events[2:]):
        assert "energy (J)" not in other.get("args", {})


def test_the_folder_of_a_profile_gives_the_same_and_gz_is_read_and_written(trace, tmp_path):
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    assert annotate(packed, DECODE, tmp_path / "out.json.gz") == 1
    assert b"energy (J)" in gzip.decompress((tmp_path / "out.json.gz").read_bytes())


def test_kernels_of_a_run_have_its_mean_power(tmp_path):
    report = {
        "gpus": [{"gpu": "0", "energy_j": 10.0, "interval_j": [9.0, 11.0]}],
        "kernels": [
            {**PART, "kernels": ["alone"], "mean_power_w": 300.0, "members": []},
            {**PART, "kernels": ["a", "b"], "mean_power_w": 200.0, "members": MEMBERS},
        ],
        "exit_code": 0,
    }  # fmt: skip
    (tmp_path / "energy.json").write_text(json.dumps(report))
    events = [kernel("alone", 20.0), kernel("a", 10.0), kernel("b"), {**kernel("alone"), "dur": None}]
    (tmp_path / "trace.json").write_text(json.dumps(events))
    assert annotate(tmp_path / "trace.json", tmp_path, tmp_path / "out.json") == 2
    found = json.loads((tmp_path / "out.json").read_text())
    assert found[0]["args"]["energy (J)"] == pytest.approx(300.0 * 20e-6)
    assert found[1]["args"]["energy (J)"] == pytest.approx(250.0 * 10e-6)


@pytest.mark.parametrize("text", ["{", "3", "[1]", json.dumps({"events": []})])
def test_what_is_no_trace_is_refused(tmp_path, text):
    (tmp_path / "trace.json").write_text(text)
    with pytest.raises(InputError, match="is no trace of the PyTorch profiler"):
        annotate(tmp_path / "trace.json", DECODE, tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()


def test_what_is_no_measurement_is_refused(trace, tmp_path):
    with pytest.raises(InputError):
        annotate(trace, tmp_path, tmp_path / "out.json")


def test_pytorch_has_it(trace, tmp_path):
    import ptxbench.torch

    assert ptxbench.torch.annotate(trace, DECODE, tmp_path / "out.json") == 1
