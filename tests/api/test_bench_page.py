"""The examples of docs/howto/bench.md run as they stand there: libraries are faked, the GPU is simulated.

`pytest -m gpu` runs those that tune with the libraries themselves on a GPU.
"""

from __future__ import annotations

import inspect
import re
import runpy
import textwrap
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fakes.called import drawing
from fakes.simulated_step import ReplayingGpu
from tune.test_user_kernel import require_nvcc

import ptxbench
import ptxbench.triton
from ptxbench.api import benching, tuning_functions

FAKES = Path(__file__).parents[1] / "fakes"
PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "bench.md").read_text()


def example(begin: str) -> str:
    """Return the first block of code behind some words, with small arrays."""
    return whole_example(begin).replace("1 << 26", "1 << 10").replace("4096", "64").replace("8192", "64")


def whole_example(begin: str) -> str:
    """Return the first block of code behind some words, of at most ten lines."""
    block = re.search(r"\n\n((?:    .*\n|\n(?=    ))+)", PAGE[PAGE.index(begin) :])
    assert block is not None
    code = textwrap.dedent(block.group(1))
    assert len(code.splitlines()) <= 10
    return code


class Kernel:
    """A function of triton.jit: a launch with more warps draws less."""

    def __init__(self, op):
        self._op = op

    def __getitem__(self, _grid):
        def launch(out, *inputs, num_warps=4, **_):
            self._op(500.0 - 40.0 * num_warps)(out)
            if len(inputs) == 3:
                out[:] = inputs[0] @ inputs[1]

        return launch


class Autotuned:
    """Chooses as triton.autotune does, and says what."""

    def __init__(self, configs, key, do_bench):
        self._configs, self._do_bench = configs, do_bench
        assert key == ["n"]

    def __call__(self, kernel):
        self._kernel = kernel
        return self

    def __getitem__(self, grid):
        def launch(*arguments, **values):
            def cost(config):
                call = partial(self._kernel[grid], *arguments, num_warps=config.num_warps, **values)
                return self._do_bench(call, quantiles=(0.5, 0.2, 0.8))

            print("num_warps", min(self._configs, key=cost).num_warps)

        return launch


def triton_on(op):
    """Triton, a kernel of its, and what it works on."""

    def config(values, num_warps):
        return SimpleNamespace(kwargs=values, num_warps=num_warps, num_stages=None)

    triton = SimpleNamespace(jit=lambda _: Kernel(op), autotune=Autotuned, Config=config)
    square = np.eye(8)
    arrays = {"a": square, "b": 2 * square, "c": np.zeros((8, 8)), "x": square, "y": square.copy()}
    return {"triton": triton, "tl": SimpleNamespace(constexpr=int), "matmul": Kernel(op), **arrays}


@pytest.fixture
def libraries(monkeypatch):
    """PyTorch and CuPy on numpy; a call takes time and energy of a simulated GPU."""
    gpu = ReplayingGpu(1)
    for module in (benching, tuning_functions):
        monkeypatch.setattr(module, "opened_gpu", lambda _gpu, _stack: gpu)

    def op(power_w, time_s=1e-2):
        def call(x, **_):
            drawing(gpu, power_w, time_s)()
            return 0.5 * x

        return call

    def raw_kernel(_code, _name):
        def launch(grid, block, arguments):
            y, x, size = arguments
            assert grid[0] * block[0] == size
            drawing(gpu, 150.0 + 0.2 * block[0], 2e-2 - 1e-5 * block[0])()
            y[:] = 2 * x

        return launch

    torch = SimpleNamespace(
        randn=lambda *shape, **_: np.random.default_rng(1).standard_normal(shape),
        nn=SimpleNamespace(functional=SimpleNamespace(gelu=op(400.0, 2e-2))),
        compile=lambda _: op(300.0),
        softmax=op(350.0),
    )
    cupy = SimpleNamespace(RawKernel=raw_kernel, ones=np.ones, empty_like=np.empty_like, float32=np.float32)
    quick = SimpleNamespace(
        bench=partial(ptxbench.bench, budget=1.0), tune_function=partial(ptxbench.tune_function, budget=2.5)
    )
    quick.triton = SimpleNamespace(
        do_bench=partial(ptxbench.triton.do_bench, budget=0.5), tune=partial(ptxbench.triton.tune, budget=2.5)
    )
    return {"torch": torch, "cupy": cupy, "ptxbench": quick, **triton_on(op)}


