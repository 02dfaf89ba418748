"""A step on a real NVIDIA GPU with PyTorch: run with `pytest -m gpu`."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")

import ptxbench  # noqa: E402
from ptxbench.core.errors import InputError  # noqa: E402
from ptxbench.core.status import Status  # noqa: E402


@pytest.fixture(autouse=True)
def _memory_is_given_back():
    yield
    torch.cuda.empty_cache()


def mlp():
    """A training step that changes its weights in place, with random numbers."""
    model = torch.nn.Sequential(
        torch.nn.Linear(2048, 8192), torch.nn.Dropout(0.1), torch.nn.Linear(8192, 2048)
    )
    model = model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(512, 2048, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=False)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    step()
    return model, step


def test_rows_add_up_and_the_state_of_the_caller_is_as_before(tmp_path):
    model, step = mlp()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    torch.cuda.manual_seed(3)
    expected = torch.randn(8, device="cuda")
    torch.cuda.manual_seed(3)
    found = ptxbench.profile(step, per={"row": 512}, out=tmp_path / "run")
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert torch.equal(torch.randn(8, device="cuda"), expected)
    assert found.changed_bytes == 0
    assert found.saved_bytes > sum(parameter.nbytes for parameter in before)
    assert abs(found.closure - 1) < 0.1
    assert found.per("row") == pytest.approx(found.step.energy_j / 512)
    step()
    assert not torch.equal(before[0], next(model.parameters()))


def test_a_kind_at_the_limit_runs_at_the_clock_of_the_step():
    a, b = (torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    small = torch.randn(1 << 16, device="cuda")

    def step():
        for _ in range(8):
            c = a @ b
            for _ in range(12):
                small.mul_(1.0)
        return c

    found = ptxbench.profile(torch.inference_mode()(step))
    gemm = found.rows[0]
    assert gemm.calls == 8
    assert gemm.clock_mhz == pytest.approx(found.step.clock_mhz, rel=0.015)
    assert gemm.status is Status.OK


def test_attention_does_its_work_when_it_is_launched_again():
    query, key, value = (torch.randn(8, 16, 1024, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    step = torch.inference_mode()(lambda: torch.nn.functional.scaled_dot_product_attention(query, key, value))
    found = ptxbench.profile(step)
    assert sum(row.time_s for row in found.rows if row.kind) == pytest.approx(found.step.time_s, rel=0.15)


def test_a_captured_graph_is_taken_as_it_is():
    x = torch.randn(1 << 22, device="cuda")
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        y = x.sin()
    graph.instantiate()
    found = ptxbench.profile(graph)
    assert [row.calls for row in found.rows if row.kind] == [1]
    graph.replay()
    assert torch.allclose(y, x.sin())


def test_a_step_that_waits_for_the_gpu_is_refused():
    x = torch.randn(16, device="cuda")
    with pytest.raises(Exception, match="captur"):
        ptxbench.profile(lambda: x.sum().item())


def test_a_step_without_launches_is_refused():
    torch.zeros(1, device="cuda")
    with pytest.raises(InputError, match="launches nothing"):
        ptxbench.profile(lambda: None)


def test_cupy_is_captured_by_its_own_stream():
    pytest.importorskip("cupy")
    code = (
        "import cupy, ptxbench\n"
        "x = cupy.arange(1 << 22, dtype=cupy.float32); y = cupy.empty_like(x)\n"
        "step = lambda: cupy.sin(x, out=y)\n"
        "step()\n"
        "found = ptxbench.profile(step)\n"
        "assert found.changed_bytes == 0 and len(found.rows) >= 1, found\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_modules_are_told_by_what_they_launch():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rise, self.fall = torch.nn.Tanh(), torch.nn.Softmax(dim=-1)

        def forward(self, x):
            return self.fall(self.rise(x)).mul(3.0)

    model, x = Model(), torch.randn(2048, 2048, device="cuda")
    found = ptxbench.profile(lambda: model(x).add(1.0), model=model)
    told = {row.name: found.modules_of(row) for row in found.rows if row.kind is not None}
    for part, module in (("tanh", "Model.rise"), ("softmax", "Model.fall"), ("Mul", "Model"), ("add", "")):
        assert [one for name, one in told.items() if part.lower() in name.lower()] == [{module: 1}], told
