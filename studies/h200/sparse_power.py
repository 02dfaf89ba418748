"""Measure what the first product of a sparse matrix does to the power of all that runs after it.

    python studies/h200/sparse_power.py --out sparse.json

A process for each trigger: it measures a kernel that adds no sparse product, runs the trigger once, measures
the kernel again, waits, and measures it again. The last process only measures, once while a process that
ran a trigger still holds its context, and once after its end. Exit codes are those of `ptxbench`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from in_turn import calibrated_launch, settled_w

from ptxbench.catalogue.load import find_instruction
from ptxbench.core.condition import OptLevel
from ptxbench.core.errors import PtxbenchError
from ptxbench.devices.base import Gpu, Launch
from ptxbench.devices.select import open_gpu
from ptxbench.storage.atomic import write_text
from ptxbench.storage.commit import made_by
from ptxbench.storage.schema import Role

PROBE = "fma.rn.f32"
TRIGGERS = (
    "mma.m16n8k16.f32.f16.f16.f32",
    "wgmma.m64n128k16.f32.f16.f16",
    "mma.sp.m16n8k16.f32.f16.f16.f32",
    "mma.sp.m16n8k32.s32.s8.s8.s32",
    "wgmma.sp.m64n64k32.f32.f16.f16",
)
_KERNEL_S = 0.34
_PAUSES_S = (1.0, 8.0)


def main() -> int:
    """Measure, print, write, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="0", help="index, UUID or simulated[:profile]")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--trigger", help="of one process: the instruction to run once")
    parser.add_argument(
        "--hold", action="store_true", help="of one process: keep the context until a line comes"
    )
    arguments = parser.parse_args()
    if arguments.trigger is not None:
        with closing(open_gpu(arguments.gpu)) as gpu:
            said = {"gpu": gpu.info.name, "board": gpu.info.uuid_hash, **powers(gpu, arguments.trigger)}
            print(json.dumps(said), flush=True)
            if arguments.hold:
                sys.stdin.readline()
        return 0
    began = datetime.now(UTC)
    found = [_process(arguments.gpu, trigger) for trigger in TRIGGERS]
    holding = [*_command(arguments.gpu, TRIGGERS[2]), "--hold"]
    with subprocess.Popen(holding, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        held = json.loads(holder.stdout.readline()) if holder.stdout else {}
        beside = _process(arguments.gpu, "")
        holder.communicate("\n")
    after = _process(arguments.gpu, "")
    document = {
        "manifest": made_by(Path(__file__).parents[2], began),
        "probe": PROBE,
        "triggers": found,
        "held": held,
        "beside_a_process_that_ran_one": beside,
        "after_its_end": after,
    }
    for one in (*found, held, beside, after):
        print(one["trigger"] or "none", {name: one[name] for name in one if name.endswith("_w")})
    if arguments.out is not None:
        write_text(arguments.out, json.dumps(document, indent=1) + "\n")
    return 0


def powers(gpu: Gpu, trigger: str) -> dict[str, object]:
    """Return what the probe draws before a trigger, after it and after pauses, W.

    Args:
        gpu: Where.
        trigger: Name of the instruction to run; empty: none.
    """
    probe = calibrated_launch(gpu, find_instruction(PROBE), OptLevel.O3, Role.TARGET, _KERNEL_S)
    said: dict[str, object] = {"trigger": trigger, "before_w": _probed(gpu, probe)}
    if not trigger:
        return said
    launch = calibrated_launch(gpu, find_instruction(trigger), OptLevel.O3, Role.TARGET, 0.001)
    said["trigger_s"] = gpu.run(replace(launch, iterations=1)).window.elapsed_s
    said["after_w"] = _probed(gpu, probe)
    for pause_s in _PAUSES_S:
        time.sleep(pause_s)
        said[f"after_pause_of_{pause_s:g}_s_w"] = _probed(gpu, probe)
    return said


def _probed(gpu: Gpu, probe: Launch, times: int = 3) -> list[float]:
    return [round(settled_w(gpu, gpu.run(probe)), 2) for _ in range(times)]


def _process(gpu: str, trigger: str) -> dict[str, object]:
    """Return what a process of its own measures."""
    done = subprocess.run(_command(gpu, trigger), check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _command(gpu: str, trigger: str) -> list[str]:
    return [sys.executable, __file__, "--gpu", gpu, "--trigger", trigger]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"sparse_power: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