@pytest.mark.parametrize(
    ("begin", "best"), [("**PyTorch.**", "compiled"), ("**CuPy.**", "1024")], ids=["PyTorch", "CuPy"]
)
def test_an_example_of_tuning_runs_as_it_stands_there(libraries, capsys, begin, best) -> None:
    exec(example(begin), libraries)  # noqa: S102
    said = capsys.readouterr().out
    assert best in said
    assert "less energy" in said


def test_the_softmax_of_triton_is_the_one_that_runs_on_a_gpu_and_is_chosen_by_energy(
    libraries, capsys
) -> None:
    code = example("**Triton.**")
    exec(code, libraries)  # noqa: S102
    assert "num_warps 8" in capsys.readouterr().out
    kernel = code[code.index("@triton.jit") : code.index("softmax[(")]
    assert kernel in (FAKES / "triton_kernels.py").read_text().replace("  # noqa: N803", "")


def test_a_cuda_file_with_headers_and_options_is_called_as_it_stands_there() -> None:
    seen = []
    quick = SimpleNamespace(tune_kernel=lambda *given, **more: seen.append((given, more)) or tuned)
    tuned = SimpleNamespace(best=SimpleNamespace(parameters={}, energy_j=0.0))
    exec(example("**CUDA C++ as it is**"), {"ptxbench": quick, "np": np, "x": np.ones(4)})  # noqa: S102
    ((given, more),) = seen
    inspect.signature(ptxbench.tune_kernel).bind(*given, **more)
    assert more["include"] == ["inc"]


def test_the_product_of_triton_is_tuned_as_it_stands_there(libraries, capsys) -> None:
    exec(example("A product with its configurations"), libraries)  # noqa: S102
    assert "'num_warps': 4" in capsys.readouterr().out


def test_the_first_example_prints_what_a_call_takes(libraries, capsys) -> None:
    code = example("as Triton's `do_bench` says it for time:").replace("import torch, ptxbench\n", "")
    exec(code, libraries)  # noqa: S102
    assert "J (" in capsys.readouterr().out


# What an example needs that the page does not show, and the libraries that must be there.
SCALE = """#include <factor.cuh>
namespace mine {
template <typename T, int N> __global__ void scale(T* y, const T* x, int n)
{ int i = blockIdx.x * N + threadIdx.x; if (i < n) y[i] = FACTOR * x[i]; }
}
"""
ON_A_GPU = {
    "**Triton.**": "import torch, triton, triton.language as tl\n"
    "x = torch.randn(4096, 4096, device='cuda'); y = torch.empty_like(x)\n",
    "A product with its configurations": "import torch, triton\nfrom fakes.triton_kernels import matmul\n"
    "a, b, c = (torch.randn(1024, 1024, device='cuda', dtype=torch.float16) for _ in range(3))\n",
    "**PyTorch.**": "import torch\n",
    "**CuPy.**": "import cupy\n",
    "**CUDA C++ as it is**": "import numpy as np\nx = np.ones(4096, np.float32)\n",
}


@pytest.mark.gpu
# Libraries warn of what is theirs.
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("begin", ON_A_GPU, ids=["softmax", "matmul", "PyTorch", "CuPy", "CUDA"])
def test_an_example_of_tuning_runs_on_a_gpu(tmp_path, monkeypatch, capsys, begin) -> None:
    needed = ON_A_GPU[begin]
    for library in re.findall(r"import (torch|triton|cupy)", needed):
        pytest.importorskip(library)
    if begin.startswith("**CUDA"):
        require_nvcc()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "factor.cuh").write_text("#define FACTOR 2\n")
    (tmp_path / "scale.cu").write_text(SCALE)
    # Triton reads the code of a kernel from a file.
    script = tmp_path / "example.py"
    script.write_text(f"import ptxbench\n{needed}{whole_example(begin)}")
    monkeypatch.setattr(ptxbench, "tune_function", partial(ptxbench.tune_function, budget=5), raising=False)
    monkeypatch.setattr(ptxbench.triton, "tune", partial(ptxbench.triton.tune, budget=5))
    made = runpy.run_path(str(script))
    if "softmax" in made:
        assert made["softmax"].best_config.num_warps in (2, 4, 8)
    if "found" in made:
        assert made["found"].best.energy_j > 0
        assert not [one for one in made["found"] if one.reason]
    with capsys.disabled():
        print(f"\n{begin} {made.get('found', '')}")
