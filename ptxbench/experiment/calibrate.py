"""Measures the terms of an estimate on a board: kernels that span them, each with its readings on the disk.

Loops of table rows tell the energy of opcodes and, on few SMs, the power of an active chip; those of tensor
opcodes a multiply-add, and at the power limit what the clock does; streams of a low intensity a byte at each
memory level. What a launch executes is known from its machine code and its trips, what it moves from its
loads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from ptxbench.analysis.static_power import StaticPower, static_line
from ptxbench.analysis.subject import Subject
from ptxbench.catalogue.architecture import architecture_of, capability_of
from ptxbench.catalogue.load import find_instruction
from ptxbench.codegen.operands import operand_bytes
from ptxbench.core.condition import DYNAMIC, Condition, OptLevel, Pattern
from ptxbench.core.errors import (
    ArgumentError,
    InputError,
    NotMeasurableError,
    RefusedModuleError,
)
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.core.target import find_target
from ptxbench.core.threads import LINE_BYTES, WARP
from ptxbench.devices.base import Gpu, Launch
from ptxbench.energy.settled import SourceCheck
from ptxbench.experiment.built_kernels import BuiltKernels
from ptxbench.experiment.kernel import MAX_ITERATIONS
from ptxbench.experiment.launch_configuration import LaunchConfiguration
from ptxbench.experiment.load import pass_time_s
from ptxbench.experiment.recordings import open_recordings
from ptxbench.experiment.roofline.kernel import IntensityKernel, loop_counts
from ptxbench.experiment.roofline.kinds import KINDS, LEVELS
from ptxbench.experiment.roofline.measure import (
    KernelRunner,
    run_plan,
    with_sleep,
)
from ptxbench.experiment.sensor_choice import board_sensor
from ptxbench.experiment.settled_run import RecordedKernel, recorded_kernel
from ptxbench.experiment.trial import FIRST_ITERATIONS, GUESS_S
from ptxbench.model.atlas import Atlas, open_atlas, open_shipped
from ptxbench.model.calibration import FILE, Calibration, fit_calibration
from ptxbench.model.fit_kernel import FitKernel
from ptxbench.model.terms import Terms
from ptxbench.model.work import Access, KernelWork, Level
from ptxbench.sass.loop_counts import OpcodeCounts
from ptxbench.sass.loop_counts import loop_counts as counts_of_modules
from ptxbench.sass.module import Module, build_module
from ptxbench.sensors.kernel_run import SequenceRun
from ptxbench.storage.document import write_document
from ptxbench.storage.journal import Lines
from ptxbench.storage.location import default_run_path
from ptxbench.storage.recording import CALIBRATION, RecordingFolder
from ptxbench.storage.schema import Role, TableRow

_KERNELS = "kernels.jsonl"
# Rows whose loops tell the energy of opcodes, and on how many of the SMs they run; the dearest on fewer, to
# stay below the power limit, and two on an eighth, where the power of an active chip shows.
_ROWS = (
    ("fma.rn.f32", 1.0),
    ("add.f32", 1.0),
    ("mad.lo.u32", 1.0),
    ("add.u32", 1.0),
    ("xor.b32", 1.0),
    ("ex2.approx.ftz.f32", 1.0),
    ("fma.rn.f64", 0.5),
    ("fma.rn.f16x2", 0.5),
    ("fma.rn.f32", 0.125),
    ("mad.lo.u32", 0.125),
)
# Of each kind of tensor opcode the first that the GPU has.
_TENSOR = (
    ("mma.m16n8k16.f32.f16.f16.f32", "mma.m16n8k8.f32.f16.f16.f32"),
    ("mma.m16n8k8.f32.tf32.tf32.f32",),
    ("mma.m16n8k8.f64.f64.f64.f64", "mma.m8n8k4.f64.f64.f64.f64"),
    ("wgmma.m64n256k16.f32.f16.f16",),
    ("wgmma.m64n256k16.f32.bf16.bf16",),
    ("wgmma.m64n256k8.f32.tf32.tf32",),
)
# On all SMs they may meet the power limit, which tells of the clock.
_TENSOR_RUNS = ((Pattern.RANDOM, 1.0), (Pattern.RANDOM, 0.5), (Pattern.ZEROS, 0.5))
# Flop a byte and share of the SMs: each element is computed on once, and another stream of the level so that
# each can be predicted from the other. Multiply-adds would hide the bytes of an SM's own memory.
_STREAMS = {
    "dram": ((0.25, 1.0), (2.0, 1.0)),
    "l2": ((0.25, 1.0), (2.0, 1.0)),
    "l1": ((0.25, 1.0), (0.25, 0.5)),
    "shared": ((0.25, 1.0), (0.25, 0.5)),
}
# Terms that are calibrated where a table has none.
_TERMS_ELSEWHERE = "h100"


@dataclass(frozen=True)
class CalibrationKernel:
    """One kernel as it was launched; its readings are the recording of the same name.

    Attributes:
        name: Such as "fma.rn.f32-random-132".
        pattern: Operand pattern.
        launches: Launches in the window.
        opcodes: Executions of one launch by threads; none where it sleeps.
        bytes_moved: Bytes of one launch, by `Level`; none of those that are not named.
        accesses: Accesses of one launch, by `Access`, likewise.
        other_processes: Other programs on the GPU before or after it; its power is not its own then.
    """

    name: str
    pattern: str
    launches: int
    opcodes: Mapping[str, float] = field(default_factory=dict)
    bytes_moved: Mapping[str, float] = field(default_factory=dict)
    accesses: Mapping[str, float] = field(default_factory=dict)
    other_processes: int = 0

    @property
    def sleeps(self) -> bool:
        """Whether it does nothing, so that its power is static."""
        return not self.opcodes


@dataclass(frozen=True)
class _Row:
    """A loop of a table row, on a share of the SMs."""

    instruction: str
    pattern: Pattern
    share: float


@dataclass(frozen=True)
class _Stream:
    """A stream from a memory level, on some SMs."""

    kernel: IntensityKernel
    pattern: Pattern
    sms: int


_Planned = _Row | _Stream | None


def calibrate(
    gpu: Gpu,
    table: str | Path,
    out: Path | None = None,
    *,
    resume: bool = False,
    show: Callable[[int, int, str], None] = lambda *_: None,
    budget_s: float = math.inf,
) -> tuple[Path, Calibration | None]:
    """Measure the kernels and fit the terms.

    Args:
        gpu: A real or simulated GPU.
        table: Table whose rows are of this kind of GPU: the folder of a run, or a name.
        out: Folder; None for a new one below results/, or below runs/ where nothing is measured.
        resume: Go on with the folder `out`: what it holds is not run again.
        show: Told how many kernels are done, how many there are, and which is in progress.
        budget_s: No kernel begins later than this; what is missing then can be resumed.

    Returns:
        The folder, and the calibration; None where kernels are missing.

    Raises:
        InputError: The table is not of this kind of GPU or has no row that is needed, the time is too short
            for the kernels, the folder does not fit, or too few kernels have a power.
        GpuError: The GPU stopped answering; the folder holds what was run.
        ToolError: The assembler or the disassembler is missing.
    """
    atlas = _table_for(gpu.info, table)
    runner = _Bench(gpu)
    plan = runner.plan(_rows_of(atlas))
    if not resume:
        _require_time(budget_s, plan, runner.window_s)
    with open_recordings(gpu, CALIBRATION, out, resume=resume) as folder, _lines(folder) as kept:
        run_plan(gpu, folder, plan, lambda what, name: runner.run(folder, what, name), kept, show, budget_s)
    if not folder.finished:
        return folder.path, None
    return folder.path, _fitted(folder, atlas)


def calibrate_again(run: Path, table: str | Path, out: Path | None = None) -> tuple[Path, Calibration]:
    """Fit the terms again to the readings of a calibration, perhaps on the rows of another table.

    Args:
        run: Folder of the calibration, which stays as it is.
        table: The table.
        out: Folder of the copy; None for a new one below runs/.

    Raises:
        InputError: The folder holds no finished calibration or lacks its readings, or the table does not fit.
    """
    folder = RecordingFolder.open(run, CALIBRATION)
    if not folder.finished:
        raise InputError(f"{run} is a calibration that was not finished: continue it with `resume`")
    info = folder.manifest.gpu
    atlas = _table_for(info, table)
    copy = folder.copy(out or default_run_path(info, datetime.now(UTC), Path("runs"), f"{CALIBRATION}-"))
    return copy.path, _fitted(copy, atlas)


def _fitted(folder: RecordingFolder, atlas: Atlas) -> Calibration:
    found = calibration_of(folder, atlas)
    write_document(folder.path / FILE, found)
    return found


def _table_for(gpu: GpuInfo, table: str | Path) -> Atlas:
    """Return the table to calibrate.

    Raises:
        InputError: It is a calibration, or not of this kind of GPU.
    """
    atlas = open_atlas(table)
    of = atlas.gpu
    atlas.require_own_rows()
    if (of.kind is GpuKind.REAL) != (gpu.kind is GpuKind.REAL):
        raise ArgumentError(
            "table",
            f"must name rows of {gpu.title}, and {table} is of {of.title}: measure some with `ptxbench"
            " table` on this GPU, and name that run",
        )
    if capability_of(of.target) != capability_of(gpu.target):
        raise ArgumentError(
            "table",
            f"{table} is of {of.name} ({of.target}), and this is {gpu.name} ({gpu.target}): measure its rows"
            " with `ptxbench table`, and name that run",
        )
    return atlas


def _rows_of(atlas: Atlas) -> frozenset[str]:
    """Return the instructions whose rows at -O3, on random operands, a table has.

    Raises:
        InputError: It has none of those that tell the energy of opcodes.
    """

    def counts(row: TableRow) -> bool:
        wanted = (OptLevel.O3, DYNAMIC, Pattern.RANDOM, WARP)
        return (row.opt_level, row.protocol, row.operands, row.lanes) == wanted and row.status.has_number

    names = list(dict.fromkeys(name for name, _ in _ROWS))
    found = frozenset(row.instruction for row in atlas.rows if counts(row)) & set(names)
    if not found:
        raise InputError(
            f"{atlas.name} has no row by which opcodes can be calibrated: measure some on this GPU, by"
            f" `ptxbench table {' '.join(names)} --opt-level O3`"
        )
    return found


def _require_time(budget_s: float, plan: Sequence[object], window_s: float) -> None:
    needed_s = len(plan) * window_s
    if budget_s < needed_s:
        raise ArgumentError(
            "budget_minutes",
            f"must be at least {math.ceil(10 * needed_s / 60) / 10:g}: {len(plan)} kernels run for"
            f" {window_s:.2g} s each, as the power source needs",
        )


def _lines(folder: RecordingFolder) -> Lines[CalibrationKernel, str]:
    return Lines(folder.path / _KERNELS, CalibrationKernel, lambda kernel: kernel.name)


class _Bench(KernelRunner):
    """The kernels of a calibration."""

    def __init__(self, gpu: Gpu) -> None:
        super().__init__(gpu)
        self._modules: dict[str, Module] = {}

    def plan(self, rows: Iterable[str]) -> list[tuple[str, _Planned]]:
        """Return the name of every recording with what is run, in random order.

        Args:
            rows: Instructions whose rows the table has.
        """
        count = self._gpu.info.sm_count
        known = set(rows)
        wanted = [_Row(name, Pattern.RANDOM, share) for name, share in _ROWS if name in known]
        for names in _TENSOR:
            name = next((one for one in names if self._module(one)), None)
            wanted += [_Row(name, pattern, share) for pattern, share in _TENSOR_RUNS if name]
        plan: list[tuple[str, _Planned]] = [
            (f"{row.instruction}-{row.pattern}-{max(1, round(row.share * count))}", row)
            for row in wanted
            if self._module(row.instruction) and self._has_operands(row)
        ]
        for level, runs in _STREAMS.items():
            for pattern in (Pattern.RANDOM, Pattern.ZEROS):
                for intensity, share in runs if pattern is Pattern.RANDOM else runs[:1]:
                    kernel = IntensityKernel(KINDS["f32"], intensity, LEVELS[level])
                    sms = max(1, round(share * count))
                    plan.append((f"{level}-{intensity:g}-{pattern}-{sms}", _Stream(kernel, pattern, sms)))
        return with_sleep(plan, None, 0)

    def run(
        self, folder: RecordingFolder, what: _Planned, name: str
    ) -> tuple[CalibrationKernel, SequenceRun]:
        """Run a kernel; return what ran, and its recording.

        Raises:
            LaunchError: It did not run.
            GpuError: The GPU stopped answering.
        """
        if what is None:
            return self._ran(CalibrationKernel(name, Pattern.ZEROS, 1), self.sleeping(name))
        if isinstance(what, _Row):
            return self._row(folder, name, what)
        return self._streamed(folder, name, what)

    def _ran(self, kernel: CalibrationKernel, launch: Launch) -> tuple[CalibrationKernel, SequenceRun]:
        """Run a kernel whose counts are of one pass where it has stamps of its own, else of one launch."""
        ran, run = self.run_settled(launch)
        passes = ran.iterations if launch.scalars is None else 1
        kernel = replace(
            kernel,
            launches=ran.times,
            opcodes={opcode: passes * n for opcode, n in kernel.opcodes.items()},
            other_processes=run.other_processes,
        )
        return kernel, run

    def _module(self, name: str) -> Module | None:
        """Return a row's module, None where the GPU does not have it or its loop is not what it should be."""
        if name not in self._modules:
            instruction = find_instruction(name)
            form = instruction.forms(OptLevel.O3)[-1]
            try:
                module = build_module(
                    instruction, find_target(self._gpu.info.target), OptLevel.O3, form, self._gpu.assemble
                )
            except (NotMeasurableError, RefusedModuleError):
                return None
            self._modules[name] = module
        module = self._modules[name]
        return module if module.loop_check.passed else None

    def _has_operands(self, row: _Row) -> bool:
        try:
            operand_bytes(find_instruction(row.instruction), row.pattern, 0)
        except NotMeasurableError:
            return False
        return True

    def _row(self, folder: RecordingFolder, name: str, row: _Row) -> tuple[CalibrationKernel, SequenceRun]:
        module = self._modules[row.instruction]
        folder.kernels.add(row.instruction, module.ptx, module.listing, module.cubin)
        subject = Subject(module.instruction, Condition(OptLevel.O3, DYNAMIC, row.pattern))
        prepared = BuiltKernels(subject, module.cubin, operand_bytes(module.instruction, row.pattern, 0))
        configuration = LaunchConfiguration(prepared, check_linearity=False)
        block, sms = configuration.block(self._gpu), self._gpu.info.sm_count
        grid = configuration.grid(sms) if row.share == 1 else max(1, round(row.share * sms))
        launch = prepared.kernel(Role.TARGET, grid, block).launch(0)
        counts: OpcodeCounts = counts_of_modules(module.listing)[Role.TARGET]
        kernel = CalibrationKernel(
            name,
            row.pattern,
            1,
            {opcode: n * grid * block for opcode, n in counts},
        )
        return self._ran(kernel, self._lasting(replace(launch, trial_id=name)))

    def _lasting(self, launch: Launch) -> Launch:
        """Return a launch with the passes that fill the window; the first one loads the code."""
        launch = replace(launch, iterations=FIRST_ITERATIONS)
        self._gpu.time_s(launch)
        passes = round(self.window_s / pass_time_s(self._gpu.time_s, launch, 2 * GUESS_S))
        return replace(launch, iterations=max(1, min(passes, MAX_ITERATIONS)))

    def _streamed(
        self, folder: RecordingFolder, name: str, stream: _Stream
    ) -> tuple[CalibrationKernel, SequenceRun]:
        info, kernel = self._gpu.info, stream.kernel
        point, launch = self.stream(folder, name, kernel, stream.pattern, stream.sms)
        trips = point.bytes_moved / kernel.trip_bytes
        counts = loop_counts(self.build(folder, kernel).listing)
        moved, accesses = _traffic(kernel.level.name, point.bytes_moved, kernel.width, info.target)
        made = CalibrationKernel(
            name,
            stream.pattern,
            launch.times,
            {opcode: n * trips for opcode, n in sorted(counts.items())},
            moved,
            accesses,
        )
        return self._ran(made, launch)


