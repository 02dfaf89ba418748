"""Profiles a step of a program as users write it, on the GPU of this machine.

    python runners/profile_steps.py decode results/nvidia-h100/profiles/decode

`decode` is one token of a Llama of 1.1 B parameters for 16 sequences of 1,024 tokens, `train` a step of an
encoder with AdamW in bfloat16, `convolution` the inference of a small residual network, `mix` has matrix
products that are at the power limit alone among small kernels, and `cupy` is a step of CuPy. `three` has
three kernels of 100 ms, whose power alone is measured before and after, for the rows to be judged by.
`--before FOLDER` names an earlier profile of the step on the same board: it says by how much kinds differ,
as measured and at one temperature. Where OUT is a profile that is kept, the two are compared, and nothing is
measured.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ptxbench
from ptxbench.core.errors import PtxbenchError

if TYPE_CHECKING:
    from ptxbench.attribute.replay.replayed import ProfileFolder
    from ptxbench.devices.step import StepNode

_LAYERS, _HIDDEN, _INNER, _HEADS, _KEYS, _WORDS = 22, 2048, 5632, 32, 4, 32000
_SEQUENCES, _TOKENS = 16, 1024


def _decode() -> tuple[Callable[[], object], dict[str, float]]:
    """Return a step that decodes one token of each of 16 sequences."""
    import torch
    from torch.nn import functional

    def random(*shape: int) -> Any:
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * 0.02

    size = _HIDDEN // _HEADS
    layers = [
        {
            "first": random(_HIDDEN) + 1,
            "query": random(_HIDDEN, _HIDDEN),
            "key": random(_KEYS * size, _HIDDEN),
            "value": random(_KEYS * size, _HIDDEN),
            "out": random(_HIDDEN, _HIDDEN),
            "second": random(_HIDDEN) + 1,
            "gate": random(_INNER, _HIDDEN),
            "up": random(_INNER, _HIDDEN),
            "down": random(_HIDDEN, _INNER),
            "keys": random(_SEQUENCES, _KEYS, _TOKENS, size) * 50,
            "values": random(_SEQUENCES, _KEYS, _TOKENS, size) * 50,
        }
        for _ in range(_LAYERS)
    ]
    words, head, last = random(_WORDS, _HIDDEN) * 50, random(_WORDS, _HIDDEN), random(_HIDDEN) + 1
    tokens = torch.randint(0, _WORDS, (_SEQUENCES, 1), device="cuda")
    cosine, sine = random(1, 1, 1, size), random(1, 1, 1, size)

    def turned(x: Any) -> Any:
        half = x.shape[-1] // 2
        return x * cosine + torch.cat((-x[..., half:], x[..., :half]), -1) * sine

    def normed(x: Any, weight: Any) -> Any:
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)).to(torch.bfloat16) * weight

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def step() -> Any:
        x = words[tokens]
        for one in layers:
            h = normed(x, one["first"])

            def split(weight: Any, heads: int, h: Any = h) -> Any:
                return functional.linear(h, weight).view(_SEQUENCES, 1, heads, size).transpose(1, 2)

            query, key = turned(split(one["query"], _HEADS)), turned(split(one["key"], _KEYS))
            one["keys"][:, :, _TOKENS - 1 :].copy_(key)
            one["values"][:, :, _TOKENS - 1 :].copy_(split(one["value"], _KEYS))
            found = functional.scaled_dot_product_attention(
                query, one["keys"], one["values"], enable_gqa=True
            )
            x = x + functional.linear(found.transpose(1, 2).reshape(_SEQUENCES, 1, _HIDDEN), one["out"])
            h = normed(x, one["second"])
            gate = functional.silu(functional.linear(h, one["gate"]))
            x = x + functional.linear(gate * functional.linear(h, one["up"]), one["down"])
        return functional.linear(normed(x, last), head).argmax(-1)

    return step, {"token": _SEQUENCES}


def _train() -> tuple[Callable[[], object], dict[str, float]]:
    """Return a training step of an encoder of six layers."""
    import torch

    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, dropout=0.0, norm_first=True)
    model = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, capturable=True, fused=True)
    x, y = (torch.randn(8, 512, 1024, device="cuda") for _ in range(2))

    def step() -> Any:
        optimizer.zero_grad(set_to_none=False)
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.mse_loss(model(x).float(), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, {"sequence": 8}


def _convolution() -> tuple[Callable[[], object], dict[str, float]]:
    """Return the inference of a residual network of twelve blocks."""
    import torch
    from torch import nn

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.layers = nn.Sequential(
                nn.Conv2d(channels, channels, 3, padding=1),
                nn.GroupNorm(8, channels),
                nn.SiLU(),
                nn.Conv2d(channels, channels, 3, padding=1),
            )

        def forward(self, x: Any) -> Any:
            return x + self.layers(x)

    model = nn.Sequential(nn.Conv2d(4, 256, 3, padding=1), *(Block(256) for _ in range(12))).cuda().half()
    model = model.to(memory_format=torch.channels_last)
    x = torch.randn(8, 4, 64, 64, device="cuda", dtype=torch.half).to(memory_format=torch.channels_last)
    return torch.inference_mode()(lambda: model(x)), {"image": 8}


def _mix() -> tuple[Callable[[], object], dict[str, float]]:
    """Return products of 30 us, at the power limit alone, each among small kernels."""
    import torch

    a, b = (torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    small = torch.randn(1 << 16, device="cuda")

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def step() -> Any:
        for _ in range(8):
            c = a @ b
            for _ in range(12):
                small.mul_(1.0)
        return c

    return step, {}


def _cupy() -> tuple[Callable[[], object], dict[str, float]]:
    """Return a step of CuPy: elementwise kernels of its own, and a sum."""
    import cupy

    x = cupy.random.standard_normal(1 << 22, dtype=cupy.float32)
    y, total = cupy.empty_like(x), cupy.empty((), cupy.float32)
    kernel = cupy.ElementwiseKernel("float32 x", "float32 y", "y = sinf(x) * expf(-x * x)", "damped")

    def step() -> None:
        for _ in range(8):
            kernel(x, y)
            cupy.multiply(y, 2, out=y)
        y.sum(out=total)

    step()
    return step, {}


_THREE = """
extern "C" __global__ void arithmetic(float *out, long passes, float a, float b) {
    float x = threadIdx.x, y = blockIdx.x;
    for (long i = 0; i < passes; i++) {
        x = fmaf(x, a, b);
        y = fmaf(y, b, a);
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = x + y;
}
extern "C" __global__ void streaming(float4 *data, long passes, long count) {
    for (long pass = 0; pass < passes; pass++)
        for (long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
            float4 value = data[i];
            value.x += value.y;
            data[i] = value;
        }
}
extern "C" __global__ void chain(unsigned *out, long passes) {
    unsigned x = threadIdx.x + 1;
    for (long i = 0; i < passes; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
"""
_ALONE_S = 5.0


def _three() -> dict[str, Callable[[], None]]:
    """Return a launch of each of three kernels that take 100 ms: arithmetic, DRAM, one warp an SM."""
    import cupy

    module = cupy.RawModule(code=_THREE)
    sms = cupy.cuda.Device().attributes["MultiProcessorCount"]
    out = cupy.random.standard_normal(1 << 28, dtype=cupy.float32)
    factors = (cupy.float32(0.999), cupy.float32(0.5))
    launches = {
        "arithmetic": ((sms * 8,), (256,), (out, 4_500_000, *factors)),
        "streaming": ((sms * 8,), (256,), (out, 140, out.size // 4)),
        "chain": ((sms,), (32,), (out, 7_000_000)),
    }

    def launch(name: str) -> None:
        module.get_function(name)(*launches[name])

    return {name: functools.partial(launch, name) for name in launches}


def _power_alone_w(launch: Callable[[], object]) -> tuple[float, float]:
    """Return the mean power of one kernel alone, W, and the time of a launch, s."""
    import cupy

    with ptxbench.EnergyMonitor(0, sync=cupy.cuda.runtime.deviceSynchronize) as monitor:
        launch()
        monitor.begin_window("alone")
        begun, launches = time.monotonic(), 0
        while time.monotonic() - begun < _ALONE_S:
            launch()
            cupy.cuda.runtime.deviceSynchronize()
            launches += 1
        found = monitor.end_window("alone")
    return found.energy_j / found.time_s, found.time_s / launches


def _compare_with_alone(out: Path) -> None:
    """Profile three kernels of 100 ms, and print their power beside that of each alone, before and after."""
    kernels = _three()

    def step() -> None:
        for launch in kernels.values():
            launch()

    step()
    before = {name: _power_alone_w(launch) for name, launch in kernels.items()}
    found = ptxbench.profile(step, out=out, progress=True)
    after = {name: _power_alone_w(launch) for name, launch in kernels.items()}
    print(found)
    for row in found.rows:
        if row.name in kernels:
            (first_w, first_s), (last_w, last_s) = before[row.name], after[row.name]
            alone_w, power_w = (first_w + last_w) / 2, row.energy_j / row.time_s
            print(
                f"{row.name}: replayed {power_w:.2f} W, {row.time_s * 1e3:.2f} ms; alone {first_w:.2f} and "
                f"{last_w:.2f} W, {first_s * 1e3:.2f} and {last_s * 1e3:.2f} ms: {power_w / alone_w - 1:+.2%}"
            )


def _compare_with_before(now: Path, folder: Path) -> None:
    """Print by how much the joules a launch of each kind differ from those of an earlier profile.

    First as measured, then at the earlier one's temperature: a warmer board leaks more, by what one thread
    asleep drew at the two temperatures.
    """
    from ptxbench.attribute.replay.profile import profile_of
    from ptxbench.attribute.replay.replayed import ProfileFolder

    folders = [ProfileFolder.open(path) for path in (folder, now)]
    then, found = map(profile_of, folders)
    (then_c, _), (now_c, _) = temperatures = [_temperatures_c(one) for one in folders]
    slope_w_per_c = (found.idle_w - then.idle_w) / (temperatures[1][1] - temperatures[0][1] or math.inf)
    before = {row.kind.node: row for row in then.rows if row.kind is not None}
    changes = []
    for row in found.rows:
        if row.kind is None or (old := before.get(row.kind.node)) is None:
            continue
        warmer_c = now_c[row.kind.node] - then_c[row.kind.node]
        launches_j = row.launch_j, row.launch_j - slope_w_per_c * warmer_c * row.launch_s
        changes.append((row, [one / old.launch_j - 1 for one in launches_j]))
        print(
            f"{found.share(row):6.1%} {warmer_c:+3.0f} C {changes[-1][1][0]:+7.2%} {changes[-1][1][1]:+7.2%}"
            f" {row.status} {row.name[:80]}"
        )
    first, last = (one.recordings.manifest for one in folders)
    same = "the same board" if first.gpu.uuid_hash == last.gpu.uuid_hash else "ANOTHER BOARD"
    print(f"{len(changes)} of {len(found.rows)} rows; from {first.created} to {last.created}, {same}")
    print(f"the step changed by {found.step.energy_j / then.step.energy_j - 1:+.2%}")
    at_one = f"at one temperature, by {slope_w_per_c:+.2f} W/C"
    for which, what in enumerate(("as measured", at_one)):
        large = sorted(abs(both[which]) for row, both in changes if found.share(row) >= 0.01)
        print(
            f"{what}: of {len(large)} kinds with 1% of it and more the largest change is {large[-1]:.2%},"
            f" the median {large[len(large) // 2]:.2%}"
        )


def _temperatures_c(folder: ProfileFolder) -> tuple[dict[StepNode, float], float]:
    """Return the GPU's temperature behind each kind that was replayed, and behind one thread asleep, C."""
    behind_c = {one.name: one.temperature_after_c for one in folder.recordings.recordings}
    kinds = folder.step.kinds
    of_kind = {
        kinds[run.kind].node: behind_c[run.name]
        for run in folder.step.runs
        if run.kind >= 0 and run.is_final and run.name in behind_c
    }
    return of_kind, behind_c["idle"]


_STEPS = {"decode": _decode, "train": _train, "convolution": _convolution, "mix": _mix, "cupy": _cupy}


def main() -> None:
    """Profile the step, and say what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[*_STEPS, "three"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--before", type=Path, help="an earlier profile of the step, to compare with")
    asked = parser.parse_args()
    if asked.name == "three":
        _compare_with_alone(asked.out)
        return
    if asked.before is not None and (asked.out / "manifest.json").exists():
        _compare_with_before(asked.out, asked.before)
        return
    step, units = _STEPS[asked.name]()
    begun = time.monotonic()
    found = ptxbench.profile(step, per=units, out=asked.out, progress=True)
    print(f"{asked.name}: {time.monotonic() - begun:.1f} s\n{found}\n", flush=True)
    if asked.before is not None:
        _compare_with_before(asked.out, asked.before)


if __name__ == "__main__":
    try:
        main()
    except PtxbenchError as error:
        print(f"profile_steps: error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
