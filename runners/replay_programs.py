"""Run programs with `ptxbench run --replay` on a real GPU: what comes out, and whether they stay as they are.

    python runners/replay_programs.py --out FOLDER [--only NAME ...] [--limit-s 190] [--no-replay]

Each program runs alone, and under `ptxbench run --replay`: output and exit code must be the same. FOLDER gets
`log.txt` (what each said), `summary.json` (times, closure, rows), and `runs.tar` (the kept runs).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

KERNELS = r"""
#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <chrono>
static double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
__global__ void triad(float *to, const float *a, const float *b, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    to[i] = a[i] + 0.5f * b[i];
}
__global__ void multiply_add(float *x, int rounds) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float a = x[i], b = a + 1, c = a + 2, d = a + 3;
  for (int n = 0; n < rounds; n++) { a = a * .999f + b * .001f; b = b * .999f + c * .001f;
    c = c * .999f + d * .001f; d = d * .999f + a * .001f; }
  x[i] = (a + .1f * (b + c + d) / 3) / 1.1f;
}
__global__ void doubled(float *x, int n) { /* runs away when it is launched again and again */
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = 2 * x[i];
}
__global__ void halved(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] / 2;
}
__global__ void gathered(float *to, const float *from, const int *index, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = from[index[i]];
}
__global__ void copied(float4 *to, const float4 *from, int n, int passes) {
  for (int p = 0; p < passes; p++)
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) to[i] = from[i];
}
__global__ void sleeps(long ns) {
  unsigned long long from, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(from));
  do { __nanosleep(1000); asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); } while (now - from < ns);
}
struct Inner { volatile int *flag; float *x; };
__global__ void waits(Inner *inner) { while (!*inner->flag) {} inner->x[threadIdx.x] += 1; }
__global__ void cooperates(float *x) { cooperative_groups::this_grid().sync();
  if (!blockIdx.x) x[threadIdx.x] += 1; }
__global__ void prints(float *x) { if (!threadIdx.x) printf("printed by a kernel %d\n", x[0] > 0); }
static unsigned long long hash = 14695981039346656037ull;
static void look(const void *device, size_t size) {
  unsigned char *host = (unsigned char *)malloc(size);
  cudaMemcpy(host, device, size, cudaMemcpyDeviceToHost);
  for (size_t i = 0; i < size; i++) hash = (hash ^ host[i]) * 1099511628211ull;
  free(host);
}
int main(int count, char **words) {
  const char *what = words[1];
  int steps = atoi(words[2]), n = 1 << 24;
  float *a, *b, *to, *x, *managed, *mapped, *freed;
  int *index;
  cudaMalloc(&a, n * 4); cudaMalloc(&b, n * 4); cudaMalloc(&to, n * 4); cudaMalloc(&x, n * 4);
  cudaMalloc(&index, n * 4);
  int *host = (int *)malloc(n * 4);
  for (int i = 0; i < n; i++) host[i] = (int)((long)i * 7919 % n);
  cudaMemcpy(index, host, n * 4, cudaMemcpyHostToDevice);
  for (int i = 0; i < n; i++) ((float *)host)[i] = 1 + i % 97 / 97.f;
  cudaMemcpy(a, host, n * 4, cudaMemcpyHostToDevice);
  cudaMemcpy(b, a, n * 4, cudaMemcpyDeviceToDevice); cudaMemcpy(x, a, n * 4, cudaMemcpyDeviceToDevice);
  cudaStream_t stream; cudaStreamCreate(&stream);
  auto step = [&] {
    triad<<<1056, 256, 0, stream>>>(to, a, b, n);
    multiply_add<<<264, 512, 0, stream>>>(x, 4000);
    doubled<<<n / 256, 256, 0, stream>>>(a, n);
    halved<<<n / 256, 256, 0, stream>>>(a, n);
    gathered<<<n / 16 / 256, 256, 0, stream>>>(to, b, index, n / 16);
  };
  cudaGraph_t graph; cudaGraphExec_t exec;
  if (strcmp(what, "long")) step();
  cudaStreamSynchronize(stream);
  double begun = seconds();
  if (!strcmp(what, "graph")) {
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    for (int i = 0; i < 4; i++) step();
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    for (int i = 0; i < steps / 4; i++) cudaGraphLaunch(exec, stream);
  } else if (!strcmp(what, "long")) { /* each of about 100 ms */
    for (int i = 0; i < steps; i++) {
      multiply_add<<<264, 512, 0, stream>>>(x, 2800000);
      copied<<<1056, 256, 0, stream>>>((float4 *)to, (float4 *)b, n / 4, 1900);
      sleeps<<<132, 128, 0, stream>>>(100000000);
    }
  } else for (int i = 0; i < steps; i++) step();
  cudaStreamSynchronize(stream);
  fprintf(stderr, "loop %.4f s\n", seconds() - begun);
  if (!strcmp(what, "odd")) {
    cudaMallocManaged(&managed, 1 << 20); cudaMallocHost(&mapped, 1 << 20); cudaMalloc(&freed, 1 << 20);
    memset(managed, 0, 1 << 20); memset(mapped, 0, 1 << 20);
    for (int i = 0; i < 2000; i++) {
      doubled<<<16, 256, 0, stream>>>(managed, 4096); doubled<<<17, 256, 0, stream>>>(mapped, 4096);
      doubled<<<18, 256, 0, stream>>>(freed, 4096);
      void *all[] = {&x};
      cudaLaunchCooperativeKernel((void *)cooperates, 64, 128, all, 0, stream);
    }
    prints<<<1, 32, 0, stream>>>(x);
    cudaStreamSynchronize(stream); cudaFree(freed);
  }
  if (!strcmp(what, "hang")) {
    Inner inner, *inside; int one = 1, *flag;
    cudaMalloc(&inside, sizeof inner); cudaMalloc(&flag, 4);
    inner.flag = flag; inner.x = x;
    cudaMemcpy(inside, &inner, sizeof inner, cudaMemcpyHostToDevice);
    cudaMemcpy(flag, &one, 4, cudaMemcpyHostToDevice);
    for (int i = 0; i < 2000; i++) waits<<<1, 32, 0, stream>>>(inside);
    cudaStreamSynchronize(stream);
    cudaMemset(flag, 0, 4);
  }
  cudaStreamSynchronize(stream);
  look(a, n * 4); look(to, n * 4); look(x, n * 4);
  if (!strcmp(what, "frees")) {
    cudaFree(a); cudaFree(b); cudaFree(to); cudaFree(x); cudaFree(index);
  }
  printf("%s: %016llx %s\n", what, hash, cudaGetErrorString(cudaGetLastError()));
  return 3;
}
"""
STEPS = """
import hashlib, os, sys, time
sys.path[:0] = [sys.argv[4], os.path.dirname(sys.argv[4])]
import torch
from profile_steps import _STEPS
torch.manual_seed(1)
step, _ = _STEPS[sys.argv[1]]()
tokens = step()
if sys.argv[2] == "graph":
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tokens = step()
    torch.cuda.synchronize()
    begun = time.monotonic()
    for _ in range(int(sys.argv[3])):
        graph.replay()
