"""cuBLAS beside the variants, by a PyTorch and a CuPy that numpy stands in for."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from tune.fakes_tune import SMALL, TINY, CallableGpu

from ptxbench.core.errors import InputError
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.tune.folder import TuningFolder
from ptxbench.tune.library import CUBLAS, open_cublas
from ptxbench.tune.objective import Goal, Objective
from ptxbench.tune.tuning import Tuning, tune
from ptxbench.tune.variant import DType, Op, Problem
from ptxbench.tune.variant_runner import TrialOptions

VARIANT = "f32-8x8-32x32x8-a2-b8-v4-s1-p0-r1"


class Tensor:
    """A torch.Tensor, as far as it is used."""

    def __init__(self, data: np.ndarray) -> None:
        self.data, self.dtype = data, data.dtype

    def to(self, device: str) -> Tensor:
        assert device == "cuda:0"
        return self

    @property
    def T(self) -> Tensor:  # noqa: N802
        return Tensor(self.data.T)

    def conj(self) -> Tensor:
        return Tensor(self.data.conj())

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray:
        return self.data


def fake_torch(factor: float = 1.0) -> ModuleType:
    def matmul(a: Tensor, b: Tensor, out: Tensor) -> None:
        out.data[:] = factor * (a.data @ b.data)

    def addmm(source: Tensor, a: Tensor, b: Tensor, beta: float, out: Tensor) -> None:
        out.data[:] = beta * source.data + a.data @ b.data

    torch = ModuleType("torch")
    settings = SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=True)))
    vars(torch).update(
        __version__="2.0",
        backends=settings,
        version=SimpleNamespace(cuda="13.0"),
        from_numpy=Tensor,
        empty=lambda shape, dtype, device: Tensor(np.zeros(shape, dtype)),
        matmul=matmul,
        addmm=addmm,
    )
    return torch


def fake_cupy() -> ModuleType:
    cupy = ModuleType("cupy")

    class Device:
        def __init__(self, ordinal: int) -> None: ...
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    vars(cupy).update(
        __version__="13.0",
        cuda=SimpleNamespace(Device=Device),
        asarray=np.asarray,
        asnumpy=np.asarray,
        empty=np.empty,
        matmul=np.matmul,
    )
    return cupy


@pytest.fixture
def searched(tmp_path: Path) -> Tuning:
    space = tmp_path / "tiny.toml"
    space.write_text(TINY)
    options = TrialOptions(window_s=0.3)
    goal = Goal(Objective.ENERGY)
    return Tuning(SMALL, goal, options, jobs=1, space=space, variants=(VARIANT,), beside=CUBLAS)


def test_the_library_is_measured_before_and_after(
    tmp_path: Path, searched: Tuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = fake_torch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    found = tune(CallableGpu(), searched, tmp_path / "t")
    assert [one.after for one in found.beside] == [0, 1]
    for one in found.beside:
        assert one.correct
        assert one.energy_j == pytest.approx(one.power_w * one.steady_s)
        assert one.name == "cuBLAS of CUDA 13.0 (PyTorch 2.0)"
    assert torch.backends.cuda.matmul.allow_tf32 is False
    assert TuningFolder.read(tmp_path / "t").beside == found.beside


def test_a_library_that_is_wrong_is_named_so(
    tmp_path: Path, searched: Tuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", fake_torch(1.1))
    assert not tune(CallableGpu(), searched, tmp_path / "t").beside[0].correct


@pytest.mark.parametrize("name", ["torch", "cupy"])
def test_it_computes_the_same_product(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ("torch", "cupy"):
        monkeypatch.setitem(sys.modules, other, None)
    monkeypatch.setitem(sys.modules, name, fake_torch() if name == "torch" else fake_cupy())
    from ptxbench.tune.library import is_right

    problem = Problem(DType.C64, 32, 24, 16, Op.C, Op.T, 0.5 if name == "torch" else 0.0)
    product = open_cublas(problem, 0, 3, "random")
    product.call()
    assert is_right(problem, 3, "random")(product.result())


def test_what_is_not_there_is_one_line(
    tmp_path: Path, searched: Tuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="`beside` cublas needs a real GPU"):
        tune(SimulatedGpu(), searched, tmp_path / "t")
    for name in ("torch", "cupy"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match="needs PyTorch or CuPy; run 'pip install torch'"):
        tune(CallableGpu(), searched, tmp_path / "t")
    assert not (tmp_path / "t").exists()
