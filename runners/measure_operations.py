"""Measure a table of operations on this GPU: products, attention, normalisation and so on, by PyTorch.

    python runners/measure_operations.py --gpu 0 --out runs/operations
    python runners/measure_operations.py --gpu 0 --out runs/operations --most-s 560      # and go on later
    python runners/measure_operations.py --gpu 1 --out runs/operations-1 --part 1/2      # every second one
    python runners/measure_operations.py --gpu 1 --out runs/more --without runs/operations  # what it lacks
    python runners/measure_operations.py --gpu 1 --out runs/more --without h100 --boards 2  # on two boards
    python runners/measure_operations.py --gpu 1 --out runs/again --again h100      # what two boards have
    python runners/measure_operations.py --list

Needs PyTorch. Each operation of `ptxbench.catalogue.operations.used_shapes` is called back to back in windows
by `ptxbench.bench`, on random numbers: 3 s, or 5 s at the power limit, where it must settle. A short one is
launched as a CUDA graph of many calls, so that the GPU does not wait for Python. The order is random, with
those that the fewest boards have first, of them those that memory limits. What was measured is on the disk
before the next begins: the same command goes on, whatever ended it. OUT has operations.parquet (a table for
`ptxbench cost 'gemm 4096x4096x4096 bf16' --table OUT`), its rows as they came (operations.jsonl) and
manifest.json. What the library cannot do is a row without a number, with the reason. Exit codes: 0 done, 1
time was over first, 2 bad input, 3 no GPU.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ptxbench
from ptxbench.catalogue.operations import Operation, parse_operation, used_shapes
from ptxbench.core.errors import InputError, PtxbenchError, ToolError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.devices.calling import CallingGpu
from ptxbench.experiment.calls.result import Bench
from ptxbench.experiment.calls.rounds import RoundSettings
from ptxbench.storage.folder_kind import Kind
from ptxbench.storage.journal import Lines
from ptxbench.storage.manifest import new_manifest, write_manifest
from ptxbench.storage.operations_file import (
    OPERATIONS_FILE,
    OperationRow,
    read_operations,
    write_operations,
)
from ptxbench.storage.shipped import find_table

JOURNAL = "operations.jsonl"
# Below the power limit three short windows are enough. At it this has room for three of 4 s: the first one
# that has settled is taken.
_BUDGET_S, _WINDOWS = 13.5, 3
# Of fewer operations for each byte memory is the limit, hardly ever power: this is enough, s; chosen.
_LIGHT_FLOPS_PER_BYTE, _LIGHT_BUDGET_S = 32, 3.0
# A graph lasts about so long, s, and has at most so many calls.
_GRAPH_S, _MOST_CALLS = 2e-3, 200
_SEED = 7


@dataclass(frozen=True)
class Launch:
    """What launches an operation.

    Attributes:
        run: Launches all its calls.
        calls: How many those are.
        is_graph: Whether they are a CUDA graph.
    """

    run: Callable[[], object]
    calls: int = 1
    is_graph: bool = False

    @property
    def text(self) -> str:
        """As a row has it."""
        return f"graph of {self.calls}" if self.is_graph else "call"


Build = Callable[[Operation], Launch]
Measure = Callable[[Operation, Callable[[], object]], Bench]


@dataclass(frozen=True)
class Part:
    """What the manifest says of a table of operations: library, power source, and the seed of the order."""

    framework: str
    version: str
    source: str
    seed: int


def main() -> int:
    """Do what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="0", help="the GPU, as `ptxbench gpus` counts")
    parser.add_argument("--out", type=Path, default=Path("runs/operations"), help="folder, new or to go on")
    parser.add_argument(
        "--only", action="append", default=[], metavar="OP", help="kinds, or whole operations"
    )
    parser.add_argument("--most-s", type=float, default=math.inf, help="stop after so many seconds")
    parser.add_argument(
        "--budget-s", type=float, default=_BUDGET_S, help="most time for each at the power limit"
    )
    parser.add_argument("--part", default="1/1", metavar="I/N", help="the I-th of N parts of them")
    parser.add_argument(
        "--without", action="append", default=[], metavar="TABLE", help="leave out what it has a number of"
    )
    parser.add_argument(
        "--boards", type=int, default=1, metavar="N", help="--without: only what N boards have a number of"
    )
    parser.add_argument("--again", metavar="TABLE", help="only those of which two boards of it have a number")
    parser.add_argument("--list", action="store_true", help="print the operations and measure nothing")
    arguments = parser.parse_args()
    known = boards_of(arguments.without)
    wanted = [one for one in chosen(arguments.only) if known[one] < arguments.boards]
    if arguments.again:
        twice = boards_of([arguments.again])
        wanted = [one for one in wanted if twice[one] > 1]
    operations = part_of(in_order(wanted, known), arguments.part)
    if arguments.list:
        print("\n".join(map(str, operations)))
        return 0
    try:
        import torch
    except ImportError as error:
        raise ToolError("PyTorch is not installed: run 'pip install torch'") from error

    with ptxbench.open_gpu(arguments.gpu) as gpu:
        device = gpu._device
        if not gpu.is_real or not isinstance(device, CallingGpu):
            raise InputError(f"{gpu.name} runs no function of PyTorch: name a real GPU")
        torch.cuda.set_device(device.ordinal)
        info = gpu.info
        arguments.out.mkdir(parents=True, exist_ok=True)
        part = Part("torch", str(torch.__version__), str(gpu._device.sensors[0].source), _SEED)
        write_manifest(arguments.out / "manifest.json", new_manifest(Kind.STUDY, part, (info,)))

        def bench(operation: Operation, call: Callable[[], object]) -> Bench:
            return settled(operation, call, gpu, arguments.budget_s)

        left = measure(operations, torch_launch, bench, info, part, arguments.out, arguments.most_s)
    print(f"{arguments.out}: {left} operations are left" if left else f"{arguments.out}: all are measured")
    return 1 if left else 0


