"""Measure two boards of one host: what their sensors are like, one alone and both at once, methods, Table I.

    python runners/measure_boards.py --gpus 0,1 --out OUT --limit-s 460

Steps, in order of worth: `doctor` on each board at once; the same rows on the first board alone, then on
both at once; then the methods of reading power on the first board while the second measures Table I of Arafa
et al. (2020) by its Eq. 1. Each step has its own time, ends by itself or is stopped, and is packed into
OUT/STEP.tar before the next begins. No step begins that the limit leaves no time for. With one GPU the step
on both at once is left out. Exit codes: 0 all steps ended by themselves, 1 one did not or was left out.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic

# Rows that the H100's tables lack, most wanted first, behind five that they have.
ROWS = (
    *("fma.rn.f32", "add.f32", "mul.f32", "add.u32", "fma.rn.f64"),
    *("ld.global.b32", "ld.global.ca.b32:l1", "ld.global.ca.v4.b32:l1", "ld.global.cg.b32:l2"),
    *("ld.global.cg.v4.b32:l2", "ld.global.v4.b32:hbm", "ld.shared.b32:shared", "ld.shared.v4.b32:shared"),
    *("st.global.b32:hbm", "st.global.v4.b32:hbm", "st.global.b32:l2", "st.shared.b32:shared"),
    *("ld.shared.b32", "ld.shared.b64", "st.shared.b32", "atom.global.add.u32", "lop3.b32", "fma.rn.f16"),
    *("fma.rn.ftz.f32", "mul.lo.u32", "mad.hi.u32", "max.u32", "min.s32", "or.b32", "not.b32", "xor.b64"),
    *("setp.lt.f32", "setp.lt.s32", "selp.b32", "selp.f32", "shl.b16", "ex2.approx.f32", "lg2.approx.f32"),
    *("rsqrt.approx.f32", "sin.approx.f32", "cos.approx.f32", "rcp.rn.f32", "sqrt.rn.f32", "div.s32"),
    *("rem.s32", "cvt.rn.f32.s32", "cvt.rn.bf16x2.f32", "shfl.sync.idx.b32", "shfl.sync.down.b32"),
    *("bar.sync", "vote.sync.ballot.b32"),
)
# Those of results/nvidia-h200/table1, most wanted first.
TABLE1 = (
    *("add.u32", "mad.lo.u32", "div.u32", "xor.b32", "popc.b32", "add.f32", "fma.rn.f32", "div.rn.f32"),
    *("add.f64", "div.rn.f64", "add.f16", "mul.lo.u32", "sub.u32", "min.s32", "max.u32", "rem.u32"),
    *("ex2.approx.ftz.f32", "lg2.approx.ftz.f32", "sin.approx.ftz.f32", "rcp.approx.ftz.f32"),
    *("rsqrt.approx.ftz.f32", "sqrt.approx.ftz.f32", "sqrt.rn.f32", "abs.s32", "clz.b32", "bfind.u32"),
    *("shl.b32", "sad.u32", "cnot.b32", "copysign.f32", "mul24.lo.u32", "div.s32", "rem.s32"),
    *("add.cc.u32:addc", "subc.cc.u32", "madc.lo.cc.u32"),
)
_AS_TABLES = (
    "--protocol=dynamic",
    "--opt-level=O3",
    "--max-repeats=3",
    "--check-linearity=none",
    "--isolate",
)
# How long a process that was asked to stop may take to write what it has.
_GRACE_S = 20.0


@dataclass(frozen=True)
class Step:
    """Processes that run at once.

    Attributes:
        name: Name of its folder and of its archive.
        commands: What follows `ptxbench`, one list a process.
        limit_s: After so long they are stopped.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    limit_s: float


@dataclass(frozen=True)
class Ended:
    """How a step ended.

    Attributes:
        name: Its name.
        began_s: When it began, s after the runner.
        took_s: How long it took.
        codes: Exit codes of its processes, negative for a signal; none: it was left out.
    """

    name: str
    began_s: float
    took_s: float
    codes: tuple[int, ...]