else:
    torch.cuda.synchronize()
    begun = time.monotonic()
    for _ in range(int(sys.argv[3])):
        tokens = step()
torch.cuda.synchronize()
print(f"loop {time.monotonic() - begun:.4f} s", file=sys.stderr)
print(hashlib.sha256(tokens.float().cpu().numpy().tobytes()).hexdigest()[:16])
"""
# Generation by transformers with a static cache: "eager", or compiled to CUDA graphs as it does by itself.
GENERATE = """
import hashlib, sys, time, torch, transformers
from transformers import LlamaConfig, LlamaForCausalLM
torch.manual_seed(1)
model = LlamaForCausalLM(LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=6,
    num_attention_heads=16, num_key_value_heads=4, vocab_size=32000, max_position_embeddings=1024))
model = model.to("cuda", torch.bfloat16).eval()
words = torch.randint(0, 32000, (8, 64), device="cuda")
# Of older versions it compiles nothing by itself.
is_known = hasattr(model.generation_config, "disable_compile")
more = {"disable_compile": True} if sys.argv[1] == "eager" and is_known else {}
if sys.argv[1] == "compiled" and not is_known:
    model.forward = torch.compile(model.forward, mode="reduce-overhead")
def generate():
    return model.generate(words, attention_mask=torch.ones_like(words), do_sample=False, min_new_tokens=192,
                          max_new_tokens=192, cache_implementation="static", pad_token_id=0, **more)
for _ in range(2): generate()
torch.cuda.synchronize(); begun = time.monotonic()
for _ in range(int(sys.argv[2])): found = generate()
torch.cuda.synchronize()
print(f"loop {time.monotonic() - begun:.4f} s", file=sys.stderr)
print(transformers.__version__, hashlib.sha256(found.cpu().numpy().tobytes()).hexdigest()[:16])
"""
ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 110


@dataclass(frozen=True)
class Program:
    """A program that is measured.

    Attributes:
        words: Its command.
        exit_code: What it ends with.
        replay: How it is replayed.
        is_traced: Whether it runs under `ptxbench run` without replay as well.
    """

    words: tuple[str, ...]
    exit_code: int = 0
    replay: tuple[str, ...] = ("--replay",)
    is_traced: bool = False


def main() -> int:
    """Run the programs, and keep what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--limit-s", type=float, default=190)
    parser.add_argument("--no-replay", action="store_true", help="alone and under `ptxbench run` only")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    until_s = time.monotonic() + asked.limit_s
    summary: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, tarfile.open(asked.out / "runs.tar", "w") as tar:
        programs = _programs(Path(folder), asked.out)
        for name in asked.only or programs:
            if time.monotonic() < until_s and name in programs:
                program = programs[name]
                if asked.no_replay:
                    program = replace(program, replay=())
                summary[name] = _measured(name, program, Path(folder), asked.out, tar)
                (asked.out / "summary.json").write_text(json.dumps(summary, indent=1))
    for name, found in summary.items():
        closures = [one["closure"] for one in found.pop("replay", [])]
        _say(asked.out, f"{name}: {found}, closure {closures}")
    return 0 if all(one["is_same"] for one in summary.values()) else 1


