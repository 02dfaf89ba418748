"""The examples of docs/howto/bench.md run as they stand there: libraries are faked, the GPU is simulated."""

from __future__ import annotations

import re
import textwrap
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fakes.called import drawing
from fakes.simulated_step import ReplayingGpu

import ptxbench

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "bench.md").read_text()


def example(begin: str) -> str:
    """Return the first block of code behind some words, of at most ten lines, with small arrays."""
    block = re.search(r"\n\n((?:    .*\n|\n(?=    ))+)", PAGE[PAGE.index(begin) :])
    assert block is not None
    code = textwrap.dedent(block.group(1))
    assert len(code.splitlines()) <= 10
    return code.replace("1 << 26", "1 << 10").replace("4096", "64").replace("8192", "64")


@pytest.fixture
def libraries(monkeypatch):
    """PyTorch and CuPy on numpy; a call takes time and energy of a simulated GPU."""
    gpu = ReplayingGpu(1)
    for module in ("benching", "tuning_functions"):
        monkeypatch.setattr(f"ptxbench.api.{module}.opened_gpu", lambda _gpu, _stack: gpu)

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
    return {"torch": torch, "cupy": cupy, "ptxbench": quick}


@pytest.mark.parametrize(
    ("begin", "best"), [("**PyTorch.**", "compiled"), ("**CuPy.**", "1024")], ids=["PyTorch", "CuPy"]
)
def test_an_example_of_tuning_runs_as_it_stands_there(libraries, capsys, begin, best) -> None:
    exec(example(begin), libraries)  # noqa: S102
    said = capsys.readouterr().out
    assert best in said
    assert "less energy" in said


def test_the_first_example_prints_what_a_call_takes(libraries, capsys) -> None:
    code = example("as Triton's `do_bench` says it for time:").replace("import torch, ptxbench\n", "")
    exec(code, libraries)  # noqa: S102
    assert "J (" in capsys.readouterr().out