def settled(operation: Operation, call: Callable[[], object], gpu: Any, budget_s: float = _BUDGET_S) -> Bench:
    """Measure a call in three windows; at the power limit in the first of three long ones that settles."""
    if is_light(operation):
        found = ptxbench.bench(call, budget=_LIGHT_BUDGET_S, most_rounds=_WINDOWS, gpu=gpu)
        if not found.at_limit:
            return found
    found = ptxbench.bench(call, budget=budget_s, most_rounds=1, gpu=gpu)
    if found.at_limit and found.status == "ok":
        return found
    return ptxbench.bench(call, budget=budget_s, most_rounds=_WINDOWS - found.at_limit, gpu=gpu)


def is_light(operation: Operation) -> bool:
    """Return whether an operation hardly ever meets the power limit, and so takes a third of the time."""
    return operation.flops <= _LIGHT_FLOPS_PER_BYTE * operation.bytes_moved


def chosen(only: Sequence[str]) -> tuple[Operation, ...]:
    """Return the operations of some kinds, or those that are named whole; all where nothing is named."""
    if not only:
        return used_shapes()
    named = [parse_operation(text) for text in only]
    found = [one for one in named if one is not None]
    kinds = {text for text, one in zip(only, named, strict=True) if one is None}
    unknown = kinds - {one.op for one in used_shapes()}
    if unknown:
        raise InputError(f"no operation is called {sorted(unknown)[0]!r}; --list names them all")
    return tuple(dict.fromkeys([*found, *(one for one in used_shapes() if one.op in kinds)]))


def boards_of(tables: Sequence[str]) -> Counter[Operation]:
    """Return how many boards of some tables have a number of an operation."""
    rows = (row for table in tables for row in read_operations(find_table(table)))
    known = {(row.operation, row.board) for row in rows if row.valid}
    return Counter(operation for operation, _ in known)


def in_order(operations: Sequence[Operation], known: Mapping[Operation, int]) -> tuple[Operation, ...]:
    """Return operations in random order, those that the fewest boards know first, of them the quick ones."""
    mixed = random.Random(_SEED).sample(operations, len(operations))  # noqa: S311
    return tuple(sorted(mixed, key=lambda one: (known[one], not is_light(one))))


def part_of(operations: Sequence[Operation], part: str) -> tuple[Operation, ...]:
    """Return a part of operations: "1/2" is every second one, from the first on.

    Raises:
        InputError: There is no such part.
    """
    number, _, parts = part.partition("/")
    if not (number.isdecimal() and parts.isdecimal() and 1 <= int(number) <= int(parts)):
        raise InputError(f"--part is {part!r}: it must be as in 1/2 or 2/2")
    return tuple(operations[int(number) - 1 :: int(parts)])


def measure(
    operations: Sequence[Operation],
    build: Build,
    bench: Measure,
    gpu: GpuInfo,
    part: Part,
    out: Path,
    most_s: float = math.inf,
    now: Callable[[], float] = time.monotonic,
) -> int:
    """Measure what a folder does not have yet, write its table each time, return how many are left.

    Args:
        operations: All of them, in the order in which they are measured.
        build: Returns what launches an operation once.
        bench: Measures a call.
        gpu: The board.
        part: Library and version.
        out: The folder.
        most_s: Seconds after which no further one begins.
        now: The time, s.
    """
    begun_s = now()
    with Lines(out / JOURNAL, OperationRow, lambda row: str(row.operation)).open() as lines:
        left = [one for one in operations if str(one) not in lines.by_name]
        while left and now() - begun_s < most_s:
            operation = left.pop(0)
            row = measured(operation, build, bench, gpu, part)
            lines.add(row)
            said = f"{row.energy_j:.4g} J, {row.power_w:.0f} W" if row.valid else row.reason
            print(f"{operation}: {said}", file=sys.stderr)
            _write_table(out, lines.by_name.values())
        _write_table(out, lines.by_name.values())
    return len(left)


def _write_table(out: Path, rows: Iterable[OperationRow]) -> None:
    kept = [row for row in rows if row.valid or row.reason]
    write_operations(out / OPERATIONS_FILE, sorted(kept, key=lambda row: str(row.operation)))


