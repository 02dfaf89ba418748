"""`bench` and `compare` on a real NVIDIA GPU with PyTorch, Triton and CuPy: run with `pytest -m gpu`."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")

import ptxbench  # noqa: E402

SIZE = 1 << 26
# About 0.13 ms in which nearly nothing is drawn: torch.sin alone draws more than an H200 may.
PAUSE_CYCLES = 250_000


def inputs(seed):
    return (torch.randn(SIZE, device="cuda", generator=torch.Generator("cuda").manual_seed(seed)),)


def sine(x, share=1.0, twice=False):
    """Half of the time a sine and half nothing: far below the power limit, and longer than its launch."""
    torch.cuda._sleep(round(share * PAUSE_CYCLES))
    found = torch.sin(x[: round(share * SIZE)])
    return torch.sin(found) if twice else found


def test_a_call_has_energy_time_and_clock():
    found = ptxbench.bench(sine, inputs=inputs, budget=4, quantiles=(0.5,))
    assert found.status == "ok", found
    assert found.energy_j == pytest.approx(found.power_w * found.time_s, rel=0.01)
    low_j, high_j = found.interval_j
    assert high_j - low_j < 0.05 * found.energy_j
    assert 2 * 4 * SIZE / found.time_s < 6e12
    assert found.clock_mhz > 1000


def test_at_the_power_limit_a_budget_of_ten_seconds_gives_a_number():
    found = ptxbench.bench(torch.sin, inputs=inputs, budget=10)
    assert found.status == "ok", found
    assert found.power_w < 1.01 * 700, found


def test_l2_flushed_takes_more_where_data_fit_into_it_and_a_wait_for_the_host_is_said():
    x, small = torch.randn(1 << 22, device="cuda"), torch.randn(64, device="cuda")
    y, graph = torch.sin(x), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.sin(x, out=y)
    warm, cold = (ptxbench.bench(graph.replay, budget=6, l2=l2) for l2 in ("warm", "flushed"))
    assert cold.energy_j > warm.energy_j, (warm, cold)
    assert not [note for note in warm.notes if "host" in note], warm
    waits = ptxbench.bench(lambda: small.sum(), budget=2)
    assert [note for note in waits.notes if "waited for the host" in note], waits


def test_twice_the_work_takes_more():
    found = ptxbench.compare(sine, lambda x: sine(x, twice=True), inputs=inputs, check=False, budget=8)
    assert found.less_energy == "no", found


def test_a_thing_is_hardly_ever_told_from_itself():
    # Comparing results on the host would take most of the time.
    told = [ptxbench.compare(sine, sine, inputs=inputs, seed=n, check=False, budget=8) for n in range(20)]
    assert sum(one.less_energy != "undecided" for one in told) <= 1, "\n".join(map(str, told))


def test_two_percent_are_found_in_ten_seconds():
    found = ptxbench.compare(sine, lambda x: sine(x, 0.98), inputs=inputs, check=False, budget=10)
    assert found.less_energy == "yes", found
    assert found.others[0].judged.energy.value == pytest.approx(0.98, abs=0.008)


def test_a_wrong_kernel_is_not_ranked():
    found = ptxbench.compare(torch.sin, torch.cos, inputs=inputs, budget=2)
    assert found.less_energy == "wrong"


def test_cupy_is_benched_without_pytorch():
    pytest.importorskip("cupy")
    code = (
        "import cupy, ptxbench\n"
        "x = cupy.random.random(1 << 24, dtype=cupy.float32)\n"
        "found = ptxbench.compare(lambda: x * 2, lambda: x + x, budget=6)\n"
        # This process is on the GPU, too, so that there is no verdict; but no result is wrong.
        "assert found.less_energy == 'undecided' and found.first.time_s > 0, found\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_softmax_of_triton_is_autotuned_by_energy_and_a_matmul_tuned():
    triton = pytest.importorskip("triton")
    from fakes import triton_kernels

    import ptxbench.triton

    x = torch.randn(4096, 4096, device="cuda")
    y = torch.empty_like(x)
    softmax = triton.autotune(
        [triton.Config({}, num_warps=warps) for warps in (2, 4, 8)],
        key=["n"],
        do_bench=ptxbench.triton.do_bench(minimize="energy"),
    )(triton_kernels.softmax)
    softmax[(4096,)](y, x, 4096, BLOCK=4096)
    assert torch.allclose(y, torch.softmax(x, 1), atol=1e-5)
    assert softmax.best_config.num_warps in (2, 4, 8)
    a, b = (torch.randn(1024, 1024, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.empty(1024, 1024, device="cuda", dtype=torch.float16)
    found = ptxbench.triton.tune(
        triton_kernels.matmul,
        [{"BLOCK": block, "num_warps": warps} for block in (32, 64) for warps in (2, 4)],
        lambda meta: (1024 // meta["BLOCK"], 1024 // meta["BLOCK"]),
        (c, a, b, 1024),
        check=lambda c, a, b, n: (a @ b, a, b, n),
        budget=20,
    )
    assert found.best.energy_j > 0, found
    assert not [one for one in found if one.reason], found


def test_two_ways_of_pytorch_are_told_apart():
    (x,) = inputs(0)
    ways = {"once": lambda: sine(x), "twice": lambda: sine(sine(x) * 0 + x)}
    found = ptxbench.tune_function(lambda way: ways[way](), {"way": ["twice", "once"]}, check=ways["once"])
    assert found.best.values == {"way": "once"}
    assert str(found.judged.verdict) == "yes"


def test_kernel_tuner_takes_our_joules():
    cupy, kernel_tuner = pytest.importorskip("cupy"), pytest.importorskip("kernel_tuner")
    import numpy as np

    from ptxbench.kernel_tuner import EnergyObserver

    code = """extern "C" __global__ void saxpy(float* y, const float* x, int n)
    { int i = blockIdx.x * block_size_x + threadIdx.x; if (i < n) y[i] = 2 * x[i]; }"""
    x = np.ones(1 << 26, np.float32)
    results, _ = kernel_tuner.tune_kernel(
        "saxpy",
        code,
        x.size,
        [np.empty_like(x), x, np.int32(x.size)],
        {"block_size_x": [64, 128, 256, 512]},
        lang="cupy" if cupy else "",
        observers=[EnergyObserver()],
        objective="energy_j",
        objective_higher_is_better=False,
    )
    assert len(results) == 4
    assert all(one["settled"] and one["energy_ci95_j"] < 0.05 * one["energy_j"] for one in results), results


def test_a_search_of_a_function_goes_on_in_its_folder(tmp_path):
    x = torch.randn(SIZE, device="cuda")

    def chunks(parts, twice):
        return torch.cat([part.sin() + part.sin() if twice else part.sin() * 2 for part in x.chunk(parts)])

    axes, options = (
        {"parts": [1, 4, 16], "twice": [True, False]},
        {"check": lambda: x.sin() * 2, "budget": 10, "l2": "flushed"},
    )
    ptxbench.tune_function(chunks, axes, out=tmp_path / "t", trials=3, **options)
    found = ptxbench.tune_function(chunks, axes, out=tmp_path / "t", resume=True, **options)
    assert len(found) == 6
    assert not found.best.values["twice"], found