def main() -> int:
    """Run the steps and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", default="0,1", help="one or two, by commas, as --gpu takes them")
    parser.add_argument("--out", type=Path, required=True, help="folder for the archives and the log")
    parser.add_argument("--limit-s", type=float, default=460.0, help="no step begins that may end later")
    parser.add_argument("--sensor", type=Path, help="what `doctor` found before, for the methods")
    parser.add_argument("--slow", type=float, default=1.0, help="factor on the time of each step")
    parser.add_argument("--only", action="append", default=[], help="only this step (may be repeated)")
    parser.add_argument("--rows", type=int, default=len(ROWS), help="only so many of the rows")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.sensor is not None:
        shutil.copytree(arguments.sensor, arguments.out / "sensor")
    begin_s = monotonic()
    ended = []
    for step in steps(arguments.gpus.split(","), arguments.out, arguments.rows, arguments.slow):
        if arguments.only and step.name not in arguments.only:
            continue
        ended.append(run_step(step, arguments.out, begin_s, arguments.limit_s))
        document = json.dumps([asdict(one) for one in ended], indent=1)
        (arguments.out / "steps.json").write_text(document, encoding="utf-8")
        print(f"{ended[-1].name}: {ended[-1].codes or 'left out'} in {ended[-1].took_s:.0f} s", flush=True)
    shutil.rmtree(arguments.out / "sensor", ignore_errors=True)
    return int(any(not one.codes or any(code not in (0, 1) for code in one.codes) for one in ended))


def steps(gpus: Sequence[str], out: Path, rows: int, slow: float = 1.0) -> tuple[Step, ...]:
    """Return what is measured, in order.

    Args:
        gpus: One GPU or two.
        out: Where it goes.
        rows: How many of `ROWS` are measured alone and at once.
        slow: Factor on the time of each step, where a simulated GPU takes longer than a real one.
    """
    first, last = gpus[0], gpus[-1]
    table = ("table", *_AS_TABLES)
    doctor = [("doctor", f"--gpu={gpu}", f"--out={out / 'doctor' / f'gpu{n}'}") for n, gpu in enumerate(gpus)]
    alone = (*table, f"--gpu={first}", f"--out={out / 'alone' / 'run'}", "--budget-minutes=1.9")
    together = (
        *table,
        f"--gpu={','.join(gpus)}",
        f"--out={out / 'together' / 'runs'}",
        "--budget-minutes=1.9",
    )
    sensor = out / "sensor"
    methods = (
        "doctor",
        "methods",
        f"--gpu={first}",
        f"--out={out / 'last' / 'methods'}",
        f"--sensor={sensor}",
    )
    table1 = ("table", f"--gpu={last}", f"--out={out / 'last' / 'table1'}", "--protocol=arafa", "--isolate")
    names = ("--", *ROWS[:rows])
    return (
        Step("doctor", tuple(doctor), slow * 100.0),
        Step("alone", ((*alone, *names),), slow * 135.0),
        *((Step("together", ((*together, *names),), slow * 140.0),) if len(gpus) > 1 else ()),
        Step(
            "last",
            (methods, (*table1, "--budget-minutes=1.8", "--", *TABLE1))[: len(gpus)],
            slow * 150.0,
        ),
    )


def run_step(step: Step, out: Path, begin_s: float, limit_s: float) -> Ended:
    """Run a step's processes at once, stop what is over its time, and pack what they wrote.

    Args:
        step: The step.
        out: Where everything goes.
        begin_s: When the runner began.
        limit_s: When it must have ended, s after that.
    """
    began_s = monotonic() - begin_s
    time_s = min(step.limit_s, limit_s - began_s - _GRACE_S)
    if time_s < step.limit_s / 3:
        return Ended(step.name, began_s, 0.0, ())
    folder = out / step.name
    folder.mkdir()
    if not (out / "sensor" / "sensor.json").exists():
        step = _without_sensor(step)
    processes = [_start(command, folder / f"{n}.log") for n, command in enumerate(step.commands)]
    end_s = monotonic() + time_s
    codes = tuple(_wait(process, end_s) for process in processes)
    took_s = monotonic() - begin_s - began_s
    if step.name == "doctor" and (folder / "gpu0" / "sensor").is_dir():
        shutil.copytree(folder / "gpu0" / "sensor", out / "sensor")  # what `doctor methods` needs
    with tarfile.open(out / f"{step.name}.tar", "w") as archive:
        archive.add(folder, arcname=step.name)
    shutil.rmtree(folder)
    return Ended(step.name, began_s, took_s, codes)


def _without_sensor(step: Step) -> Step:
    """Return a step that takes what is documented of the sensors, where nothing was measured."""
    commands = tuple(
        tuple(word for word in command if not word.startswith("--sensor=")) for command in step.commands
    )
    return replace(step, commands=commands)


def _start(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "ptxbench", *command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )


def _wait(process: subprocess.Popen[bytes], end_s: float) -> int:
    """Wait for a process; one that is over its time is stopped as by Ctrl-C, and killed where it goes on."""
    try:
        return process.wait(max(end_s - monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    try:
        return process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


if __name__ == "__main__":
    sys.exit(main())
