"""Measure programs of every kind with `ptxbench run` on a real GPU, and keep each report.

    python runners/run_programs.py --out FOLDER [--only NAME ...]

Takes about 180 s on an H200. `FOLDER/NAME/energy.json` and `FOLDER/NAME.txt` are written as it goes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

KERNELS = r"""
#include <cstdio>
#include <cstdlib>
#include <chrono>
__global__ void fma_kernel(float *x, long n) {
  float a = x[threadIdx.x], b = a + 1, c = a + 2, d = a + 3;
  for (long i = 0; i < n; i++) { a = a * 1.0001f + b; b = b * .9999f + c; c = c * 1.0001f + d;
    d = d * .9999f + a; }
  x[threadIdx.x] = a + b + c + d;
}
__global__ void copy_kernel(float4 *to, const float4 *from, long n, long passes) {
  for (long p = 0; p < passes; p++)
    for (long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long)gridDim.x * blockDim.x)
      to[i] = from[i];
}
__global__ void wait_kernel(long ns) {
  unsigned long long from, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(from));
  do { __nanosleep(1000); asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); } while (now - from < ns);
}
__global__ void small_kernel() {}
static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
int main(int count, char **words) {
  char which = words[1][0];
  double seconds = atof(words[2]);
  float *x; float4 *from, *to; long n = 1l << 26;
  cudaMalloc(&x, 4096); cudaMemset(x, 0, 4096); cudaMalloc(&from, n * 16); cudaMalloc(&to, n * 16);
  cudaMemset(from, 63, n * 16);
  double start = now();
  if (which == 's') { long made = 0; for (; made < (long)seconds; made++) small_kernel<<<1, 32>>>();
    cudaDeviceSynchronize(); printf("%ld launches in %.3f s\n", made, now() - start); return 0; }
  if (which == 'x') seconds = 3;
  while (now() - start < seconds) {
    if (which == 'f' || which == 'm' || which == 'x') fma_kernel<<<132 * 2, 1024>>>(x, 1200000);
    if (which == 'c' || which == 'm') copy_kernel<<<132 * 8, 256>>>(to, from, n, 180);
    if (which == 'w' || which == 'm') wait_kernel<<<132, 128>>>(100000000);
    cudaDeviceSynchronize();
  }
  if (which == 'x') abort();
  printf("%s\n", cudaGetErrorString(cudaGetLastError()));
}
"""
STEP = """
import sys, time, torch
torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 4).cuda()
best = torch.optim.AdamW(model.parameters())
x = torch.randn(16, 512, 1024, device="cuda")
def steps(seconds):
    until, made = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x).float().pow(2).mean()
        loss.backward(); best.step(); best.zero_grad(); torch.cuda.synchronize(); made += 1
    return made
"""
TRAIN = STEP + "print(steps(float(sys.argv[1])), 'steps')\n"
PROFILED = (
    STEP
    + """
from torch.profiler import profile, ProfilerActivity
steps(3)
with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as found:
    steps(2)
steps(3)
print(len(found.key_averages()), "rows of torch.profiler")
"""
)
TRITON = """
import time, torch, triton, triton.language as tl
@triton.jit
def add_kernel(x, y, z, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(z + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)
n = 1 << 28
x, y = (torch.randn(n, device="cuda") for _ in range(2)); z = torch.empty_like(x)
until = time.monotonic() + 5
while time.monotonic() < until:
    for _ in range(50): add_kernel[(n // 1024,)](x, y, z, n, B=1024)
    torch.cuda.synchronize()
"""
FORKS = """
import multiprocessing as m, time
def work(_):
    import torch
    x = torch.randn(4096, 4096, device="cuda"); until = time.monotonic() + 4
    while time.monotonic() < until:
        for _ in range(20): x @ x
        torch.cuda.synchronize()
if __name__ == "__main__":
    with m.get_context("fork").Pool(2) as pool: pool.map(work, range(2))
"""


def main() -> int:
    """Run the programs one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    out = options.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    for name, text in (("train", TRAIN), ("profiled", PROFILED), ("triton", TRITON), ("forks", FORKS)):
        (out / f"program_{name}.py").write_text(text)
    (out / "kernels.cu").write_text(KERNELS)
    binary = Path("/tmp") / "ptxbench-run-kernels"  # noqa: S108
    subprocess.run(["nvcc", "-O3", "-arch=native", "-o", binary, out / "kernels.cu"], check=True)  # noqa: S607
    python, kernels = sys.executable, str(binary)
    programs = {
        "mixed": [kernels, "m", "15"],
        "fma": [kernels, "f", "6"],
        "copy": [kernels, "c", "6"],
        "wait": [kernels, "w", "6"],
        "train": [python, str(out / "program_train.py"), "25"],
        "launches": [kernels, "s", "200000"],
        "crash": [kernels, "x", "3"],
        "triton": [python, str(out / "program_triton.py")],
        "forks": [python, str(out / "program_forks.py")],
        "torchrun": [
            *(python, "-m", "torch.distributed.run", "--nproc-per-node", "2"),
            *(str(out / "program_train.py"), "8"),
        ],
        "profiled": [python, str(out / "program_profiled.py")],
        "no_gpu": [python, "-c", "print(6 * 7)"],
    }
    for name, words in programs.items():
        if not options.only or name in options.only:
            _measure(name, words, out)
    _compare(out)
    return 0


def _measure(name: str, words: list[str], out: Path) -> None:
    start_s = time.monotonic()
    tool = [sys.executable, "-c", "from ptxbench.cli.main import main; main()"]
    ended = subprocess.run(
        [*tool, "run", "--out", str(out / name), "--", *words],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
        check=False,
    )
    title = f"== {name}: exit {ended.returncode}, {time.monotonic() - start_s:.1f} s"
    text = f"{title}\n{ended.stdout}{ended.stderr}"
    (out / f"{name}.txt").write_text(text)
    print(text[:6000], flush=True)


def _compare(out: Path) -> None:
    """Print the mean power of each kernel alone and in the mixed program, and each sum against its total."""
    powers = {}
    for file in sorted(out.glob("*/energy.json")):
        found = json.loads(file.read_text())
        total, parts = found["energy_j"], sum(row["energy_j"] for row in found["kernels"])
        if found["kernels"] and total:
            print(f"{file.parent.name}: sum of kernels over total - 1 = {parts / total - 1:+.2%}")
        powers[file.parent.name] = {
            row["kernels"][0].partition("_kernel")[0]: row["mean_power_w"] for row in found["kernels"]
        }
    for name in ("fma", "copy", "wait"):
        alone, mixed = powers.get(name, {}).get(name), powers.get("mixed", {}).get(name)
        if alone and mixed:
            print(f"{name}: alone {alone:.1f} W, mixed {mixed:.1f} W ({mixed / alone - 1:+.2%})")


if __name__ == "__main__":
    sys.exit(main())
