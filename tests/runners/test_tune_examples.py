"""The worked tunings in one command, and Kernel Tuner beside them on a CuPy that computes nothing."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from fakes.script import load_script
from tune.fakes_tune import trial

from ptxbench.tune.configuration import Configuration
from ptxbench.tune.spec_file import load_spec

ROOT = Path(__file__).parents[2]
SUM = load_spec(ROOT / "examples" / "tune" / "reduction.toml", {"N": 1048576})


def fake_cupy() -> ModuleType:
    """As much of CuPy as Kernel Tuner's backend uses; a launch takes a millisecond."""

    class Device:
        attributes: ClassVar = {"MaxThreadsPerBlock": 1024}
        compute_capability = "90"
        pci_bus_id = "0000:01:00.0"

        def __init__(self, _ordinal: int) -> None: ...
        def use(self) -> None: ...
        def synchronize(self) -> None: ...

    class Event:
        polls = 0

        def record(self, stream: object) -> None: ...

        @property
        def done(self) -> bool:
            self.polls += 1
            return self.polls % 3 == 0

    class Module:
        def __init__(self, code: str, options: tuple[str, ...], name_expressions: list[str]) -> None:
            assert "#define BLOCK" in code
            assert "-DN=1048576" in options

        def get_function(self, name: str) -> object:
            assert name == "reduction"

            class Function:
                num_regs = 32

                def __call__(self, grid, threads, args, stream, shared_mem) -> None:
                    assert grid[0] * threads[0] == 1048576 // 8

            return Function()

    cupy = ModuleType("cupy")
    runtime = SimpleNamespace(
        driverGetVersion=lambda: 13000, getDeviceProperties=lambda _: {"uuid": bytes(range(16))}
    )
    vars(cupy).update(
        array=np.array,
        ndarray=np.ndarray,
        RawModule=Module,
        cuda=SimpleNamespace(
            Device=Device,
            Stream=object,
            Event=Event,
            runtime=runtime,
            get_elapsed_time=lambda _start, _end: 1.0,
        ),
    )
    return cupy


@pytest.fixture
def fake_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """CuPy and NVML that compute nothing and always draw 300 W, where Kernel Tuner looks for them."""
    pytest.importorskip("kernel_tuner", reason="the extra tune is not installed")
    cupy = fake_cupy()
    nvml = ModuleType("pynvml")
    vars(nvml).update(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByPciBusId=lambda bus: bus,
        nvmlDeviceGetPowerUsage=lambda _handle: 300_000,
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    for name in ("kernel_tuner.backends.cupy", "kernel_tuner.observers.cupy"):
        monkeypatch.setattr(importlib.import_module(name), "cp", cupy)
    info = "Device 0 Name : Some GPU\nDevice 0 PCI Bus ID : 0000:01:00.0\n"
    backend = importlib.import_module("kernel_tuner.backends.cupy")
    monkeypatch.setattr(backend, "get_runtime_info", lambda: info, raising=False)


def test_two_observers_see_the_same_launches(fake_libraries: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "runners"))
    runner = load_script("runners/observe_kernel_tuner.py")
    base = importlib.import_module("kernel_tuner.observers").BenchmarkObserver

    class BackToBack(base):  # type: ignore[misc]
        continuous_duration = 0.1

        def get_results(self) -> dict[str, object]:
            return {"energy_j": 0.25, "settled": True}

    class Ours(base):  # type: ignore[misc]
        def __init__(self) -> None:
            self.continuous_observer = BackToBack()

        def get_results(self) -> dict[str, object]:
            return {}

    assert len(runner.chosen(SUM, 2, 0)) == 2
    chosen = [(64, 1, 8, 4), (128, 2, 4, 4)]
    makers = {"ptxbench": Ours, "kernel_tuner": runner.nvml_observer}
    found = runner.measure(SUM, chosen, makers, 2)
    assert found["kernel_tuner"]["scatter_median"] == 0.0
    assert found["kernel_tuner"]["best_shared"] == 2
    assert found["ptxbench"]["variants"] == 2
    assert found["settled"] == [2, 2]
    # 300 W for a millisecond beside 0.25 J.
    assert found["theirs_over_ours"]["median"] == pytest.approx(1.2)
    assert found["ptxbench"]["seconds_a_variant"] > 0


def test_scatter_and_the_best_are_of_what_every_repeat_knows() -> None:
    sys.path.insert(0, str(ROOT / "runners"))
    try:
        runner = load_script("runners/observe_kernel_tuner.py")
    finally:
        sys.path.pop(0)
    found = runner.summary([{"a": 1.0, "b": 2.0, "c": float("inf")}, {"a": 1.1, "b": 2.0, "c": 3.0}])
    assert (found["variants"], found["best_shared"]) == (2, 2)
    assert found["scatter_most"] == pytest.approx(0.0707 / 1.05, rel=1e-2)
    assert found["energies_j"]["a"] == [1.0, 1.1]


def test_kernel_tuner_measures_the_variants_that_are_given(fake_libraries: None) -> None:
    beside = load_script("runners/kernel_tuner_beside.py")

    chosen = [
        {"BLOCK": block, "VECTOR": vector, "PER_THREAD": 8 // vector, "UNROLL": 4}
        for block, vector in ((64, 1), (128, 2))
    ]
    trials = [
        replace(trial(8, energy_j=e), variant=Configuration.of(c), steady_s=1e-3)
        for c, e in zip(chosen, (0.3, 0.25), strict=True)
    ]
    found = beside.compare_kernel_tuner(
        SUM, ROOT / "examples" / "tune", trials, ("BLOCK", "VECTOR", "PER_THREAD"), 60.0
    )
    assert (found["variants"], found["failed"]) == (2, 0)
    # The median of 300 W times a millisecond, beside what was measured here.
    assert [row["energy_j"] for row in found["rows"]] == pytest.approx([0.3, 0.3])
    assert found["energy_against_ours"]["most"] == pytest.approx(0.2)
    assert found["ours_best"]["variant"] == "BLOCK=128 VECTOR=2 PER_THREAD=4 UNROLL=4"


@pytest.mark.skipif(not shutil.which("cc"), reason="nvcc needs a C++ compiler")
def test_what_a_part_gives_is_written_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "runners"))
    runner = load_script("runners/tune_examples.py")

    def fails(_session: object) -> None:
        raise ValueError("a part that breaks")

    monkeypatch.setitem(runner.PARTS, "stencil", fails)
    arguments = ["--gpu", "simulated", "--scale", "0.05", "--part", "nbody", "--part", "stencil"]
    monkeypatch.setattr(sys, "argv", ["tune_examples.py", *arguments, "--out", str(tmp_path)])
    assert runner.main() == 0
    document = json.loads((tmp_path / "summary.json").read_text())
    assert document["nbody"]["tried"] == 3
    assert document["nbody"]["choices"][0]["loss"] == 0
    assert document["stencil"]["failed"] == "ValueError: a part that breaks"
    assert "SIMULATED, no measurement" in (tmp_path / "summary.txt").read_text()
    with tarfile.open(tmp_path / "folders.tar.gz") as archive:
        assert "tunings/nbody/trials.jsonl" in archive.getnames()
