"""The runner of a table of operations, on functions that a simulated GPU draws."""

import json
import math
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes.called import drawing
from fakes.script import load_script
from fakes.simulated_step import ReplayingGpu

import ptxbench
from ptxbench.catalogue.operations import Operation, parse_operation, used_shapes
from ptxbench.cli.main import run
from ptxbench.core.errors import InputError
from ptxbench.storage.operations_file import read_operations

RESULTS = Path(__file__).parents[2] / "results"
OPERATIONS = (
    Operation("gemm", "bf16", (64, 64, 64)),
    Operation("softmax", "f32", (16, 1024)),
    Operation("copy", "f32", (1024,)),
)


@pytest.fixture(scope="module")
def runner():
    return load_script("runners/measure_operations.py")


@pytest.fixture(scope="module")
def measured(runner, tmp_path_factory):
    """Two of three operations measured, then the third; one that the library does not have."""
    out = tmp_path_factory.mktemp("operations")
    gpu = ReplayingGpu(2)
    asked = []

    def build(operation):
        # What was measured is a table before the next begins: no end loses it.
        assert not asked or len(read_operations(out)) == len(asked)
        asked.append(operation)
        if operation.op == "copy":
            raise RuntimeError("no kernel image is available\nfor this GPU")
        if operation.op == "softmax":
            return runner.Launch(drawing(gpu, 100.0))
        return runner.Launch(drawing(gpu, 200.0), 10, is_graph=True)

    def bench(operation, call):
        return runner.settled(operation, call, gpu)

    part = runner.Part("torch", "2.9", "samples", 7)
    times = iter(range(100))
    left = runner.measure(OPERATIONS, build, bench, gpu.info, part, out, 2.5, lambda: next(times))
    assert left == 1
    assert len(read_operations(out)) == 2
    assert runner.measure(OPERATIONS, build, bench, gpu.info, part, out) == 0
    # None is measured twice.
    assert sorted(map(str, asked)) == sorted(map(str, OPERATIONS))
    return out


def test_each_operation_has_a_row_and_one_that_cannot_be_says_why(measured):
    rows = {str(row.operation): row for row in read_operations(measured)}
    assert set(rows) == set(map(str, OPERATIONS))
    gemm = rows["gemm 64x64x64 bf16"]
    assert gemm.valid
    # 5 ms of 200 W beside the static power of 125.6 W, for ten calls of a graph.
    assert gemm.energy_j == pytest.approx(5e-4 * 325.6, rel=0.01)
    assert gemm.ci_low_j < gemm.energy_j < gemm.ci_high_j
    assert gemm.latency_ms == pytest.approx(0.5, rel=0.01)
    assert (gemm.launched, gemm.windows) == ("graph of 10", 3)
    assert rows["softmax 16x1024 f32"].launched == "call"
    refused = rows["copy 1024 f32"]
    assert not refused.valid
    assert math.isnan(refused.energy_j)
    assert refused.reason == "RuntimeError: no kernel image is available"


def test_cost_looks_it_up(measured, capsys):
    assert run(["cost", "gemm 64x64x64 bf16", "copy 1024 f32", "--table", str(measured)]) == 0
    said = capsys.readouterr().out
    assert re.search(r" 16[23](\.\d)? ", said), said
    assert "no kernel image" in said
    # A kind alone is all rows of it, operations those of all.
    assert run(["cost", "softmax", "--table", str(measured), "--json"]) == 0
    assert [one["operation"] for one in json.loads(capsys.readouterr().out)["operations"]] == [
        "softmax 16x1024 f32"
    ]
    assert run(["cost", "operations", "--table", str(measured), "--format", "html"]) == 0
    assert "64x64x64" in capsys.readouterr().out
    assert run(["cost", "gemm 64x64x64 bf16", "fma.rn.f32", "--table", str(measured)]) == 2
    assert run(["cost", "gemm 64x64 bf16", "--table", str(measured)]) == 2
    assert "mxnxk" in capsys.readouterr().err


