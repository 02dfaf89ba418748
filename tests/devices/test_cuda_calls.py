"""GEMM kernels on a real NVIDIA GPU: run with `pytest -m gpu`; needs ptxas and nvdisasm."""

from __future__ import annotations

import random

import pytest

from ptxbench.tune.check import Correct
from ptxbench.tune.gemm import Gemm
from ptxbench.tune.kernel import Kernel, build_kernel
from ptxbench.tune.outcome import TrialStatus
from ptxbench.tune.space import search_space
from ptxbench.tune.variant import DType, Problem
from ptxbench.tune.variant_runner import TrialOptions, VariantRunner

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def gpu():
    from ptxbench.devices.cuda import CudaGpu

    gpu = CudaGpu(0)
    yield gpu
    gpu.close()


@pytest.mark.parametrize("dtype", list(DType))
def test_variants_drawn_at_random_are_right(gpu, dtype):
    problem = Problem(dtype, 1024, 1024, 1024)
    space = search_space(problem, gpu.info.target)
    runner = VariantRunner(gpu, Gemm(problem), TrialOptions(power=False), None)
    for variant in random.Random(7).sample(space.variants, 12):
        built = build_kernel(variant, gpu.info.target)
        trial = runner.measure(built)
        if isinstance(built, Kernel):
            assert trial.correct is Correct.YES, (variant.name, trial.status, trial.reason)
            assert trial.time_s > 0


def test_power_of_launches_back_to_back(gpu):
    problem = Problem(DType.F32, 2048, 2048, 2048)
    variant = search_space(problem, gpu.info.target).variants[0]
    trial = VariantRunner(gpu, Gemm(problem), TrialOptions(window_s=0.5), None).measure(
        build_kernel(variant, gpu.info.target)
    )
    assert trial.status is TrialStatus.OK, trial.reason
    assert trial.steady_s == pytest.approx(trial.time_s, rel=0.2)
    assert 0 < trial.power_w < 1.1 * gpu.info.power_limit_w
