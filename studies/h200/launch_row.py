"""Launch the target kernel of one catalogue row once: what a profiler is pointed at.

    ncu --clock-control none python studies/h200/launch_row.py ld.global.v4.b32:hbm --iterations 640

Prints one line of JSON. Exit codes are those of `ptxbench`; 1 where the gate refuses the row.
"""

from __future__ import annotations

import argparse
import json
import sys

from ptxbench.catalogue.load import find_instruction
from ptxbench.codegen.operands import operand_bytes
from ptxbench.codegen.render import TARGET
from ptxbench.core.condition import OptLevel, Pattern
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.core.target import find_target
from ptxbench.devices.base import Launch
from ptxbench.devices.select import open_gpu
from ptxbench.experiment.launch_configuration import BLOCK
from ptxbench.sass.module import build_module

SEED = 5


def main() -> int:
    """Launch, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("instruction", help="catalogue name")
    parser.add_argument("--gpu", default="0", help="index, UUID or simulated[:profile]")
    parser.add_argument("--opt-level", type=OptLevel, choices=list(OptLevel), default=OptLevel.O3)
    parser.add_argument("--operands", type=Pattern, choices=list(Pattern), default=Pattern.RANDOM)
    parser.add_argument("--iterations", type=int, default=1000, help="passes of the loop")
    arguments = parser.parse_args()
    if arguments.iterations < 1:
        raise InputError(f"--iterations {arguments.iterations} must be at least 1")
    row = find_instruction(arguments.instruction)
    level = arguments.opt_level
    gpu = open_gpu(arguments.gpu)
    try:
        module = build_module(row, find_target(gpu.info.target), level, row.forms(level)[-1], gpu.assemble)
        if not module.loop_check.passed:
            print(f"launch_row: {row.name} -{level}: {module.loop_check.reason}", file=sys.stderr)
            return 1
        grid, block = gpu.info.sm_count, row.block or BLOCK
        run = gpu.run(
            Launch(
                trial_id="launch",
                cubin=module.cubin,
                kernel=TARGET,
                grid=grid,
                block=block,
                iterations=arguments.iterations,
                operands=(operand_bytes(row, arguments.operands, SEED),),
                pattern=arguments.operands,
                scratch_bytes=row.scratch * grid * block,
            )
        )
    finally:
        gpu.close()
    executions = arguments.iterations * row.copies * grid * block // row.unit.threads
    said = {
        "gpu": gpu.info.name,
        "gpu_kind": gpu.info.kind,
        "uuid_hash": gpu.info.uuid_hash,
        "executions": executions,
        "bytes": executions * row.bytes,
        "elapsed_s": run.window.elapsed_s,
    }
    print(json.dumps(said))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"launch_row: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