def _traffic(
    level: str, count: float, width: int, target: str
) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Return bytes and accesses of a stream of whole lines from a level, by loads of `width` bytes a lane."""
    if level == "shared":
        return {Level.SHARED: count}, {}
    wavefronts: dict[str, float] = {Access.L1_WAVEFRONT: count / (WARP * width)}
    if level == "l1":
        return {Level.L1: count}, wavefronts
    lines = count / LINE_BYTES
    if level == "l2":
        return {Level.L1: count, Level.CROSSBAR: count, Level.L2: count}, wavefronts | {
            Access.L2_REQUEST: lines
        }
    known = architecture_of(target)
    in_l2, requests = known.stream_l2_bytes.value * count, known.stream_l2_requests.value * lines
    return (
        {Level.L1: count, Level.CROSSBAR: count, Level.L2: in_l2, Level.DRAM: count},
        wavefronts | {Access.L2_REQUEST: requests, Access.L2_MISS: requests},
    )


def calibration_of(folder: RecordingFolder, atlas: Atlas) -> Calibration:
    """Fit the terms of a table to the kernels of a folder.

    Raises:
        InputError: The power source of the folder is not believed, or no sleeping kernel or no other has a
            power.
    """
    gpu = folder.manifest.gpu
    read, notes = _read(folder)
    asleep = [found for kernel, found in read if kernel.sleeps]
    at_work = [one for one in read if not one[0].sleeps]
    if not asleep or not at_work:
        what = "kernel" if asleep else "sleeping kernel"
        raise InputError(f"{folder.path} has no {what} whose power is known; measure again")
    static = static_line([one.power.power.power_w for one in asleep], [one.temperature_c for one in asleep])
    terms, terms_of = _terms_before(atlas)
    fitted = fit_calibration(
        [_fit_kernel(kernel, found, static, gpu) for kernel, found in at_work],
        atlas.opcode_energies.drawn(terms.opcode_share),
        terms,
        gpu,
    )
    return Calibration(
        **vars(fitted),
        table=atlas.table_name,
        terms_of=terms_of,
        gpu=gpu,
        static_power=static,
        notes=notes,
    )


def _read(
    folder: RecordingFolder,
) -> tuple[Sequence[tuple[CalibrationKernel, RecordedKernel]], tuple[str, ...]]:
    """Return the kernels whose power is believed with what was read of them, and what must be said.

    Raises:
        InputError: The power source is not believed.
    """
    source = SourceCheck(board_sensor(folder.manifest.sensors), folder.manifest.sensors)
    kernels = _lines(folder).by_name
    read, left_out = [], []
    for recording in sorted(folder.recordings, key=lambda one: one.windows[0].start_ns):
        kernel = kernels[recording.name]
        found = recorded_kernel(folder, recording, kernel.launches, source)
        fault = "another program was on the GPU" if kernel.other_processes else found.fault
        if not fault and found.power.slowed and math.isnan(found.clock_mhz):
            fault = "its clock was lowered, and is not known"
        if fault:
            left_out.append(f"{kernel.name} is left out: {fault}")
        else:
            read.append((kernel, found))
    if source.objection:
        raise InputError(f"the powers of {folder.path} cannot be believed: {source.objection}")
    return read, tuple(filter(None, (source.scale, *left_out)))


def _fit_kernel(
    kernel: CalibrationKernel, found: RecordedKernel, static: StaticPower, gpu: GpuInfo
) -> FitKernel:
    """Return a kernel as the fit takes it; one without stamps of its own ran at the full clock."""
    ratio = 1.0 if math.isnan(found.clock_mhz) else min(found.clock_mhz / gpu.max_sm_clock_mhz, 1.0)
    time_s, power_w = found.power.launch_s, found.power.power.power_w
    work = KernelWork(
        kernel.name,
        tuple(kernel.opcodes.items()),
        tuple((level, kernel.bytes_moved.get(level, 0.0)) for level in Level),
        time_s,
        accesses=tuple((access, kernel.accesses.get(access, 0.0)) for access in Access),
    )
    return FitKernel(
        name=kernel.name,
        pattern=kernel.pattern,
        work=work,
        dynamic_j=(power_w - static.at(found.temperature_c)) * time_s,
        total_j=power_w * time_s,
        clock_ratio=ratio,
        integer_data=not any(kernel.bytes_moved.values()),
    )


def _terms_before(atlas: Atlas) -> tuple[Terms, str]:
    """Return the terms that are calibrated, and whose they are: the table's, or those of a shipped one."""
    if atlas.terms.kernels:
        return atlas.terms, atlas.name
    return open_shipped(_TERMS_ELSEWHERE).terms, _TERMS_ELSEWHERE
