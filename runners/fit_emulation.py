"""Fit the one number of an estimate by emulation, and judge what it is worth; write the figures of the pages.

    python runners/fit_emulation.py [--only-field | --only-memory]

Needs nvcc of the assembler's CUDA version and no GPU; takes five minutes. Each kernel of the instruction
suite is compiled and run in the emulator on two of its blocks, on its own data. What it executes is by ncu,
as nvcc may compile otherwise than the compiler of the GPU's machine did, but for one column. The number is
fitted to the fit families of results/GPU/suite and written beside the table and its run (emulation.json).
Kernels of the third suite that instructions bound set nothing: they are judged by what is written there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from baseline_models import drawn_by_family
from conformal import log_normal_ends
from fit_model import COUNTED, PAGE, RESULTS, RUNS, folders_of
from judge_code import cubin_of
from judge_field import GPUS as FIELD_GPUS
from judge_field import works_by_code
from model_validation import conditions_of, counts_folder, session_static
from page_blocks import table as markdown_table
from page_blocks import write_blocks
from suite_data import input_words
from suite_split import FIELD, INSTRUCTION, WORDS, SuiteKernel, read_split
from validation_file import KernelCase, Purpose, measured_kernels, read_session, read_works

from ptxbench.core.errors import PtxbenchError
from ptxbench.emulator.sass.launch import Emulated, Launch, emulate
from ptxbench.model.atlas import Atlas, open_atlas
from ptxbench.model.emulated_work import activity_of, work_of
from ptxbench.model.emulation import FILE as EMULATION
from ptxbench.model.emulation import EmulationTerms, by_emulation, read_emulation
from ptxbench.model.estimate import Conditions, Machine, estimate
from ptxbench.model.tensor import multiply_adds
from ptxbench.model.work import Activity, KernelWork, Level
from ptxbench.sass.listing import disassemble, parse_listing
from ptxbench.storage.document import write_beside
from ptxbench.storage.shipped import SHIPPED

_BLOCKS, _PASSES = 2, 64
_SMS = 132
_L2_BYTES = 50e6
TARGET = "sm_90a"
_SUITE = "suite"
_SUITES = {_SUITE: INSTRUCTION, FIELD: FIELD}
TOLD, NOT_TOLD, EMULATED, COUNTED_TOO = "told", "not told", "emulated operands", "emulated counts, too"

_MEMORY_LEVELS = (Level.L1, Level.CROSSBAR, Level.DRAM)
_MEMORY_HEAD = ["case", "data", "DRAM, MB", "instructions, %", *(f"{level}, %" for level in _MEMORY_LEVELS)]
_COUNTS_HEAD = ["suite", "counted by ncu", "cases", "median off, %", "nine of ten, %", "most, %"]
# Levels whose bytes ncu counts, and from how many on of a launch they are compared.
_LEVELS, _LEAST = (Level.L1, Level.SHARED, Level.CROSSBAR, Level.DRAM), 1e7

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """One case on one GPU.

    Attributes:
        case: Which.
        family: Its family.
        work: What ncu counted; its time is the measured one.
        conditions: How it ran.
        energy_j: Measured energy.
        static_j: Of which static.
        machine: The GPU, with the session's static power.
    """

    case: KernelCase
    family: str
    work: KernelWork
    conditions: Conditions
    energy_j: float
    static_j: float
    machine: Machine

    @property
    def random_data(self) -> Activity:
        """The activity that the model takes where nobody says what the data are."""
        return self.machine.terms.activity_on("random", self.case.name.endswith(("-u32", "-u64")))


@dataclass(frozen=True)
class Seen(Measured):
    """The same beside its run in the emulator.

    Attributes:
        emulated: What the emulator counted, with the measured time.
        found: The run.
    """

    emulated: KernelWork
    found: Emulated


def emulated_suite(suite: str, bound: str = "instructions") -> dict[tuple[str, str], Emulated]:
    """Return a run of the kernels of a suite that something bounds, by case and kind of data."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for one in read_split(suite):
            if one.bound != bound:
                continue
            for kind in one.data:
                # What it computed is not needed, and takes most of the memory: no name holds it.
                found[one.case, kind] = replace(
                    emulate(launch_of(one, kind, Path(folder)), _BLOCKS, _PASSES, sms=_SMS), arrays={}
                )
    return found


