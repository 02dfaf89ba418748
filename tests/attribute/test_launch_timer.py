"""Kernels timed by events around their launches, against a libcuda whose kernels take 1 ms each."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from fakes import native
from fakes.native import CC, LIBRARY, compiled
from test_injector import FAKE, GPUS, require_sanitizers

from ptxbench.attribute.injector import timed
from ptxbench.attribute.launches import read_launches

FAKE_CUDA = FAKE.with_name("cuda.c")

pytestmark = pytest.mark.skipif(not CC, reason="no C compiler")


def build(*flags):
    """Return the fake libcuda, the program and the timer, built with `flags`."""
    fakes = compiled(
        FAKE_CUDA.read_text(),
        (*flags, "-Wl,-soname,libcuda.so.1", "code.c", "-o", "libcuda.so.1", *LIBRARY),
        (*flags, "-DPROGRAM", "code.c", "-o", "program", "-ldl"),
    )
    return fakes / "libcuda.so.1", fakes / "program", native.injector(*flags)


@pytest.fixture(scope="module")
def plain():
    return build("-O1")


@pytest.fixture(scope="module")
def cupti():
    """A libcupti that a program may load."""
    words = ("-Wl,-soname,libcupti.so.13", "code.c", "-o", "libcupti.so.13", *LIBRARY)
    return compiled(FAKE.read_text(), words) / "libcupti.so.13"


def play(built, folder, *, forced=True, **more):
    cuda, program, library = built
    environment = timed({"PATH": os.environ["PATH"]}, library, folder, forced=forced)
    environment |= {"FAKE_CUDA": str(cuda), **more}
    ended = subprocess.run((program,), env=environment, capture_output=True, text=True, check=False)
    assert "runtime error" not in ended.stderr, ended.stderr
    assert "Sanitizer" not in ended.stderr, ended.stderr
    return ended.returncode, read_launches(folder)


def check(code, log):
    assert code == 3
    assert log.processes == 1
    assert log.dropped == 0
    assert "timed by events" in log.remarks[0]
    assert len(log.remarks) == 1
    (launches,) = log.by_gpu.values()
    assert set(log.by_gpu) == {GPUS[0]}
    counts = dict(zip(launches.names, np.bincount(launches.name), strict=True))
    once = ("per thread", "extended", "cooperative", "(a CUDA graph)")
    assert counts == {"runtime": 20, "looked up": 20} | dict.fromkeys(once, 1)
    length_ms = (launches.end_ns - launches.start_ns) / 1e6
    graph = launches.names.index("(a CUDA graph)")
    assert np.all(length_ms[launches.name != graph] == pytest.approx(1, abs=0.002))
    assert length_ms[launches.name == graph] == pytest.approx(5, abs=0.002)
    # Kernels of a stream follow each other.
    for lane in range(len(launches.lanes)):
        mine = launches.lane == lane
        assert np.all(np.diff(launches.start_ns[mine]) >= 0.998e6)


def test_every_launch_is_timed_however_it_is_reached(plain, tmp_path):
    before_ns = time.monotonic_ns()
    code, log = play(plain, tmp_path)
    check(code, log)
    (launches,) = log.by_gpu.values()
    assert before_ns <= launches.start_ns.min()
    assert launches.end_ns.max() <= time.monotonic_ns()


@pytest.mark.parametrize("forced", [False, True])
def test_a_cupti_that_the_program_brings_is_better(plain, cupti, tmp_path, forced):
    code, log = play(plain, tmp_path, forced=forced, FAKE_CUPTI=str(cupti))
    assert code == 3
    assert log.processes == 1
    assert bool(log.remarks) == forced
    assert bool(log.by_gpu) == forced


def test_another_tool_keeps_cupti(plain, cupti, tmp_path):
    # As torch.profiler, whose CUPTI a Python package has loaded for itself.
    tool = compiled(
        "#include <dlfcn.h>\n#include <stdint.h>\nint main(int n, char **words) {\n"
        "    if (n < 2 || !dlopen(words[1], RTLD_NOW | RTLD_LOCAL)) return 9;\n"
        '    return ((int (*)(uint32_t))dlsym(RTLD_DEFAULT, "cuptiActivityEnable"))(10);\n}\n',
        ("code.c", "-o", "tool", "-ldl"),
    )
    environment = timed({"PATH": os.environ["PATH"]}, plain[2], tmp_path)
    assert subprocess.run((tool / "tool", cupti), env=environment, check=False).returncode == 0


def test_it_is_clean_under_the_sanitizer(tmp_path):
    require_sanitizers()
    # The address sanitizer has a dlsym of its own.
    flags = ("-O1", "-g", "-fsanitize=undefined", "-fno-sanitize-recover=all")
    check(*play(build(*flags), tmp_path))


def test_a_program_without_cuda_is_untouched(plain, tmp_path):
    environment = timed(dict(os.environ), plain[2], tmp_path)
    script = "import ctypes; print(ctypes.CDLL(None).strlen(b'four'))"
    ended = subprocess.run(
        (sys.executable, "-c", script),
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ended.stdout == "4\n"
    assert read_launches(tmp_path).processes == 0
