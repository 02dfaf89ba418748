"""The T1 format: what tuners describe is read as a specification, and written from one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tune.fakes_kernel import write_spec

from ptxbench.cli.main import run
from ptxbench.core.errors import InputError
from ptxbench.tune.spec import Array, NoReference, StoredReference
from ptxbench.tune.spec_file import load_spec

EXAMPLES = Path(__file__).parents[2] / "examples" / "tune"
SAXPY: dict[str, Any] = {
    "ConfigurationSpace": {
        "TuningParameters": [
            {"Name": "block_size_x", "Type": "int", "Values": "list(range(64, 257, 64))"},
            {"Name": "per_thread", "Type": "int", "Values": "[1, 2, 4]"},
            {"Name": "ldg", "Type": "bool", "Values": "[True, False]"},
        ],
        "Conditions": [
            {"Expression": "block_size_x * per_thread <= 512", "Parameters": ["block_size_x", "per_thread"]}
        ],
    },
    "KernelSpecification": {
        "Language": "CUDA",
        "KernelName": "saxpy",
        "KernelFile": "saxpy.cu",
        "CompilerOptions": ["-std=c++17"],
        "ProblemSize": [4096],
        "GridDivX": ["block_size_x", "per_thread"],
        "GlobalSize": {"X": "1"},
        "LocalSize": {"X": "block_size_x"},
        "Arguments": [
            {"Name": "y", "Type": "float", "MemoryType": "Vector", "AccessType": "ReadWrite",
             "FillType": "Constant", "FillValue": 3.0, "Size": "ProblemSize[0]"},
            {"Name": "x", "Type": "float", "MemoryType": "Vector", "FillType": "Random", "Size": 4096},
            {"Name": "a", "Type": "float", "MemoryType": "Scalar", "FillValue": 2.0},
        ],
    },
}  # fmt: skip


def written(folder: Path, **change: Any) -> Path:
    document = json.loads(json.dumps(SAXPY))
    document["KernelSpecification"].update(change)
    (folder / "saxpy.cu").write_text(
        'extern "C" __global__ void saxpy(float* y, const float* x, float a) {}\n'
    )
    (folder / "saxpy.json").write_text(json.dumps(document))
    return folder / "saxpy.json"


def test_a_t1_file_is_a_specification(tmp_path: Path) -> None:
    spec = load_spec(written(tmp_path))
    kept = [variant for variant, refused in spec.variants() if refused is None]
    assert len(kept) == 2 * (3 + 3 + 2 + 2)
    values = spec.values(kept[-1])
    assert values["block_size_x"] == 256
    assert spec.shape.grid[0].whole(values) == 4096 // (256 * values["per_thread"])
    assert spec.shape.block[0].whole(values) == 256
    y, x, a = spec.arguments
    assert isinstance(y, Array)
    assert (y.role, y.shape, set(y.data)) == ("inout", (4096,), {3.0})
    assert (x.role, x.fill) == ("input", "random")  # type: ignore[union-attr]
    assert a.value.number({}) == 2  # type: ignore[union-attr]
    assert isinstance(spec.reference, NoReference)
    assert spec.source.options == ("-std=c++17",)


def test_results_of_a_file_are_what_is_compared(tmp_path: Path) -> None:
    np.arange(4096, dtype=np.float32).tofile(tmp_path / "y.bin")
    right = {"Name": "right", "TargetName": "y", "FillType": "BinaryRaw", "DataSource": "y.bin"}
    spec = load_spec(written(tmp_path, ReferenceArguments=[{**right, "ValidationThreshold": 1e-3}]))
    assert isinstance(spec.reference, StoredReference)
    assert list(spec.reference.results["y"][:3]) == [0, 1, 2]
    assert spec.atol == 1e-3


def test_threads_of_opencl_are_divided_by_those_of_a_block(tmp_path: Path) -> None:
    change = {"GridDivX": [], "GlobalSizeType": "OpenCL", "GlobalSize": {"X": "ProblemSize[0] // per_thread"}}
    spec = load_spec(written(tmp_path, **change))
    assert spec.shape.grid[0].whole({**spec.sizes, "block_size_x": 64, "per_thread": 2}) == 32


def test_what_is_written_is_what_the_schema_wants_and_is_read_back(tmp_path: Path, capsys: Any) -> None:
    before = load_spec(EXAMPLES / "reduction.toml")
    path = tmp_path / "t1.json"
    assert run(["tune", "kernel", str(EXAMPLES / "reduction.toml"), "--t1", str(path)]) == 0
    (tmp_path / "reduction.cu").write_bytes((EXAMPLES / "reduction.cu").read_bytes())
    after = load_spec(path)
    kept = [{v.name: v for v, refused in one.variants() if refused is None} for one in (before, after)]
    assert kept[0].keys() == kept[1].keys()
    assert [(one.name, one.dtype, one.shape, one.role) for one in after.arrays] == [
        (one.name, one.dtype, one.shape, one.role) for one in before.arrays
    ]
    for variant in kept[0].values():
        grids = [one.shape.grid[0].whole(one.values(variant)) for one in (before, after)]
        assert grids[0] == grids[1]
    assert run(["tune", "kernel", str(write_spec(tmp_path / "spec")), "--t1", str(path)]) == 2
    assert "T1 has sources in CUDA C++ (.cu) alone" in capsys.readouterr().err
    jsonschema = pytest.importorskip("jsonschema", reason="the extra tune is not installed")
    files = pytest.importorskip("kernel_tuner.file_utils", reason="the extra tune is not installed")
    jsonschema.validate(json.loads(path.read_text()), files.input_file_schema()[1])


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"Language": "OpenCL"}, "only CUDA is tuned here"),
        ({"Arguments": [{"Type": "float4", "MemoryType": "Vector"}]}, "float4 Vector is not tuned here"),
        (
            {"Arguments": [{"Type": "float", "MemoryType": "Vector", "FillType": "Script"}]},
            "Script is not read",
        ),
        ({"GridDivX": [], "GlobalSize": {}}, "neither GlobalSize X nor GridDivX"),
        ({"ReferenceArguments": [{"TargetName": "z"}]}, "has z, which is no array"),
    ],
)
def test_what_is_not_known_is_one_line(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        load_spec(written(tmp_path, **change))


@pytest.mark.hostile
@pytest.mark.parametrize(
    "values", ["__import__('os').system('x')", "[]", "range(1)(2)", "[1, 2", "range(10**9, 2)"]
)
def test_values_are_never_run(tmp_path: Path, values: str) -> None:
    path = written(tmp_path)
    document = json.loads(path.read_text())
    document["ConfigurationSpace"]["TuningParameters"][0]["Values"] = values
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match="are no list or range"):
        load_spec(path)