def launch_of(one: SuiteKernel, kind: str, folder: Path) -> Launch:
    """Return the launch of a suite's kernel on a kind of data.

    Args:
        one: The kernel.
        kind: Its data.
        folder: Folder of cubins; what is there is not compiled again.
    """
    image = cubin_of(folder, one, TARGET).read_bytes()
    kernel = parse_listing(disassemble(image), one.name)[one.name]
    blocks = one.blocks_per_sm * _SMS
    large = one.words if one.words > WORDS else 0
    words = np.tile(input_words(kind, one.data_type), one.words // WORDS)
    out = np.zeros(max(blocks * one.threads, large), np.uint32)
    return Launch(image, kernel, (blocks, 1, 1), (one.threads, 1, 1), [words, out, np.int32(one.rounds)])


def _array_bytes(one: SuiteKernel) -> float:
    large = one.words if one.words > WORDS else 0
    return 4.0 * (one.words + max(one.blocks_per_sm * _SMS * one.threads, large))


def measured_on(gpu: str, suite: str, by_code: Mapping[str, KernelWork]) -> list[Measured]:
    """Return the cases that were measured on a GPU.

    Args:
        gpu: Name of its table.
        suite: Folder of its session.
        by_code: What kernels execute by their code, for those that ncu did not count.
    """
    atlas, folder = open_atlas(gpu), RESULTS / SHIPPED[gpu].name / suite
    session = read_session(folder)
    works, _ = read_works(counts_folder(folder, COUNTED), session)
    static = session_static(session)
    machine = replace(_unlimited(atlas), static=static)
    found = []
    for one in measured_kernels(session):
        counted = works.get(one.case.number, by_code.get(one.case.name))
        if counted is None:
            continue
        static_j = static.at(one.temperature_c) * one.time_s
        conditions = conditions_of(one.case, machine.terms, one.temperature_c, one.clock_ratio)
        family, work = one.case.name.partition("/")[0], replace(counted, time_s=one.time_s)
        found.append(Measured(one.case, family, work, conditions, one.energy_j, static_j, machine))
    return found


def seen_on(
    gpu: str, suite: str, runs: Mapping[tuple[str, str], Emulated], by_code: Mapping[str, KernelWork]
) -> list[Seen]:
    """Return the cases that were measured on a GPU, beside their runs in the emulator.

    Args:
        gpu: Name of its table.
        suite: Folder of its session.
        runs: Runs by case and kind of data.
        by_code: As for `measured_on`.
    """
    array_bytes = {one.case: _array_bytes(one) for one in read_split(_SUITES[suite])}
    found = []
    for one in measured_on(gpu, suite, by_code):
        run = runs.get((one.case.name, one.case.operands))
        if run is not None:
            own = work_of(one.case.name, run, array_bytes[one.case.name], _L2_BYTES).work
            found.append(Seen(**vars(one), emulated=replace(own, time_s=one.work.time_s), found=run))
    return found


def _unlimited(atlas: Atlas) -> Machine:
    return replace(atlas.machine, limit_w=float("nan"))


def dynamic_j(one: Seen, scale: float) -> float:
    """Return the dynamic energy of a case by emulated operands, at a factor on the energies of opcodes."""
    return (
        _estimated(one, by_emulation(one.machine, EmulationTerms(scale, 1.0, 1.0, 1, 1)), one.work)
        - one.static_j
    )


def _estimated(one: Seen, machine: Machine, work: KernelWork) -> float:
    conditions = replace(one.conditions, activity=activity_of(one.found), activity_range=None)
    return estimate(work, machine, conditions).energy_j


def fit(kernels: Sequence[Seen]) -> EmulationTerms:
    """Return the factor fitted to fit families, and how far each of them is off by the others.

    The factor is the one by which kernels are nearest to what was measured, relative to their energy.
    """
    chosen = [one for one in kernels if one.case.purpose is Purpose.FIT]
    families = np.array([one.family for one in chosen])
    # The energy is linear in the factor.
    ends = np.array([[dynamic_j(one, scale) for scale in (1.0, 2.0)] for one in chosen])
    slope = ends[:, 1] - ends[:, 0]
    rest = ends[:, 0] - slope
    whole = np.array([one.energy_j for one in chosen])
    wanted = whole - np.array([one.static_j for one in chosen])

    def scale_of(some: npt.NDArray[np.bool_]) -> float:
        x, y = slope[some] / whole[some], (wanted - rest)[some] / whole[some]
        return float(x @ y / (x @ x))

    names = sorted(set(families))
    ratios: list[float] = []
    for own in (families == name for name in names):
        ratios += (wanted / (rest + slope * scale_of(~own)))[own].tolist()
    everything = np.ones(len(chosen), bool)
    return EmulationTerms(scale_of(everything), *log_normal_ends(ratios), len(chosen), len(names))


def errors_pct(kernels: Sequence[Seen], terms: EmulationTerms) -> dict[str, Floats]:
    """Return how far each case's estimate is off, by what it was told."""
    own = [by_emulation(one.machine, terms) for one in kernels]
    random = [replace(one.conditions, activity=one.random_data) for one in kernels]
    energies = {
        TOLD: [estimate(one.work, one.machine, one.conditions).energy_j for one in kernels],
        NOT_TOLD: [
            estimate(one.work, one.machine, how).energy_j for one, how in zip(kernels, random, strict=True)
        ],
        EMULATED: [_estimated(one, machine, one.work) for one, machine in zip(kernels, own, strict=True)],
        COUNTED_TOO: [
            _estimated(one, machine, one.emulated) for one, machine in zip(kernels, own, strict=True)
        ],
    }
    measured = np.array([one.energy_j for one in kernels])
    return {name: 100 * (np.array(found) / measured - 1) for name, found in energies.items()}


def counted_rows(suite: str, kernels: Sequence[Seen]) -> list[list[str]]:
    """Return how far emulated counts are from those of ncu, by what is counted."""
    wanted: dict[str, Callable[[KernelWork], float]] = {
        "instructions of a warp": lambda work: work.executions,
        "instructions of a lane": lambda work: sum(n for _, n in work.opcodes),
        **{f"bytes, {level}": partial(_bytes_of, level) for level in _LEVELS},
    }
    rows = []
    for what, of in wanted.items():
        found = [(one.case, of(one.emulated), of(one.work)) for one in kernels]
        off = {case: 100 * (own / real - 1) for case, own, real in found if real >= _LEAST}
        if not off:
            continue
        size = np.abs(list(off.values()))
        worst = max(off, key=lambda case: abs(off[case]))
        shares = (f"{x:.2f}" for x in (np.median(size), np.percentile(size, 90)))
        rows.append(
            [suite, what, str(len(off)), *shares, f"{worst.name} on {worst.operands}, {off[worst]:+.0f}"]
        )
    return rows


def judge_memory() -> dict[str, str]:
    """Return tables of the third suite's kernels that memory bounds: counts beside ncu's, and energies."""
    runs, energies, head = emulated_suite(FIELD, "memory"), [], [""]
    for gpu in FIELD_GPUS:
        kernels = seen_on(gpu, FIELD, runs, {})
        head, (whole, *_) = judged_rows(gpu, kernels, read_emulation(SHIPPED[gpu]))
        energies.append([gpu.upper(), *whole[1:]])
    counts = memory_rows(seen_on(FIELD_GPUS[0], FIELD, runs, {}))
    return {
        "emulated-memory": markdown_table(_MEMORY_HEAD, counts, left=2),
        "emulated-memory-energy": markdown_table(["GPU", *head[1:]], energies),
    }


def memory_rows(kernels: Sequence[Seen]) -> list[list[str]]:
    """Return how far emulated counts are from those of ncu, a case each."""
    rows = []
    for one in kernels:
        pairs = [(one.emulated.executions, one.work.executions)]
        pairs += [(_bytes_of(level, one.emulated), _bytes_of(level, one.work)) for level in _MEMORY_LEVELS]
        shares = (f"{100 * (own / real - 1):+.1f}" if real else "-" for own, real in pairs)
        rows.append([one.case.name, one.case.operands, f"{pairs[-1][1] / 1e6:,.0f}", *shares])
    return rows


def _bytes_of(level: Level, work: KernelWork) -> float:
    return dict(work.bytes_moved).get(level, 0.0)


def _row(name: str, errors: Mapping[str, Floats], chosen: npt.NDArray[np.bool_]) -> list[str]:
    return [
        name,
        str(int(chosen.sum())),
        *(f"{np.abs(found[chosen]).mean():.1f}" for found in errors.values()),
    ]


def judged_rows(
    gpu: str, kernels: Sequence[Seen], terms: EmulationTerms
) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a GPU's table."""
    errors = errors_pct(kernels, terms)
    judged = np.array([one.case.purpose is Purpose.JUDGED for one in kernels])
    tensor = np.array([any(multiply_adds(opcode) for opcode, _ in one.work.opcodes) for one in kernels])
    families = np.array([one.family for one in kernels])
    rows = [_row("fit families", errors, ~judged)] if not judged.all() else []
    rows.append(_row("judged", errors, judged))
    if tensor.any():
        rows.append(_row("judged, without tensor cores", errors, judged & ~tensor))
    rows += [
        _row(f"- {name}", errors, judged & (families == name)) for name in dict.fromkeys(families[judged])
    ]
    for less in (TOLD, NOT_TOLD):
        apart = np.abs(errors[less]) - np.abs(errors[EMULATED])
        low, high = drawn_by_family(apart[judged], list(families[judged]))
        print(f"{gpu}: {less} worse by {low:+.1f} to {high:+.1f}")
    return [f"{gpu.upper()}, scale {terms.scale:.2f}", "cases", *(f"{name}, %" for name in errors)], rows


def fit_suite() -> tuple[str, list[list[str]]]:
    """Fit to the instruction suite, write what was fitted; return the page's tables and rows of counts."""
    runs, blocks = emulated_suite(INSTRUCTION), []
    counted: list[list[str]] = []
    for gpu in RUNS:
        kernels = seen_on(gpu, _SUITE, runs, {})
        terms = fit(kernels)
        for folder in folders_of(gpu):
            write_beside(folder / EMULATION, terms)
        print(terms)
        blocks.append(markdown_table(*judged_rows(gpu, kernels, terms)))
        # All were counted on one GPU.
        counted = counted_rows(INSTRUCTION, kernels)
    return "\n".join(blocks), counted


def judge_field_suite() -> tuple[str, list[list[str]]]:
    """Return the tables of the third suite, by what was fitted before, and rows of counts."""
    runs, blocks = emulated_suite(FIELD), []
    counted: list[list[str]] = []
    for gpu in FIELD_GPUS:
        kernels = seen_on(gpu, FIELD, runs, works_by_code(open_atlas(gpu)))
        blocks.append(markdown_table(*judged_rows(gpu, kernels, read_emulation(SHIPPED[gpu]))))
        counted = counted_rows(FIELD, seen_on(gpu, FIELD, runs, {}))
    return "\n".join(blocks), counted


def main() -> int:
    """Emulate, fit, judge and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only-field", action="store_true", help="fit nothing, and judge the third suite")
    parser.add_argument("--only-memory", action="store_true", help="only what memory bounds (6 GB of memory)")
    arguments = parser.parse_args()
    try:
        if arguments.only_memory:
            tables = judge_memory()
            print("\n".join(tables.values()))
            write_blocks(PAGE, tables)
            return 0
        blocks: dict[str, str] = {}
        counted: list[list[str]] = []
        if not arguments.only_field:
            blocks["emulated"], counted = fit_suite()
        blocks["emulated-field"], of_field = judge_field_suite()
        if counted:
            blocks["emulated-counts"] = markdown_table(_COUNTS_HEAD, [*counted, *of_field], left=2)
        print("\n".join(blocks.values()))
        write_blocks(PAGE, blocks)
    except (PtxbenchError, OSError) as error:
        print(f"fit_emulation: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
