"""Measure programs of every kind with `ptxbench run` on a real GPU, and keep each report.

    python runners/run_programs.py --out FOLDER [--only NAME ...] [--limit-s 250]

Takes about 230 s on an H100; with two GPUs, torchrun uses both. FOLDER gets, as it goes:

- `log.txt`: what every program and its report said;
- `summary.json`: the reports, what tracing adds to time and energy, kernels alone against mixed;
- `runs.tar`: the kept runs (`ptxbench run --from` works them out again);
- `mixed.json.gz`, `train.json.gz`: time lines for Perfetto;
- `train.html`: a report as a page.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KERNELS = r"""
#include <cstdio>
#include <cstdlib>
#include <chrono>
#include <thread>
#include <unistd.h>
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
__global__ void spin_kernel(long clocks) { long from = clock64(); while (clock64() - from < clocks) {} }
typedef std::chrono::steady_clock Clock;
static long long ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}
/* A window as `EnergyMonitor` writes it, so that time and energy of the loop alone are known. */
static void note(long long from, long long to) {
  const char *folder = getenv("PTXBENCH_LAUNCHES");
  char path[4096];
  snprintf(path, sizeof path, "%s/%d.windows", folder ? folder : "/tmp", (int)getpid());
  FILE *file = folder ? fopen(path, "a") : NULL;
  if (!file) return;
  fprintf(file, "{\"name\": \"loop\", \"start_ns\": %lld, \"end_ns\": %lld}\n", from, to);
  fclose(file);
}
int main(int count, char **words) {
  char which = words[1][0];
  double seconds = atof(words[2]);
  long made = 0, wanted = (long)seconds;
  float *x; float4 *from, *to; long n = 1l << 26;
  cudaMalloc(&x, 4096); cudaMemset(x, 0, 4096); cudaMalloc(&from, n * 16); cudaMalloc(&to, n * 16);
  cudaMemset(from, 63, n * 16);
  cudaStream_t stream; cudaStreamCreate(&stream);
  cudaGraph_t graph; cudaGraphExec_t exec;
  cudaStream_t beside; cudaStreamCreate(&beside);
  cudaGraphExec_t second;
  bool has_graph = which == 'g' || which == 'u' || which == 'y';
  if (has_graph) {
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    for (int i = 0; i < 100; i++) spin_kernel<<<132, 128, 0, stream>>>(3000);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphInstantiate(&second, graph, 0);
  }
  char *host = NULL;
  if (which == 'y') cudaMallocHost(&host, 1 << 26);
  cudaDeviceSynchronize();
  if (which == 'a' || which == 'b' || which == 'p' || which == 't' || has_graph) usleep(300000);
  long long start = ns();
  for (; which == 'a' && made < wanted; made++) small_kernel<<<1, 32, 0, stream>>>();
  for (; which == 'b' && made < wanted; made++) spin_kernel<<<132, 128, 0, stream>>>(40000);
  for (; which == 'g' && made < wanted; made++) cudaGraphLaunch(exec, stream);
  if (which == 'u') {
    /* Two threads, each with a graph and a stream of its own. */
    std::thread other([=] { for (long i = 0; i < wanted / 2; i++) cudaGraphLaunch(second, beside); });
    for (; made < wanted / 2; made++) cudaGraphLaunch(exec, stream);
    other.join();
    made += wanted / 2;
  }
  for (; which == 'y' && made < wanted; made++) {
    /* A stream that only copies is busy all the time; the host waits for each graph. */
    if (cudaStreamQuery(beside) == cudaSuccess)
      cudaMemcpyAsync(host, from, 1 << 26, cudaMemcpyDeviceToHost, beside);
    cudaGraphLaunch(exec, stream);
    cudaStreamSynchronize(stream);
  }
  for (; which == 't' && made < wanted; made++)
    if (made % 3) small_kernel<<<1, 32, 0, stream>>>();
    else spin_kernel<<<132, 128, 0, stream>>>(6000);
  for (; which == 'p' && made < wanted; made++) {
    small_kernel<<<1, 32, 0, stream>>>();
    while (ns() - start < made * 50000) {}
  }
  if (which == 'x') seconds = 3;
  while (!made && ns() - start < seconds * 1e9) {
    if (which == 'f' || which == 'm' || which == 'x') fma_kernel<<<132 * 2, 1024>>>(x, 2870000);
    if (which == 'c' || which == 'm') copy_kernel<<<132 * 8, 256>>>(to, from, n, 140);
    if (which == 'w' || which == 'm') wait_kernel<<<132, 128>>>(100000000);
    cudaDeviceSynchronize();
  }
  cudaDeviceSynchronize();
  long long end = ns();
  note(start, end);
  if (made) usleep(300000);
  if (which == 'x') abort();
  long wrong = 0;
  for (long i = 0; host && i < 1 << 26; i++) wrong += host[i] != 63;
  printf("%ld launches in %.4f s, %ld bytes wrong: %s\n", made, (end - start) / 1e9, wrong,
         cudaGetErrorString(cudaGetLastError()));
}
"""
STEP = """
import json, os, sys, time, torch
torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
rank = int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count()
torch.cuda.set_device(rank)
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
LABELLED = (
    STEP
    + """
import ptxbench, ptxbench.torch
steps(2)
with ptxbench.EnergyMonitor(rank, sync=torch.cuda.synchronize) as monitor:
    with monitor.window("plain steps"):
        print(steps(3), "steps")
    with ptxbench.torch.labelled(model), monitor.window("labelled steps"):
        print(steps(3), "labelled steps")
for found in monitor.measured: print(found)
"""
)
PROFILED = (
    # What torch.profiler says of CUPTI goes to standard error.
    "import os; os.environ.setdefault('KINETO_LOG_LEVEL', '0')\n"
    + STEP
    + """
from torch.profiler import profile, ProfilerActivity
print(steps(2), "steps")
with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as found:
    print(steps(0.5), "steps profiled")
rows = [row for row in found.key_averages() if row.self_device_time_total > 0]
rows.sort(key=lambda row: -row.self_device_time_total)
print(len(rows), "rows of torch.profiler,", sum(row.count for row in rows), "calls")
print([(row.key[:60], row.count) for row in rows[:4]])
print(steps(2), "steps")
"""
)
GEMM = """
import json, os, sys, time, torch
x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
for _ in range(20): x @ x
torch.cuda.synchronize(); time.sleep(0.3); start = time.monotonic_ns()
for _ in range(int(sys.argv[1])): x @ x
torch.cuda.synchronize(); end = time.monotonic_ns()
if "PTXBENCH_LAUNCHES" in os.environ:
    with open(f"{os.environ['PTXBENCH_LAUNCHES']}/{os.getpid()}.windows", "a") as file:
        print(json.dumps({"name": "loop", "start_ns": start, "end_ns": end}), file=file)
time.sleep(0.3); print((end - start) / 1e9, "s")
"""
# Tokens of a Llama; "graph" and "eager" read each token, as generation does, "ahead" only launches.
DECODE = """
import json, os, sys, time
sys.path[:0] = [sys.argv[3], os.path.dirname(sys.argv[3])]
import torch
from profile_steps import _STEPS
torch.manual_seed(1)
step, _ = _STEPS["decode"]()
tokens = step(); torch.cuda.synchronize()
if sys.argv[1] != "eager":
    stream = torch.cuda.Stream(); stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream): step()
    torch.cuda.current_stream().wait_stream(stream); graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph): tokens = step()
loops = []
for _ in range(4):
    torch.cuda.synchronize(); start = time.monotonic_ns()
    for _ in range(int(sys.argv[2])):
        if sys.argv[1] == "eager": tokens = step()
        else: graph.replay()
        if sys.argv[1] != "ahead": tokens.cpu()
    torch.cuda.synchronize(); loops.append((start, time.monotonic_ns()))
if "PTXBENCH_LAUNCHES" in os.environ:
    with open(f"{os.environ['PTXBENCH_LAUNCHES']}/{os.getpid()}.windows", "a") as file:
        for start, end in loops:
            print(json.dumps({"name": "loop", "start_ns": start, "end_ns": end}), file=file)
print("loops", *[round((end - start) / 1e9, 4) for start, end in loops])
"""
TRITON = """
import time, torch, triton, triton.language as tl
@triton.jit
def add_kernel(x, y, z, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(z + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)
n = 1 << 28
x, y = (torch.randn(n, device="cuda") for _ in range(2)); z = torch.empty_like(x)
until = time.monotonic() + 4
while time.monotonic() < until:
    for _ in range(50): add_kernel[(n // 1024,)](x, y, z, n, B=1024)
    torch.cuda.synchronize()
"""
FORKS = """
import multiprocessing as m, time
def work(_):
    import torch
    x = torch.randn(4096, 4096, device="cuda"); until = time.monotonic() + 3
    while time.monotonic() < until:
        for _ in range(20): x @ x
        torch.cuda.synchronize()
if __name__ == "__main__":
    with m.get_context("fork").Pool(2) as pool: pool.map(work, range(2))
"""
TEXTS = {
    "train": TRAIN,
    "labelled": LABELLED,
    "profiled": PROFILED,
    "gemm": GEMM,
    "decode": DECODE,
    "triton": TRITON,
    "forks": FORKS,
}
ROOT = Path(__file__).resolve().parents[1]
# Pairs of runs without and with tracing.
PAIRS = 2
# Programs in pairs, and how each runs: followed by default, or looked at all the time.
KINDS = ("small", "spin20", "graph", "gemm", "decode-graph", "decode-eager", "decode-ahead")
HOW = {
    "plain": ["--no-kernels"],
    "traced": [],
    "every": ["--max-launch-rate", "1e9"],
    "events": ["--timer", "events"],
}
TIMEOUT_S = 80