def measured(
    operation: Operation,
    build: Build,
    bench: Measure,
    gpu: GpuInfo,
    part: Part,
) -> OperationRow:
    """Return the row of an operation; one that the library refuses has no number, but the reason."""
    try:
        launch = build(operation)
        found = bench(operation, launch.run)
    except (RuntimeError, ValueError, TypeError, AttributeError, NotImplementedError) as error:
        text = (str(error).splitlines() or [type(error).__name__])[0][:200]
        return _row(operation, gpu, part, reason=f"{type(error).__name__}: {text}")
    counted = found.counted
    low_j, high_j = (end / launch.calls for end in found.interval_j)
    is_valid = found.status == "ok" and math.isfinite(found.energy_j)
    return _row(
        operation,
        gpu,
        part,
        latency_ms=1e3 * found.time_s / launch.calls,
        power_w=found.power_w,
        energy_j=found.energy_j / launch.calls,
        ci_low_j=low_j,
        ci_high_j=high_j,
        clock_mhz=found.clock_mhz,
        capped=found.at_limit,
        # At the power limit a window is as long as it takes to settle.
        window_s=math.nan if found.at_limit else RoundSettings().window_s,
        windows=len(counted),
        launched=launch.text,
        valid=is_valid,
        reason="" if is_valid else found.reason or str(found.status),
    )


def _row(operation: Operation, gpu: GpuInfo, part: Part, **found: Any) -> OperationRow:
    unknown = dict.fromkeys(
        ("latency_ms", "power_w", "energy_j", "ci_low_j", "ci_high_j", "clock_mhz", "window_s"), math.nan
    )
    values = {
        **unknown,
        **{"capped": False, "windows": 0, "launched": "", "valid": False, "reason": "", **found},
    }
    return OperationRow(
        framework=part.framework,
        version=part.version,
        device=gpu.name,
        board=gpu.uuid_hash,
        driver=gpu.driver,
        op_name=operation.op,
        gemm_dtype=operation.dtype,
        shape=operation.shape_text,
        power_limit_w=gpu.power_limit_w,
        sensor=part.source,
        **values,
    )


def torch_launch(operation: Operation) -> Launch:
    """Return what launches an operation by PyTorch: as a CUDA graph of many calls where one is short."""
    import torch

    torch.cuda.empty_cache()
    call = torch_call(operation)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        # Compiled, and with its workspace, before it is timed or captured.
        for _ in range(3):
            call()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    calls = min(_MOST_CALLS, math.ceil(_GRAPH_S / (max(begin.elapsed_time(end), 1e-3) * 1e-3)))
    if calls == 1:
        return Launch(call)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for _ in range(calls):
                call()
    except RuntimeError as error:
        print(f"{operation} is launched by itself: {error}", file=sys.stderr)
        torch.cuda.synchronize()
        return Launch(call)
    return Launch(graph.replay, calls, is_graph=True)


def torch_call(operation: Operation) -> Callable[[], object]:
    """Return a call of an operation by PyTorch, on random numbers of its own."""
    import torch

    types = {"bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}
    dtype = types.get(operation.dtype, torch.float32)

    def some(*shape: int, dtype: Any = dtype) -> Any:
        return torch.randn(*shape, device="cuda", dtype=torch.float32).to(dtype)

    if operation.op == "gemm":
        return _torch_gemm(torch, operation, some)
    if operation.op.startswith("attention"):
        batch, heads, kv, length, head = operation.shape
        is_prefill = operation.op == "attention_prefill"
        q = some(batch, heads, length if is_prefill else 1, head)
        k, v = some(batch, kv, length, head), some(batch, kv, length, head)
        attend = torch.nn.functional.scaled_dot_product_attention
        return lambda: attend(q, k, v, is_causal=is_prefill, enable_gqa=heads != kv)
    functional = torch.nn.functional
    x = some(*operation.shape)
    y, out = some(*operation.shape), torch.empty_like(x)
    columns = operation.shape[-1:]
    calls: dict[str, Callable[[], object]] = {
        "softmax": lambda: torch.softmax(x, dim=-1),
        "rmsnorm": lambda: functional.rms_norm(x, columns),
        "layernorm": lambda: functional.layer_norm(x, columns),
        "add": lambda: torch.add(x, y, out=out),
        "mul": lambda: torch.mul(x, y, out=out),
        "gelu": lambda: functional.gelu(x),
        "silu_mul": lambda: functional.silu(x) * y,
        "sum": lambda: torch.sum(x, dim=-1),
        "copy": lambda: out.copy_(x),
    }
    call = calls[operation.op]
    # As one kernel, which is what models run.
    return torch.compile(call) if operation.op == "silu_mul" else call


def _torch_gemm(torch: Any, operation: Operation, some: Callable[..., Any]) -> Callable[[], object]:
    m, n, k = operation.shape
    torch.backends.cuda.matmul.allow_tf32 = operation.dtype == "tf32"
    if operation.dtype == "fp8":
        eighth = torch.float8_e4m3fn
        a, b = some(m, k, dtype=eighth), some(n, k, dtype=eighth).t()
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    a, b = some(m, k), some(k, n)
    out = torch.empty(m, n, device="cuda", dtype=a.dtype)
    return lambda: torch.mm(a, b, out=out)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