def test_what_comes_with_ptxbench_answers_without_a_table(capsys):
    assert run(["cost", "gemm 4096x4096x4096 bf16", "--json"]) == 0
    h100, h200 = json.loads(capsys.readouterr().out)["operations"]
    assert (h100["gpu"], h200["gpu"]) == ("NVIDIA H100 80GB HBM3", "NVIDIA H200")
    for found in (h100, h200):
        assert found["boards"] >= 1
        low, high = found["interval_j"]
        assert low < found["energy_j"] < high
    assert run(["cost", "gemm 64x64x64 bf16", "--table", str(RESULTS / "nvidia-h100" / "check")]) == 2
    assert "name a table of operations" in capsys.readouterr().err


def test_operations_are_chosen_by_kind_or_whole(runner, measured):
    assert runner.chosen([]) == used_shapes()
    assert {one.op for one in runner.chosen(["softmax", "copy"])} == {"softmax", "copy"}
    assert runner.chosen(["gemm 1x2x3 f32"]) == (Operation("gemm", "f32", (1, 2, 3)),)
    with pytest.raises(InputError, match="no operation is called 'sort'"):
        runner.chosen(["sort"])
    halves = [runner.part_of(used_shapes(), part) for part in ("1/2", "2/2")]
    assert sorted(map(str, sum(halves, ()))) == sorted(map(str, used_shapes()))
    with pytest.raises(InputError, match="1/2"):
        runner.part_of(used_shapes(), "3/2")


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        # What another table has a number of is left out, or comes last where more boards are asked for.
        ([], lambda boards: boards == 0),
        (["--boards", "2"], lambda boards: boards < 2),
        (["--boards", "9", "--again", "h200"], lambda boards: boards > 1),
    ],
)
def test_operations_are_those_that_few_boards_have_or_two(runner, options, wanted, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["measure_operations", "--list", "--without", "h200", *options])
    assert runner.main() == 0
    known = runner.boards_of(["h200"])
    listed = [parse_operation(line) for line in capsys.readouterr().out.splitlines()]
    assert set(listed) == {one for one in used_shapes() if wanted(known[one])}
    boards = [known[one] for one in listed]
    assert boards == sorted(boards)


@pytest.mark.parametrize(
    ("text", "limit", "asked"),
    [
        # What memory limits takes short windows, and long ones only where it meets the limit all the same.
        ("copy 1024 f32", False, [(3.0, 3)]),
        ("copy 1024 f32", True, [(3.0, 3), (13.5, 1)]),
        ("gemm 4096x4096x4096 bf16", True, [(13.5, 1)]),
        ("gemm 4096x4096x4096 bf16", False, [(13.5, 1), (13.5, 3)]),
    ],
)
def test_an_operation_has_the_windows_that_it_needs(runner, monkeypatch, text, limit, asked):
    said = []

    def bench(call, budget, most_rounds, gpu):
        said.append((budget, most_rounds))
        return SimpleNamespace(at_limit=limit, status="ok")

    monkeypatch.setattr(runner.ptxbench, "bench", bench)
    assert runner.settled(parse_operation(text), print, None).at_limit == limit
    assert said == asked


@pytest.mark.gpu
# PyTorch's compiler imports what PyTorch itself calls deprecated.
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_operations_of_pytorch_have_energies(runner, tmp_path):
    torch = pytest.importorskip("torch")
    with ptxbench.open_gpu(0) as gpu:
        part = runner.Part("torch", str(torch.__version__), "samples", 7)
        operations = runner.chosen(
            ["gemm 4096x4096x4096 bf16", "attention_prefill 1x32x8x2048x128 bf16", "silu_mul 16777216 bf16"]
        )

        def bench(operation, call):
            return runner.settled(operation, call, gpu)

        assert runner.measure(operations, runner.torch_launch, bench, gpu.info, part, tmp_path) == 0
    rows = read_operations(tmp_path)
    assert all(row.valid for row in rows), [row.reason for row in rows]
    gemm = next(row for row in rows if row.op_name == "gemm")
    assert 2 * 4096**3 / (gemm.latency_ms * 1e-3) > 100e12
