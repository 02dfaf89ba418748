"""CUDA's own order of its GPUs, by a libcuda whose devices are those that FAKE_ORDER names."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ptxbench.devices.cuda_order import cuda_order

CC = shutil.which("cc")
FAKE = Path(__file__).parents[1] / "fakes" / "cuda.c"
ZERO, ONE = (f"GPU-{n}-{n[:4]}-{n[:4]}-{n[:4]}-{n}{n[:4]}" for n in ("10101010", "11111111"))

pytestmark = pytest.mark.skipif(not CC, reason="no C compiler")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cuda")
    library = ("-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(folder / "libcuda.so.1"))
    subprocess.run((CC, "-std=gnu11", *library, str(FAKE), "-ldl"), check=True)
    return folder


def test_cuda_is_started_in_another_process_and_tells_its_order(folder):
    environment = {"LD_LIBRARY_PATH": str(folder), "FAKE_ORDER": "10"}
    assert cuda_order(environment) == (ONE, ZERO)
    assert cuda_order(environment | {"FAKE_ORDER": "1"}) == (ONE,)


def test_what_watches_the_program_does_not_watch_the_other_process(folder, tmp_path):
    code = "#include <unistd.h>\n__attribute__((constructor)) static void end(void) { _exit(9); }"
    (tmp_path / "watcher.c").write_text(code)
    watcher = str(tmp_path / "watcher.so")
    subprocess.run((CC, "-shared", "-fPIC", str(tmp_path / "watcher.c"), "-o", watcher), check=True)
    environment = {"LD_LIBRARY_PATH": str(folder), "LD_PRELOAD": watcher, "CUDA_INJECTION64_PATH": watcher}
    assert cuda_order(environment) == (ZERO,)


def test_no_gpu_is_an_answer_and_a_driver_that_does_not_start_is_none(folder, tmp_path):
    assert cuda_order({"LD_LIBRARY_PATH": str(folder), "FAKE_INIT": "100"}) == ()
    with pytest.raises(OSError, match=r"^cuInit ends with CUresult 46$"):
        cuda_order({"LD_LIBRARY_PATH": str(folder), "FAKE_INIT": "46"})
    (tmp_path / "libcuda.so.1").write_text("no library")
    with pytest.raises(OSError, match=r"libcuda\.so\.1"):
        cuda_order({"LD_LIBRARY_PATH": str(tmp_path)})


@pytest.mark.parametrize(("starts", "told"), [(True, (ONE, ZERO)), (False, (ZERO,))])
def test_a_process_that_has_started_cuda_has_the_order_of_that_moment(folder, starts, told):
    code = f"""
import ctypes, os
from ptxbench.devices.cuda_order import cuda_order
cuda = ctypes.CDLL("libcuda.so.1")
{"cuda.cuInit(0)" if starts else ""}
os.environ["FAKE_ORDER"] = "0"
print(*cuda_order())
"""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder), "FAKE_ORDER": "10"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert tuple(done.stdout.split()) == told
