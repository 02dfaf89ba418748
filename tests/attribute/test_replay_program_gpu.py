"""Programs whose kernels are launched again, on a real NVIDIA GPU with PyTorch: run with `pytest -m gpu`."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.gpu
pytest.importorskip("torch")

# Products and elementwise kernels, some of them in place, one by one or as a graph.
PROGRAM = """
import sys, torch
torch.manual_seed(0)
a, b = (torch.randn(2048, 2048, device="cuda") for _ in range(2))
x = torch.ones(1 << 22, device="cuda")
def step():
    for _ in range(4):
        c = torch.tanh(a @ b)
        x.mul_(2).div_(2)
    return c
step()
if sys.argv[1] == "graph":
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = step()
    for _ in range(1500): graph.replay()
else:
    for _ in range(1500): c = step()
print(c.double().sum().item(), x.double().sum().item())
raise SystemExit(5)
"""
# Several graphs: in a row, mixed, one that is made late, one that is launched seldom; and kernels beside.
SEVERAL = """
import sys, torch
torch.manual_seed(0)
def made(n):
    a, x = torch.randn(n, n, device="cuda") / n**0.5, torch.randn(n, n, device="cuda")
    def step():
        for _ in range(40): x.copy_(torch.tanh(a @ x))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph, x
count, side, y = int(sys.argv[1]), torch.cuda.Stream(), torch.ones(4096, device="cuda")
all = [made(n) for n in (128, 256, 384, 512)]
torch.cuda.synchronize()
for i in range(count):
    if i == count // 2: all.append(made(192))
    which = 0 if i < count // 4 else 1 if i < count // 2 else (0, 1, 2, -1)[i % 4]
    all[3 if i % 500 == 499 else which][0].replay()
    if i % 5 == 0: all[which][1][0, 0].item()
    if i % 50 == 0:
        with torch.cuda.stream(side): y.mul_(1.0001)
torch.cuda.synchronize()
print(*(x.double().sum().item() for _, x in all), y.double().sum().item())
raise SystemExit(5)
"""


@pytest.mark.parametrize("how", ["eager", "graph"])
def test_the_program_stays_as_it_is_and_its_kernels_add_up(tmp_path, how):
    words = [sys.executable, "-c", PROGRAM, how]
    alone = subprocess.run(words, capture_output=True, text=True, check=False)
    command = [sys.executable, "-m", "ptxbench", "run", "--replay", "--out", str(tmp_path / "run"), "--"]
    ended = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (alone.returncode, alone.stdout) == (5, alone.stdout)
    report = json.loads((tmp_path / "run" / "energy.json").read_text())
    (found,) = report["replay"]
    assert found["changed_bytes"] == 0
    assert found["closure"] == pytest.approx(1.0, abs=0.1)
    calls = {row["name"]: row["calls"] for row in found["rows"] if row["type"] == "kernel"}
    assert all(calls.values())
    assert sum(n >= 6000 for n in calls.values()) >= 3


def test_kernels_of_a_graph_are_looked_at_in_turns_with_their_own_times(tmp_path):
    words = [sys.executable, "-c", PROGRAM, "graph"]
    command = [sys.executable, "-m", "ptxbench", "run", "--out", str(tmp_path / "run"), "--", *words]
    assert subprocess.run(command, capture_output=True, text=True, check=False).returncode == 5
    report = json.loads((tmp_path / "run" / "energy.json").read_text())
    assert "whole graph" not in " ".join(report["remarks"])
    rows = [one for row in report["kernels"] for one in (row, *row["members"])]
    named = {" ".join(row.get("kernels", [row.get("kernel")])): row["calls"] for row in rows}
    # Products, tanh and two in place, four of each in a launch of the graph.
    assert sum(calls == pytest.approx(6000, rel=0.05) for calls in named.values()) >= 2


def test_programs_of_several_graphs_stay_as_they_are_in_turns(tmp_path):
    words = [sys.executable, "-c", SEVERAL, "12000"]
    alone = subprocess.run(words, capture_output=True, text=True, check=False)
    command = [sys.executable, "-m", "ptxbench", "run", "--out", str(tmp_path / "run"), "--", *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (alone.returncode, alone.stdout) == (5, alone.stdout)
    report = json.loads((tmp_path / "run" / "energy.json").read_text())
    assert not [one for one in report["remarks"] if "whole graph" in one or "stayed" in one]
