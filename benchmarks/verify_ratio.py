"""How much quicker `ptxbench verify` is than ptxas and nvdisasm called once for each module by hand.

    python benchmarks/verify_ratio.py [--every 10] [--target sm_90a]

Both do the same work for every Nth catalogue row, at O0 and O3 and in both forms, with nothing kept from
before. By hand the PTX files are written beforehand, the tools run one after the other, and nothing judges
what they print. The ratio is of elapsed times; the CPU times beside it do not depend on what else runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ptxbench.catalogue.load import load_catalogue
from ptxbench.catalogue.model import Instruction
from ptxbench.codegen.render import render_module
from ptxbench.core.condition import OptLevel
from ptxbench.core.target import Target, find_target
from ptxbench.core.toolchain import tool_command


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Return elapsed and CPU seconds of a piece of work and of the processes that it starts."""
    before, begin_s = os.times(), time.perf_counter()
    work()
    elapsed_s, after = time.perf_counter() - begin_s, os.times()
    cpu_s = sum(after[:4]) - sum(before[:4])  # user and system, of this process and of its children
    return elapsed_s, cpu_s


def write_modules(rows: list[Instruction], target: Target, folder: Path) -> list[tuple[Path, OptLevel]]:
    """Write every module of the rows as a file; return each with its level."""
    modules = []
    for row in rows:
        for level in OptLevel:
            for form in row.forms(level):
                if row.exists_on(target) and not row.refusal(level, target.name, form):
                    path = folder / f"{len(modules)}.ptx"
                    path.write_text(render_module(row, target, form))
                    modules.append((path, level))
    return modules


def by_hand(modules: list[tuple[Path, OptLevel]], target: Target) -> None:
    """Call ptxas and nvdisasm once for each module."""
    for path, level in modules:
        cubin = path.with_suffix(".cubin")
        assemble = [*tool_command("ptxas"), f"-arch={target.name}", f"-O{level.number}", path, "-o", cubin]
        subprocess.run(assemble, check=True, stderr=subprocess.DEVNULL)  # it advises at length
        subprocess.run([*tool_command("nvdisasm"), "-c", cubin], check=True, stdout=subprocess.DEVNULL)


def verify(rows: list[Instruction], target: Target, cache: Path) -> None:
    """Call `ptxbench verify` for the rows; a refused row gives exit code 1, which is no failure here."""
    command = [sys.executable, "-m", "ptxbench", "verify", "--target", target.name, *(r.name for r in rows)]
    done = subprocess.run(
        command, check=False, stdout=subprocess.DEVNULL, env=os.environ | {"XDG_CACHE_HOME": str(cache)}
    )
    if done.returncode not in (0, 1):
        sys.exit(f"ptxbench verify failed with exit code {done.returncode}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--every", type=int, default=10, help="take every Nth row (default: 10)")
    parser.add_argument("--target", type=find_target, default=find_target("sm_90a"), help="sm_90a")
    arguments = parser.parse_args()
    rows, target = list(load_catalogue()[:: arguments.every]), arguments.target
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        modules = write_modules(rows, target, folder)
        hand = timed(lambda: by_hand(modules, target))
        cold = timed(lambda: verify(rows, target, folder / "cache"))
        warm = timed(lambda: verify(rows, target, folder / "cache"))
    print(f"{len(rows)} rows, {len(modules)} modules, {target.name}, {os.cpu_count()} CPUs")
    for what, (elapsed_s, cpu_s) in (("by hand", hand), ("verify, cold", cold), ("verify, warm", warm)):
        ratio = f"{hand[0] / elapsed_s:.1f} times as quick, {hand[1] / cpu_s:.1f} in CPU time"
        print(f"{what:14} {elapsed_s:7.1f} s elapsed {cpu_s:7.1f} s CPU   {ratio}")


if __name__ == "__main__":
    main()