@dataclass
class Program:
    """A program that is measured.

    Attributes:
        words: Its command.
        options: Options of `ptxbench run`.
        files: What is kept beside the run: option and file name.
        gpus: How many GPUs it may see.
    """

    words: list[str]
    options: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    gpus: int = 1


def main() -> int:
    """Run the programs one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--limit-s", type=float, default=250.0, help="no program begins later than this")
    options = parser.parse_args()
    out = options.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    begin_s = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        programs = _programs(_build(work, out), work)
        for title, program in programs.items():
            if options.only and not any(title.startswith(word) for word in options.only):
                continue
            if time.monotonic() - begin_s > options.limit_s:
                _say(out, f"== {title}: left out, {options.limit_s:g} s are over")
                continue
            try:
                _measure(title, program, work, out)
            except Exception as error:
                _say(out, f"== {title}: {type(error).__name__}: {error}")
            (out / "summary.json").write_text(json.dumps(_summary(work), indent=1) + "\n")
    print(json.dumps(_figures(json.loads((out / "summary.json").read_text())), indent=1))
    return 0


def _build(work: Path, out: Path) -> str:
    """Write the programs, build the CUDA one, and return it; "" where nvcc fails."""
    for name, text in TEXTS.items():
        (work / f"program_{name}.py").write_text(text)
    (work / "kernels.cu").write_text(KERNELS)
    command = ["nvcc", "-O3", "-arch=native", "-o", str(work / "kernels"), str(work / "kernels.cu")]
    try:
        built = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        _say(out, f"nvcc: {error}")
        return ""
    _say(out, f"nvcc: exit {built.returncode} {built.stderr[:1000]}")
    return str(work / "kernels") if built.returncode == 0 else ""


def _programs(kernels: str, work: Path) -> dict[str, Program]:
    def python(name: str, *words: str) -> list[str]:
        return [sys.executable, str(work / f"program_{name}.py"), *words]

    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    binary = {
        "mixed": Program([kernels, "m", "10"], files={"--trace": "mixed.json.gz"}),
        "fma": Program([kernels, "f", "5"]),
        "copy": Program([kernels, "c", "5"]),
        "wait": Program([kernels, "w", "5"]),
    }
    kinds = {
        "small": [kernels, "a", "800000"],
        "spin20": [kernels, "b", "100000"],
        "graph": [kernels, "g", "6000"],
        "gemm": python("gemm", "1500"),
        "decode-graph": python("decode", "graph", "1500", str(ROOT / "runners")),
        "decode-eager": python("decode", "eager", "80", str(ROOT / "runners")),
        "decode-ahead": python("decode", "ahead", "1500", str(ROOT / "runners")),
    }
    pairs = {
        f"{kind}-{how}-{pair}": Program(words, options)
        for pair in range(PAIRS)
        for kind, words in kinds.items()
        for how, options in HOW.items()
    }
    rest = {
        "labelled": Program(python("labelled"), files={"--html": "train.html", "--trace": "train.json.gz"}),
        "profiled": Program(python("profiled")),
        "torchrun": Program([*torchrun, str(work / "program_train.py"), "6"], gpus=2),
        "profiled-events": Program(python("profiled"), ["--timer", "events"]),
        "paced": Program([kernels, "p", "200000"]),
        "events-mixed": Program([kernels, "m", "6"], ["--timer", "events"]),
        "events-train": Program(python("train", "5"), ["--timer", "events"]),
        "turns": Program([kernels, "a", "1500000"], ["--max-launch-rate", "20000"]),
        # A kernel of 3 us and two of nothing in turn, and what they draw untraced.
        "turns-two": Program([kernels, "t", "900000"], ["--max-launch-rate", "20000"]),
        "turns-two-plain": Program([kernels, "t", "900000"], ["--no-kernels"]),
        "triton": Program(python("triton")),
        # CUPTI stays where two threads launch; it is left amid copies.
        "threads": Program([kernels, "u", "60000"]),
        "copies": Program([kernels, "y", "40000"]),
        "crash": Program([kernels, "x", "3"]),
        "forks": Program(python("forks")),
        "no_gpu": Program([sys.executable, "-c", "print(6 * 7)"]),
    }
    # In order of worth: what the limit of time leaves out is last.
    first = {
        name: rest.pop(name)
        for name in ("labelled", "profiled", "torchrun", "paced", "events-mixed", "events-train")
    }
    once = {name: pairs.pop(name) for name in list(pairs) if name.endswith("-0")}
    found = {**binary, **once, **first, **pairs, **rest}
    return {name: program for name, program in found.items() if program.words[0]}


def _measure(name: str, program: Program, work: Path, out: Path) -> None:
    start_s = time.monotonic()
    kept = work / "runs" / name
    kept.parent.mkdir(exist_ok=True)
    for file in program.files.values():
        (out / file).unlink(missing_ok=True)
    files = [word for option, file in program.files.items() for word in (option, str(out / file))]
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "ptxbench", "run", "--out", str(kept), *files, *program.options, "--"),
            *program.words,
        ],
        env=_environment(program.gpus),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=TIMEOUT_S,
        check=False,
    )
    title = f"== {name}: exit {ended.returncode}, {time.monotonic() - start_s:.1f} s"
    _say(out, f"{title}\n{ended.stdout[-3000:]}{ended.stderr[-6000:]}")
    if kept.exists():
        with tarfile.open(out / "runs.tar", "a") as archive:
            # Of runs that only compare, the report is enough.
            is_long = name == "turns" or any(f"-{how}" in name for how in HOW)
            archive.add(kept / "energy.json" if is_long else kept, f"{name}/energy.json" if is_long else name)


def _environment(gpus: int) -> dict[str, str]:
    """Return an environment in which so many GPUs are visible, where there are so many."""
    path = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep)
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    seen = given.split(",") if given else [str(i) for i in range(max(_gpus(), 1))]
    visible = ",".join(seen[:gpus])
    return {**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": visible}


def _gpus() -> int:
    found = shutil.which("nvidia-smi")
    if found is None:
        return 0
    listed = subprocess.run([found, "-L"], capture_output=True, text=True, check=False)
    return listed.stdout.count("UUID: GPU-")


def _say(out: Path, text: str) -> None:
    print(text, flush=True)
    with (out / "log.txt").open("a") as file:
        file.write(text + "\n")


def _summary(work: Path) -> dict[str, Any]:
    """Return the report of each run, and time and energy of its loop by the readings alone."""
    sys.path.insert(0, str(ROOT))
    from ptxbench.attribute.recorded import load
    from ptxbench.sensors.trace import KernelWindow

    found: dict[str, Any] = {}
    for folder in sorted((work / "runs").glob("*")):
        if not (folder / "energy.json").exists():
            continue
        report = json.loads((folder / "energy.json").read_text())
        # A row of forty names is known by its first.
        for row in report["kernels"]:
            row["names"] = len(row["kernels"])
            row["kernels"] = [text[:80] for text in row["kernels"][:3]]
        recorded = load(folder)
        facts = recorded.facts
        report["recorded"] = {
            "ptxbench": recorded.manifest.ptxbench_version,
            "commit": recorded.manifest.commit,
            "created": recorded.manifest.created.isoformat(timespec="seconds")
            if recorded.manifest.created
            else "",
            "boards": [hashlib.sha256(board.uuid.encode()).hexdigest()[:12] for board in facts.boards],
        }
        loops = [one for one in recorded.log.ranges if one.name == "loop"]
        if loops:
            start_ns, end_ns = int(loops[0].start_ns[0]), int(loops[0].end_ns[-1])
            window = KernelWindow(start_ns, end_ns, (end_ns - start_ns) / 1e9)
            energy = recorded.boards[0].energy(window, ())
            spans = zip(loops[0].start_ns.tolist(), loops[0].end_ns.tolist(), strict=True)
            report["loop"] = {
                "time_s": window.elapsed_s,
                "times_s": [round((end - start) / 1e9, 5) for start, end in spans],
                "energy_j": energy.energy_j,
                "interval_j": energy.interval_j,
                "status": str(energy.status),
            }
        found[folder.name] = report
    return found


def _figures(summary: dict[str, Any]) -> dict[str, Any]:
    """Return what tracing adds, kernels alone against mixed, and each sum against its total."""
    added = {}
    for kind in KINDS:
        loops = {
            how: [
                summary[f"{kind}-{how}-{pair}"]["loop"]
                for pair in range(PAIRS)
                if "loop" in summary.get(f"{kind}-{how}-{pair}", {})
            ]
            for how in HOW
        }
        if all(loops.values()):
            added[kind] = {
                what: {how: [round(one[what], 4) for one in loops[how]] for how in HOW}
                for what in ("time_s", "energy_j")
            }
    powers = {
        name: {row["kernels"][0].partition("_kernel")[0]: row for row in report["kernels"]}
        for name, report in summary.items()
    }
    alone = {}
    for name in ("fma", "copy", "wait"):
        one, mixed = powers.get(name, {}).get(name), powers.get("mixed", {}).get(name)
        if one and mixed:
            alone[name] = [round(one["mean_power_w"], 1), round(mixed["mean_power_w"], 1)]
    sums = {
        name: sum(row["energy_j"] for row in report["kernels"]) / report["energy_j"] - 1
        for name, report in summary.items()
        if report["kernels"] and report["energy_j"]
    }
    return {"what looking adds": added, "alone and mixed (W)": alone, "sum over total - 1": sums}


if __name__ == "__main__":
    sys.exit(main())