def _programs(work: Path, out: Path) -> dict[str, Program]:
    (work / "kernels.cu").write_text(KERNELS)
    (work / "steps.py").write_text(STEPS)
    (work / "generate.py").write_text(GENERATE)
    kernels = str(work / "kernels")
    compiled = ["nvcc", "-O3", "-arch=native", "-o", kernels, str(work / "kernels.cu")]
    built = subprocess.run(compiled, capture_output=True, text=True, check=False)
    _say(out, f"nvcc: exit {built.returncode} {built.stderr[:1000]}")
    steps = (sys.executable, str(work / "steps.py"))
    generate = (sys.executable, str(work / "generate.py"))
    here = str(ROOT / "runners")
    return {
        "decode-graph": Program((*steps, "decode", "graph", "1000", here), is_traced=True),
        "decode-eager": Program((*steps, "decode", "eager", "300", here), is_traced=True),
        "mix": Program((*steps, "mix", "graph", "6000", here)),
        "eager": Program((kernels, "eager", "6000"), 3),
        "frees": Program((kernels, "frees", "6000"), 3, ("--replay-after", "15000")),
        "long": Program((kernels, "long", "15"), 3),
        "graph": Program((kernels, "graph", "6000"), 3),
        "odd": Program((kernels, "odd", "2000"), 3),
        "hang": Program((kernels, "hang", "2000"), 3),
        "generate-eager": Program((*generate, "eager", "12"), is_traced=True),
        "generate-graph": Program((*generate, "compiled", "12"), is_traced=True),
    }


def _measured(name: str, program: Program, work: Path, out: Path, tar: tarfile.TarFile) -> dict[str, Any]:
    """Run a program alone, traced and with replay, and return what differs and what came out."""
    ptxbench = [sys.executable, "-m", "ptxbench", "run"]
    run = work / name
    alone_s, alone = _ran(program.words, out)
    loops_s = {"alone": _loop_s(alone.stderr)}
    if program.is_traced and program.replay:
        loops_s["run"] = _loop_s(_ran([*ptxbench, "--", *program.words], out)[1].stderr)
    taken_s, replayed = _ran([*ptxbench, *program.replay, "--out", str(run), "--", *program.words], out)
    loops_s["replay" if program.replay else "run"] = _loop_s(replayed.stderr)
    codes = (program.exit_code, alone.returncode, replayed.returncode)
    found: dict[str, Any] = {
        "is_same": alone.stdout == replayed.stdout and len(set(codes)) == 1,
        "codes": codes,
        "alone_s": round(alone_s, 2),
        "taken_s": round(taken_s, 2),
        "loops_s": loops_s,
    }
    if not (run / "energy.json").exists():
        return {**found, "is_same": False}
    # Launches of a million kernels are megabytes.
    tar.add(run, arcname=name, filter=lambda one: None if one.name.endswith("launches.parquet") else one)
    report = json.loads((run / "energy.json").read_text())
    found |= {"program_s": round(report["time_s"], 3), "energy_j": report["energy_j"]}
    return {**found, "replay": report.get("replay", []), "remarks": report["remarks"]}


def _loop_s(said: str) -> float | None:
    """Return how long the program said that its loop took, s."""
    found = re.search(r"^loop ([0-9.]+) s$", said, re.MULTILINE)
    return float(found[1]) if found else None


def _ran(words: Any, out: Path) -> tuple[float, subprocess.CompletedProcess[str]]:
    begun_s = time.monotonic()
    try:
        ended = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, cwd=ROOT
        )
    except subprocess.TimeoutExpired as error:
        said = (error.stderr or b"").decode(errors="replace")
        ended = subprocess.CompletedProcess(words, -1, "", f"{said}\nended after {TIMEOUT_S} s")
    taken_s = time.monotonic() - begun_s
    # The log names no folder of the machine.
    shown = " ".join(Path(word).name if Path(word).is_absolute() else word for word in words)
    _say(out, f"$ {shown}\nexit {ended.returncode}, {taken_s:.2f} s\n{ended.stdout}{ended.stderr}")
    return taken_s, ended


def _say(out: Path, text: str) -> None:
    print(text, flush=True)
    with (out / "log.txt").open("a") as log:
        log.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
